"""The gates' order, gate by gate: P19, security invariant 6."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from agtphost.audit.lifecycle import LifecycleStatus
from agtphost.contract.policy import MethodPolicy
from agtphost.iagtp import IAgentDirectory, IDispatcher, IGate, ILedger
from agtphost.identity.peer import Peer
from agtphost.vocabulary import jsontext, media_types, yamltext
from tests.dispatch.hosts import CALLER, STRANGER, DispatchHost, certificate, document
from tests.fakes import Mine
from tests.rows import each_row

ORDER = [
    "framing",
    "connection identity",
    "caller and lifecycle",
    "rate",
    "addressee and lifecycle",
    "authorization by another agent",
    "reserved headers",
    "alias",
    "contract presentation",
    "catalog",
    "path grammar",
    "method policy",
    "endpoint",
    "anonymous",
    "claimed scopes",
    "required scopes and assurance",
    "body",
    "parameters",
    "action",
    "scopes and assurance of the action",
    "merchant",
    "session",
    "schema",
    "approval",
    "idempotency",
    "store",
]

GOOD: dict[str, Any] = {"body": {"text": "x"}}


def peer(**changes: Any) -> Peer:
    return Peer(address="127.0.0.1", certificate=certificate(**changes))


def expired_peer() -> Peer:
    return peer(not_after=datetime.now(UTC) - timedelta(seconds=1))


FAILURES: list[tuple[str, int, str, dict[str, Any]]] = [
    ("framing", 400, "invalid-agent-id", {"headers": {"Agent-ID": "A" * 64}}),
    ("framing", 400, "invalid-identifier", {"headers": {"Task-ID": "x" * 129}}),
    ("connection identity", 401, "agent-unauthenticated", {"headers": {"Agent-ID": STRANGER}}),
    ("connection identity", 401, "agent-unauthenticated", {"peer": expired_peer()}),
    ("connection identity", 401, "agent-unauthenticated", {"peer": peer(malformed="trust-tier is 9")}),
    ("caller and lifecycle", 401, "agent-unauthenticated", {"peer": peer(agent_id=STRANGER)}),
    ("addressee and lifecycle", 404, "agent-not-hosted", {"path": "/agents/nobody/desk"}),
    (
        "authorization by another agent",
        551,
        "delegation-token-invalid",
        {"headers": {"Delegation-Token": "x"}, "peer": peer()},
    ),
    ("reserved headers", 501, "delegation-not-supported", {"headers": {"Delegation-Chain": "x"}}),
    ("catalog", 459, "method-violation", {"method": "FROBNICATE"}),
    ("path grammar", 460, "endpoint-violation", {"path": "/book/desk"}),
    ("endpoint", 404, "not-found", {"path": "/nowhere"}),
    ("endpoint", 405, "method-not-allowed", {"method": "CANCEL"}),
    ("anonymous", 401, "agent-unauthenticated", {"peer": Peer(address="127.0.0.1")}),
    ("claimed scopes", 262, "scope-claim-invalid", {"headers": {"Authority-Scope": "payments:purchase"}}),
    ("claimed scopes", 400, "invalid-authority-scope", {"headers": {"Authority-Scope": "NONSENSE"}}),
    (
        "claimed scopes",
        455,
        "scope-commitment-exceeded",
        {"peer": peer(commitment=frozenset({"documents:query"})), "headers": {"Authority-Scope": "booking:desk"}},
    ),
    ("required scopes and assurance", 262, "scope-required", {"headers": {"Authority-Scope": "documents:query"}}),
    (
        "required scopes and assurance",
        401,
        "agent-unauthenticated",
        {"peer": Peer(address="127.0.0.1"), "headers": {"Agent-ID": CALLER}},
    ),
    ("body", 400, "malformed-body", {"body": b"{"}),
    ("body", 400, "invalid-query", {"query": "a=%zz"}),
    ("schema", 422, "invalid-input", {"body": {"text": 1}}),
]


def test_the_order_is_the_design_decision() -> None:
    """The tuple of gates is the published order, and each is an IGate."""
    host = DispatchHost()
    assert [gate.name for gate in host.gates] == ORDER
    assert all(verifyObject(IGate, gate) for gate in host.gates)
    assert verifyObject(ILedger, host.ledger)
    assert verifyObject(IAgentDirectory, host.directory)
    assert verifyObject(IDispatcher, host.dispatcher)


@each_row(("gate", "status", "reason", "request_"), FAILURES, ids=lambda value: str(value)[:40])
def test_each_gate_ends_the_exchange_before_every_later_one(
    gate: str, status: int, reason: str, request_: dict[str, Any]
) -> None:
    """With all later gates mined, the refusal is the gate's own; it is sealed once and no handler ran."""
    host = DispatchHost()
    at = ORDER.index(gate)
    mined: list[IGate] = [*host.gates[: at + 1], *(Mine(name) for name in ORDER[at + 1 :])]
    host.rewire(mined)
    response = host.ask(**{**GOOD, **request_})
    body = document(response)
    assert (response.status, body["reason"]) == (status, reason)
    assert body["explanation"]
    assert body["type"] == body["code"] == reason
    assert body["error"] == {"code": reason, "message": body["explanation"]}
    assert not host.recorder.calls
    assert len(host.ledger.drafts) == 1
    assert host.ledger.drafts[0].payload["reason"] == reason


def test_the_store_gate_is_the_last() -> None:
    """A store that is known bad is 503 before the handler, with a record outside every chain."""
    host = DispatchHost()
    host.ledger.healthy = False
    host.ledger.failing = True
    response = host.ask(**GOOD)
    assert (response.status, document(response)["reason"]) == (503, "store-unavailable")
    assert not host.recorder.calls
    assert len(host.ledger.undurable) == 1


def test_the_policy_gate_refuses_and_its_redirects_do_not_go_round_it() -> None:
    """API-087, API-092: a disallowed method is 405, and so is a redirect to one."""
    from agtphost.config.policies import Redirect

    refused = DispatchHost(policy=MethodPolicy(disallow=frozenset({"RESERVE"}))).ask(**GOOD)
    assert (refused.status, document(refused)["reason"]) == (405, "method-not-allowed")
    redirect = Redirect(from_method="BOOK", from_path=None, to_method="RESERVE", to_path=None)
    around = DispatchHost(policy=MethodPolicy(disallow=frozenset({"RESERVE"}), redirects=(redirect,)))
    assert around.ask(**GOOD, method="BOOK").status == 405
    through = DispatchHost(policy=MethodPolicy(redirects=(redirect,)))
    assert through.ask(**GOOD, method="BOOK").status == 200


def test_lifecycle_holds_for_caller_and_addressee() -> None:
    """A suspended caller or agent is 503, a retired one 410; what shows and changes state stays reachable."""
    for who, retired in ((CALLER, False), (CALLER, True), ("b" * 64, False), ("b" * 64, True)):
        host = DispatchHost()
        status = LifecycleStatus.RETIRED if retired else LifecycleStatus.SUSPENDED
        host.put(who, status.value)
        response = host.ask(**GOOD)
        assert response.status == (410 if retired else 503)
        assert document(response)["lifecycle_state"] == status.value
        assert not host.recorder.calls
    host = DispatchHost()
    host.put("b" * 64, "suspended")
    assert host.ask("DESCRIBE", "/nothing", None).status == 404


def test_a_handler_reached_without_a_gate_is_noticed() -> None:
    """The control: leaving out the scope gate lets a call through that the order refuses."""
    host = DispatchHost()
    narrow = {**GOOD, "headers": {"Authority-Scope": "documents:query"}}
    assert host.ask(**narrow).status == 262
    without = [gate for gate in host.gates if "scopes and assurance" not in gate.name]
    host.rewire(without)
    assert host.ask(**narrow).status == 200
    # Either alone is enough: what was not checked before the body is checked behind it.
    for name in ("required scopes and assurance", "scopes and assurance of the action"):
        host.rewire([gate for gate in host.gates if gate.name != name])
        assert host.ask(**narrow).status == 262


class Mined(Exception):
    """A body was decoded that should not have been."""


@each_row("content_type", [media_types.AGTP_JSON, "application/json", media_types.AGTP_YAML])
@each_row(
    ("gate", "request_"),
    [(gate, request_) for gate, _, _, request_ in FAILURES if gate not in ("body", "schema")],
    ids=lambda value: str(value)[:40],
)
def test_who_may_not_call_costs_no_parse(
    monkeypatch: pytest.MonkeyPatch, gate: str, request_: dict[str, Any], content_type: str
) -> None:
    """Each gate that needs no body refuses while every decoder is mined: the body is not looked at."""

    def mine(octets: bytes, **_: Any) -> Any:
        raise Mined(octets[:20])

    monkeypatch.setattr(jsontext, "decode", mine)
    monkeypatch.setattr(yamltext, "decode", mine)
    host = DispatchHost(settings={"wire": {"yaml": True}})
    headers = {"Content-Type": content_type, **request_.get("headers", {})}
    response = host.ask(**{**GOOD, **request_, "headers": headers})
    assert response.status in (262, 400, 401, 404, 405, 455, 459, 460, 501, 551), response.body
    assert document(response)["reason"] == next(reason for name, _, reason, given in FAILURES if given is request_)


def test_the_mine_is_armed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a call that may be made does reach the decoder."""

    def mine(octets: bytes, **_: Any) -> Any:
        raise Mined(octets[:20])

    monkeypatch.setattr(jsontext, "decode", mine)
    assert DispatchHost().ask(**GOOD).status == 500
