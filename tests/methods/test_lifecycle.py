"""The five lifecycle methods: who may, what happens, and what is signed (P19, T-LC-1 to T-LC-60)."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from zope.interface.verify import verifyObject

from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleStatus, LifecycleTable
from agtphost.audit.verify import verify_records
from agtphost.contract.reserved import LIFECYCLE as METHODS
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.iagtp import IChainStore
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.jws import verify
from agtphost.identity.peer import PeerCertificate
from agtphost.methods import lifecycle
from agtphost.methods.lifecycle import Lifecycle, LifecycleAuth
from agtphost.stores import MemoryStore, Selection
from agtphost.wire.events import Response
from tests.audit.drafting import sqlite_store
from tests.identity.issued import (
    BARE,
    CALLER,
    DESK,
    REGISTRAR,
    SIGNING,
    STRANGER,
    agent,
    of_agent,
    of_key,
    of_other_kind,
)
from tests.memory import body_of
from tests.methods.hosts import MethodHost, reading
from tests.rows import each_row

AS_TARGET = "stranger's key, as the target"

CALLERS: dict[str, PeerCertificate | None] = {
    "none": None,
    "agent": of_agent(CALLER.agent_id),
    "registrar": of_key(REGISTRAR),
    "other": of_key(STRANGER),
    "rsa": of_other_kind("rsa"),
    "ecdsa": of_other_kind("ecdsa"),
    AS_TARGET: of_agent(DESK.agent_id, STRANGER),
}
"""Every kind of client. The last one is the mistake to avoid: its certificate *names* the target agent."""

ORACLE = """
new        ACTIVATE   active     agent-genesis-issued
new        DEACTIVATE noop
new        REINSTATE  422        agent-never-activated
new        REVOKE     retired    agent-genesis-revoked
new        DEPRECATE  422        agent-never-activated
declared   ACTIVATE   noop
declared   DEACTIVATE suspended  agent-lifecycle-suspended
declared   REINSTATE  noop
declared   REVOKE     retired    agent-genesis-revoked
declared   DEPRECATE  deprecated agent-lifecycle-deprecated
active     ACTIVATE   noop
active     DEACTIVATE suspended  agent-lifecycle-suspended
active     REINSTATE  noop
active     REVOKE     retired    agent-genesis-revoked
active     DEPRECATE  deprecated agent-lifecycle-deprecated
suspended  ACTIVATE   active     agent-lifecycle-reinstated
suspended  DEACTIVATE noop
suspended  REINSTATE  active     agent-lifecycle-reinstated
suspended  REVOKE     retired    agent-genesis-revoked
suspended  DEPRECATE  422        agent-suspended
deprecated ACTIVATE   active     agent-lifecycle-reinstated
deprecated DEACTIVATE noop
deprecated REINSTATE  active     agent-lifecycle-reinstated
deprecated REVOKE     retired    agent-genesis-revoked
deprecated DEPRECATE  noop
retired    ACTIVATE   422        agent-retired
retired    DEACTIVATE noop
retired    REINSTATE  422        agent-retired
retired    REVOKE     noop
retired    DEPRECATE  422        agent-retired
"""
"""Companion section 6.3 written down once more, by hand: ``new`` was never activated, ``declared`` has no event."""

CELLS = {tuple(line.split()[:2]): line.split()[2:] for line in ORACLE.strip().splitlines()}
STATES = ("new", "declared", "active", "suspended", "deprecated", "retired")


def hosting(state: str, *, auth: LifecycleAuth, genesis: bool) -> tuple[MethodHost, Agent]:
    """A host with one target agent in ``state``."""
    target = agent("desk", hosted=True, genesis=genesis, status="suspended" if state == "new" else "active")
    host = MethodHost(auth=auth.value, agents=(target, BARE, CALLER))
    if state not in ("new", "declared"):
        host.put(target, state)
    return host, target


def expected_answer(state: str, method: str, caller: str, auth: LifecycleAuth, genesis: bool) -> tuple[int, str]:
    """Status, and the reason, ``noop`` or the event type: worked out apart from the code under test."""
    if caller == AS_TARGET and state in ("new", "suspended"):
        return 503, "agent-suspended"
    if caller == AS_TARGET and state == "retired":
        return 410, "agent-retired"
    if auth is LifecycleAuth.GENESIS_ISSUER:
        if caller == "none":
            return 401, "genesis-issuer-cert-required"
        if not genesis and caller == "registrar":
            return 403, "genesis-not-loaded"
        if caller != "registrar":
            return 403, "not-genesis-issuer"
    effect = CELLS[state, method]
    if effect[0] == "noop":
        return 200, "noop"
    if effect[0] == "422":
        return 422, effect[1]
    if effect[0] == "active" and not genesis:
        return 422, "genesis-not-loaded"
    return 200, effect[1]


@each_row("auth", LifecycleAuth, ids=lambda auth: auth.value)
@each_row("state", STATES)
@each_row("genesis", [True, False], ids=["genesis", "no genesis"])
def test_every_cell_of_the_matrix(auth: LifecycleAuth, state: str, genesis: bool) -> None:
    """
    P19: methods x states x callers x modes, each with its one status, reason, ``noop`` and event.

    AGTP-228 to 236, 241 to 243, 245 to 249; T-LC-1 to T-LC-60. No refused or
    no-op call submits an event.

    One host answers all of a state: the ledger here takes events and has nobody's state changed by them.
    """
    assert wrong_cells(auth, state, genesis, CALLERS) == []


def wrong_cells(auth: LifecycleAuth, state: str, genesis: bool, callers: Iterable[str]) -> list[tuple[object, ...]]:
    """Caller, method, what came and what should have come, where these differ."""
    wrong: list[tuple[object, ...]] = []
    host, target = hosting(state, auth=auth, genesis=genesis)
    begun = host.states.state_of(target)
    for caller, method in itertools.product(callers, METHODS):
        assert host.states.state_of(target) == begun
        response = host.ask(method, body={"agent_id": target.agent_id, "reason": "policy"}, certificate=CALLERS[caller])
        body = body_of(response)
        draft = host.ledger.drafts[-1]
        status, outcome = expected_answer(state, method, caller, auth, genesis)
        if status != 200:
            got: tuple[object, ...] = (response.status, body.get("reason"), draft.event is None)
            want: tuple[object, ...] = (status, outcome, True)
        elif outcome == "noop":
            before = {"new": "suspended", "declared": "active"}.get(state, state)
            got = (response.status, body["result"], draft.event is None)
            want = (200, {"agent_id": target.agent_id, "status": before, "previous_status": before, "noop": True}, True)
        else:
            event = draft.event
            assert event is not None, (state, method)
            got = (
                response.status,
                body["result"]["event_type"],
                body["result"]["status"],
                body["result"]["previous_status"],
                event.event_type,
                event.new_status,
                event.expected_status,
            )
            before = {"new": "suspended", "declared": "active"}.get(state, state)
            new = CELLS[state, method][0]
            want = (200, outcome, new, before, outcome, new, None if state in ("new", "declared") else state)
        if got != want:
            wrong.append((caller, method, got, want))
    return wrong


def test_the_expectations_cover_the_whole_matrix() -> None:
    """Every state has a line for every method: a forgotten cell cannot pass unseen."""
    assert set(CELLS) == set(itertools.product(STATES, METHODS))


def test_a_certificate_comparison_by_agent_id_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: an authorization that trusts the certificate's Agent-ID lets the last caller through."""

    def by_agent_id(self: Lifecycle, context: Any, target: Agent) -> None:
        certificate = context.peer.certificate
        if certificate is None or certificate.agent_id != target.agent_id:
            raise self._denial(context, lifecycle.Status.FORBIDDEN, "not-genesis-issuer", "")

    monkeypatch.setattr(Lifecycle, "_authorize", by_agent_id)
    assert wrong_cells(LifecycleAuth.GENESIS_ISSUER, "active", True, [AS_TARGET])


@each_row("method", METHODS)
def test_refusals_name_the_mode_and_are_logged(method: str) -> None:
    """AGTP-249: the refusal body names the mode in effect, and the refusal is in the operator's log."""
    from twisted.logger import globalLogPublisher

    events: list[Any] = []
    globalLogPublisher.addObserver(events.append)
    try:
        response = MethodHost().ask(method, body={"agent_id": DESK.agent_id}, certificate=CALLERS["other"])
    finally:
        globalLogPublisher.removeObserver(events.append)
    assert body_of(response)["lifecycle_auth"] == "genesis_issuer"
    assert any(event.get("reason") == "not-genesis-issuer" and event.get("method") == method for event in events)


@each_row("method", METHODS)
@each_row(
    ("value", "reason"),
    [
        (None, "malformed-lifecycle-request"),
        ("", "malformed-lifecycle-request"),
        ("desk", "malformed-lifecycle-request"),
        (7, "malformed-lifecycle-request"),
        ("A" * 64, "malformed-lifecycle-request"),
        ("a" * 63, "malformed-lifecycle-request"),
        ("a" * 64 + "\n", "malformed-lifecycle-request"),
        ("٠" * 64, "malformed-lifecycle-request"),
    ],
)
def test_agent_id_is_demanded_with_400(method: str, value: object, reason: str) -> None:
    """AGTP-228: a missing or malformed ``agent_id`` is 400 and names the parameter."""
    body = {} if value is None else {"agent_id": value}
    response = MethodHost().ask(method, body={**body, "reason": "x"}, certificate=CALLERS["registrar"])
    assert (response.status, body_of(response)["reason"]) == (400, reason)
    assert body_of(response)["parameter"] == "agent_id"


@each_row("method", METHODS)
def test_an_unknown_agent_is_404_and_no_id_is_minted(method: str) -> None:
    """AGTP-229: lifecycle methods mint nothing; an Agent-ID without documents is 404."""
    host = MethodHost(auth="open")
    unknown = "d" * 64
    response = host.ask(method, body={"agent_id": unknown, "reason": "x"})
    assert (response.status, body_of(response)["reason"]) == (404, "agent-not-found")
    assert host.ledger.drafts[-1].event is None
    assert host.states.find_recorded(unknown) is None


def test_a_known_agent_that_is_not_hosted_has_a_lifecycle_too() -> None:
    """The registrar stops an agent that only calls here, such as ``demo``."""
    response = MethodHost().ask(
        "REVOKE", body={"agent_id": CALLER.agent_id, "reason": "compromise-detected"}, certificate=CALLERS["registrar"]
    )
    assert (response.status, body_of(response)["result"]["status"]) == (200, "retired")


@each_row("state", ["active", "suspended", "deprecated", "retired"])
def test_revoke_needs_a_reason(state: str) -> None:
    """AGTP-235: REVOKE without ``reason`` is 422, whatever the state, and no event is recorded."""
    host, target = hosting(state, auth=LifecycleAuth.GENESIS_ISSUER, genesis=True)
    response = host.ask("REVOKE", body={"agent_id": target.agent_id}, certificate=CALLERS["registrar"])
    assert (response.status, body_of(response)["reason"]) == (422, "missing-parameter")
    assert body_of(response)["parameter"] == "reason"
    assert host.ledger.drafts[-1].event is None


def test_who_may_not_learns_nothing_of_bad_parameters() -> None:
    """Authorization comes before the other parameters: a stranger's REVOKE without a reason is 403, not 422."""
    response = MethodHost().ask("REVOKE", body={"agent_id": DESK.agent_id}, certificate=CALLERS["other"])
    assert response.status == 403


def test_the_event_says_who_and_why() -> None:
    """``reason``, ``actor`` and the key that did it are in the signed event."""
    host = MethodHost()
    host.ask(
        "DEACTIVATE",
        body={"agent_id": DESK.agent_id, "reason": "maintenance", "actor": "ops@acme"},
        certificate=CALLERS["registrar"],
    )
    event = host.ledger.drafts[-1].event
    assert event is not None
    assert event.fields == {
        "previous_status": "active",
        "reason": "maintenance",
        "actor": "ops@acme",
        "actor_key": REGISTRAR.public.fingerprint,
    }


def test_deprecate_records_the_succession() -> None:
    """AGTP-243: successor and migration deadline are in the event and in the answer."""
    host = MethodHost()
    body = {
        "agent_id": DESK.agent_id,
        "successor_agent_id": BARE.agent_id,
        "migration_deadline": "2027-01-31T00:00:00Z",
        "reason": "replaced",
    }
    response = host.ask("DEPRECATE", body=body, certificate=CALLERS["registrar"])
    result = body_of(response)["result"]
    assert result["successor_agent_id"] == BARE.agent_id
    assert result["migration_deadline"] == "2027-01-31T00:00:00Z"
    event = host.ledger.drafts[-1].event
    assert event is not None
    assert event.fields["successor_agent_id"] == BARE.agent_id


@each_row(
    ("name", "value"),
    [
        ("successor_agent_id", "next"),
        ("successor_agent_id", 5),
        ("migration_deadline", "tomorrow"),
        ("migration_deadline", "2027-01-31"),
        ("migration_deadline", "2027-01-31T00:00:00"),
        ("migration_deadline", "20270131T000000Z"),
        ("migration_deadline", "2027-W04-7T00:00:00Z"),
        ("migration_deadline", "2027-02-30T00:00:00Z"),
        ("migration_deadline", 20270131),
        ("actor", ["ops"]),
        ("actor", ""),
        ("reason", "x" * 2001),
    ],
)
def test_malformed_fields_are_422(name: str, value: object) -> None:
    """A malformed optional parameter is refused with its name, and nothing changes."""
    host = MethodHost()
    response = host.ask("DEPRECATE", body={"agent_id": DESK.agent_id, name: value}, certificate=CALLERS["registrar"])
    assert (response.status, body_of(response)["reason"]) == (422, "invalid-parameter")
    assert body_of(response)["parameter"] == name
    assert host.ledger.drafts[-1].event is None


def test_the_handler_is_one() -> None:
    """The handler keeps to its interface."""
    assert verifyObject(IBuiltInHandler, Lifecycle(AgentDirectory([]), LifecycleTable().state_of, LifecycleAuth.OPEN))


# Through the real ledger


@asynccontextmanager
async def run_host(store: IChainStore) -> AsyncIterator[tuple[MethodHost, Ledger]]:
    """A host whose records are really signed, chained and stored."""
    states = LifecycleTable()
    ledger = Ledger(store, SIGNING, reactor, server_id="agtp.test", lifecycle=states)  # type: ignore[arg-type]
    ledger.start()
    try:
        yield MethodHost(ledger=ledger, states=states, records=reading(store)), ledger  # type: ignore[arg-type]
    finally:
        await ledger.stop()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest_twisted.ensureDeferred
async def test_a_whole_life_is_signed_chained_and_read_back(kind: str, tmp_path: Path) -> None:
    """
    AGTP-195, 231, 228, 233, 235, 241, 243: every transition is a signed event in the agent's chain.

    INSPECT shows the stream newest first with its ``format``; the state is in
    force before the caller of the method hears of it.
    """
    store: Any = MemoryStore() if kind == "memory" else sqlite_store(tmp_path)
    story = [
        ("DEACTIVATE", "suspended", "agent-lifecycle-suspended"),
        ("REINSTATE", "active", "agent-lifecycle-reinstated"),
        ("DEPRECATE", "deprecated", "agent-lifecycle-deprecated"),
        ("ACTIVATE", "active", "agent-lifecycle-reinstated"),
        ("REVOKE", "retired", "agent-genesis-revoked"),
    ]
    async with run_host(store) as (host, _):
        audit_ids = []
        for method, status, _event in story:
            in_force: list[LifecycleStatus] = []
            waiting = host.start(
                method, body={"agent_id": DESK.agent_id, "reason": "story"}, certificate=CALLERS["registrar"]
            )

            def look(response: Response, in_force: list[LifecycleStatus] = in_force) -> Response:
                in_force.append(host.states.state_of(DESK).status)
                return response

            response = await waiting.addCallback(look)
            assert response.status == 200
            assert [state.value for state in in_force] == [status]
            audit_ids.append(body_of(response)["result"]["audit_id"])

        noop = await host.start(
            "REVOKE", body={"agent_id": DESK.agent_id, "reason": "again"}, certificate=CALLERS["registrar"]
        )
        assert body_of(noop)["result"]["noop"] is True

        listed = await host.start("INSPECT", body={"target": "lifecycle", "agent_id": DESK.agent_id})
        result = body_of(listed)["result"]
        assert result["event_count"] == len(story)
        assert [event["audit_id"] for event in result["events"]] == audit_ids[::-1]
        before = ["active", *(status for _, status, _ in story[:-1])]
        shown = [event["payload"]["previous_status"] for event in result["events"]]
        assert shown == before[::-1]
        for event, (method, status, event_type) in zip(result["events"], story[::-1], strict=True):
            assert event["format"] == "jws", method
            assert sha256(event["jws"].encode()).hexdigest() == event["audit_id"]
            payload = verify(event["jws"], {SIGNING.kid: SIGNING.public})
            assert payload == event["payload"]
            assert (payload["event_type"], payload["new_status"]) == (event_type, status)
            assert payload["actor_key"] == REGISTRAR.public.fingerprint
        cut = await host.start("INSPECT", body={"target": "lifecycle", "agent_id": DESK.agent_id, "limit": 2})
        assert [event["audit_id"] for event in body_of(cut)["result"]["events"]] == audit_ids[:-3:-1]
        head = await host.start("INSPECT", body={"target": "chain_head", "agent_id": DESK.agent_id})
        assert body_of(head)["result"]["audit_id"] == audit_ids[-1]
        assert verify_records(store.reader().records(Selection()), {SIGNING.kid: SIGNING.public}).ok


@pytest_twisted.ensureDeferred
async def test_two_changes_at_once_cannot_both_win() -> None:
    """Of two different transitions decided on one state, one is committed and the other is 409."""
    async with run_host(MemoryStore()) as (host, _):
        body = {"agent_id": DESK.agent_id, "reason": "race"}
        first = host.start("DEACTIVATE", body=body, certificate=CALLERS["registrar"])
        second = host.start("DEPRECATE", body=body, certificate=CALLERS["registrar"])
        answers = [(await first).status, body_of(await second)["reason"]]
        assert answers == [200, "lifecycle-conflict"]
        listed = await host.start("INSPECT", body={"target": "lifecycle", "agent_id": DESK.agent_id})
        assert body_of(listed)["result"]["event_count"] == 1
