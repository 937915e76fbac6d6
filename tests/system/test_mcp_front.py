"""The host's own MCP front, by the official SDK's clients and by hand: who is who, and what nobody else sees."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from agtphost.bridge import client_config
from agtphost.identity.encoding import decode_padded
from agtphost.vocabulary import jsonc
from tests.npm import document, node
from tests.programmes import length
from tests.rows import each_row
from tests.system.bridging import fixture
from tests.system.fronting import front, token_of, write_tokens
from tests.system.hosting import Host, free_port, running, sample
from tests.system.trail import database, stored

WITHIN = length(10.0, 1.0)
"""Seconds in which a stop takes effect: one is promised, and measured on a quiet machine (`--programmes`)."""

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
    library = config.parent / "endpoints" / "library.toml"
    said = '[semantic]\nmcp_tool_name = "look_up_book"\nparameter_hints = { isbn = ["the number on the back"] }'
    library.write_text(library.read_text().replace("[semantic]", said))
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
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"fixture__test_simple_text", "echo_text", "look_up_book"} <= tools.keys()
            # AGIS-068, AGIS-069: what its file says, and a call by that name.
            hints = "Look up a book by its ISBN. Hints: isbn = ['the number on the back']"
            assert tools["look_up_book"].description == hints and "query_library" not in tools
            assert not (await client.call_tool("look_up_book", {"isbn": "9780141439518"})).is_error
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


MANY = {f"client-{number}": f"agent-{number}" for number in range(10)}
"""Ten tokens, each with an agent of its own; those with even numbers may call tools of servers."""

TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """A host that ten agents call."""
    port = free_port()
    servers = fixture("fixture", 'min_assurance = "gateway"', 'isolation = "per-session"')
    config = sample(tmp_path_factory.mktemp("crowd"), append=front(port, MANY) + servers)
    write_tokens(config.parent, MANY)
    for number, name in enumerate(MANY.values()):
        described = {"name": name, "description": "One of ten.", "scopes": ["documents:query"]}
        if number % 2 == 0:
            described["scopes"] = ["documents:query", "mcp:tools:execute"]
        (config.parent / "agents" / f"{name}.agent.json").write_text(json.dumps(described))
    with running(config) as host:
        yield Fronted(host, port)


def modern(
    method: str, named: str = "", capabilities: Any = None, /, **params: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """A request of 2026-07-28, and its header fields."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
    }
    fields = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **({"Mcp-Name": named} if named else {})}
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": meta}}, fields


def test_ten_clients_at_once_never_see_each_other(crowd: Fronted) -> None:
    """Each hears its own words in its own name, and sees the tools that its agent may call, and no others."""

    async def one(number: int) -> None:
        name = f"client-{number}"
        async with crowd.client(name, "legacy" if number % 3 == 0 else "auto") as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert ("fixture__test_simple_text" in names) == (number % 2 == 0), names
            for turn in range(5):
                answer = await client.call_tool("echo_text", {"text": f"{name} {turn}"})
                assert answer.structured_content is not None
                assert answer.structured_content["text"] == f"{name} {turn}"
            if number % 2:
                with pytest.raises(MCPError, match="scope-required"):
                    await client.call_tool("fixture__test_simple_text", {})
            else:
                assert not (await client.call_tool("fixture__test_simple_text", {})).is_error

    async def work() -> None:
        await asyncio.gather(*(one(number) for number in range(10)))

    story(work)
    heard = [json.loads(decode_padded(each.signed.split(b".")[1].decode())) for each in stored(database(crowd.host))]
    callers = {(each["agent_id"], each["extra"]["http"]["client"]) for each in heard if "http" in each.get("extra", {})}
    assert len({client for _, client in callers}) == 10


def test_sessions_and_tasks_of_ten_are_their_own(crowd: Fronted) -> None:
    """Whoever shows the session of another gets 404; the task of another there is none of."""
    with httpx.Client() as http:
        sessions = {name: crowd.opened(http, name) for name in MANY}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for name, others in zip(MANY, [*list(MANY)[1:], "client-0"], strict=True):
            assert http.post(crowd.url, json=ping, headers=sessions[name]).status_code == 200
            fields = {**sessions[name], **crowd.fields(others)}
            assert http.post(crowd.url, json=ping, headers=fields).status_code == 404
        body, fields = modern(
            "tools/call", "fixture__slow_compute", TASKS, name="fixture__slow_compute", arguments={"seconds": 5}
        )
        task = http.post(crowd.url, json=body, headers=crowd.fields("client-0", **fields)).json()["result"]["taskId"]
        body, fields = modern("tasks/get", task, TASKS, taskId=task)
        mine = http.post(crowd.url, json=body, headers=crowd.fields("client-0", **fields)).json()
        assert mine["result"]["taskId"] == task
        for name in ("client-1", "client-2"):
            theirs = http.post(crowd.url, json=body, headers=crowd.fields(name, **fields)).json()
            assert theirs["error"]["code"] == -32602, theirs


@pytest.mark.npm
def test_the_official_typescript_client_is_somebody_too(crowd: Fronted) -> None:
    """Two of them at once, each with its token."""
    folder = document("@modelcontextprotocol/client", "package.json").parent
    script = str(Path(__file__).with_name("front_client.mjs"))
    begun = [
        subprocess.Popen(
            [str(node()), script, str(folder), crowd.url, token_of(name), f"I am {name}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("client-8", "client-9")
    ]
    for process, name in zip(begun, ("client-8", "client-9"), strict=True):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        told = json.loads(out)
        assert told["said"]["text"] == f"I am {name}"
        assert ("fixture__test_simple_text" in told["tools"]) == (name == "client-8")


def test_what_a_revoked_agent_has_open_ends_at_once(crowd: Fronted) -> None:
    """The stream of a session and one of 2026-07-28, within a second; its neighbour's goes on."""
    with httpx.Client(timeout=20) as http:
        session, other = crowd.opened(http, "client-4"), crowd.opened(http, "client-6")
        body, fields = modern("subscriptions/listen", notifications={"toolsListChanged": True})
        with (
            http.stream("GET", crowd.url, headers=session) as first,
            http.stream("POST", crowd.url, json=body, headers=crowd.fields("client-4", **fields)) as second,
            http.stream("GET", crowd.url, headers=other),
        ):
            lines = second.iter_lines()
            assert any("subscriptions/acknowledged" in line for line in lines)
            done = crowd.host.agtp("agent", "revoke", "agent-4", "--reason", "test")
            assert done.returncode == 0, done.stdout + done.stderr
            began = time.monotonic()
            assert list(first.iter_lines()) == []
            list(lines)
            assert time.monotonic() - began < WITHIN
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            assert http.post(crowd.url, json=ping, headers=session).status_code == 404
            assert http.post(crowd.url, json=ping, headers=other).status_code == 200
        again = http.post(crowd.url, json=HANDSHAKE, headers=crowd.fields("client-4"))
        assert "error" in again.json(), again.text


def test_two_tokens_of_one_agent_are_two_clients(fronted: Fronted) -> None:
    """The task that one began is none of the other's, though both call in one name."""
    begins, fields = modern(
        "tools/call", "fixture__slow_compute", TASKS, name="fixture__slow_compute", arguments={"seconds": 5}
    )
    with httpx.Client() as http:
        task = http.post(fronted.url, json=begins, headers=fronted.fields("one", **fields)).json()["result"]["taskId"]
        body, fields = modern("tasks/get", task, TASKS, taskId=task)
        mine = http.post(fronted.url, json=body, headers=fronted.fields("one", **fields)).json()
        theirs = http.post(fronted.url, json=body, headers=fronted.fields("two", **fields)).json()
    assert mine["result"]["taskId"] == task
    assert theirs["error"]["code"] == -32602


@pytest.mark.parametrize("name", ["claude", "vscode", "cursor"])
def test_what_to_paste_into_a_client_leads_to_the_front(name: str, fronted: Fronted) -> None:
    """The URL answers, and the token is left to whoever pastes."""
    printed = fronted.host.agtp_json("mcp-bridge", "--front", "--server", "fixture", "--print-config", name)
    (entry,) = (printed["config"].get("mcpServers") or printed["config"]["servers"]).values()
    assert entry["url"] == f"{fronted.url}/fixture"
    assert entry["headers"]["Authorization"].startswith("Bearer ${")
    with httpx.Client() as http:
        assert http.post(entry["url"], json=HANDSHAKE, headers=fronted.fields("one")).status_code == 200


@pytest.mark.parametrize("name", ["claude", "vscode", "cursor"])
def test_a_client_is_connected_to_the_front(name: str, fronted: Fronted, tmp_path: Path) -> None:
    """Its file gets the address and the place of a token, and nothing else changes; the entry goes as it came."""
    file = client_config.file_of(name, tmp_path, {})
    file.parent.mkdir(exist_ok=True)
    file.write_text('{\n  // mine\n  "inputs": [{"id": "other"}],\n}\n')
    words = ("--front", "--server", "fixture", "--project", str(tmp_path))
    tried = fronted.host.agtp_json("client", "connect", name, *words, "--dry-run")
    assert tried["changed"] and "fixture" not in file.read_text()
    told = fronted.host.agtp_json("client", "connect", name, *words)
    assert told["clients"] == ["one", "two"] and Path(told["backup"]).exists()
    written = jsonc.parse(file.read_text()).value
    entry = written[client_config.MEMBER[name]]["fixture"]
    assert entry == told["entry"] and "// mine" in file.read_text() and token_of("one") not in file.read_text()
    place = entry["headers"]["Authorization"].removeprefix("Bearer ")
    asked = [each["id"] for each in written["inputs"]]
    assert "other" in asked and (name != "vscode" or f"${{input:{asked[0]}}}" == place)
    with httpx.Client() as http:
        assert http.post(entry["url"], json=HANDSHAKE, headers=fronted.fields("one")).status_code == 200
    assert not fronted.host.agtp_json("client", "connect", name, *words)["changed"]
    listed = fronted.host.agtp_json("client", "ls", "--project", str(tmp_path))
    assert [(each["name"], each["host"]) for each in listed if each["file"] == str(file)] == [("fixture", entry["url"])]
    assert fronted.host.agtp("client", "disconnect", name, *words[1:]).returncode == 2, "it is no bridge"
    assert fronted.host.agtp_json("client", "disconnect", name, *words)["changed"]
    assert "fixture" not in file.read_text()
    missing = fronted.host.agtp("client", "connect", name, "--front", "--server", "none", "--project", str(tmp_path))
    assert missing.returncode == 2 and "Choose one of: " in missing.stderr


def test_a_front_is_asked_for_where_there_is_one(fronted: Fronted) -> None:
    """Without what is printed there is nothing to do."""
    done = fronted.host.agtp("mcp-bridge", "--front")
    assert done.returncode == 2
    assert "--print-config" in done.stderr
