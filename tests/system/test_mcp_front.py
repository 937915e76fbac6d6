"""The host's own MCP front, by the official SDK's clients and by hand: who is who, and what nobody else sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agtphost.identity.encoding import decode_padded
from tests.rows import each_row
from tests.system.bridging import fixture
from tests.system.fronting import front, token_of, write_tokens
from tests.system.hosting import Host, free_port, running, sample
from tests.system.trail import database, stored

BOTH = "application/json, text/event-stream"
CLIENTS = {"one": "demo", "two": "demo"}
HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


class Fronted:
    """A host with a front."""

    def __init__(self, host: Host, port: int) -> None:
        self.host = host
        self.base = f"http://127.0.0.1:{port}"
        self.url = f"{self.base}/mcp"

    @staticmethod
    def fields(name: str, **more: str) -> dict[str, str]:
        """Header fields of a client's requests."""
        return {"Authorization": f"Bearer {token_of(name)}", "Accept": BOTH, **more}

    @asynccontextmanager
    async def client(self, name: str, mode: str = "auto", **options: Any) -> Any:
        """The official SDK's client, with a token."""
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token_of(name)}"}) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode, **options) as client,
        ):
            yield client

    def opened(self, http: httpx.Client, name: str) -> dict[str, str]:
        """The fields of a session that is open."""
        answer = http.post(self.url, json=HANDSHAKE, headers=self.fields(name))
        assert answer.status_code == 200, answer.text
        session = {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        return self.fields(name, **session)


@pytest.fixture(scope="module")
def fronted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """One host for all of these."""
    port = free_port()
    servers = fixture("fixture", 'min_assurance = "gateway"', 'isolation = "per-session"')
    config = sample(tmp_path_factory.mktemp("front"), append=front(port, CLIENTS) + servers)
    write_tokens(config.parent, CLIENTS)
    with running(config) as host:
        yield Fronted(host, port)


def story(work: Callable[[], Awaitable[None]]) -> None:
    """Run it, for 30 seconds at most."""

    async def limited() -> None:
        async with asyncio.timeout(30):
            await work()

    asyncio.run(limited())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_token_is_somebody(mode: str, fronted: Fronted) -> None:
    """In either era: tools of servers and endpoints of the host, and each call names its record."""

    async def work() -> None:
        async with fronted.client("one", mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"fixture__test_simple_text", "echo_text"} <= names
            answer = await client.call_tool("fixture__test_simple_text", {})
            assert not answer.is_error
            said = await client.call_tool("echo_text", {"text": "abc"})
            assert said.structured_content == {"text": "abc", "words": 1}
            for each in (answer, said):
                audit_id = (each.meta or {})["agtp/audit-id"]
                record = next(record for record in stored(database(fronted.host)) if record.audit_id == audit_id)
                said_of = json.loads(decode_padded(record.signed.split(b".")[1].decode()))["extra"]["http"]
                assert said_of == {"surface": "mcp", "client": "one", "method": "POST"}

    story(work)


def test_nobody_without_a_credential(fronted: Fronted) -> None:
    """401, and where the metadata are that an OAuth client asks for next."""
    with httpx.Client() as http:
        answer = http.post(fronted.url, json=HANDSHAKE, headers={"Accept": BOTH})
        assert answer.status_code == 401
        named = answer.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
        document = http.get(named).json()
        assert document["resource"] == fronted.url
        one = http.get(f"{fronted.base}/.well-known/oauth-protected-resource/mcp/fixture").json()
        assert one["resource"] == f"{fronted.url}/fixture"
        wrong = http.post(fronted.url, json=HANDSHAKE, headers={"Accept": BOTH, "Authorization": "Bearer " + "z" * 40})
        assert wrong.status_code == 401
        assert 'error="invalid_token"' in wrong.headers["www-authenticate"]


def test_a_session_is_its_owners(fronted: Fronted) -> None:
    """Another client's id is as good as none, for every method; and so is the id of another's event."""
    with httpx.Client() as http:
        mine = fronted.opened(http, "one")
        theirs = {**mine, **fronted.fields("two")}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert http.post(fronted.url, json=ping, headers=mine).status_code == 200
        for method in ("POST", "GET", "DELETE"):
            assert http.request(method, fronted.url, json=ping, headers=theirs).status_code == 404, method
        assert http.post(f"{fronted.url}/fixture", json=ping, headers=mine).status_code == 404
        told = http.post(fronted.url, json={**ping, "method": "tools/list"}, headers=mine).text
        event = next(line[3:].strip() for line in told.splitlines() if line.startswith("id:"))
        assert "fixture__" in http.get(fronted.url, headers={**mine, "Last-Event-ID": event}).text
        others = fronted.opened(http, "two")
        assert http.get(fronted.url, headers={**others, "Last-Event-ID": event}).text == ""
        assert http.delete(fronted.url, headers=mine).status_code == 200
        assert http.post(fronted.url, json=ping, headers=mine).status_code == 404


@each_row(
    ("why", "changed", "body", "status"),
    [
        ("another site's page", {"Origin": "https://evil.example"}, HANDSHAKE, 403),
        ("another name", {"Host": "evil.example"}, HANDSHAKE, 421),
        ("an unknown revision", {"MCP-Protocol-Version": "1999-01-01"}, HANDSHAKE, 400),
        ("no session", {"MCP-Protocol-Version": "2025-11-25"}, {**HANDSHAKE, "method": "tools/list"}, 400),
        ("an invented session", {"Mcp-Session-Id": "a" * 32}, {**HANDSHAKE, "method": "tools/list"}, 404),
        ("a batch", {}, [HANDSHAKE], 400),
        ("deep", {}, b"[" * 100_000, 400),
        ("no JSON", {"Content-Type": "text/plain"}, HANDSHAKE, 415),
        ("no answer is taken", {"Accept": "text/html"}, HANDSHAKE, 406),
        ("too large", {}, b'"' + b"x" * (5 << 20) + b'"', 413),
        ("two tokens", {"Authorization": "Bearer a, Bearer b"}, HANDSHAKE, 401),
    ],
)
def test_bad_input(why: str, changed: dict[str, str], body: Any, status: int, fronted: Fronted) -> None:
    """Each is refused with a status that says why, and the host goes on."""
    octets = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {**fronted.fields("one"), "Content-Type": "application/json", **changed}
    with httpx.Client() as http:
        try:
            found = http.post(fronted.url, content=octets, headers=fields).status_code
        except httpx.WriteError:
            # It is answered before all of it is sent, and the connection ends.
            found = 413
        assert found == status
        assert http.get(f"{fronted.base}/.well-known/oauth-protected-resource").status_code == 200
