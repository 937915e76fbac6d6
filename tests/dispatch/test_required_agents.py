"""Agents that are stopped between the last gate and the record: what the call ends in, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.contract.binding import Binding
from agtphost.dispatch.gates.identity import StoppedAgent
from agtphost.dispatch.required_agents import required_agents
from agtphost.dispatch.sealer import Sealer
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointError, EndpointResponse
from agtphost.identity.peer import Assurance, Peer
from agtphost.stores import MemoryStore
from agtphost.stores.rows import StateRow
from agtphost.vocabulary.status import Status
from tests.audit.drafting import KEY, transition
from tests.dispatch.hosts import CALLER, HOSTED, DispatchHost, Recorder, certificate, document, payload
from tests.rows import each_row

RETIRED = StateRow("retired", "2026-11-21T00:00:00.000Z", "compromise-detected", None, None)
SUSPENDED = RETIRED._replace(status="suspended")
LAPSED_ROW = RETIRED._replace(status="deprecated", org_domain="example.com")

CASES = [
    (who, row, status, reason)
    for who in (CALLER, HOSTED)
    for row, status, reason in (
        (RETIRED, 410, "agent-retired"),
        (SUSPENDED, 503, "agent-suspended"),
        (LAPSED_ROW, 503, "org-domain-expired"),
    )
]


@each_row(("who", "row", "status", "reason"), CASES)
def test_what_ran_is_refused_and_says_so(who: str, row: StateRow, status: int, reason: str) -> None:
    """The answer of the handler is withheld; caller and record learn that it had run (design decision 19)."""
    host = DispatchHost()
    host.ledger.stopped[who] = row
    answer = host.ask("RESERVE", "/desk", {"text": "x"})
    body = document(answer)
    assert (answer.status, body["reason"], body["performed"]) == (status, reason, True)
    assert body["agent_id"] == who and body["lifecycle_state"] == row.status
    assert len(host.recorder.calls) == 1 and len(host.ledger.drafts) == 1
    record = payload(host)
    extra = {"performed": True, "input_shape": {"text": "string"}}
    if reason == "agent-suspended":
        extra["cure"] = f"agtp agent reinstate {who}"
    assert (record["status"], record["reason"], record["extra"]) == (status, reason, extra)
    assert host.ledger.drafts[0].chain == HOST_CHAIN and host.ledger.drafts[0].performed


class Careless(Sealer):
    """The control: drafts that need nobody's standing."""

    def draft(self, *given: Any) -> Draft:
        draft = super().draft(*given)
        draft.standing = ()
        return draft


def test_the_control_answers_as_if_nothing_had_happened() -> None:
    """Without ``standing`` the answer goes out: the test above would notice."""
    host = DispatchHost()
    host.rewire(sealer=Careless("host.test", ()))
    host.ledger.stopped[CALLER] = RETIRED
    assert host.ask("RESERVE", "/desk", {"text": "x"}).status == 200


def test_refusals_are_what_they_were() -> None:
    """A refusal succeeds at nothing, so it needs nobody's standing: 422, 404 and declared errors stay."""

    def taken(context: EndpointContext) -> Any:
        raise EndpointError("desk_taken")

    host = DispatchHost(taken)
    host.ledger.stopped[CALLER] = host.ledger.stopped[HOSTED] = RETIRED
    assert host.ask("RESERVE", "/desk", {"text": "x"}).status == 422
    assert host.ask("RESERVE", "/desk", {"text": 1}).status == 422
    assert host.ask("QUERY", "/nowhere").status == 404
    assert [draft.standing for draft in host.ledger.drafts] == [(), (), ()]


def test_a_status_of_the_handler_is_no_way_around() -> None:
    """What a handler answers by itself counts as its success, whatever status it chose."""
    host = DispatchHost(lambda context: EndpointResponse(status=404, result={}))
    host.ledger.stopped[CALLER] = RETIRED
    assert host.ask("RESERVE", "/desk", {"text": "x"}).status == 410


def test_a_keyed_request_is_answered_once_and_for_all() -> None:
    """Its result is the refusal, and a repeat is told that it was performed: neither in doubt, nor run again."""
    host = DispatchHost()
    keyed = {"Idempotency-Key": "k1"}
    host.ledger.stopped[CALLER] = SUSPENDED
    assert host.ask("RESERVE", "/desk", {"text": "x"}, headers=keyed).status == 503
    host.ledger.stopped.clear()
    again = host.ask("RESERVE", "/desk", {"text": "x"}, headers=keyed)
    assert (again.status, document(again)["performed"], len(host.recorder.calls)) == (503, True, 1)
    # A replay is a success of its caller, too.
    host.ask("RESERVE", "/desk", {"text": "y"}, headers={"Idempotency-Key": "k2"})
    host.ledger.stopped[CALLER] = RETIRED
    replayed = host.ask("RESERVE", "/desk", {"text": "y"}, headers={"Idempotency-Key": "k2"})
    assert replayed.status == 410 and "performed" not in document(replayed) and len(host.recorder.calls) == 2


def test_methods_that_reach_stopped_agents_need_their_caller_alone() -> None:
    """INSPECT of an agent that was stopped is sealed; the operator's INSPECT, which never reaches one, is not."""
    looking = [
        Binding(method="INSPECT", path=path, handler=Recorder(), tier=tier, min_assurance=Assurance.NONE)
        for path, tier in (("/own", "A"), ("/words", "B"))
    ]
    host = DispatchHost(bindings=looking)
    host.ledger.stopped[HOSTED] = RETIRED
    anonymous = Peer(address="127.0.0.1")
    assert host.ask("INSPECT", "/own", peer=anonymous).status == 200
    assert host.ask("INSPECT", "/words", peer=anonymous).status == 410
    host.ledger.stopped[CALLER] = RETIRED
    assert host.ask("INSPECT", "/own").status == 410


def test_interim_messages_and_commits_end_the_call() -> None:
    """Nothing more is said of it: neither a message, nor a state item; the final record is the refusal."""
    seen: list[Any] = []
    put = Change(kind="quote", key="1", value={"a": 1}, expected=0)

    async def work(context: EndpointContext) -> Any:
        await context.emit({"step": 1})
        host.ledger.stopped[CALLER] = RETIRED
        try:
            if context.input["text"] == "emit":
                await context.emit({"step": 2})
            else:
                await context.invocation.commit({"step": 2}, (put,), {})
        except Refusal as refusal:
            seen.append(refusal)
            raise
        return {}

    for text in ("emit", "commit"):
        host = DispatchHost(work, built_in=True)
        sent: list[Any] = []
        body = {"parameters": {"text": text}, "context": {"stream": True}, "method": "RESERVE"}
        answers: list[Any] = []
        request = host.request("RESERVE", "/desk", body, {"Idempotency-Key": "k"})
        peer = Peer(address="127.0.0.1", certificate=certificate())
        Deferred.fromCoroutine(host.dispatcher.dispatch(request, peer, sent.append)).addCallback(answers.append)
        assert [answer.status for answer in answers] == [410] and document(answers[0])["performed"] is True
        assert isinstance(seen.pop(), StoppedAgent) and len(sent) == 1
        assert host.ledger.held.get("quote", "1") is None
        # The interim message left the key alone; the refusal is its result.
        assert next(iter(host.ledger.reserved.values()))[1] == host.ledger.drafts[-1].result
        assert [draft.payload["status"] for draft in host.ledger.drafts] == [202, 410]


def test_a_step_of_a_call_is_a_call() -> None:
    """What a handler calls in its caller's name stops with it, and the call that it is part of as well."""
    host: DispatchHost

    async def work(context: EndpointContext) -> Any:
        if context.input["text"] == "outer":
            host.ledger.stopped[CALLER] = RETIRED
            return await context.invoke("RESERVE", "/desk", {"text": "inner"})
        return {"inner": True}

    host = DispatchHost(work)
    answer = host.ask("RESERVE", "/desk", {"text": "outer"})
    assert answer.status == 410 and document(answer)["reason"] == "agent-retired"
    assert [draft.payload["status"] for draft in host.ledger.drafts] == [410, 410]


def test_who_has_to_stand() -> None:
    """Caller and addressee, by their Agent-IDs."""
    host = DispatchHost()
    host.ask("RESERVE", "/desk", {"text": "x"})
    host.ask("QUERY", "/public", peer=Peer(address="127.0.0.1"))
    assert [draft.standing for draft in host.ledger.drafts] == [(CALLER, HOSTED), (HOSTED,)]
    exchange = host.recorder.calls[0].invoke.__self__._exchange  # type: ignore[union-attr]
    assert required_agents(exchange) == (CALLER, HOSTED)


@pytest_twisted.ensureDeferred
async def test_with_the_real_ledger_a_suspension_of_the_same_turn_counts() -> None:
    """The gates see an active agent; the suspension lies before the call's record in the same transaction."""
    table = LifecycleTable()
    ledger = Ledger(MemoryStore(), KEY, reactor, server_id="agtp.test", lifecycle=table)  # type: ignore[arg-type]
    host = DispatchHost(ledger=ledger)
    ledger.start()
    try:
        suspended = ledger.submit(transition(None, "suspended", agent_id=CALLER))
        keyed = {"Idempotency-Key": "k"}
        answer = await host.start("RESERVE", "/desk", {"text": "x"}, headers=keyed)
        await suspended
        assert (answer.status, document(answer)["performed"]) == (Status.UNAVAILABLE, True)
        state = table.find_recorded(CALLER)
        assert state is not None and state.is_stopped
        # Not in doubt, not running: answered.
        again = await host.start("RESERVE", "/desk", {"text": "x"}, headers=keyed)
        assert again.status == 503 and document(again)["reason"] == "agent-suspended"
    finally:
        await ledger.stop()
    assert len(host.recorder.calls) == 1
