"""Delegated tasks that go on after their 202: state, delivery, bounds, restarts (core v08 section 7.2.9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.peer import Assurance
from agtphost.methods.continuation import Continuations
from agtphost.methods.delegation import asynchronous_tasks
from agtphost.methods.delegation.asynchronous_tasks import TASK, AsynchronousTasks, TaskReading
from agtphost.methods.oversight.notification import NOTIFICATION
from agtphost.upstream.queue import CallQueue
from agtphost.vocabulary.quotas import ITEM_KINDS
from agtphost.wire.headers import Headers
from tests.fakes import FakeLedger
from tests.memory import body_of
from tests.methods.test_delegation import ALICE, BOB, BOSS, CAROL, DelegationHost, request, verdict
from tests.rows import each_row


class Later(DelegationHost):
    """A host that answers 202, and whose endpoint ends when the test says so."""

    def __init__(self, ledger: Any = None, at_work: int | None = None) -> None:
        self.waiting: list[Deferred[Any]] = []
        super().__init__(BOSS, ALICE, BOB, CAROL, ledger=ledger, papers=self._wait)
        directory, held = self.directory, self.ledger.held
        turns = None if at_work is None else CallQueue(self.clock, 8, waiting=100, share=at_work)
        self.tasks = AsynchronousTasks(held, directory, self.ledger, self.clock, turns)
        self.handler._tasks = self.tasks
        authorization = Authorization(None, directory, Assurance.CERTIFICATE)
        self.reading = TaskReading(held, authorization, Continuations())

    def _wait(self, context: BuiltInContext) -> Any:
        self.seen.append(context)
        waiting: Deferred[Any] = Deferred()
        self.waiting.append(waiting)
        return waiting

    def begin(self, **more: Any) -> dict[str, Any]:
        response = self.delegate(request(asynchronous=True, **more))
        assert response.status == 202, body_of(response)
        return dict(body_of(response)["result"])

    def task(self, key: str) -> dict[str, Any]:
        item = self.ledger.held.get(TASK, key)
        assert item is not None
        return dict(item.value)

    def inbox(self, owner: str = BOSS.agent_id) -> list[dict[str, Any]]:
        return [dict(item.value) for item in self.ledger.held.items_of(NOTIFICATION, owner)]


def test_the_answer_is_202_and_the_outcome_comes_into_the_inbox() -> None:
    """AGTP-213: accepted with a task to ask for; what it came to and the notification are one commit."""
    host = Later()
    begun = host.begin()
    assert begun["state"] == "running" and begun["task_id"] == "t-1"
    assert host.task(begun["delegation_id"])["state"] == "running" and not host.inbox()
    host.waiting[0].callback({"found": 1})
    ended = host.task(begun["delegation_id"])
    assert (ended["state"], ended["result"]["result"]) == ("finished", {"found": 1})
    [told] = host.inbox()
    assert told["notification_id"] == ended["delivery"]["notification_id"]
    assert told["content"]["result"]["result"] == {"found": 1}
    assert told["content"]["delegation_id"] == begun["delegation_id"]
    record = host.drafts[-1]
    assert {change.kind for change in record.changes} == {TASK, NOTIFICATION}
    said = record.payload["extra"]["delegation"]  # type: ignore[index]
    assert (said["state"], said["callback"], said["delivered"]) == ("finished", BOSS.agent_id, True)


def test_a_failed_task_tells_the_same_way() -> None:
    """AGTP-089: 550 with the nested error is what the task came to."""
    host = Later()
    begun = host.begin(task={"method": "QUERY", "path": "/nowhere"})
    ended = host.task(begun["delegation_id"])
    assert ended["state"] == "failed"
    assert (ended["error"]["status"], ended["error"]["sub_agent_error"]["status"]) == (550, 404)
    assert host.inbox()[0]["content"]["state"] == "failed"
    late = Later()
    begun = late.begin(deadline=2)
    late.clock.advance(3)
    assert late.task(begun["delegation_id"])["error"]["sub_agent_error"]["status"] == 408


@each_row("callback", ["https://evil.example/x", "agtp://127.0.0.1:4480", "file:///etc", "nobody"])
def test_an_address_is_no_callback(callback: str) -> None:
    """Security section 2.4: nothing is sent to what a caller wrote; 422 names the parameter, the token is unused."""
    host = Later()
    given = request(asynchronous=True, callback=callback)
    response = host.delegate(given)
    assert (response.status, body_of(response)["parameter"]) == (422, "callback")
    assert not host.seen
    assert host.delegate({**given, "callback": "inbox"}).status == 202


def test_an_agtp_inbox_hears_of_it_though_answered_directly() -> None:
    """AGTP-331: a callback to an agtp: inbox is delivered whichever way the task is answered; unknown ones are 422."""
    host = DelegationHost(BOSS, ALICE, BOB, CAROL)
    held = host.ledger.held
    response = host.delegate(request(callback=f"agtp://agtp.test/agents/{CAROL.name}"))
    assert response.status == 200, response.body
    (told,) = [item.value for item in held.items_of(NOTIFICATION, CAROL.agent_id)]
    assert body_of(response)["result"]["callback"] == {"delivered": True, "notification_id": told["notification_id"]}
    assert (told["content"]["state"], told["content"]["delegatee"]) == ("finished", ALICE.agent_id)
    ran = len(host.seen)
    for unknown in ("agtp://other.test/agents/carol", "agtp://agtp.test/agents/nobody", "agtp://agtp.test"):
        refused = host.delegate(request(callback=unknown))
        assert (refused.status, body_of(refused)["parameter"]) == (422, "callback")
    assert len(host.seen) == ran


def test_a_callback_agent_hears_of_it() -> None:
    """Core v08 section 7.2.9: by name or Agent-ID, in that agent's inbox and no other."""
    for named in (CAROL.agent_id, "carol"):
        host = Later()
        host.begin(callback=named)
        host.waiting[0].callback({})
        assert len(host.inbox(CAROL.agent_id)) == 1 and not host.inbox()


def test_a_full_inbox_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome stays with the task, which says why it was not delivered."""
    monkeypatch.setattr("agtphost.methods.oversight.notification.PER_SENDER", 0)
    host = Later()
    begun = host.begin()
    host.waiting[0].callback({"found": 1})
    ended = host.task(begun["delegation_id"])
    assert ended["delivery"] == {"delivered": False, "reason": "inbox-full"}
    assert ended["result"]["result"] == {"found": 1}


def test_a_long_result_is_not_kept() -> None:
    """Bounds of what is held: beyond, the notification and then the task itself leave the result out, and say so."""
    host = Later()
    begun = host.begin()
    host.waiting[0].callback({"text": "x" * 20_000})
    assert "result" not in host.inbox()[0]["content"] and "omitted" in host.inbox()[0]["content"]
    assert len(host.task(begun["delegation_id"])["result"]["result"]["text"]) == 20_000
    host = Later()
    begun = host.begin()
    host.waiting[0].callback({"text": "x" * 70_000})
    kept = host.task(begun["delegation_id"])
    assert kept["state"] == "finished" and "omitted" in kept["result"] and "result" not in kept["result"]


def test_what_one_delegator_has_running_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """429 beyond, before the token is used; ended tasks are forgotten first come first."""
    monkeypatch.setattr(asynchronous_tasks, "MOST_RUNNING", 2)
    host = Later(FakeLedger(**{TASK: replace(ITEM_KINDS[TASK], per_owner=3)}))
    first, _ = host.begin(), host.begin()
    third = request(asynchronous=True)
    assert verdict(host.delegate(third)) == (429, "too-many-delegations")
    host.waiting[0].callback({})
    assert host.delegate(third).status == 202
    host.waiting[1].callback({})
    host.begin()
    assert host.ledger.held.get(TASK, first["delegation_id"]) is None


def test_of_one_delegators_tasks_few_are_at_work() -> None:
    """
    The others are accepted and wait for their turn, which each that ends gives on; waiting is part of their time.

    Control: without turns all of them are at work at once.
    """
    host = Later(at_work=2)
    begun = [host.begin() for _ in range(4)]
    assert len(host.waiting) == 2
    host.waiting[0].callback({"number": 0})
    assert len(host.waiting) == 3 and host.task(begun[0]["delegation_id"])["state"] == "finished"
    late = host.begin(deadline=5)
    host.clock.advance(5)
    ended = host.task(late["delegation_id"])
    assert (ended["state"], ended["error"]["sub_agent_error"]["reason"]) == ("failed", "deadline-exceeded")
    for number in (1, 2, 3):
        host.waiting[number].callback({"number": number})
    assert [host.task(each["delegation_id"])["state"] for each in begun] == ["finished"] * 4
    assert host.tasks.turns is not None and all(host.tasks.turns.take(BOSS.agent_id) for _ in range(2))
    free = Later()
    for _ in range(4):
        free.begin()
    assert len(free.waiting) == 4


def test_a_task_that_waits_for_its_turn_ends_with_the_host() -> None:
    """It is on record as failed, and its endpoint was never asked."""
    host = Later(at_work=1)
    host.begin()
    waits = host.begin()
    stopped: list[object] = []
    Deferred.fromCoroutine(host.tasks.stop(10.0)).addCallback(stopped.append)
    host.clock.advance(10)
    assert stopped and len(host.waiting) == 1
    assert host.task(waits["delegation_id"])["state"] == "failed"


def test_a_restart_marks_what_was_running() -> None:
    """Never lost: after a kill the task is failed with a signed event, delivered, and never runs again."""
    host = Later()
    begun = host.begin()
    done = host.begin()
    host.waiting[1].callback({})
    # All that a kill leaves is what was committed.
    again = Later(ledger=host.ledger)
    again.tasks.start()
    again.clock.advance(0)
    ended = again.task(begun["delegation_id"])
    assert (ended["state"], ended["error"]["reason"]) == ("failed", "host-restarted")
    assert again.task(done["delegation_id"])["state"] == "finished"
    [event] = again.drafts[-1].events
    assert event.event_type == "delegation-interrupted" and event.fields["delegation_id"] == begun["delegation_id"]
    assert any(told["content"]["delegation_id"] == begun["delegation_id"] for told in again.inbox())
    assert not again.seen
    # Marked once, nothing is marked again, and what runs in this process is left alone.
    count = len(again.drafts)
    third = Later(ledger=host.ledger)
    running = third.begin()
    third.tasks.start()
    third.clock.advance(10)
    assert len(third.drafts) == count + 2 and third.task(running["delegation_id"])["state"] == "running"


def test_marking_waits_for_the_store() -> None:
    """A store that is down at the start loses nothing: it is tried again."""
    host = Later()
    begun = host.begin()
    again = Later(ledger=host.ledger)
    again.ledger.failing = True
    again.tasks.start()
    again.clock.advance(0)
    assert again.task(begun["delegation_id"])["state"] == "running"
    again.ledger.failing = False
    again.clock.advance(asynchronous_tasks.RETRY_SECONDS)
    assert again.task(begun["delegation_id"])["state"] == "failed"


def test_a_host_that_stops_ends_its_tasks() -> None:
    """Given time to end by themselves, then ended; each is on record before the ledger stops, and no more begin."""
    host = Later()
    begun = host.begin()
    stopped: list[object] = []
    Deferred.fromCoroutine(host.tasks.stop(10.0)).addCallback(stopped.append)
    assert not stopped
    assert verdict(host.delegate(request(asynchronous=True))) == (503, "host-stopping")
    host.clock.advance(10)
    assert stopped
    ended = host.task(begun["delegation_id"])
    assert (ended["state"], ended["error"]["sub_agent_error"]["reason"]) == ("failed", "cancelled")


def test_an_outcome_waits_for_the_store() -> None:
    """Design decision 8: nothing is true before it is durable; it is committed once the store is back."""
    host = Later()
    begun = host.begin()
    host.ledger.failing = True
    host.waiting[0].callback({"found": 1})
    assert host.task(begun["delegation_id"])["state"] == "running"
    host.ledger.failing = False
    host.clock.advance(asynchronous_tasks.RETRY_SECONDS)
    # The call inside could not be recorded either, so the task failed.
    assert host.task(begun["delegation_id"])["state"] == "failed"
    assert len(host.inbox()) == 1


def test_nothing_is_sent_after_the_answer() -> None:
    """Design decision 11: a stream ends with the 202; what comes later goes to the inbox alone."""
    host = Later()
    response = host.delegate(request(asynchronous=True), context={"stream": True})
    assert response.status == 202 and response.headers.get("continuation-token") is None
    host.waiting[0].callback({})
    assert len(host.inbox()) == 1


def test_asynchronous_is_true_or_false() -> None:
    """AGTP-213: 422 naming the parameter."""
    host = Later()
    response = host.delegate(request(asynchronous="yes"))
    assert (response.status, body_of(response)["parameter"]) == (422, "asynchronous")


def context(caller: Any, assurance: Assurance = Assurance.CERTIFICATE, **given: Any) -> BuiltInContext:
    return BuiltInContext(
        input=given, method="INSPECT", path="/", caller=caller, assurance=assurance, headers=Headers([])
    )


def test_whose_task_it_is() -> None:
    """Its delegator reads it; for another agent there is none, and a name without a certificate is not enough."""
    host = Later()
    begun = host.begin()

    def read(caller: Any, assurance: Assurance = Assurance.CERTIFICATE) -> Any:
        got: list[Any] = []
        asked = context(caller, assurance, target=TASK, delegation_id=begun["delegation_id"])
        Deferred.fromCoroutine(host.reading.read(asked)).addBoth(got.append)
        return got[0] if isinstance(got[0], dict) else got[0].value.status

    assert read(BOSS)["state"] == "running" and "process" not in read(BOSS)
    assert (read(CAROL), read(BOSS, Assurance.HEADER), read(None)) == (404, 401, 401)
    assert host.reading.handle(context(BOSS)).result["count"] == 1
    assert host.reading.handle(context(CAROL)).result["count"] == 0
    [listed] = host.reading.handle(context(BOSS, state="running")).result["delegations"]
    assert listed["delegation_id"] == begun["delegation_id"] and "process" not in listed
