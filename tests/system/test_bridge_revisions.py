"""Servers that ask, at their default settings, for clients of both eras through the bridge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext

from tests import forking
from tests.npm import program
from tests.system.bridging import fixture, http_bridge, stdio
from tests.system.hosting import Host, running, sample

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ASKING = Path(__file__).with_name("asking_server.py")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A server that speaks both eras, one that speaks the older, both with nothing but a name and a command."""
    asking = json.dumps(forking.mcp_server(ASKING))
    servers = f'\n[[mcp.server]]\nname = "asking"\ncommand = {asking}\n' + fixture("both")
    with running(sample(tmp_path_factory.mktemp("revisions"), append=servers)) as host:
        yield host


async def sampled(_: ClientRequestContext, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    """The client's model."""
    text = types.TextContent(type="text", text="thought")
    return types.CreateMessageResult(role="assistant", content=text, model="m")


async def elicited(_: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """The client's person."""
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def rooted(_: ClientRequestContext) -> types.ListRootsResult:
    """The client's directories."""
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv/data")])  # type: ignore[arg-type]


ASKED: dict[str, Any] = {"sampling_callback": sampled, "elicitation_callback": elicited, "list_roots_callback": rooted}


async def answers(where: Any, mode: str, prefix: str) -> dict[str, str]:
    """What every tool of the asking server says to a client that answers everything."""
    found = {}
    async with Client(where, mode=mode, **ASKED) as mcp:  # type: ignore[arg-type]
        for name in ("greet", "think", "where"):
            try:
                result = await mcp.call_tool(prefix + name, {})
            except Exception as error:  # what the tool, or the protocol, says is compared
                found[name] = type(error).__name__
            else:
                said = str(result.content[0].text)  # type: ignore[union-attr]
                found[name] = "error" if result.is_error else said
    return found


def test_tools_that_ask_work_for_clients_of_both_eras_at_once(host: Host) -> None:
    """Through one bridge, at the same time, each client hears what it hears of the server itself."""

    async def story() -> None:
        command, *args = forking.mcp_server(ASKING)
        direct = {
            mode: await answers(StdioServerParameters(command=command, args=args), mode, "")
            for mode in ("legacy", "2026-07-28")
        }
        assert direct["legacy"] == {"greet": "hello Ada", "think": "thought", "where": "file:///srv/data"}
        behind: dict[str, dict[str, str]] = {}
        with http_bridge(host) as bridge:

            async def one(mode: str) -> None:
                behind[mode] = await answers(bridge.url, mode, "asking__")

            async with anyio.create_task_group() as both:
                both.start_soon(one, "legacy")
                both.start_soon(one, "2026-07-28")
        assert behind == direct

    anyio.run(story)


def update_server(name: str, isolation: str) -> str:
    """server-everything, which tells the session that subscribed of updates, once a tool says so."""
    return (
        f'\n[[mcp.server]]\nname = "{name}"\nisolation = "{isolation}"\n'
        f"command = [{json.dumps(program('mcp-server-everything'))}]\n"
    )


ISOLATIONS = {"auto": "auto", "one": "shared", "agent": "per-agent", "session": "per-session"}


@pytest.fixture(scope="module")
def updating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The same server with every ``isolation``."""
    servers = "".join(update_server(name, isolation) for name, isolation in ISOLATIONS.items())
    with running(sample(tmp_path_factory.mktemp("updates"), append=servers)) as host:
        yield host


async def begin(mcp: Client, name: str) -> None:
    """Have a server tell of updates; in a process that others use too it may be on, and is turned off first."""
    for _ in range(2):
        result = await mcp.call_tool(f"{name}__toggle-subscriber-updates", {})
        if "Started" in str(result.content):
            return
    raise AssertionError(result)


@pytest.mark.release
@pytest.mark.npm
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_updates_arrive_with_every_isolation(updating: Host, mode: str) -> None:
    """
    What changes in the process that a client's calls work in is told to it, by the address that it was shown.

    All four servers have the same resources, so three of them have addresses of the bridge's own.
    """
    found: dict[str, str] = {}

    async def story() -> None:
        told: set[str] = set()
        news = anyio.Event()

        def note(uri: str) -> None:
            nonlocal news
            told.add(uri)
            news.set()
            news = anyio.Event()

        async def hear(message: Any) -> None:
            if isinstance(message, types.ResourceUpdatedNotification):
                note(str(message.params.uri))

        async def wait_for(uri: str) -> None:
            with anyio.fail_after(40):
                while uri not in told:
                    await news.wait()

        async with Client(stdio(updating), mode=mode, message_handler=hear, **ASKED) as mcp:  # type: ignore[arg-type]
            resources: list[types.Resource] = []
            cursor: str | None = None
            while True:
                page = await mcp.list_resources(cursor=cursor)
                resources += page.resources
                cursor = page.next_cursor
                if cursor is None:
                    break
            for each in resources:
                found.setdefault(str((each.meta or {}).get("agtp/server")), str(each.uri))
            assert set(ISOLATIONS) <= set(found)
            for name in ISOLATIONS:
                uri = found[name]
                if mode == "legacy":
                    await mcp.subscribe_resource(uri)
                    await begin(mcp, name)
                    await wait_for(uri)
                    await mcp.unsubscribe_resource(uri)
                    continue
                async with mcp.listen(resource_subscriptions=[uri]) as subscription:
                    await begin(mcp, name)
                    with anyio.fail_after(40):
                        async for event in subscription:
                            if getattr(event, "uri", None) == uri:
                                break

    anyio.run(story)
    assert sum(uri.startswith("agtp-mcp:") for uri in found.values()) >= 3


@pytest.mark.release
@pytest.mark.npm
@pytest.mark.parametrize("name", ["auto", "one"])
def test_a_tool_that_works_as_a_task_alone_can_be_called(updating: Host, name: str) -> None:
    """server-everything's research tool has ``taskSupport: required``; to a client behind the bridge it is a tool."""

    async def story() -> None:
        async with Client(stdio(updating), mode="legacy", **ASKED) as mcp:
            result = await mcp.call_tool(f"{name}__simulate-research-query", {"topic": "transfer protocols"})
        assert not result.is_error, result
        assert "transfer protocols" in str(result.content)

    anyio.run(story)
