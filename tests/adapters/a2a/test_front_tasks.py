"""Tasks of the A2A front: bounded, durable before they begin, each its client's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from agtphost.a2a.runs import MOST_WAITING_TASKS, STORING_TASKS, STORING_TASKS_PER_CLIENT, ExposedAgent, TaskRuns
from agtphost.adapters.a2a import front_tasks
from agtphost.adapters.a2a.front_tasks import KIND, FrontTaskTable, TooManyTasks
from agtphost.audit.drafts import Change, LedgerUnavailable
from agtphost.audit.leases import Lease
from agtphost.http.clients import HttpClient
from agtphost.identity.peer import Withdrawable
from agtphost.upstream.queue import CallQueue
from agtphost.vocabulary.quotas import ITEM_KINDS
from agtphost.wire.events import Response
from tests.adapters.peers import Book
from tests.identity.issued import agent as hosted

OWNER = "a" * 64


class Kept:
    """A table of tasks over a book that can be told to fail."""

    def __init__(self) -> None:
        self.book = Book()
        self.down = False
        self.tasks = FrontTaskTable(self.book, self.keep)

    async def keep(self, changes: Sequence[Change]) -> None:
        if self.down:
            raise LedgerUnavailable("no space left")
        self.book.commit(changes)

    def begin(self, task_id: str, client: str = "one", **members: Any) -> Withdrawable:
        call = Withdrawable(client=client)
        run(self.tasks.begin(client, OWNER, document(task_id, **members), call))
        return call

    def settle(self, task_id: str, **members: Any) -> None:
        run(self.tasks.settle(task_id, document(task_id, "TASK_STATE_COMPLETED", **members)))


def document(task_id: str, state: str = "TASK_STATE_WORKING", **members: Any) -> dict[str, Any]:
    status = {"state": state, "timestamp": "2026-11-21T00:00:00.000Z"}
    return {"id": task_id, "contextId": "c", "status": status, **members}


def run(coroutine: Any) -> None:
    """Nothing here waits."""
    found: list[Any] = []
    ensureDeferred(coroutine).addErrback(lambda failure: found.append(failure.value))
    if found:
        raise found[0]


def test_tasks_are_followed_by_each_configuration_that_has_them() -> None:
    """The end of one configuration ends no other one's watch; after the last, nothing is noted."""
    kept = Kept.__new__(Kept)
    kept.book, kept.down = Book(), False
    first, second = Lease(), Lease()
    with kept.book.leasing.filling(first):
        kept.tasks = FrontTaskTable(kept.book, kept.keep)
    with kept.book.leasing.filling(second):
        kept.tasks.follow(kept.book)
    for task_id in "tu":
        kept.begin(task_id)
    first.release()
    kept.book.commit([Change(kind=KIND, key="t", value=None, owner=OWNER)])
    assert [task.task_id for task in kept.tasks.list_of_client("one")] == ["u"]
    second.release()
    kept.book.commit([Change(kind=KIND, key="u", value=None, owner=OWNER)])
    assert [task.task_id for task in kept.tasks.list_of_client("one")] == ["u"]


def test_a_task_is_durable_before_its_call_begins() -> None:
    """Store down: the task is not begun, and nobody is told of it; the control is the same with the store up."""
    kept = Kept()
    kept.down = True
    with pytest.raises(LedgerUnavailable):
        kept.begin("t")
    assert kept.tasks.get("one", "t") is None and not kept.tasks.is_running("t")
    kept.down = False
    kept.begin("t")
    assert kept.tasks.get("one", "t") is not None and kept.tasks.is_running("t")
    assert kept.book.get(KIND, "t") is not None


def test_a_new_process_tells_what_the_last_one_left() -> None:
    """What had ended is as it was; what ran counts as failed; somebody else's client sees neither."""
    kept = Kept()
    kept.begin("done")
    kept.settle("done", artifacts=[{"artifactId": "a", "parts": [{"text": "x"}]}])
    kept.begin("ran")
    after = FrontTaskTable(kept.book, kept.keep)
    done, ran = after.get("one", "done"), after.get("one", "ran")
    assert done is not None and done.document["artifacts"][0]["parts"] == [{"text": "x"}]
    assert ran is not None and ran.ended and ran.document["status"]["state"] == "TASK_STATE_FAILED"
    assert [task.task_id for task in after.list_of_client("one")] == ["ran", "done"]
    assert after.get("two", "done") is None and not list(after.list_of_client("two"))


def test_what_a_store_tells_in_any_order_goes_by_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest that has ended goes for a new task, in the next process as in this one."""
    monkeypatch.setattr(front_tasks, "MOST_PER_CLIENT", 3)
    kept = Kept()
    for name, minute in (("a", 3), ("b", 1), ("c", 2)):
        kept.begin(name)
        stamped = document(name, "TASK_STATE_COMPLETED")
        stamped["status"]["timestamp"] = f"2026-11-21T00:0{minute}:00.000Z"
        run(kept.tasks.settle(name, stamped))
    again = FrontTaskTable(kept.book, kept.keep)
    run(again.begin("one", OWNER, document("d"), Withdrawable(client="one")))
    assert again.get("one", "b") is None
    assert {task.task_id for task in again.list_of_client("one")} == {"a", "c", "d"}


def test_who_begins_many_at_once_does_so_a_few_at_a_time() -> None:
    """Of one client two tasks are being kept at a time, of all eight; whoever begins one does not wait for the many."""
    keeping: list[tuple[str, Deferred[None]]] = []

    class Table:
        def begin(self, client: str, agent_id: str, document: object, call: object) -> Deferred[None]:
            waiting: Deferred[None] = Deferred()
            keeping.append((client, waiting))
            return waiting

        async def settle(self, task_id: str, document: object) -> None:
            """Nothing is kept."""

        def withdrawn(self, task_id: str) -> bool:
            return False

    class Answers:
        async def dispatch(self, request: object, peer: object, interim: object = None) -> Response:
            return Response(status=500, body=b"{}")

    runs = TaskRuns(
        Answers(),
        Table(),
        CallQueue(Clock(), STORING_TASKS, waiting=MOST_WAITING_TASKS, share=STORING_TASKS_PER_CLIENT),
    )  # type: ignore[arg-type]
    agent = hosted("helper", hosted=True)
    exposed = ExposedAgent(agent=agent, method="ECHO", path="/text", input={}, text=("text",), answer="text")
    message = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "x"}]}

    def begin(key: str) -> None:
        client = HttpClient(key=key, address="127.0.0.1", fields=(("Agent-ID", agent.agent_id),))
        ensureDeferred(runs.begin(exposed, client, message, told=None))

    for _ in range(40):
        begin("many")
    assert [client for client, _ in keeping] == ["many"] * STORING_TASKS_PER_CLIENT
    begin("one")
    assert [client for client, _ in keeping][-1] == "one"
    for _ in range(100):
        for _, waiting in [entry for entry in keeping if not entry[1].called]:
            waiting.callback(None)
        assert len([entry for entry in keeping if not entry[1].called]) <= STORING_TASKS_PER_CLIENT
    assert len(keeping) == 41


def test_an_end_that_cannot_be_kept_is_still_told() -> None:
    """The client that waits hears of the outcome; after a restart the task counts as failed."""
    kept = Kept()
    kept.begin("t")
    kept.down = True
    with pytest.raises(LedgerUnavailable):
        kept.settle("t")
    task = kept.tasks.get("one", "t")
    assert task is not None and task.document["status"]["state"] == "TASK_STATE_COMPLETED"
    again = FrontTaskTable(kept.book, kept.keep).get("one", "t")
    assert again is not None and again.document["status"]["state"] == "TASK_STATE_FAILED"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many run, so many are kept of a client and of all, so long is one; the oldest that has ended goes first."""
    monkeypatch.setattr(front_tasks, "MOST_RUNNING", 3)
    monkeypatch.setattr(front_tasks, "MOST_PER_CLIENT", 2)
    kept = Kept()
    kept.book._table(KIND).holding = replace(ITEM_KINDS[KIND], in_all=4)
    for name in ("a", "b"):
        kept.begin(name)
    with pytest.raises(TooManyTasks):
        kept.begin("c")
    kept.settle("a")
    kept.begin("c")
    assert kept.tasks.get("one", "a") is None and kept.book.get(KIND, "a") is None
    kept.begin("d", "two")
    with pytest.raises(TooManyTasks):
        kept.begin("e", "two")
    kept.settle("b")
    kept.settle("d")
    kept.begin("e", "two")
    kept.begin("f", "three")
    assert [name for name in "abcdef" if kept.book.get(KIND, name) is not None] == ["c", "d", "e", "f"]
    long = [{"artifactId": "a", "parts": [{"text": "x" * front_tasks.LONGEST}]}]
    kept.settle("c", artifacts=long)
    item = kept.book.get(KIND, "c")
    assert item is not None and "artifacts" not in item.value["document"]
    assert item.value["document"]["metadata"]["agtp.artifacts"]


def test_only_a_waiting_call_is_withdrawn() -> None:
    """A call that waits is ended once; one that does not wait is left, and so is one of another agent's task."""
    kept = Kept()
    call = kept.begin("t")
    assert not kept.tasks.withdraw("t") and not kept.tasks.is_withdrawn("t")
    ended: list[str] = []
    call.add(lambda: ended.append("t"))
    kept.tasks.withdraw_suspended("b" * 64, "t")
    assert not ended
    kept.tasks.withdraw_suspended(OWNER, "t")
    assert ended == ["t"] and kept.tasks.is_withdrawn("t")
    kept.settle("t")
    assert not kept.tasks.is_withdrawn("t") and not kept.tasks.withdraw("t")
