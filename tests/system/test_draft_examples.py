"""
The worked examples of core v08 appendices D and G, against a running host.

The bodies are the drafts', octet for octet, but for what the drafts leave open: a delegation's token. The header
fields are the drafts' too, but for what no host can honour: Agent-IDs are canonical (the drafts abbreviate them), and
the reserved Delegation-Chain is left out, which this host answers with 501, and so is agents:delegate, which the
sample's caller does not hold and no grant needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.client.sync import Client
from agtphost.identity.certificates import Authority, issue_client_certificate
from agtphost.testing.identities import key_of
from tests import forking
from tests.adapters.a2a.test_sdk import SCRIPT
from tests.adapters.peers import python
from tests.system.hosting import Host, running, sample

AGTP_JSON = "application/vnd.agtp+json"

ACTION = """
method = "EXECUTE"
path = "/reservations"
action = "reserve-flight"
description = "Reserves a seat on a flight."
errors = []
required_scopes = ["booking:flight"]

[handler]
type = "registered_function"
function = "handlers.flights.reserve"

[semantic]
intent = "Reserve a seat on a flight."
actor = "agent"
outcome = "The seat is taken."
capability = "transaction"
confidence = 0.9
impact = "irreversible"
is_idempotent = false

[input_schema]
type = "object"
additionalProperties = false
required = ["resource_id", "principal_id", "time_slot"]

[input_schema.properties]
resource_id = { type = "string" }
principal_id = { type = "string" }
time_slot = { type = "string", format = "date-time" }
options = { type = "object" }

[output_schema]
type = "object"
required = ["booking_id", "status", "resource_id", "confirmation_code"]
"""

HANDLER = """
runs = 0

def reserve(ctx):
    global runs
    runs += 1
    return {
        "booking_id": f"BK-2026-{runs:04}",
        "status": "confirmed",
        "resource_id": ctx.input["resource_id"],
        "confirmation_code": "XQRT7Y",
    }
"""

MORE = """
[methods]
standard = ["REPLY"]

[notify.people]
usr-cfo = "{cfo}"

[query]
documents = "documents"

[[mcp.server]]
name = "corpus"
command = {command}

[[a2a.agent]]
name = "analyst"
url = "http://127.0.0.1:{upstream}"
scopes = ["documents:query"]
timeout = 10
"""

QUERY = """{
"task_id": "task-0042",
"parameters": {
"intent": "Key arguments against MCP re: HTTP overhead",
"scope": ["documents:research", "knowledge:session"],
"format": "structured",
"confidence_threshold": 0.75
}
}
"""

RESERVE = """{
"method": "EXECUTE",
"task_id": "task-0107",
"parameters": {
"action": "reserve-flight",
"parameters": {
"resource_id": "flight-AA2847",
"principal_id": "usr-chris-hood",
"time_slot": "2026-04-15T08:00:00Z",
"options": {"seat_preference": "aisle", "class": "economy"}
},
"idempotency_key": "trip-2026-04-15-AA2847"
}
}
"""

TOOL = """{
"method": "EXECUTE",
"task_id": "task-0210",
"parameters": {
"action": "mcp.tools.call",
"payload_type": "application/vnd.mcp.tools+json",
"payload": {
"tool": "search_documents",
"arguments": {
"query": "AGTP composition with higher-level frameworks",
"limit": 5
}
}
}
}
"""

ESCALATE = """{
"method": "ESCALATE",
"task_id": "task-0881",
"parameters": {
"task_id": "task-0880",
"reason": "scope_limit",
"context": {
"attempted_action": "EXECUTE",
"resource": "vendor-contract-750k",
"block_reason": "Exceeds agent authorization threshold"
},
"recipient": "usr-cfo",
"deadline": "2026-03-19T09:00:00Z"
}
}
"""

DELEGATE = """{
"method": "DELEGATE",
"task_id": "task-0099",
"parameters": {
"target_agent_id": "agtp://agtp.acme.tld/agents/analyst",
"authority_scope": "documents:query",
"delegation_token": "[signed token]",
"task": {
"a2a_task_id": "a2a-task-7f3a",
"message": "Summarize Q1 financial reports",
"artifacts": []
}
}
}
"""

RESOURCE = """{
"method": "QUERY",
"task_id": "task-0100",
"parameters": {
"intent": "fetch document corpus for Q1 financial analysis",
"scope": ["documents:financial"],
"modality": "mcp.resource",
"mcp_resource_uri": "mcp://corpus/financial/q1-2026"
}
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    edit = [('server_id = "localhost"', 'server_id = "agtp.acme.tld"')]
    config = sample(tmp_path_factory.mktemp("examples"), edit=edit)
    folder = config.parent
    described = json.loads((folder / "agents/librarian.agent.json").read_text())
    (folder / "agents/librarian.agent.json").unlink()
    (folder / "agents/analyst.agent.json").write_text(json.dumps({**described, "name": "analyst"}))
    (folder / "endpoints/flights.toml").write_text(ACTION)
    (folder / "handlers/flights.py").write_text(HANDLER)
    for name, text in (
        ("research/mcp.md", "The key arguments against MCP: HTTP overhead, re: every call."),
        ("private/mcp.md", "Key arguments against MCP re: HTTP overhead, of no research."),
    ):
        (folder / "documents" / name).parent.mkdir(parents=True)
        (folder / "documents" / name).write_text(text)
    with python(SCRIPT, "jsonrpc") as upstream:
        command = json.dumps(forking.mcp_server(Path(__file__).with_name("corpus_server.py")))
        cfo = key_of("usr-cfo").public.fingerprint
        config.write_text(config.read_text() + MORE.format(command=command, upstream=upstream, cfo=cfo))
        with running(config) as found:
            yield found


@pytest.fixture(scope="module")
def client(host: Host) -> Iterator[Client]:
    demo = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as made:
        yield made


def send(
    client: Client, host: Host, method: str, body: str, task_id: str, *, kind: str = AGTP_JSON, scopes: list[str] | None
) -> Any:
    """One example."""
    return client.call(
        host.uri, method, body=body.encode(), content_type=kind, scopes=scopes, task_id=task_id, session_id="sess-1"
    )


def test_the_query_of_appendix_d(host: Host, client: Client) -> None:
    """``scope`` in the form of scope tokens: one of a folder bounds the answer, one of nothing here adds nothing."""
    reply = send(client, host, "QUERY", QUERY, "task-0042", scopes=["documents:query", "knowledge:query"])
    assert reply.status == 200, reply.body
    assert {each["source"] for each in reply.result["results"]} == {"document:research/mcp.md"}
    only = QUERY.replace('"documents:research", ', "")
    assert send(client, host, "QUERY", only, "task-0043", scopes=None).result["results"] == []
    bad = QUERY.replace("documents:research", "no such word")
    assert send(client, host, "QUERY", bad, "task-0044", scopes=None).status == 422


def test_the_flight_of_appendix_d(host: Host, client: Client) -> None:
    """AGTP-333: an action that the operator declares; the same key is the same flight, whatever names the endpoint."""
    scopes = ["booking:*", "calendar:book"]
    first = send(client, host, "EXECUTE", RESERVE, "task-0107", scopes=scopes)
    assert first.status == 200, first.body
    assert (first.result["resource_id"], first.headers.get("task-id")) == ("flight-AA2847", "task-0107")
    again = send(client, host, "EXECUTE", RESERVE, "task-0107", scopes=scopes)
    assert (again.status, again.result) == (200, first.result)
    other = send(client, host, "EXECUTE", RESERVE.replace("trip-", "tour-"), "task-0108", scopes=scopes)
    assert other.result["booking_id"] != first.result["booking_id"]
    another = RESERVE.replace("flight-AA2847", "flight-AA1")
    changed = send(client, host, "EXECUTE", another, "task-0107", scopes=scopes)
    assert (changed.status, changed.json()["reason"]) == (422, "idempotency-key-reused")


def test_the_scope_and_schema_of_an_action_hold(host: Host, client: Client) -> None:
    """Appendix D: "a scope mismatch would return 455"; a missing member is 422, an unknown action runs nothing."""
    short = send(client, host, "EXECUTE", RESERVE, "t-1", scopes=["calendar:book"])
    assert (short.status, short.json()["missing_scopes"]) == (455, ["booking:flight"])
    bad = send(client, host, "EXECUTE", RESERVE.replace("time_slot", "slot"), "t-2", scopes=None)
    assert (bad.status, bad.json()["reason"]) == (422, "invalid-input")
    unknown = RESERVE.replace("reserve-", "steal-")
    refused = send(client, host, "EXECUTE", unknown, "t-3", scopes=None)
    assert (refused.status, refused.json()["reason"]) == (422, "unknown-action")
    assert refused.json()["supported_actions"] == ["reserve-flight"], "AGTP-337: what the caller may use"
    listed = [each["name"] for each in client.call(host.uri, "DISCOVER", "/tools").json()]
    assert [each["name"] for each in refused.json()["supported_tools"]] == listed != []
    assert send(client, host, "EXECUTE", unknown, "t-4", scopes=["calendar:book"]).json()["supported_actions"] == []


def test_an_action_is_listed_for_who_may_call_it(host: Host, client: Client) -> None:
    """Design decision 14: in DISCOVER /methods with its name if and only if callable, and in the manifest."""
    entry = {"method": "EXECUTE", "path": "/reservations", "action": "reserve-flight"}

    def listed(scopes: list[str] | None) -> bool:
        found = client.call(host.uri, "DISCOVER", "/methods", scopes=scopes).result
        return any(entry.items() <= each.items() for each in found)

    assert listed(["booking:*"])
    assert not listed(["calendar:book"])
    shown = client.call(host.uri, "DISCOVER", "/", anonymous=True).json()
    assert any(entry.items() <= each.items() for each in shown["endpoints"])


def test_the_key_counts_on_the_path_of_an_endpoint(host: Host, client: Client) -> None:
    """AGTP-212: ``idempotency_key`` beside the parameters of an EXECUTE that is called by its own path."""
    given = {**json.loads(RESERVE)["parameters"]["parameters"], "idempotency_key": "own-path"}
    first, again = (client.call(host.uri, "EXECUTE", "/reservations", given) for _ in range(2))
    assert first.status == 200, first.body
    assert again.result == first.result
    third = client.call(host.uri, "EXECUTE", "/reservations", {**given, "idempotency_key": "another"})
    assert third.result != first.result


def test_the_key_counts_for_an_a2a_agent(host: Host, client: Client) -> None:
    """AGTP-212: and where EXECUTE ends at another agent: one message, one task."""
    payload = {"agent": "analyst", "message": {"parts": [{"text": "echo"}]}}
    given = {"action": "a2a.message.send", "payload_type": "application/a2a+json", "payload": payload}
    first, again = (client.call(host.uri, "EXECUTE", "/", {**given, "idempotency_key": "k-a2a"}) for _ in range(2))
    assert first.status == 200, first.body
    assert again.result == first.result


def test_the_tool_of_appendix_d(host: Host, client: Client) -> None:
    """An MCP tool by EXECUTE, named by the type of the body as well."""
    kind = "application/vnd.mcp.tools+json"
    reply = send(client, host, "EXECUTE", TOOL, "task-0210", kind=kind, scopes=["mcp:tools:execute", "knowledge:query"])
    assert reply.status == 200, reply.body
    assert reply.headers.get("content-type") == kind
    assert "doc-0042" in json.dumps(reply.result["tool_response"])


def test_the_escalation_of_appendix_d(host: Host, client: Client) -> None:
    """
    AGTP-334: an ESCALATE to a person, 202 with what the draft's answer has; that person sees, answers and decides it.

    Nobody else's certificate does, and a person that is not configured is 404.
    """
    reply = send(client, host, "ESCALATE", ESCALATE, "task-0881", scopes=["booking:*"])
    assert reply.status == 202, reply.body
    wanted = {"routed_to": "usr-cfo", "status": "pending_review", "task_paused": True}
    assert wanted.items() <= reply.result.items()
    assert reply.result["estimated_review_by"] == "2026-03-19T09:00:00Z"
    known = reply.result["escalation_id"]
    unknown = send(client, host, "ESCALATE", ESCALATE.replace("usr-cfo", "no-such-person"), "task-0882", scopes=None)
    assert (unknown.status, unknown.json()["reason"]) == (404, "recipient-unknown")
    with person(host, "somebody") as stranger:
        assert stranger.call(host.uri, "QUERY", "/escalations").result["count"] == 0
        assert stranger.call(host.uri, "CONFIRM", "/", {"target_id": known, "status": "accepted"}).status == 404
        assert stranger.call(host.uri, "REPLY", "/", {"in_reply_to": "task-0881", "content": 1}).status == 401
    with person(host, "usr-cfo") as cfo:
        (listed,) = cfo.call(host.uri, "QUERY", "/escalations").result["escalations"]
        assert (listed["escalation_id"], listed["routed_to"]) == (known, "usr-cfo")
        answered = cfo.call(host.uri, "REPLY", "/", {"in_reply_to": "task-0881", "content": "Ask for 700k."})
        assert (answered.status, answered.result["thread"]) == (200, known)
        confirmed = cfo.call(host.uri, "CONFIRM", "/", {"target_id": known, "status": "rejected", "reason": "No."})
        assert confirmed.status == 200, confirmed.body
    notices = client.call(host.uri, "QUERY", "/notifications").result["notifications"]
    assert [each["content"]["content"] for each in notices if each["topic"] == "reply"] == ["Ask for 700k."]


def person(host: Host, name: str) -> Client:
    """A client with a certificate of the host's authority that names no agent."""
    state = host.state
    authority = Authority.load(state / "ca.pem", state / "ca.key")
    key = key_of(name)
    made = issue_client_certificate(authority, key.public, label=name, organization="x", now=datetime.now(UTC), days=1)
    key.save(state / f"{name}.key")
    (state / f"{name}.pem").write_bytes(made.public_bytes(Encoding.PEM))
    return Client(trust=state / "ca.pem", cert=state / f"{name}.pem", key=state / f"{name}.key")


def test_the_a2a_task_of_appendix_g(host: Host, client: Client) -> None:
    """A task in plain text, for an agent that is named by its URI, under a name of the delegator's own."""
    me = json.loads((host.state / "agents/demo/document.json").read_text())["agent_id"]
    analyst = json.loads((host.state / "hosted/analyst/document.json").read_text())["agent_id"]
    token = host.agtp_json(
        *("delegation", "issue", "--key", str(host.state / "agents/demo/agent.key"), "--from", me),
        *("--to", analyst, "--scope", "documents:query", "--task-id", "task-0099"),
    )["delegation_token"]
    body = DELEGATE.replace("[signed token]", token)
    reply = send(client, host, "DELEGATE", body, "task-0099", scopes=["knowledge:query", "documents:query"])
    assert reply.status == 200, reply.body
    assert reply.result["result"]["task"]["id"]
    far = body.replace("agtp.acme.tld", "agtp.other.tld")
    assert send(client, host, "DELEGATE", far, "task-0098", scopes=None).status == 404


def test_the_resource_of_appendix_g(host: Host, client: Client) -> None:
    """An MCP resource by QUERY."""
    reply = send(client, host, "QUERY", RESOURCE, "task-0100", scopes=None)
    assert reply.status == 200, reply.body
    assert re.search("revenue rose", json.dumps(reply.result))
