"""
What a caller gets that names an agent and proves nothing: in every profile, of every binding, what a stranger gets.

Design decision 4. A host keeps something recognizable of every kind for alice. Each binding and each target of INSPECT
has a row with requests; each is made by a caller without a name, by one that sends alice's Agent-ID over AGTP, by one
that a front of this host lets through without proof, and, as the control that there is something to see, by alice with
her certificate. What listens beside AGTP is asked from outside in ``tests/system/test_header_only.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from agtphost.contract.binding import Binding
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.media_types import MCP_TOOLS
from tests.dispatch.header_only_hosts import Ask, Keeping, ask, mark, refusal_of, shown_in, without_ids
from tests.rows import each_row

PROFILES = ("production", "development")
ALL: Mapping[str, Any] = {"query": "*"}
VAULT = "collection:vault"


def _target(target: str, *shows: str, by: str = "agent", **given: Any) -> Ask:
    return ask("INSPECT", "/", {"target": target, **given}, *shows, by=by)


def _own(target: str, *shows: str, **given: str) -> Ask:
    """A target of INSPECT that takes an identifier of what is kept, or alice's own Agent-ID."""

    def made(host: Keeping) -> Mapping[str, Any]:
        known = {**host.kept, "alice": host.alice.agent_id, "desk": host.desk.agent_id}
        return {"target": target, **{name: known[value] for name, value in given.items()}}

    return ask("INSPECT", "/", made, *shows)


TARGETS: Mapping[str, Sequence[Ask]] = {
    "audit": [_own("audit", "task", "session", "path", audit_id="record")],
    "chain_head": [_own("chain_head", agent_id="alice"), _own("chain_head", agent_id="desk")],
    "chain": [
        _own("chain", agent_id="alice"),
        _own("chain", agent_id="desk"),
        _target("chain", chain="host"),
    ],
    "lifecycle": [_own("lifecycle", agent_id="alice")],
    "checkpoint": [_target("checkpoint")],
    "inclusion": [_own("inclusion", audit_id="record")],
    "consistency": [_target("consistency", first=1, second=2)],
    "agents": [_target("agents", by="operator")],
    "backup": [_target("backup")],
    "chains": [_target("chains", by="operator")],
    "contract": [_own("contract", "contract", synthesis_id="contract")],
    "decision": [
        ask("INSPECT", "/", lambda host: {"target": "decision", "agent_id": host.alice.agent_id, "method": "QUERY"})
    ],
    "delegated-task": [_target("delegated-task", "delegation", delegation_id="dlg-1")],
    "endpoint": [_target("endpoint", method="QUERY", path="/silent", by="operator")],
    "feed": [_target("feed", by="operator")],
    "rcns-attempt": [_target("rcns-attempt", attempt_id="none")],
    "records": [_target("records", "task", "session", "path", by="operator", path=f"/shelves/{mark('path')}")],
    "running": [_target("running", by="operator")],
    "sessions": [_target("sessions", "session", by="operator")],
    "tools": [_target("tools", by="operator")],
    "endpoints": [_target("endpoints", by="operator")],
    "upstream-definition": [_target("upstream-definition", upstream="files", name="read_file", by="operator")],
    "upstreams": [_target("upstreams", by="operator")],
    "workflow": [_own("workflow", "workflow", workflow_id="workflow")],
}
"""Every target of INSPECT."""


def _tool_payload(action: str, **payload: Any) -> Mapping[str, Any]:
    return {"action": action, "payload_type": MCP_TOOLS, "payload": payload}


def _parties(host: Keeping) -> Mapping[str, Any]:
    parties = {"from_principal": host.alice.agent_id, "to_principal": host.bob.agent_id}
    return {"resource_id": "board/b1", **parties}


STEP = {"method": "FETCH", "path": "/", "parameters": {"resource_id": "vault/v1"}}
RULE = {"any": [{"text": {"exists": True}}]}

ROWS: Mapping[tuple[str, str], Sequence[Ask]] = {
    # Discovery
    ("DISCOVER", "/"): [ask("DISCOVER"), ask("DISCOVER", "/", {"criteria": "shelf"})],
    ("DISCOVER", "/agents"): [ask("DISCOVER", "/agents")],
    ("DISCOVER", "/genesis"): [ask("DISCOVER", "/genesis")],
    ("DISCOVER", "/methods"): [ask("DISCOVER", "/methods")],
    ("DISCOVER", "/tools"): [ask("DISCOVER", "/tools")],
    ("DISCOVER", "/apis"): [ask("DISCOVER", "/apis")],
    ("DISCOVER", "/patterns"): [ask("DISCOVER", "/patterns")],
    ("DISCOVER", "/contracts"): [ask("DISCOVER", "/contracts", {}, "contract")],
    ("DESCRIBE", "/"): [ask("DESCRIBE"), ask("DESCRIBE", "/", {"capabilities": ["tools", "methods"]})],
    ("DESCRIBE", "/agents"): [ask("DESCRIBE", "/agents")],
    ("QUERY", "/agents"): [ask("QUERY", "/agents")],
    ("DESCRIBE", "/agents/{name}"): [ask("DESCRIBE", "/agents/desk"), ask("DESCRIBE", "/agents/alice")],
    ("DESCRIBE", "/agents/{name}/status"): [ask("DESCRIBE", "/agents/desk/status")],
    ("FETCH", "/agents"): [ask("FETCH", "/agents")],
    ("FETCH", "/agents/{name}"): [ask("FETCH", "/agents/desk")],
    ("FETCH", "/agents/{name}/status"): [ask("FETCH", "/agents/desk/status")],
    ("INSPECT", "/"): [each for asks in TARGETS.values() for each in asks],
    # Lifecycle
    **{
        (method, "/"): [ask(method, "/", lambda host: {"agent_id": host.alice.agent_id, "reason": "x"})]
        for method in ("ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE")
    },
    # Carried
    ("EXECUTE", "/"): [
        ask("EXECUTE", "/", _tool_payload("mcp.tools.list")),
        ask("EXECUTE", "/", _tool_payload("mcp.tools.call", tool="files.read_file")),
        ask("EXECUTE", "/", _tool_payload("mcp.tools.call", tool="files.nothing")),
    ],
    ("EXECUTE", "/mcp/{server}"): [
        ask("EXECUTE", "/mcp/files", _tool_payload("mcp.tools.call", tool="files.read_file"))
    ],
    # Negotiation
    ("PROPOSE", "/"): [ask("PROPOSE", "/", {"method": "QUERY", "path": "/x"})],
    ("QUERY", "/proposals"): [ask("QUERY", "/proposals")],
    ("QUERY", "/proposals/{proposal_id}"): [ask("QUERY", "/proposals/none")],
    ("CONFIRM", "/proposals/{proposal_id}"): [ask("CONFIRM", "/proposals/none", {"decision": "approve"})],
    # The floor
    ("QUERY", "/"): [
        ask("QUERY", "/", {"intent": "shelf"}),
        ask("QUERY", "/", {"intent": "x", "modality": "mcp.resource", "mcp_resource_uri": "file:///x"}),
    ],
    ("SUMMARIZE", "/"): [ask("SUMMARIZE", "/", {"source": "One sentence. Another one."})],
    ("PLAN", "/"): [ask("PLAN", "/", {"goal": "know what is on a shelf"})],
    ("ESCALATE", "/"): [
        ask("ESCALATE", "/", {"task_id": "t-esc", "reason": "scope_limit", "context": {"text": "none"}})
    ],
    ("QUERY", "/escalations"): [ask("QUERY", "/escalations", {}, "escalation")],
    ("QUERY", "/approvals"): [ask("QUERY", "/approvals", {}, "approval")],
    ("CONFIRM", "/"): [
        ask("CONFIRM", "/", lambda host: {"target_id": host.kept["approval"], "status": "accepted"}),
        ask("CONFIRM", "/", lambda host: {"target_id": host.kept["record"], "status": "accepted"}),
    ],
    ("SUSPEND", "/"): [ask("SUSPEND", "/", {"session_id": "s-none"})],
    ("RESUME", "/"): [
        ask("RESUME", "/", {"session_id": "s-held", "resumption_nonce": "x"}),
        ask("RESUME", "/", {"workflow_id": "wf-none"}),
    ],
    ("NOTIFY", "/"): [ask("NOTIFY", "/", {"recipient": "desk", "content": "hello"})],
    ("QUERY", "/notifications"): [ask("QUERY", "/notifications", {}, "notification")],
    ("DELEGATE", "/"): [
        ask("DELEGATE", "/", {"target_agent_id": "desk", "task": {"method": "QUERY", "path": "/public"}})
    ],
    ("QUERY", "/delegations"): [ask("QUERY", "/delegations")],
    ("QUOTE", "/"): [ask("QUOTE", "/", {"method": "QUERY", "parameters": {}})],
    ("QUERY", "/workflows"): [ask("QUERY", "/workflows")],
    ("QUERY", "/monitors"): [ask("QUERY", "/monitors")],
    ("AUTHORIZE", "/grants"): [ask("AUTHORIZE", "/grants", {"subject": "alice", "resource": "x", "scope": "call"})],
    ("REVOKE", "/grants"): [ask("REVOKE", "/grants", {"subject": "carol"})],
    ("QUERY", "/grants"): [
        ask("QUERY", "/grants", {}, "grant", whose="carol", by="operator"),
        ask("QUERY", "/grants", {"agent": "carol"}, "grant", whose="carol", by="operator"),
    ],
    ("CONFIRM", "/verifications"): [ask("CONFIRM", "/verifications", {"up_to": 1})],
    ("QUERY", "/verifications"): [ask("QUERY", "/verifications")],
    # Registry
    ("QUERY", "/cards"): [ask("QUERY", "/cards", {}, "card")],
    ("QUERY", "/cards/{id}"): [ask("QUERY", "/cards/alice:own", {}, "card")],
    ("FIND", "/cards"): [ask("FIND", "/cards", {"query": "translation", "include_metadata": True}, "card")],
    ("REGISTER", "/cards"): [ask("REGISTER", "/cards", {"card": {"id": "alice:own"}})],
    ("RENEW", "/cards/{id}"): [ask("RENEW", "/cards/alice:own")],
    ("WITHDRAW", "/cards/{id}"): [ask("WITHDRAW", "/cards/alice:other")],
    ("APPROVE", "/cards/{id}"): [ask("APPROVE", "/cards/alice:own")],
    ("EXECUTE", "/cards/{id}"): [ask("EXECUTE", "/cards/alice:other", {"input": {}})],
    ("QUERY", "/mcp-servers"): [ask("QUERY", "/mcp-servers")],
    ("QUERY", "/mcp-servers/{name}"): [ask("QUERY", "/mcp-servers/x")],
    ("QUERY", "/mcp-servers/{name}/{version}"): [ask("QUERY", "/mcp-servers/x/latest")],
    # Standard methods that read
    ("FETCH", "/"): [
        ask("FETCH", "/", {"resource_id": "vault/v1"}, "item", "binding"),
        ask("FETCH", "/", {"resource_id": "board/b1"}, "item"),
        ask("FETCH", "/", {"resource_id": "/agents/desk"}),
    ],
    ("SEARCH", "/"): [
        ask("SEARCH", "/", ALL, "item", "job"),
        ask("SEARCH", "/", {**ALL, "scope": "vault"}, "item"),
        ask("SEARCH", "/", {**ALL, "scope": "records", "limit": 500}, "task", "session", "path"),
        ask("SEARCH", "/", {**ALL, "scope": "relations"}, "relation"),
        ask("SEARCH", "/", {**ALL, "scope": ["bindings"]}, "binding"),
        ask("SEARCH", "/", {**ALL, "scope": ["cards"]}, "card"),
    ],
    ("SCAN", "/"): [
        ask("SCAN", "/", {"collection": "vault"}, "item"),
        ask("SCAN", "/", {"collection": "board"}, "item"),
        ask("SCAN", "/", {"collection": "relations"}, "relation"),
        ask("SCAN", "/", {"collection": "agents"}),
    ],
    ("FIND", "/"): [ask("FIND", "/", {"criteria": "translation"})],
    ("FILTER", "/"): [
        ask("FILTER", "/", {"data": VAULT, "criteria": {"text": {"exists": True}}}, "item"),
        ask("FILTER", "/", {"data": "collection:board", "criteria": {"text": {"exists": True}}}, "item"),
    ],
    ("ANALYZE", "/"): [ask("ANALYZE", "/", {"target": VAULT})],
    ("VALIDATE", "/"): [ask("VALIDATE", "/", {"target": VAULT, "schema": {"type": "array"}})],
    ("TRANSFORM", "/"): [ask("TRANSFORM", "/", {"source": VAULT, "target_format": "jsonl"})],
    ("NORMALIZE", "/"): [ask("NORMALIZE", "/", {"data": VAULT, "type": "date"})],
    ("RANK", "/"): [ask("RANK", "/", {"items": [{"text": "a"}], "criterion": "text"})],
    ("CALCULATE", "/"): [ask("CALCULATE", "/", {"expression": {"op": "negate", "args": [1]}, "inputs": {}})],
    ("EVALUATE", "/"): [ask("EVALUATE", "/", {"target": VAULT, "criteria": [{"name": "c", "meets": {"text": "zq"}}]})],
    ("GENERATE", "/"): [ask("GENERATE", "/", {"output_type": "text", "source": VAULT})],
    ("MAP", "/"): [ask("MAP", "/", {"source_schema": {"properties": {}}, "target_schema": {"properties": {}}})],
    ("CHECK", "/"): [ask("CHECK", "/", {"target": "host"})],
    # Standard methods that change something
    ("PULL", "/"): [ask("PULL", "/", {"source": "jobs"}, "job")],
    ("REGISTER", "/"): [ask("REGISTER", "/", {"entity_type": "vault", "data": {"id": "v1", "text": "x"}})],
    ("SUBMIT", "/"): [ask("SUBMIT", "/", {"target": "jobs", "payload": {}})],
    ("AUTHORIZE", "/"): [ask("AUTHORIZE", "/", {"subject": "bob", "resource": "QUERY /silent", "scope": "x:y"})],
    ("CANCEL", "/"): [
        ask("CANCEL", "/", {"target_id": "vault/v2"}),
        ask("CANCEL", "/", lambda host: {"target_id": host.kept["publication"]}),
    ],
    ("TRANSFER", "/"): [ask("TRANSFER", "/", _parties)],
    ("SIGN", "/"): [ask("SIGN", "/", {"payload": "x"})],
    ("LOG", "/"): [ask("LOG", "/", {"event_type": "x", "data": {}})],
    ("PUBLISH", "/"): [ask("PUBLISH", "/", {"content": {}, "channel": "board"})],
    ("MERGE", "/"): [ask("MERGE", "/", {"sources": [VAULT, VAULT]}, "item")],
    ("LINK", "/"): [ask("LINK", "/", {"source": "vault/v1", "target": "vault/v2", "relationship": "x"})],
    ("SYNC", "/"): [ask("SYNC", "/", {"resource": "board", "remote": "none"})],
    ("IMPORT", "/"): [ask("IMPORT", "/", {"target": "board", "source": [{"id": "b1", "text": "x"}]})],
    ("CONNECT", "/"): [ask("CONNECT", "/", {"source": "x", "destination": "y"})],
    ("EMBED", "/"): [ask("EMBED", "/", {"source": "vault/v1", "target": "vault/v2"})],
    ("ALERT", "/"): [ask("ALERT", "/", {"recipient": "desk", "message": "x", "severity": "info"})],
    ("BROADCAST", "/"): [ask("BROADCAST", "/", {"audience": ["desk"], "content": "x"})],
    ("REPLY", "/"): [ask("REPLY", "/", {"in_reply_to": mark("task"), "content": "x"})],
    ("SEND", "/"): [ask("SEND", "/", {"recipient": "desk", "channel": "agtp", "content": "x"})],
    ("REPORT", "/"): [
        ask("REPORT", "/", {"report_type": "x", "scope": "records", "recipient": "desk", "format": "json"}),
        ask("REPORT", "/", {"report_type": "x", "scope": {"collection": "vault"}, "recipient": "desk"}),
    ],
    ("CHAIN", "/"): [ask("CHAIN", "/", {"steps": [STEP]}, "item")],
    ("BATCH", "/"): [ask("BATCH", "/", {"calls": [STEP]}, "item")],
    ("MONITOR", "/"): [ask("MONITOR", "/", {"target": "own", "events": ["workflow"], "callback": "inbox"})],
    ("ROUTE", "/"): [
        ask("ROUTE", "/", {"payload": {}, "criteria": {"method": "QUERY"}, "candidates": ["QUERY /public"]})
    ],
    ("RETRY", "/"): [ask("RETRY", "/", {"original_task_id": "t-failed"})],
    ("PAUSE", "/"): [ask("PAUSE", "/", lambda host: {"workflow_id": host.kept["workflow"]})],
    # The operator's own
    ("QUERY", "/silent"): [ask("QUERY", "/silent")],
    ("QUERY", "/opened"): [ask("QUERY", "/opened")],
    ("QUERY", "/public"): [ask("QUERY", "/public")],
    ("QUERY", "/guarded"): [ask("QUERY", "/guarded")],
    ("BOOK", "/approved"): [ask("BOOK", "/approved", {"value": "x"})],
    ("QUERY", "/failing"): [ask("QUERY", "/failing", {"value": "x"})],
    ("QUERY", "/shelves/{name}"): [ask("QUERY", "/shelves/a")],
}
"""What each binding is asked."""


@cache
def host_of(profile: str, *, opened: bool = True) -> Keeping:
    """Return a host that keeps something of every kind; see :class:`Keeping`."""
    host = Keeping(profile, opened=opened)
    host.keep()
    return host


def bindings_of(profile: str) -> list[Binding]:
    """Return everything that can be called at such a host."""
    return list(host_of(profile).core.services.registry.admitted_bindings())


@pytest.mark.parametrize("profile", PROFILES)
def test_every_binding_and_every_target_has_a_row(profile: str) -> None:
    """A binding or a target of INSPECT that is new is asked, or this fails."""
    places = {(each.method, each.path) for each in bindings_of(profile) if not each.absent}
    assert places - ROWS.keys() == set(), "without a row"
    assert ROWS.keys() - places == set(), "rows of nothing"
    inspection: Any = next(each.handler for each in bindings_of(profile) if each.method == "INSPECT")
    targets = {*inspection._targets, *host_of(profile).core.services.registry.targets}
    assert targets == set(TARGETS)


def each_request() -> Iterator[tuple[str, str, Ask]]:
    """Every request, by profile and binding."""
    for profile in PROFILES:
        for (method, path), asks in ROWS.items():
            for number, each in enumerate(asks):
                yield profile, f"{method} {path} {number}", each


@each_row(("profile", "name", "each"), each_request)
def test_a_header_shows_nothing_that_is_stored(profile: str, name: str, each: Ask) -> None:
    """No mark is in an answer to a caller that proves nothing, and the control sees each that is to be seen."""
    host = host_of(profile)
    for who in ("nobody", "header", "front"):
        response = host.send(each, who)
        assert shown_in(response.body) == set(), (who, response.body[:2_000])
    if each.shows:
        control = host.send(each, "certificate")
        assert shown_in(control.body) >= each.shows, control.body[:2_000]


NAMED_APART = {("DISCOVER", "/")}
"""
What a request names, and not who asks: DISCOVER of a request with an Agent-ID is the directory of the built-in
documents, without one it is the manifest (design decision 5). Each of them is open to everybody.
"""


LISTING = {("DISCOVER", "/methods"), ("QUERY", "/cards"), ("FIND", "/cards"), ("INSPECT", "/"), ("QUERY", "/guarded")}
"""What in development lists, shows or lets call what a header suffices for there; nothing of it is stored for alice."""


@each_row(("profile", "name", "each"), each_request)
def test_a_header_is_answered_as_no_name_is(profile: str, name: str, each: Ask) -> None:
    """
    Where a caller without a name is answered, the body is the same but for identifiers; where it is refused, so is a
    header in production, for the same reason. The operator opened nothing here.
    """
    host = host_of(profile, opened=False)
    bindings = {f"{each.method} {each.path}": each for each in host.core.services.registry.admitted_bindings()}
    binding = bindings.get(name.rpartition(" ")[0])
    if binding is None:
        assert name.startswith("QUERY /opened ")
        return
    said, unsaid = host.send(each, "header"), host.send(each, "nobody")
    least, place = binding.min_assurance, (binding.method, binding.path)
    if place == ("DELEGATE", "/"):
        assert said.status in (401, 422, 501, 551), "without a token that proves the delegator nothing is done"
    elif place == ("DISCOVER", "/methods"):
        shown, open_to_all = ({(e["method"], e["path"]) for e in json.loads(r.body)} for r in (said, unsaid))
        assert open_to_all <= shown and (profile == "development" or shown - open_to_all <= {("DELEGATE", "/")})
    elif place in NAMED_APART or (profile == "development" and place in LISTING):
        assert said.status in (200, unsaid.status)
    elif least is Assurance.NONE and (profile == "production" or not binding.state_changing):
        assert (said.status, without_ids(said)) == (unsaid.status, without_ids(unsaid))
    elif profile == "production":
        assert (said.status, refusal_of(said)) == (unsaid.status, refusal_of(unsaid)) == (401, "agent-unauthenticated")


@pytest.mark.parametrize("profile", PROFILES)
def test_what_the_operator_did_not_open_is_closed(profile: str) -> None:
    """In production no binding is open to a header for which the operator wrote none."""
    open_to_headers = {each.path for each in bindings_of(profile) if each.min_assurance is Assurance.HEADER}
    if profile == "production":
        assert open_to_headers == {"/opened", "/"}
        assert [
            each.method for each in bindings_of(profile) if each.min_assurance is Assurance.HEADER and each.path == "/"
        ] == ["DELEGATE"], "whose token proves the delegator; its host connects with a certificate of its own"
    host = host_of(profile)
    assert host.send(ask("QUERY", "/opened"), "header").status == 200
    assert host.send(ask("QUERY", "/silent"), "header").status == (401 if profile == "production" else 200)
    for path in ("/public", "/guarded"):
        said, unsaid = (host.send(ask("QUERY", path), who) for who in ("header", "nobody"))
        if profile == "production" or path == "/public":
            assert (said.status, without_ids(said)) == (unsaid.status, without_ids(unsaid))
    assert b'"alice"' in host.send(ask("QUERY", "/public"), "certificate").body
