"""Each client's roots reach the server behind the host, and no other client's: a published server, by difference."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.npm import program
from tests.system.bridging import http_bridge
from tests.system.fronting import front, token_of, write_tokens
from tests.system.hosting import Host, free_port, running, sample
from tests.system.mcp_sessions import ERAS, said
from tests.system.test_mcp_front import story

pytestmark = [pytest.mark.npm, pytest.mark.slow]

CLIENTS = {"one": "demo"}
DOORS = ("front", "bridge")
PAIRS = [
    pytest.param(era, door, marks=pytest.mark.release if number in (1, 2) else ())
    for number, (era, door) in enumerate(product(ERAS, DOORS))
]
"""Each era and each door is once in the suite; the other two pairs are release tests."""


class Doors:
    """A host with the filesystem server of npm, which has no directory of its own, and two ways to it."""

    def __init__(self, host: Host, urls: Mapping[str, str], folder: Path) -> None:
        self.host, self._urls, self._folder = host, urls, folder

    def project(self, name: str) -> Path:
        """A directory with one file that says whose it is."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        (folder / "note.txt").write_text(f"of {name}")
        return folder

    @asynccontextmanager
    async def client(self, door: str, era: str, *folders: Path) -> AsyncIterator[Developer]:
        """The official client, of one token, with directories of its own."""
        developer = Developer(*folders)
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token_of('one')}"}, timeout=60) as http,
            Client(
                streamable_http_client(self._urls[door], http_client=http),
                mode=era,
                list_roots_callback=developer.roots,
            ) as session,
        ):
            developer.session = session
            yield developer


class Developer:
    """A client that has projects open."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self.session: Any = None

    async def roots(self, context: Any) -> types.ListRootsResult:
        """What it has open now."""
        return types.ListRootsResult(roots=[types.Root(uri=folder.as_uri()) for folder in self.folders])  # type: ignore[arg-type]

    async def allowed(self) -> str:
        """What the server says that it may read."""
        return said(await self.session.call_tool("disk__list_allowed_directories", {}))

    async def read(self, folder: Path) -> str:
        """A file, or why the server does not give it."""
        return said(await self.session.call_tool("disk__read_text_file", {"path": str(folder / "note.txt")}))


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    port = free_port()
    server = f"""
[[mcp.server]]
name = "disk"
min_assurance = "gateway"
command = [{json.dumps(program("mcp-server-filesystem"))}]
"""
    config = sample(tmp_path_factory.mktemp("roots"), append=front(port, CLIENTS) + server)
    write_tokens(config.parent, CLIENTS)
    token = config.parent / "one.token"
    with running(config) as host, http_bridge(host, "--as", "demo", "--token-file", str(token)) as bridge:
        urls = {"front": f"http://127.0.0.1:{port}/mcp", "bridge": bridge.url}
        yield Doors(host, urls, tmp_path_factory.mktemp("projects").resolve())


@pytest.mark.parametrize(("era", "door"), PAIRS)
def test_two_clients_of_one_token_have_roots_of_their_own(era: str, door: str, doors: Doors) -> None:
    """Each reads in its own project, again after the other has, and is refused in the other's."""
    first, second = doors.project("a"), doors.project("b")

    async def work() -> None:
        async with doors.client(door, era, first) as one, doors.client(door, era, second) as two:
            for _ in range(2):
                for client, own, other in ((one, first, second), (two, second, first)):
                    assert await client.read(own) == f"of {own.name}"
                    assert "denied" in await client.read(other)
                    assert str(other) not in await client.allowed()

    story(work)


@pytest.mark.parametrize(("era", "door"), PAIRS)
def test_a_change_of_roots_reaches_the_server(era: str, door: str, doors: Doors) -> None:
    """A project that is opened can be read from then on, and one that is closed cannot."""
    first, second = doors.project("c"), doors.project("d")

    async def work() -> None:
        async with doors.client(door, era, first) as client:
            assert await client.read(first) == "of c"
            client.folders = (second,)
            if era == "legacy":
                await client.session.session.send_roots_list_changed()
            assert await client.read(second) == "of d"
            assert "denied" in await client.read(first)

    story(work)


def test_a_client_without_roots_is_given_none(doors: Doors) -> None:
    """Whoever has no directories gets no other client's, though both have one token."""
    project = doors.project("e")

    async def work() -> None:
        async with doors.client("front", "legacy", project) as one:
            assert await one.read(project) == "of e"
            url, token = doors._urls["front"], token_of("one")
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
                Client(streamable_http_client(url, http_client=http)) as other,
            ):
                path = {"path": str(project / "note.txt")}
                assert "denied" in said(await other.call_tool("disk__read_text_file", path))

    story(work)
