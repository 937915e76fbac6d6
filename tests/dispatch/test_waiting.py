"""How long handlers are waited for: time, callers who leave, handlers that do not listen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from agtphost.dispatch.waiting import bounded


def outcome(deferred: Deferred[Any]) -> list[Any]:
    """What it came to, as soon as it does."""
    found: list[Any] = []
    deferred.addBoth(lambda result: found.append(result.value if isinstance(result, Failure) else result))
    return found


def test_an_answer_in_time() -> None:
    """It is passed on, and no timer is left."""
    clock, working, leaving = Clock(), Deferred[Any](), set[Callable[[], None]]()
    found = outcome(bounded(working, 5, clock, leaving))
    assert len(leaving) == 1
    working.callback(7)
    assert found == [7] and clock.getDelayedCalls() == [] and leaving == set()


def test_time_is_up() -> None:
    """The handler is cancelled; what it says afterwards is dropped (408)."""
    clock, cancelled = Clock(), []
    working: Deferred[Any] = Deferred(cancelled.append)
    found = outcome(bounded(working, 5, clock))
    clock.advance(5)
    assert isinstance(found[0], TimeoutError) and len(found) == 1 and len(cancelled) == 1


def test_a_handler_that_does_not_listen_delays_nothing() -> None:
    """A coroutine that goes on in spite of its cancellation is answered for at once all the same."""
    clock, second = Clock(), Deferred[Any]()

    async def stubborn() -> str:
        try:
            await Deferred()
        except CancelledError:
            await second
        return "late"

    found = outcome(bounded(Deferred.fromCoroutine(stubborn()), 5, clock))
    clock.advance(5)
    assert isinstance(found[0], TimeoutError)
    second.callback(None)
    assert len(found) == 1


def test_a_caller_who_leaves() -> None:
    """The handler is cancelled, and the timer with it."""
    clock, leaving, cancelled = Clock(), set[Callable[[], None]](), []
    found = outcome(bounded(Deferred(cancelled.append), 5, clock, leaving))
    (leave,) = leaving
    leave()
    leave()
    assert isinstance(found[0], CancelledError) and len(cancelled) == 1
    assert clock.getDelayedCalls() == [] and leaving == set()


def test_cancelling_the_answer_cancels_the_handler() -> None:
    """That is how a call inside another call ends with it."""
    clock, cancelled = Clock(), []
    answer = bounded(Deferred(cancelled.append), 5, clock)
    found = outcome(answer)
    answer.cancel()
    assert isinstance(found[0], CancelledError) and len(cancelled) == 1 and clock.getDelayedCalls() == []
