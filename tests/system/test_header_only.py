"""
What listens beside AGTP, asked from outside by a client that proves nothing: the HTTP gateway, the MCP front, the A2A
front, the registry and the operators' page, of a production and of a development host.

Each front is configured as openly as it can be: who shows no credential calls in the name of an agent, by a header.
What that agent has stored does not come back; the control is the same request with a token of the agent, or its
certificate. ``tests/dispatch/test_header_only.py`` asks every binding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agtphost.identity.provisioning import provision_development
from tests.attacks import site
from tests.attacks.strikes import agent_of
from tests.system.gateways import Reply, ask
from tests.system.hosting import Host, free_port, running, sample
from tests.system.raw_link import RawLink, client_context

MARK = "zq-kept-qz"
TOKEN = "token-of-the-header-tests-0123456789"

SECTIONS = """
[gateway]
listen = "tcp:{gateway}:interface=127.0.0.1"
agent = "{agent_id}"

[mcp.front]
listen = "tcp:{mcp}:interface=127.0.0.1"
anonymous = "{agent_id}"

[a2a.front]
listen = "tcp:{a2a}:interface=127.0.0.1"
agent_id = "{agent_id}"

[[a2a.front.agent]]
name = "{hosted}"
method = "SEARCH"
path = "/"
input = {{ query = "*", scope = "vault" }}
text = ""

[registry]
listen = "tcp:{registry}:interface=127.0.0.1"

[admin]
listen = "ssl:{admin}:interface=127.0.0.1"

[methods]
standard = ["FETCH", "SEARCH", "SCAN", "FILTER", "REGISTER"]

[[methods.collection]]
name = "vault"
read = []
write = []

[[http.client]]
name = "tests"
token = "file:tests.token"
agent = "{agent_id}"
"""

ENDPOINT = """
method = "QUERY"
path = "/kept"
description = "Tells what is in the vault."
errors = []

[handler]
type = "registered_function"
function = "handlers.kept.kept"

[semantic]
intent = "Know what is in the vault."
actor = "agent"
outcome = "What is in the vault is known."
capability = "retrieval"
confidence = 1.0
impact = "informational"
is_idempotent = true

[input_schema]
type = "object"
additionalProperties = false
properties = {}

[output_schema]
type = "object"
"""
"""An endpoint that gives away what a collection holds, and of which the operator wrote no ``min_assurance``."""

HANDLER = """
async def kept(ctx):
    return await ctx.invoke("SEARCH", "/", {"query": "*"})
"""

SURFACES = ("gateway", "mcp", "a2a", "registry", "admin")

GATEWAY: tuple[tuple[str, str, Mapping[str, Any] | None], ...] = (
    ("SEARCH", "/", {"query": "*"}),
    ("SEARCH", "/", {"query": "*", "scope": "records"}),
    ("SCAN", "/", {"collection": "vault"}),
    ("FETCH", "/", {"resource_id": "vault/v1"}),
    ("FILTER", "/", {"data": "collection:vault", "criteria": {"text": {"exists": True}}}),
    ("QUERY", "/", {"intent": "everything"}),
    ("QUERY", "/kept", None),
    ("QUERY", "/notifications", None),
    ("QUERY", "/escalations", None),
    ("QUERY", "/approvals", None),
    ("QUERY", "/delegations", None),
    ("QUERY", "/cards", None),
    ("DISCOVER", "/contracts", None),
    ("DISCOVER", "/methods", None),
    ("INSPECT", "/", {"target": "records"}),
    ("INSPECT", "/", {"target": "chain", "chain": "host"}),
)


@dataclass(frozen=True)
class Served:
    """A host, and where each surface of it listens."""

    profile: str
    host: Host
    ports: Mapping[str, int]
    agent: str
    agent_id: str
    hosted: str


def _production(folder: Path) -> tuple[Path, str, str]:
    config = site.made(folder)
    config.write_text(re.sub(r"(?m)^port = [0-9]+$", f"port = {free_port()}", config.read_text(), count=1))
    return config, "demo", "assistant"


def _development(folder: Path) -> tuple[Path, str, str]:
    config = sample(folder)
    home = config.parent
    # Records are public in development unless the operator says otherwise: here he does.
    config.write_text(config.read_text() + '\n[audit]\nread_acl = "agent_only"\n')
    provision_development(home / "state", server_id="localhost", hosted=[home / "agents" / "librarian.agent.json"])
    return config, "demo", "librarian"


MADE: Mapping[str, Callable[[Path], tuple[Path, str, str]]] = {
    "production": _production,
    "development": _development,
}


@pytest.fixture(scope="module", params=list(MADE))
def served(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A host of each profile, in which an agent has kept something with its certificate."""
    config, agent, hosted = MADE[request.param](tmp_path_factory.mktemp("header"))
    document = json.loads((config.parent / "state" / "agents" / agent / "document.json").read_text())
    ports = {name: free_port() for name in SURFACES}
    sections = SECTIONS.format(agent_id=document["agent_id"], hosted=hosted, **ports)
    config.write_text(config.read_text() + sections)
    token = config.parent / "tests.token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    (config.parent / "endpoints" / "kept.toml").write_text(ENDPOINT)
    (config.parent / "handlers" / "kept.py").write_text(HANDLER)
    with running(config) as host:
        found = Served(request.param, host, ports, agent, agent_of(host, agent), hosted)  # type: ignore[arg-type]
        with RawLink(host, context=client_context(host, agent=agent)) as link:
            item = {"entity_type": "vault", "data": {"id": "v1", "text": MARK}}
            assert link.ask("REGISTER", "/", item, Task_ID=MARK).status == 200
            note = {"recipient": found.agent_id, "content": {"text": MARK}}
            assert link.ask("NOTIFY", "/", note).status in (200, 202)
            shown = link.ask("SEARCH", "/", {"query": "*", "scope": "records", "limit": 500})
            assert MARK.encode() in shown.body, "the control: its own records, with its certificate"
            assert MARK.encode() in link.ask("QUERY", "/notifications").body
        yield found


def _forged(served: Served) -> dict[str, str]:
    """Fields by which a client says who it is; none of them is a credential."""
    return {"Agent_ID": served.agent_id, "Authority_Scope": "*:*", "X_Agent_ID": served.agent_id}


def test_agtp_shows_nothing_to_a_header(served: Served) -> None:
    """The protocol itself, over a connection without a certificate."""
    with RawLink(served.host, context=client_context(served.host, identified=False)) as link:
        for method, path, given in GATEWAY:
            answer = link.ask(method, path, given, Agent_ID=served.agent_id)
            assert MARK.encode() not in answer.body, (method, path, given)


def test_the_gateway_shows_nothing_to_who_shows_nothing(served: Served) -> None:
    """Its clients without a credential call by a header in the agent's name."""
    port = served.ports["gateway"]
    for method, path, given in GATEWAY:
        for fields in ({}, _forged(served)):
            reply = ask(port, method, path, given, token=None, **fields)
            assert MARK.encode() not in reply.body, (method, path, given)
    control = ask(port, "SEARCH", "/", {"query": "*"}, token=TOKEN)
    assert (control.status, MARK.encode() in control.body) == (200, True)


def _rpc(port: int, path: str, method: str, params: Mapping[str, Any], token: str | None, **fields: str) -> Reply:
    said = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return ask(port, "POST", path, said, token=token, Accept="application/json, text/event-stream", **fields)


def test_the_mcp_front_shows_nothing_to_who_shows_nothing(served: Served) -> None:
    """Each tool that such a client could name, of those that the agent's token lists, and the lists themselves."""
    port = served.ports["mcp"]
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    def asked(method: str, token: str | None, **params: Any) -> Reply:
        named = {"Mcp_Name": params["name"]} if "name" in params else {}
        fields = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method, **named}
        return _rpc(port, "/mcp", method, {**params, "_meta": meta}, token, **fields)

    listed = asked("tools/list", TOKEN)
    names = [tool["name"] for tool in json.loads(listed.body)["result"]["tools"]]
    assert "query_kept" in names
    control = asked("tools/call", TOKEN, name="query_kept", arguments={})
    assert MARK.encode() in control.body, control.body[:800]
    for name in names:
        for arguments in ({"query": "*"}, {"collection": "vault"}, {"resource_id": "vault/v1"}, {}):
            reply = asked("tools/call", None, name=name, arguments=arguments)
            assert MARK.encode() not in reply.body, (name, arguments)
    for method in ("tools/list", "resources/list", "prompts/list"):
        assert MARK.encode() not in asked(method, None).body


def test_the_a2a_front_shows_nothing_to_who_shows_nothing(served: Served) -> None:
    """A message to an agent that searches a collection: for the client that proves nothing it searches none."""
    port, path = served.ports["a2a"], f"/agents/{served.hosted}"

    def sent(token: str | None) -> Reply:
        message = {"messageId": f"m-{token}", "role": "ROLE_USER", "parts": [{"data": {"query": "*"}}]}
        params = {"message": message}
        return _rpc(port, path, "SendMessage", params, token, A2A_Version="1.0")

    control = sent(TOKEN)
    assert MARK.encode() in control.body, control.body[:800]
    refused = sent(None)
    assert MARK.encode() not in refused.body, refused.body[:800]
    for method in ("ListTasks", "GetTask"):
        assert MARK.encode() not in _rpc(port, path, method, {"id": "x"}, None, A2A_Version="1.0").body


def test_the_registry_and_the_page_show_nothing_to_who_shows_nothing(served: Served) -> None:
    """Neither believes a field of a request; the registry knows its clients by token, the page by a link."""
    for name, places in {
        "registry": ("/agents", "/agents?query=zq", f"/agents/{served.agent}", "/v0/servers", "/search?q=zq"),
        "admin": ("/", "/api/records", "/api/inbox", "/feed"),
    }.items():
        context = client_context(served.host, identified=False) if name == "admin" else None
        for place in places:
            for fields in ({}, _forged(served)):
                reply = ask(served.ports[name], "GET", place, token=None, context=context, **fields)
                assert MARK.encode() not in reply.body, (name, place)
                assert reply.status < 500, (name, place, reply.status)
