"""
What a caller may not see answers as what does not exist: the HTTP surfaces of a host, compared octet by octet.

Each row names a thing of one agent on one surface. Callers who are not that agent ask for it, and for an identifier of
the same form that names nothing. Status, header fields and body must be equal, once the identifier that was asked for,
record numbers and times are taken out. ``tests/methods/test_unknown_things.py`` does the same for AGTP itself.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tests.attacks import site
from tests.attacks.strikes import agent_of
from tests.methods.private_hosts import strange
from tests.system.gateways import Reply, ask
from tests.system.hosting import Host, agtp, free_port, running
from tests.system.raw_link import RawLink, client_context

ID = "<id>"
OWNER, OTHER = "demo", "narrow"
TOKENS = {OWNER: "token-of-the-owner-0123456789-0123456789", OTHER: "token-of-another-0123456789-0123456789-x"}
SURFACES = ("gateway", "mcp", "a2a", "registry", "admin", "wellknown")

SECTIONS = """
[gateway]
listen = "ssl:{gateway}:interface=127.0.0.1"

[mcp.front]
listen = "ssl:{mcp}:interface=127.0.0.1"

[a2a.front]
listen = "ssl:{a2a}:interface=127.0.0.1"
agent_id = "{agent_id}"

[[a2a.front.agent]]
name = "assistant"
method = "ECHO"
path = "/text"
answer = "text"

[registry]
listen = "ssl:{registry}:interface=127.0.0.1"

[admin]
listen = "ssl:{admin}:interface=127.0.0.1"

[wellknown]
listen = "ssl:{wellknown}:interface=127.0.0.1"

[[methods.collection]]
name = "vault"
read = ["orders:write"]
write = ["orders:write"]

[[http.client]]
name = "demo"
token = "file:demo.token"
agent = "demo"

[[http.client]]
name = "narrow"
token = "file:narrow.token"
agent = "narrow"
"""


class Row(NamedTuple):
    """One request that names a thing."""

    surface: str
    thing: str
    method: str
    path: str = "/"
    given: Mapping[str, Any] | None = None
    fields: Mapping[str, str] = {}


TOOL = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json"}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def over_mcp(thing: str, method: str, path: str = "/mcp", **params: Any) -> Row:
    """Return a request of the MCP front."""
    fields = {
        "MCP_Protocol_Version": "2026-07-28",
        "Mcp_Method": method,
        "Accept": "application/json, text/event-stream",
    }
    named = params.get("name", params.get("uri"))
    if named is not None:
        fields["Mcp_Name"] = named
    rpc = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": MODERN}}
    return Row("mcp", thing, "POST", path, rpc, fields)


def over_a2a(thing: str, method: str, **params: Any) -> Row:
    """Return a request of the A2A front."""
    rpc = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return Row("a2a", thing, "POST", "/agents/assistant", rpc, {"A2A_Version": "1.0"})


def rows() -> Iterator[Row]:
    """Go over what is addressed on each surface."""
    for thing in ("approval", "escalation", "notification", "record", "session", "task"):
        yield Row("gateway", thing, "CONFIRM", "/", {"target_id": ID, "status": "accepted"})
        yield Row("gateway", thing, "CANCEL", "/", {"target_id": ID})
    yield Row("gateway", "approval", "QUERY", "/approvals", {"id": ID})
    yield Row("gateway", "escalation", "QUERY", "/escalations", {"escalation_id": ID})
    yield Row("gateway", "record", "INSPECT", "/", {"target": "audit", "audit_id": ID})
    yield Row("gateway", "task", "RESUME", "/", {"workflow_id": ID, "resumption_nonce": "x" * 22})
    yield Row("gateway", "workflow", "INSPECT", "/", {"target": "workflow", "workflow_id": ID})
    yield Row("gateway", "task", "INSPECT", "/", {"target": "records", "task_id": ID})
    yield Row("gateway", "task", "ECHO", "/text", {"text": "x"}, {"Task_ID": ID})
    yield Row("gateway", "session", "SUSPEND", "/", {"session_id": ID})
    yield Row("gateway", "agent", "INSPECT", "/", {"target": "chain", "agent_id": ID})
    yield Row("gateway", "agent", "INSPECT", "/", {"target": "lifecycle", "agent_id": ID})
    yield Row("gateway", "agent", "QUERY", "/grants", {"agent": ID})
    yield Row("gateway", "agent", "REVOKE", "/", {"agent_id": ID, "reason": "x"})
    yield Row("gateway", "item", "FETCH", "/", {"resource_id": ID})
    yield Row("gateway", "tool", "EXECUTE", "/", {**TOOL, "payload": {"tool": ID, "arguments": {}}})
    yield Row("gateway", "a2a task", "QUERY", f"/a2a-tasks/{ID}")
    yield Row("gateway", "record", "QUERY", f"/cards/{ID}")
    yield over_mcp("front tool", "tools/call", name=ID, arguments={})
    yield over_mcp("tool of one server", "tools/call", "/mcp/files", name=ID, arguments={})
    yield over_mcp("server", "tools/list", f"/mcp/{ID}")
    yield over_mcp("server", "server/discover", f"/mcp/{ID}")
    yield over_mcp("resource", "resources/read", uri=ID)
    yield over_mcp("a2a task", "tasks/get", taskId=ID)
    for method in ("GetTask", "CancelTask", "SubscribeToTask"):
        yield over_a2a("a2a task", method, id=ID)
    yield Row("registry", "agent", "GET", f"/agents/{ID}")
    for path in (f"/v0/servers/{ID}", f"/v0.1/servers/{ID}/versions/latest"):
        yield Row("registry", "server", "GET", path)
    for path in (f"/calls/{ID}", f"/evidence/record?audit_id={ID}", f"/evidence/proof?audit_id={ID}"):
        yield Row("admin", "record", "GET", path)
    for path in (f"/agents/{ID}", f"/can?agent={ID}"):
        yield Row("admin", "agent", "GET", path)
    yield Row("admin", "task", "GET", f"/calls?task_id={ID}")
    yield Row("wellknown", "agent", "GET", f"/.well-known/agtp?agent={ID}")


DOCUMENTS = (
    *(("gateway", f"/.well-known/{name}") for name in ("openapi.json", "api-catalog", "agis.json", "agent-card.json")),
    ("gateway", "/.well-known/openapi"),
    ("wellknown", "/.well-known/agtp"),
    ("a2a", "/agents/assistant/.well-known/agent-card.json"),
    ("registry", "/agents"),
    ("registry", "/v0/servers"),
)
"""Surfaces and paths of documents that list what there is."""

CALLERS = ("nobody", "header", "token of another", "certificate of another")
OWNERS = ("token of the owner", "certificate of the owner")


@dataclass(frozen=True)
class Served:
    """A host, where its surfaces listen, and what its agent has."""

    host: Host
    ports: Mapping[str, int]
    agent_id: str
    things: Mapping[str, str]


def put(value: Any, identifier: str) -> Any:
    """Put an identifier in its place in a part of a request."""
    if isinstance(value, Mapping):
        return {name: put(inner, identifier) for name, inner in value.items()}
    return value.replace(ID, identifier) if isinstance(value, str) else value


def make_things(host: Host, ports: Mapping[str, int], agent_id: str) -> dict[str, str]:
    """Have the owner make one of each thing; return their identifiers."""
    with RawLink(host, context=client_context(host, agent=OWNER)) as link:
        record = link.ask("ECHO", "/text", {"text": "x"}, Session_ID="session-0a1b2c3d4e")
        payload = {"tool": "files.delete_note", "arguments": {"name": "a"}}
        waits = link.ask("EXECUTE", "/", {**TOOL, "payload": payload})
        assert waits.reason == "approval-required", (waits.status, waits.reason, waits.body)
        escalated = link.ask("ESCALATE", "/", {"task_id": "t", "reason": "scope_limit", "context": {}})
        noted = link.ask("NOTIFY", "/", {"recipient": agent_id, "content": {"text": "x"}})
        stopped = link.ask("SUSPEND", "/", {"task_id": "task-0a1b2c3d4e"})
        item = link.ask("REGISTER", "/", {"entity_type": "vault", "data": {"id": "0a1b2c3d4e", "text": "x"}})
        assert (escalated.status, noted.status, stopped.status, item.status) == (202, 202, 200, 200)
    plain_client = client_context(host, identified=False)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"text": "x"}}]}
    begun = request(ports, over_a2a("", "SendMessage", message=message), "", TOKENS[OWNER], plain_client)
    return {
        "agent": agent_id,
        "record": record.audit_id,
        "approval": waits.json()["approval_id"],
        "escalation": escalated.json()["result"]["escalation_id"],
        "notification": noted.json()["result"]["notification_id"],
        "session": "session-0a1b2c3d4e",
        "task": "task-0a1b2c3d4e",
        "workflow": "task-0a1b2c3d4e",
        "item": "vault/0a1b2c3d4e",
        "tool": "files.read_file",
        "front tool": "files__read_file",
        "tool of one server": "read_file",
        "server": "files",
        "resource": "file:///welcome.txt",
        "a2a task": json.loads(begun.body)["result"]["task"]["id"],
    }


def absent(thing: str, identifier: str) -> str:
    """Return an identifier of the same form, and the same length, that names nothing."""
    unknown = {
        "files.read_file": "files.raed_flie",
        "files__read_file": "files__raed_flie",
        "read_file": "raed_flie",
        "files": "flies",
        "file:///welcome.txt": "file:///wlecome.txt",
    }.get(identifier) or strange(identifier)
    assert unknown != identifier and len(unknown) == len(identifier), thing
    return unknown


def request(
    ports: Mapping[str, int],
    row: Row,
    identifier: str,
    token: str | None,
    context: ssl.SSLContext | None = None,
    **more: str,
) -> Reply:
    """Send the request of a row."""
    return ask(
        ports[row.surface],
        row.method,
        put(row.path, identifier),
        put(row.given, identifier),
        token=token,
        context=context,
        **{**put(row.fields, identifier), **more},
    )


def plain(reply: Reply, identifier: str) -> tuple[Any, ...]:
    """Return an answer without identifiers of records, times and signatures."""
    fields = {
        name: re.sub(r"[0-9A-Za-z_-]{16,}|[0-9]+", "#", text.replace(identifier, ID))
        for name, text in reply.fields.items()
    }
    fields = {name: text for name, text in fields.items() if not name.lower().startswith("ratelimit")}
    # The MCP front names ``files__read_file`` as the server does: ``files.read_file``.
    body = reply.body.decode(errors="replace").replace(identifier, ID).replace(identifier.replace("__", "."), ID)
    body = re.sub(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "<time>", body)
    body = re.sub(r"[0-9a-f]{32,}|[0-9a-f]{8}-[0-9a-f-]{27}", "<number>", body)
    return reply.status, tuple(sorted(fields.items())), body


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A production host with every HTTP surface, on which one agent has one of each thing."""
    config = site.made(tmp_path_factory.mktemp("unseen"))
    made = agtp("agent", "new", OTHER, "--scope", "documents:query", "--owner", "Another owner", cwd=config.parent)
    assert made.returncode == 0, made.stdout + made.stderr
    text = re.sub(r"(?m)^port = [0-9]+$", f"port = {free_port()}", config.read_text(), count=1)
    text = text.replace("irreversible = false", "irreversible = true")
    document = json.loads((config.parent / "state" / "agents" / OWNER / "document.json").read_text())
    ports = {name: free_port() for name in SURFACES}
    head = '\n[methods]\nstandard = ["FETCH", "SEARCH", "REGISTER", "CANCEL"]\n'
    limits = "\n[limits]\nrequests_per_minute = 100000\nanonymous_requests_per_minute = 100000\n"
    config.write_text(text + head + limits + SECTIONS.format(agent_id=document["agent_id"], **ports))
    for name, token in TOKENS.items():
        file = config.parent / f"{name}.token"
        file.touch(mode=0o600)
        file.write_text(token)
    # Each answer has a record of its own: which refusals share one depends on how many there were before.
    for name in (
        *("refusal_records_per_address", "refusal_records_of_strangers", "refusal_records_per_agent"),
        *("read_records_per_address", "read_records_of_strangers"),
    ):
        site.amend(config.parent, "audit", f"{name} = 100000")
    with running(config) as host:
        agent_id = agent_of(host, OWNER)  # type: ignore[arg-type]
        yield Served(host, ports, agent_id, make_things(host, ports, agent_id))


def request_as(served: Served, row: Row, identifier: str, who: str) -> Reply:
    """Send the request of a row as one of the callers."""
    agent = OWNER if who in OWNERS else OTHER
    more = {"Agent_ID": served.agent_id, "X_Agent_ID": served.agent_id} if who == "header" else {}
    token = TOKENS[agent] if who.startswith("token") else None
    certified = who.startswith("certificate")
    context = client_context(served.host, agent=agent) if certified else client_context(served.host, identified=False)
    return request(served.ports, row, identifier, token, context, **more)


def ask_twice(served: Served, row: Row, who: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return what a caller is told of what is there, and of what is not."""
    known = served.things[row.thing]
    unknown, there = (plain(request_as(served, row, each, who), each) for each in (absent(row.thing, known), known))
    return there, unknown


def test_no_http_surface_tells_what_is_there(served: Served) -> None:
    """Of every row, for a caller without a credential, one who names the owner, and another agent."""
    found = {}
    for row in rows():
        for who in CALLERS:
            known, unknown = ask_twice(served, row, who)
            if known != unknown:
                found[row.surface, f"{row.method} {row.path} {row.thing} {row.given}", who] = known, unknown
    assert found == {}, "\n".join(f"{place}:\n  {a}\n  {b}" for place, (a, b) in found.items())


def test_no_document_names_what_its_reader_may_not_see(served: Served) -> None:
    """Lists, OpenAPI and AGIS documents and cards name no tool, record or item of the owner to others."""
    private = {name: text for name, text in served.things.items() if name not in ("agent", "server")}
    named, statuses = [], set()
    for surface, path in DOCUMENTS:
        for who in CALLERS:
            reply = request_as(served, Row(surface, "agent", "GET", path), "", who)
            statuses.add((surface, reply.status))
            named += [(surface, path, who, name) for name, text in private.items() if text.encode() in reply.body]
    assert named == []
    assert {surface for surface, status in statuses if status == 200} == {surface for surface, _ in DOCUMENTS}


CONTROLS = ("a2a task", "record", "item", "approval", "escalation", "task", "tool", "front tool", "server")


@pytest.mark.parametrize("thing", CONTROLS)
def test_the_owner_is_told(served: Served, thing: str) -> None:
    """The control: with the owner's token or certificate at least one row of the thing differs."""
    asked = (ask_twice(served, row, who) for row in rows() if row.thing == thing for who in OWNERS)
    assert any(known != unknown for known, unknown in asked)
