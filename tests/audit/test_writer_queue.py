"""The queue to the ledger's writer thread: tasks run there, and end no wait."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from agtphost.audit.drafts import ReservationKey
from agtphost.audit.writer import Claim
from agtphost.audit.writer_queue import WriterQueue


def test_a_task_runs_in_the_taker_and_ends_no_wait() -> None:
    """A beat each second must not keep the writer from the work that it does when nothing comes."""
    queue, ran = WriterQueue(), []
    queue.call(lambda: ran.append(1))
    queue.call(lambda: ran.append(2))
    assert queue.take(0) is None
    assert ran == [1, 2]


def test_a_wake_ends_the_wait() -> None:
    """Looking for room on a disk cannot wait for the next group."""
    queue = WriterQueue()
    queue.wake()
    assert queue.take(0) == ([], False)


def test_a_task_that_comes_with_a_group_waits_for_it() -> None:
    """The group is taken first, and the taker runs the task afterwards."""
    queue, ran = WriterQueue(), []
    entry = Claim(ReservationKey(agent_id="a", key="k"), b"", Deferred())
    queue.put(([entry], 0))
    queue.call(lambda: ran.append(1))
    queue.stop()
    assert queue.take(0) == ([entry], True)
    assert ran == []
    queue.run_tasks()
    assert ran == [1]


def test_a_closed_queue_drops_tasks() -> None:
    """The thread that empties a queue after its end must not run the writer's tasks."""
    queue, ran = WriterQueue(), []
    queue.call(lambda: ran.append(1))
    queue.close()
    queue.call(lambda: ran.append(2))
    assert queue.take(0) is None
    assert ran == []
