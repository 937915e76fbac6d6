"""Agents that are stopped between the last gate and the record: what the call ends in, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LAPSED, LifecycleTable
from agtphost.contract.binding import Binding
from agtphost.dispatch.gates.identity import StoppedAgent
from agtphost.dispatch.sealing import Sealer
from agtphost.dispatch.standing import standing
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointError, EndpointResponse
from agtphost.identity.peer import Assurance, Peer
from agtphost.stores import MemoryStore
from agtphost.stores.rows import StateRow
from agtphost.vocabulary.status import Status
from tests.audit.drafting import KEY, transition
from tests.dispatch.scene import CALLER, HOSTED, Recorder, Scene, certificate, document, payload

RETIRED = StateRow("retired", "2026-11-21T00:00:00.000Z", "compromise-detected", None, None)
SUSPENDED = RETIRED._replace(status="suspended")
LAPSED_ROW = RETIRED._replace(status="deprecated", reason=LAPSED)

CASES = [
    (who, row, status, reason)
    for who in (CALLER, HOSTED)
    for row, status, reason in (
        (RETIRED, 410, "agent-retired"),
        (SUSPENDED, 503, "agent-suspended"),
        (LAPSED_ROW, 503, LAPSED),
    )
]


@pytest.mark.parametrize(("who", "row", "status", "reason"), CASES)
def test_what_ran_is_refused_and_says_so(who: str, row: StateRow, status: int, reason: str) -> None:
    """The answer of the handler is withheld; caller and record learn that it had run (design decision 19)."""
    scene = Scene()
    scene.ledger.stopped[who] = row
    answer = scene.ask("RESERVE", "/desk", {"text": "x"})
    body = document(answer)
    assert (answer.status, body["reason"], body["performed"]) == (status, reason, True)
    assert body["agent_id"] == who and body["lifecycle_state"] == row.status
    assert len(scene.recorder.calls) == 1 and len(scene.ledger.drafts) == 1
    record = payload(scene)
    assert (record["status"], record["reason"], record["extra"]) == (status, reason, {"performed": True})
    assert scene.ledger.drafts[0].chain == HOST_CHAIN and scene.ledger.drafts[0].performed


class Careless(Sealer):
    """The control: drafts that need nobody's standing."""

    def draft(self, *given: Any) -> Draft:
        draft = super().draft(*given)
        draft.standing = ()
        return draft


def test_the_control_answers_as_if_nothing_had_happened() -> None:
    """Without ``standing`` the answer goes out: the test above would notice."""
    scene = Scene()
    scene.sealer = Careless("test-host", ())
    scene.ledger.stopped[CALLER] = RETIRED
    assert scene.ask("RESERVE", "/desk", {"text": "x"}).status == 200


def test_refusals_are_what_they_were() -> None:
    """A refusal succeeds at nothing, so it needs nobody's standing: 422, 404 and declared errors stay."""

    def taken(context: EndpointContext) -> Any:
        raise EndpointError("desk_taken")

    scene = Scene(taken)
    scene.ledger.stopped[CALLER] = scene.ledger.stopped[HOSTED] = RETIRED
    assert scene.ask("RESERVE", "/desk", {"text": "x"}).status == 422
    assert scene.ask("RESERVE", "/desk", {"text": 1}).status == 422
    assert scene.ask("QUERY", "/nowhere").status == 404
    assert [draft.standing for draft in scene.ledger.drafts] == [(), (), ()]


def test_a_status_of_the_handler_is_no_way_around() -> None:
    """What a handler answers by itself counts as its success, whatever status it chose."""
    scene = Scene(lambda context: EndpointResponse(status=404, result={}))
    scene.ledger.stopped[CALLER] = RETIRED
    assert scene.ask("RESERVE", "/desk", {"text": "x"}).status == 410


def test_a_keyed_request_is_answered_once_and_for_all() -> None:
    """Its result is the refusal, and a repeat is told that it was performed: neither in doubt, nor run again."""
    scene = Scene()
    keyed = {"Idempotency-Key": "k1"}
    scene.ledger.stopped[CALLER] = SUSPENDED
    assert scene.ask("RESERVE", "/desk", {"text": "x"}, headers=keyed).status == 503
    scene.ledger.stopped.clear()
    again = scene.ask("RESERVE", "/desk", {"text": "x"}, headers=keyed)
    assert (again.status, document(again)["performed"], len(scene.recorder.calls)) == (503, True, 1)
    # A replay is a success of its caller, too.
    scene.ask("RESERVE", "/desk", {"text": "y"}, headers={"Idempotency-Key": "k2"})
    scene.ledger.stopped[CALLER] = RETIRED
    replayed = scene.ask("RESERVE", "/desk", {"text": "y"}, headers={"Idempotency-Key": "k2"})
    assert replayed.status == 410 and "performed" not in document(replayed) and len(scene.recorder.calls) == 2


def test_methods_that_reach_stopped_agents_need_their_caller_alone() -> None:
    """INSPECT of an agent that was stopped is sealed; the operator's INSPECT, which never reaches one, is not."""
    looking = [
        Binding(method="INSPECT", path=path, handler=Recorder(), tier=tier, min_assurance=Assurance.NONE)
        for path, tier in (("/own", "A"), ("/words", "B"))
    ]
    scene = Scene(bindings=looking)
    scene.ledger.stopped[HOSTED] = RETIRED
    anonymous = Peer(address="127.0.0.1")
    assert scene.ask("INSPECT", "/own", peer=anonymous).status == 200
    assert scene.ask("INSPECT", "/words", peer=anonymous).status == 410
    scene.ledger.stopped[CALLER] = RETIRED
    assert scene.ask("INSPECT", "/own").status == 410


def test_interim_messages_and_commits_end_the_call() -> None:
    """Nothing more is said of it: neither a message, nor a state item; the final record is the refusal."""
    seen: list[Any] = []
    put = Change(kind="quote", key="1", value={"a": 1}, expected=0)

    async def work(context: EndpointContext) -> Any:
        await context.emit({"step": 1})
        scene.ledger.stopped[CALLER] = RETIRED
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
        scene = Scene(work, built_in=True)
        sent: list[Any] = []
        body = {"parameters": {"text": text}, "context": {"stream": True}, "method": "RESERVE"}
        answers: list[Any] = []
        request = scene.request("RESERVE", "/desk", body, {"Idempotency-Key": "k"})
        peer = Peer(address="127.0.0.1", certificate=certificate())
        Deferred.fromCoroutine(scene.dispatcher().dispatch(request, peer, sent.append)).addCallback(answers.append)
        assert [answer.status for answer in answers] == [410] and document(answers[0])["performed"] is True
        assert isinstance(seen.pop(), StoppedAgent) and len(sent) == 1
        assert scene.ledger.held.get("quote", "1") is None
        # The interim message left the key alone; the refusal is its result.
        assert next(iter(scene.ledger.reserved.values()))[1] == scene.ledger.drafts[-1].result
        assert [draft.payload["status"] for draft in scene.ledger.drafts] == [202, 410]


def test_a_step_of_a_call_is_a_call() -> None:
    """What a handler calls in its caller's name stops with it, and the call that it is part of as well."""
    scene: Scene

    async def work(context: EndpointContext) -> Any:
        if context.input["text"] == "outer":
            scene.ledger.stopped[CALLER] = RETIRED
            return await context.invoke("RESERVE", "/desk", {"text": "inner"})
        return {"inner": True}

    scene = Scene(work)
    answer = scene.ask("RESERVE", "/desk", {"text": "outer"})
    assert answer.status == 410 and document(answer)["reason"] == "agent-retired"
    assert [draft.payload["status"] for draft in scene.ledger.drafts] == [410, 410]


def test_who_has_to_stand() -> None:
    """Caller and addressee, by their Agent-IDs."""
    scene = Scene()
    scene.ask("RESERVE", "/desk", {"text": "x"})
    scene.ask("QUERY", "/public", peer=Peer(address="127.0.0.1"))
    assert [draft.standing for draft in scene.ledger.drafts] == [(CALLER, HOSTED), (HOSTED,)]
    exchange = scene.recorder.calls[0].invoke.__self__._exchange  # type: ignore[union-attr]
    assert standing(exchange) == (CALLER, HOSTED)


@pytest_twisted.ensureDeferred
async def test_with_the_real_ledger_a_suspension_of_the_same_turn_counts() -> None:
    """The gates see an active agent; the suspension lies before the call's record in the same transaction."""
    table = LifecycleTable()
    ledger = Ledger(MemoryStore(), KEY, reactor, server_id="agtp.test", lifecycle=table)  # type: ignore[arg-type]
    scene = Scene(ledger=ledger)
    ledger.start()
    try:
        suspended = ledger.submit(transition(None, "suspended", agent_id=CALLER))
        keyed = {"Idempotency-Key": "k"}
        answer = await scene.start("RESERVE", "/desk", {"text": "x"}, headers=keyed)
        await suspended
        assert (answer.status, document(answer)["performed"]) == (Status.UNAVAILABLE, True)
        state = table.recorded(CALLER)
        assert state is not None and state.stopped
        # Not in doubt, not running: answered.
        again = await scene.start("RESERVE", "/desk", {"text": "x"}, headers=keyed)
        assert again.status == 503 and document(again)["reason"] == "agent-suspended"
    finally:
        await ledger.stop()
    assert len(scene.recorder.calls) == 1
