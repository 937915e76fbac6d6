"""Calls that are judged with the rights of an agent: only an administrator makes them, and only of tools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from agtphost.dispatch.exchange import Exchange
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.log_context import CALL as CURRENT_CALL
from agtphost.handlers.log_context import Call
from agtphost.identity.peer import Assurance, Peer, PeerCertificate
from agtphost.page.person_client import PageReply, reply_of
from agtphost.testing import MemoryHost
from agtphost.testing.identities import key_of
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire.events import Request
from agtphost.wire.headers import Headers

CALL = {"action": "mcp.tools.call", "payload_type": media_types.MCP_TOOLS, "payload": {"tool": "files.none"}}


@pytest.fixture
def host() -> MemoryHost:
    """A server that never answers, an administrator, a viewer, an agent that may call tools, and one that may not."""
    made = MemoryHost(
        {
            "audit": {"operators": [key_of(name).public.fingerprint for name in ("olga", "both")]},
            "admin": {"viewers": [key_of("viewer").public.fingerprint]},
            "mcp": {"server": [{"name": "files", "command": ["/bin/false"], "cwd": "/"}]},
            "limits": {"requests_per_minute": 5, "rate_burst": 30},
        }
    )
    made.endpoint("EXECUTE", "/own", lambda context: {"done": True}, action="own", required_scopes=[])
    made.agent("demo", scopes=["mcp:tools:execute"])
    made.agent("poor", scopes=["calendar:read"])
    made.agent("both", scopes=["mcp:tools:execute"])
    return made


def certificate(host: MemoryHost, name: str) -> PeerCertificate:
    return host.identities.of_key(key_of(name), name)


def id_of(host: MemoryHost, name: str) -> str:
    agent = next(each for each in host.directory.list_known() if each.name == name)
    return agent.agent_id


def ask(
    host: MemoryHost,
    peer: Peer,
    given: Any = CALL,
    method: str = "EXECUTE",
    path: str = "/",
    *fields: tuple[str, str],
) -> PageReply:
    request = Request(
        method=method,
        path=path,
        headers=Headers([("Content-Type", media_types.AGTP_JSON), *fields]),
        body=jsontext.encode({"method": method, "parameters": given}),
        line=f"AGTP/1.0 {method} {path}\r\n".encode(),
    )
    found: list[Any] = []
    Deferred.fromCoroutine(host.dispatcher.dispatch(request, peer)).addBoth(found.append)
    host.clock.settle()
    assert found, "the call was not answered"
    return reply_of(found[0])


def trial(host: MemoryHost, operator: str, agent: str = "demo", **more: Any) -> Peer:
    shown = more.pop("certificate", certificate(host, operator))
    return Peer(address="192.0.2.1", transport="http", certificate=shown, rights_of=id_of(host, agent), **more)


def record_of(host: MemoryHost, reply: PageReply) -> dict[str, Any]:
    shown = host.call("INSPECT", "/", {"target": "audit", "audit_id": reply.audit_id}, caller=certificate(host, "olga"))
    payload = shown.result["payload"]
    assert isinstance(payload, dict)
    return payload


def test_a_trial_passes_the_gates_as_its_agent(host: MemoryHost) -> None:
    """As far as that agent's own call does, to the server that is down; without the scope it is refused before."""
    passed = ask(host, trial(host, "olga"))
    assert passed.reason == "upstream-down", passed.document
    payload = record_of(host, passed)
    assert (
        payload["caller_id"] == ""
        and payload["operator"]["name"] == f"administrator-{key_of('olga').public.fingerprint[:8]}"
    )
    assert payload["extra"]["trial"]["rights_of"] == id_of(host, "demo")
    refused = ask(host, trial(host, "olga", "poor"))
    assert (refused.status, refused.reason) == (455, "scope-required"), refused.document


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("viewer", "operators-only"),
        ("stranger", "operators-only"),
        ("no certificate", "operators-only"),
        ("an operator's agent", "not-entitled"),
        ("with Agent-ID", "not-entitled"),
        ("an inner call", "not-entitled"),
        ("another method", "not-entitled"),
        ("another path", "not-entitled"),
        ("the operator's own action", "not-entitled"),
        ("another action of MCP", "not-entitled"),
        ("an approval", "not-entitled"),
        ("an unknown agent", "agent-unauthenticated"),
        ("an expired certificate", "agent-unauthenticated"),
    ],
)
def test_other_calls_with_the_rights_of_an_agent_are_refused(host: MemoryHost, case: str, reason: str) -> None:
    """Whoever makes it, whatever it is for: the refusal is on record, and nothing was called."""
    peer, given, method, path, fields = trial(host, "olga"), dict(CALL), "EXECUTE", "/", []
    if case in ("viewer", "stranger"):
        peer = trial(host, case)
    elif case == "no certificate":
        peer = trial(host, "olga", certificate=None)
    elif case == "an operator's agent":
        peer = trial(host, "olga", certificate=replace(certificate(host, "both"), agent_id=id_of(host, "both")))
    elif case == "with Agent-ID":
        fields = [("Agent-ID", id_of(host, "demo"))]
    elif case == "an inner call":
        peer = trial(host, "olga", depth=1)
    elif case == "another method":
        method, given = "QUERY", {"modality": "mcp.resource", "mcp_server": "files", "mcp_resource_uri": "x:y"}
    elif case == "another path":
        path = "/mcp/files"
    elif case == "the operator's own action":
        given = {"action": "own"}
    elif case == "another action of MCP":
        given = {**CALL, "action": "mcp.resources.read", "payload": {"server": "files", "uri": "x:y"}}
    elif case == "an approval":
        given = {**CALL, "action": "mcp.tools.approve", "payload": {"tool": "files.none", "sha256": "0" * 64}}
    elif case == "an unknown agent":
        peer.rights_of = "0" * 64
    else:
        shown = certificate(host, "olga")
        peer = trial(host, "olga", certificate=replace(shown, not_after=shown.not_before))
    reply = ask(host, peer, given, method, path, *fields)
    assert reply.reason == reason, reply.document


def test_a_trial_of_an_undeclared_action_names_none_that_cannot_be_tried(host: MemoryHost) -> None:
    """The operator's own action, which the agent itself is shown, cannot be tried."""
    named = ask(host, trial(host, "olga"), {"action": "none"})
    assert (named.reason, named.document["supported_actions"]) == ("unknown-action", []), named.document
    demo = replace(certificate(host, "demo"), agent_id=id_of(host, "demo"))
    document = host.call("EXECUTE", "/", {"action": "none"}, caller=demo).document
    assert document["supported_actions"] == ["own"], document


def test_no_part_of_a_request_makes_it_a_trial(host: MemoryHost) -> None:
    """What an operator or an agent sends over the wire is judged with its own rights."""
    named = {"rights_of": id_of(host, "demo")}
    for caller in (certificate(host, "olga"), None):
        fields = {"Rights-Of": id_of(host, "demo")}
        assert host.call("EXECUTE", "/", CALL, caller=caller, headers=fields).status == 401
        assert host.call("EXECUTE", "/", {**CALL, **named}, caller=caller).status >= 400


def test_a_trial_uses_up_the_operators_rate_and_not_the_agents(host: MemoryHost) -> None:
    """After more trials than an agent may make in a minute, the agent itself still may."""
    shown = certificate(host, "olga")
    reasons = [ask(host, trial(host, "olga", certificate=shown)).reason for _ in range(20)]
    assert "rate-limited" in reasons
    demo = next(each for each in host.directory.list_known() if each.name == "demo")
    own = Peer(address="192.0.2.2", certificate=replace(certificate(host, "demo"), agent_id=demo.agent_id))
    assert ask(host, own, CALL, "EXECUTE", "/", ("Agent-ID", demo.agent_id)).reason != "rate-limited"


def test_a_trial_uses_no_state_of_the_agent(host: MemoryHost) -> None:
    """For the host's own methods, too, its owner is no agent; without the trial it is the agent itself."""
    demo = host.directory.by_id(id_of(host, "demo"))
    assert demo is not None
    certified = {"caller": demo, "assurance": Assurance.CERTIFICATE, "method": "EXECUTE", "path": "/", "input": {}}
    peer = Peer(address="", certificate=certificate(host, "olga"))
    trying = replace(peer, rights_of=demo.agent_id)
    assert BuiltInContext(**certified, peer=peer).owner == demo.agent_id
    tried = BuiltInContext(**certified, peer=trying).owner
    assert tried and tried not in {each.agent_id for each in host.directory.list_known()}
    request = Request(method="EXECUTE", path="/", query="", headers=Headers([]), body=b"", line=b"EXECUTE / AGTP/1.0")
    owners = [
        Exchange(request=request, peer=each, now=0.0, caller=demo, assurance=Assurance.CERTIFICATE).owner
        for each in (peer, trying)
    ]
    assert owners == [demo.agent_id, tried]


def test_log_lines_of_a_trial_name_the_operator_and_not_the_agent(host: MemoryHost) -> None:
    """Who calls is a member of each line for programs, so it is a name: the operator's, and no sentence."""
    calls: list[Call | None] = []
    host.core.services.evidence.ledger.watch(lambda _: calls.append(CURRENT_CALL.get()))
    ask(host, trial(host, "olga"))
    (call,) = calls
    assert call is not None
    assert call.operator == f"administrator-{key_of('olga').public.fingerprint[:8]}"
    assert (call.caller, call.agent_id) == ("", "")
    assert call.text.startswith(f"the operator {call.operator}, with the rights of demo, called files.none, Audit-ID ")
