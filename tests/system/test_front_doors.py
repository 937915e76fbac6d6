"""The doors of the HTTP surfaces of a host: what they refuse and put on record, whom they tell of changes, reloads."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agtphost.identity.encoding import decode_padded
from tests import forking
from tests.system.fronting import front, token_of, write_tokens
from tests.system.hosting import Host, free_port, running
from tests.system.reload_host import DECLARED, changing, generation, reload
from tests.system.test_mcp_front import BOTH, HANDSHAKE, modern
from tests.system.trail import database, stored

CLIENTS = {"one": "demo", "two": "demo", "narrow": "narrow", "leaving": "demo"}
SECTIONS = """
[gateway]
listen = "tcp:{gateway}:interface=127.0.0.1"

[registry]
listen = "tcp:{registry}:interface=127.0.0.1"
path = "/registry"

[[mcp.server]]
name = "telling"
command = {command}
min_assurance = "gateway"
isolation = "shared"
"""


class Doors:
    """A host with three surfaces."""

    def __init__(self, host: Host, ports: dict[str, int]) -> None:
        self.host = host
        self.bases = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        self.mcp = f"{self.bases['mcp']}/mcp"

    def payloads(self) -> dict[str, Any]:
        """What is on record, by Audit-ID."""
        found = stored(database(self.host))
        return {each.audit_id: json.loads(decode_padded(each.signed.split(b".")[1].decode())) for each in found}


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """One host for all of these."""
    ports = {name: free_port() for name in ("mcp", "gateway", "registry")}
    server = json.dumps(forking.mcp_server(Path(__file__).with_name("telling_server.py")))
    sections = SECTIONS.format(gateway=ports["gateway"], registry=ports["registry"], command=server)
    config = changing(tmp_path_factory.mktemp("doors"), append=front(ports["mcp"], CLIENTS) + sections)
    write_tokens(config.parent, CLIENTS)
    described = {"name": "narrow", "description": "May call no tool.", "scopes": ["documents:query"]}
    (config.parent / "agents" / "narrow.agent.json").write_text(json.dumps(described))
    with running(config) as host:
        yield Doors(host, ports)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def told(surface: str, answer: httpx.Response) -> dict[str, Any]:
    """Reason, explanation, remedy and Audit-ID of a refusal, as the clients of a surface read them."""
    body = answer.json()
    if surface == "gateway":
        return {**body, "audit_id": answer.headers.get("Audit-ID", "")}
    if surface == "registry":
        error = body["error"]
        return {**error, "explanation": error["message"]}
    assert (body["jsonrpc"], body["id"]) == ("2.0", None)
    facts: dict[str, Any] = body["error"]["data"]["agtp"]
    return facts


JWT = ".".join(
    base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
    for part in ({"alg": "EdDSA"}, {"iss": "https://id.example", "sub": "mallory"}, "signature")
)

REFUSED = [
    # surface, method, path, header fields, status, whether somebody is named
    ("mcp", "POST", "/mcp", {}, 401, False),
    ("mcp", "POST", "/mcp", bearer("z" * 40), 401, True),
    ("mcp", "POST", "/mcp", bearer(JWT), 401, True),
    ("mcp", "GET", "/mcp", bearer("z" * 40), 401, True),
    ("mcp", "POST", "/mcp/UPPER", bearer(token_of("one")), 404, True),
    ("mcp", "POST", "/mcp/nosuch", bearer(token_of("one")), 404, True),
    ("mcp", "GET", "/mcp", bearer(token_of("one")), 400, True),
    ("mcp", "PUT", "/mcp", bearer(token_of("one")), 405, True),
    ("mcp", "POST", "/mcp", {**bearer(token_of("one")), "Origin": "https://evil.example"}, 403, True),
    ("mcp", "POST", "/mcp", {**bearer(token_of("one")), "Content-Type": "text/plain"}, 415, True),
    ("mcp", "POST", "/mcp", {**bearer(token_of("one")), "Content-Encoding": "gzip"}, 415, True),
    ("mcp", "POST", "/mcp", {**bearer(token_of("one")), "Mcp-Session-Id": "a" * 32}, 404, True),
    ("mcp", "POST", "/mcp", {"Host": "evil.example"}, 421, False),
    ("registry", "GET", "/registry/agents", bearer("z" * 40), 401, True),
    ("registry", "GET", "/registry/nothing", {}, 404, False),
    ("registry", "DELETE", "/registry/agents", bearer(token_of("one")), 405, True),
    ("registry", "POST", "/registry/agents", {**bearer(token_of("one")), "Content-Type": "text/plain"}, 415, True),
    ("registry", "GET", "/registry/agents", {**bearer(token_of("one")), "Host": "evil.example"}, 421, True),
    ("gateway", "GET", "/agents", {}, 401, True),
    ("gateway", "POST", "/agents", bearer("z" * 40), 401, True),
    ("gateway", "TRACE", "/agents", bearer(token_of("one")), 405, True),
    ("gateway", "GET", "/.well-known/nothing", bearer(token_of("one")), 404, True),
    ("gateway", "GET", "/agents", {**bearer(token_of("one")), "Host": "evil.example"}, 421, True),
    ("gateway", "POST", "/agents", {**bearer(token_of("one")), "Content-Encoding": "gzip"}, 415, True),
    ("gateway", "POST", "/agents", {**bearer(token_of("one")), "Expect": "the best"}, 417, True),
    ("gateway", "POST", "/agents", {"Content-Encoding": "gzip"}, 415, True),
    ("gateway", "GET", "/agents", {"Host": "evil.example"}, 421, True),
]


def test_each_refusal_says_why_and_is_on_record_where_somebody_is_named(doors: Doors) -> None:
    """A reason and a remedy in the surface's own form; a record of a token, and over the gateway of strangers too."""
    named: list[tuple[str, str]] = []
    with httpx.Client() as http:
        for surface, method, path, fields, status, known in REFUSED:
            row = f"{surface} {method} {path} {fields} {status}"
            before = len(doors.payloads()) if not known else 0
            answer = http.request(
                method,
                f"{doors.bases[surface]}{path}",
                content=json.dumps(HANDSHAKE) if method in ("POST", "PUT") else None,
                headers={"Accept": BOTH, "Content-Type": "application/json", **fields},
            )
            assert answer.status_code == status, row
            facts = told(surface, answer)
            assert facts["reason"] and facts["explanation"] and (facts.get("remedy") or status == 404), row
            assert "AGTP-Status" in answer.headers, row
            if surface == "gateway":
                assert answer.headers["AGTP-Status"].startswith(f"{facts['status']} "), row
                assert facts["status"] == (status if status < 415 else {415: 400, 417: 400, 421: 403}[status]), row
            if known:
                assert answer.headers["Audit-ID"] == facts["audit_id"], row
                if surface == "gateway":
                    signed = answer.headers["Attribution-Record"]
                    asserted = json.loads(decode_padded(signed.split(".")[1]))
                    assert asserted["result_hash"] == sha256(answer.content).hexdigest(), row
                named.append((row, facts["audit_id"]))
            else:
                assert "Audit-ID" not in answer.headers and len(doors.payloads()) == before, row
        lost = http.get(doors.mcp, headers={**bearer(token_of("one")), "Accept": BOTH})
        assert "initialize" in told("mcp", lost)["remedy"]
        asked = http.get(f"{doors.mcp}/UPPER", headers={**bearer(token_of("one")), "Accept": "text/html"})
        assert asked.text.startswith("The MCP front has nothing at this path.")
    records = doors.payloads()
    agent = doors.host.agtp_json("agent", "show", "demo")["agent_id"]
    for row, audit_id in named:
        record = records[audit_id]
        assert record["extra"]["http"]["surface"] in row and record["status"] >= 400, row
        if token_of("one") in row:
            assert record["extra"]["http"]["client"] == "one" and record["extra"]["claimed"]["agent_id"] == agent, row
        elif JWT in row:
            assert record["extra"]["http"]["claimed"] == "https://id.example mallory", row
        assert token_of("one") not in json.dumps(record) and "z" * 40 not in json.dumps(record), row


ASKED = [
    modern("tools/list"),
    modern("tools/call", "hear", name="hear", arguments={}),
    modern("resources/read", "note://a", uri="note://a"),
    modern("ping"),
    (HANDSHAKE, {}),
    (HANDSHAKE, {"Mcp-Session-Id": "a" * 32}),
]


def test_whoever_may_use_nothing_of_a_server_is_not_told_that_it_is_there(doors: Doors) -> None:
    """A server and a name that is none are one 404 to such a caller, whatever it asks; others use that server."""
    with httpx.Client() as http:

        def ask(client: str, server: str, message: Any, fields: dict[str, str]) -> tuple[int, str, set[str]]:
            own = {**bearer(token_of(client)), "Accept": BOTH, **fields}
            answer = http.post(f"{doors.mcp}/{server}", json=message, headers=own)
            said = re.sub(r"[0-9a-f]{64}", "ID", answer.text).replace(server, "SERVER")
            return answer.status_code, said, {name.lower() for name in answer.headers}

        for message, fields in ASKED:
            row = f"{message} {fields}"
            there, none = (ask("narrow", server, message, fields) for server in ("telling", "absent"))
            assert there == none and there[0] == 404 and "unknown-mcp-server" in there[1], row
            # One that may use other servers lacks other scopes, which its answer names for each unknown name.
            other = ask("one", "absent", message, fields)
            assert other[0] == 404 and "unknown-mcp-server" in other[1] and other[2] == none[2], row
        assert ask("one", "telling", *ASKED[0])[0] == 200
        assert ask("one", "telling", *ASKED[4])[0] == 200


def test_an_endpoint_goes_on_with_nothing_that_was_never_begun(doors: Doors) -> None:
    """A requestState that nobody gave is refused, and the endpoint not called; without it the same call is made."""
    call = {"name": "echo_text", "arguments": {"text": "a b"}}
    with httpx.Client() as http:
        found = []
        for forged in ({"requestState": "agtp1.dDE=.=x"}, {"inputResponses": {}}, {}):
            message, fields = modern("tools/call", "echo_text", **call, **forged)
            answer = http.post(doors.mcp, json=message, headers={**bearer(token_of("one")), "Accept": BOTH, **fields})
            found.append((answer.status_code, answer.json().get("error", {}).get("code")))
    assert found == [(400, -32602), (400, -32602), (200, None)]


NEAR = [
    # server, tool, member of the refusal, what is named to who may call it
    ("", "telling.gro", "close_matches", "telling.grow"),
    ("/mcp/telling", "gro", "close_matches", "telling.grow"),
    ("/mcp/absent", "grow", "mcp_servers", "telling"),
]


def test_a_refusal_names_nothing_that_its_caller_may_not_call(doors: Doors) -> None:
    """Close names and servers that there are: those of which the caller may call something, and no other."""
    with httpx.Client() as http:
        for path, tool, member, named in NEAR:
            call = {"action": "mcp.tools.call", "payload": {"tool": tool, "arguments": {}}}
            body = {**call, "payload_type": "application/vnd.mcp.tools+json"}
            told = {}
            for client in ("one", "narrow"):
                url = f"{doors.bases['gateway']}{path or '/'}"
                answer = http.request("EXECUTE", url, json=body, headers=bearer(token_of(client)))
                told[client] = answer.json().get(member, [])
            assert named in told["one"] and told["narrow"] == [], f"{path} {tool}"


def plain(text: str, tool: str) -> str:
    """An answer without what names the call itself: identifiers of records, and the tool."""
    return re.sub(r"[0-9a-f]{32,}|eyJ[A-Za-z0-9_.-]+", "", text).replace(tool, "")


def test_a_tool_that_may_not_be_called_answers_as_one_that_is_not_there(doors: Doors) -> None:
    """At the gateway and at the MCP front: status, length and fields are the same for a tool and for no tool."""
    tools, shapes = ("telling.grow", "telling.gzwx"), {"gateway": set(), "mcp": set()}
    call = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json"}
    with httpx.Client() as http:
        # The first answer of a connection greets.
        http.request("DISCOVER", f"{doors.bases['gateway']}/methods", headers=bearer(token_of("narrow")))
        for tool in tools:
            body = {**call, "payload": {"tool": tool, "arguments": {}}}
            url = f"{doors.bases['gateway']}/"
            asked = http.request("EXECUTE", url, json=body, headers=bearer(token_of("narrow")))
            shapes["gateway"].add((asked.status_code, plain(asked.text, tool), tuple(sorted(asked.headers))))
            message, fields = modern("tools/call", tool, name=tool, arguments={})
            headers = {**bearer(token_of("narrow")), "Accept": BOTH, **fields}
            answer = http.post(doors.mcp, json=message, headers=headers)
            shapes["mcp"].add((answer.status_code, plain(answer.text, tool), tuple(sorted(answer.headers))))
    assert {name: len(each) for name, each in shapes.items()} == {"gateway": 1, "mcp": 1}, shapes


TOOL_PATHS = ("/tools/telling/grow", "/tools/telling/gzwx")


def test_the_path_of_a_tool_tells_nobody_who_may_not_call_it_that_it_is_there(doors: Doors) -> None:
    """The gateway's own paths of tools: one and none of the same server; which servers there are, the manifest says."""
    with httpx.Client() as http:
        for own in ({}, bearer(token_of("narrow"))):
            http.get(f"{doors.bases['gateway']}/agents", headers=own)  # The first answer of a connection greets.
            shapes = set()
            for path in TOOL_PATHS:
                answer = http.post(f"{doors.bases['gateway']}{path}", json={}, headers=own)
                said = plain(answer.text, path.rpartition("/")[2])
                shapes.add((answer.status_code, said, tuple(sorted(answer.headers))))
            assert len(shapes) == 1, shapes


def test_a_session_of_another_client_is_one_that_is_not_there(doors: Doors) -> None:
    """The MCP front: whoever has the identifier of a session, and is not its client, learns nothing by it."""
    with httpx.Client() as http:

        def ask(own: dict[str, str], session: str, method: str) -> tuple[int, str, tuple[str, ...]]:
            fields = {**own, "Accept": BOTH, "Mcp-Session-Id": session}
            listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"} if method == "POST" else None
            answer = http.request(method, doors.mcp, json=listing, headers=fields)
            return answer.status_code, plain(answer.text, session), tuple(sorted(answer.headers))

        begun = http.post(doors.mcp, json=HANDSHAKE, headers={**bearer(token_of("one")), "Accept": BOTH})
        session = begun.headers["Mcp-Session-Id"]
        strange = "".join(reversed(session))
        for own in ({}, bearer(token_of("narrow")), bearer(token_of("two"))):
            for method in ("POST", "GET", "DELETE"):
                assert ask(own, session, method) == ask(own, strange, method), (own, method)
        assert ask(bearer(token_of("one")), session, "POST")[0] == 200, "it is still there"


def test_the_gateway_tells_where_the_registry_is(doors: Doors) -> None:
    """Two surfaces, each with a document of its own: the catalog of APIs, and the manifest, name both."""
    with httpx.Client() as http:
        catalog = http.get(f"{doors.bases['gateway']}/.well-known/api-catalog").json()
        base = f"{doors.bases['registry']}/registry"
        described = {each["anchor"]: each.get("service-desc") for each in catalog["linkset"]}
        assert described[base] == [{"href": f"{base}/openapi.json"}]
        assert "/agents/{id}/invoke" in http.get(described[base][0]["href"]).json()["paths"]
        assert http.get(described[f"{doors.bases['gateway']}/"][0]["href"], headers=bearer(token_of("one"))).is_success


def test_a_body_that_is_turned_down_is_not_waited_for(doors: Doors) -> None:
    """One that is announced too large is refused by its head, on record, and the connection ends."""
    head = "\r\n".join(
        (
            "POST /registry/agents HTTP/1.1",
            f"Host: {doors.bases['registry'].removeprefix('http://')}",
            f"Authorization: Bearer {token_of('one')}",
            "Content-Type: application/json",
            f"Content-Length: {9 << 20}",
            "\r\n",
        )
    )
    with socket.create_connection(("127.0.0.1", int(doors.bases["registry"].rpartition(":")[2])), 20) as link:
        link.sendall(head.encode() + b"{")
        answer = b"".join(iter(lambda: link.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 413 ") and answer.count(b"HTTP/1.1") == 1
    audit_id = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["audit_id"]
    assert doors.payloads()[audit_id]["reason"] == "body-too-large"


class Hearing:
    """One client of the official SDK, and what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.news = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        """A message of the server."""
        if isinstance(message, types.ResourceUpdatedNotification):
            self.told.append(str(message.params.uri))
        elif isinstance(message, types.ToolListChangedNotification):
            self.told.append("tools")
        self.news.set()

    async def wait_for(self, what: str) -> None:
        """Until it was told."""
        async with asyncio.timeout(20):
            while what not in self.told:
                await self.news.wait()
                self.news.clear()


def test_changes_reach_whom_they_are_for(doors: Doors) -> None:
    """An update reaches who watches that resource, a new tool who may call the server; nobody else hears of either."""

    async def work() -> None:
        hears = {name: Hearing() for name in ("one", "two", "narrow")}

        def client(name: str) -> Any:
            http = httpx2.AsyncClient(headers=bearer(token_of(name)), timeout=30)
            transport = streamable_http_client(doors.mcp, http_client=http)
            return Client(transport, mode="legacy", message_handler=hears[name])

        async with client("one") as one, client("two") as two, client("narrow") as narrow:
            for each, uri in ((one, "note://one"), (two, "note://two")):
                await each.subscribe_resource(uri)
            await narrow.list_tools()
            await two.call_tool("telling__write", {"uri": "note://one"})
            await hears["one"].wait_for("note://one")
            await one.call_tool("telling__write", {"uri": "note://two"})
            await hears["two"].wait_for("note://two")
            await one.call_tool("telling__grow", {})
            await hears["one"].wait_for("tools")
            await hears["two"].wait_for("tools")
            assert "telling__grown" in {tool.name for tool in (await two.list_tools()).tools}
            assert not any(tool.name.startswith("telling__") for tool in (await narrow.list_tools()).tools)
            assert "note://two" not in hears["one"].told and "note://one" not in hears["two"].told
            assert hears["narrow"].told == []

    asyncio.run(work())


def test_a_reload_keeps_sessions_and_shows_what_is_new(doors: Doors) -> None:
    """A session lives on and is told of the new tool, which the gateway has too; a token that went is 401."""
    folder = doors.host.config.parent
    body, fields = modern("tools/list")
    with httpx.Client(timeout=20) as http:
        opened = http.post(doors.mcp, json=HANDSHAKE, headers={**bearer(token_of("leaving")), "Accept": BOTH})
        mine = http.post(doors.mcp, json=HANDSHAKE, headers={**bearer(token_of("one")), "Accept": BOTH})
        sessions = {
            name: {
                **bearer(token_of(name)),
                "Accept": BOTH,
                "Mcp-Session-Id": answer.headers["mcp-session-id"],
                "MCP-Protocol-Version": "2025-11-25",
            }
            for name, answer in (("leaving", opened), ("one", mine))
        }
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert http.post(doors.mcp, json=ready, headers=sessions["one"]).status_code == 202
        with http.stream("GET", doors.mcp, headers=sessions["one"]) as hearing:
            lines = hearing.iter_lines()
            assert "fetch_other" not in http.post(doors.mcp, json=listing, headers=sessions["one"]).text
            (folder / "endpoints" / "other.toml").write_text(
                DECLARED.format(number=1).replace('path = "/generation"', 'path = "/other"')
            )
            text = doors.host.config.read_text()
            begin = text.index('[[http.client]]\nname = "leaving"')
            end = text.index("[gateway]")
            doors.host.config.write_text(text[:begin] + text[end:])
            taken = reload(doors.host)
            assert taken["audit_id"], taken
            assert any("tools/list_changed" in line for line in lines if line)
        assert "fetch_other" in http.post(doors.mcp, json=listing, headers=sessions["one"]).text
        alone = http.post(doors.mcp, json=body, headers={**bearer(token_of("one")), "Accept": BOTH, **fields}).json()
        assert "fetch_other" in {tool["name"] for tool in alone["result"]["tools"]}
        assert http.get(f"{doors.bases['gateway']}/other", headers=bearer(token_of("one"))).status_code == 200
        described = http.get(f"{doors.bases['gateway']}/.well-known/openapi.json", headers=bearer(token_of("one")))
        assert "/other" in described.json()["paths"]
        cards = http.get(f"{doors.bases['registry']}/registry/agents", headers=bearer(token_of("one")))
        assert cards.status_code == 200
        gone = {
            "mcp": http.post(doors.mcp, json=listing, headers=sessions["leaving"]),
            "gateway": http.get(f"{doors.bases['gateway']}/other", headers=bearer(token_of("leaving"))),
            "registry": http.get(f"{doors.bases['registry']}/registry/agents", headers=bearer(token_of("leaving"))),
        }
    assert {name: answer.status_code for name, answer in gone.items()} == dict.fromkeys(gone, 401)
    generation(folder, 1)
