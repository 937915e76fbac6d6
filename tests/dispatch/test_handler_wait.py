"""How long handlers are waited for: time, callers who leave, handlers that do not listen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure

from agtphost.dispatch.handler_wait import continue_coroutine, limit_time
from agtphost.errors import Refusal
from agtphost.handlers.deadlines import Deadlines
from agtphost.vocabulary.reasons import ForeignReason
from agtphost.vocabulary.status import Status


def outcome(deferred: Deferred[Any]) -> list[Any]:
    """What it came to, as soon as it does."""
    found: list[Any] = []
    deferred.addBoth(lambda result: found.append(result.value if isinstance(result, Failure) else result))
    return found


def test_an_answer_in_time() -> None:
    """It is passed on, and no timer is left."""
    clock, working, leaving = Clock(), Deferred[Any](), set[Callable[[], None]]()
    found = outcome(limit_time(working, 5, clock, leaving))
    assert len(leaving) == 1
    working.callback(7)
    assert found == [7] and clock.getDelayedCalls() == [] and leaving == set()


def test_time_is_up() -> None:
    """The handler is cancelled; what it says afterwards is dropped (408)."""
    clock, cancelled = Clock(), []
    working: Deferred[Any] = Deferred(cancelled.append)
    found = outcome(limit_time(working, 5, clock))
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

    found = outcome(limit_time(Deferred.fromCoroutine(stubborn()), 5, clock))
    clock.advance(5)
    assert isinstance(found[0], TimeoutError)
    second.callback(None)
    assert len(found) == 1


def test_a_caller_who_leaves() -> None:
    """The handler is cancelled, and the timer with it."""
    clock, leaving, cancelled = Clock(), set[Callable[[], None]](), []
    found = outcome(limit_time(Deferred(cancelled.append), 5, clock, leaving))
    (leave,) = leaving
    leave()
    leave()
    assert isinstance(found[0], CancelledError) and len(cancelled) == 1
    assert clock.getDelayedCalls() == [] and leaving == set()


def test_cancelling_the_answer_cancels_the_handler() -> None:
    """That is how a call inside another call ends with it."""
    clock, cancelled = Clock(), []
    answer = limit_time(Deferred(cancelled.append), 5, clock)
    found = outcome(answer)
    answer.cancel()
    assert isinstance(found[0], CancelledError) and len(cancelled) == 1 and clock.getDelayedCalls() == []


class Waits:
    """A coroutine up to its first wait."""

    def __init__(self, handler: Coroutine[Any, Any, Any], clock: Clock) -> None:
        self.leaving = set[Callable[[], None]]()
        self.answer = continue_coroutine(handler, handler.send(None), 5, Deadlines(clock), self.leaving)
        self.found = outcome(self.answer)


def test_a_coroutine_goes_on() -> None:
    """Through as many waits as it has, each with its own result or failure; no timer is left."""
    clock, first, second, third = Clock(), Deferred[int](), Deferred[int](), Deferred[int]()

    async def handler() -> int:
        try:
            await first
        except KeyError:
            return await second + await third
        return 0

    waits = Waits(handler(), clock)
    first.errback(KeyError("first"))
    second.callback(3)
    assert waits.found == [] and len(waits.leaving) == 1
    third.callback(4)
    assert waits.found == [7] and clock.getDelayedCalls() == [] and waits.leaving == set()


def test_a_coroutine_that_fails() -> None:
    """What it raises is what the call comes to."""
    clock, waited = Clock(), Deferred[None]()

    async def handler() -> None:
        await waited
        raise LookupError("nothing there")

    waits = Waits(handler(), clock)
    waited.callback(None)
    assert isinstance(waits.found[0], LookupError) and clock.getDelayedCalls() == []


def test_a_late_coroutine_is_cancelled_where_it_waits() -> None:
    """At its second wait as at its first; what it says afterwards is dropped."""
    clock, first, cancelled = Clock(), Deferred[None](), []

    async def handler() -> str:
        await first
        try:
            await Deferred(cancelled.append)
        except CancelledError:
            return "late"
        return "never"

    waits = Waits(handler(), clock)
    first.callback(None)
    clock.advance(5)
    assert isinstance(waits.found[0], TimeoutError) and len(waits.found) == len(cancelled) == 1


def test_a_coroutine_whose_caller_leaves_or_gives_up() -> None:
    """It is cancelled in both cases, and hears nothing twice."""
    for end in (lambda waits: next(iter(waits.leaving))(), lambda waits: waits.answer.cancel()):
        clock, cancelled = Clock(), list[Deferred[None]]()

        async def handler(cancelled: list[Deferred[None]] = cancelled) -> None:
            await Deferred(cancelled.append)

        waits = Waits(handler(), clock)
        end(waits)
        assert isinstance(waits.found[0], CancelledError) and len(cancelled) == 1
        assert clock.getDelayedCalls() == [] and waits.leaving == set()


def test_what_a_coroutine_says_of_its_call_is_its_own() -> None:
    """Its context is a copy from its first wait on: whoever ends the wait has theirs as it was."""
    said: ContextVar[str] = ContextVar("said", default="nobody's")
    clock, waited = Clock(), Deferred[None]()

    async def handler() -> str:
        await waited
        before = said.get()
        said.set("the handler's")
        return before

    said.set("the call's")
    waits = Waits(handler(), clock)
    said.set("another call's")
    waited.callback(None)
    assert waits.found == ["the call's"] and said.get() == "another call's"


def test_what_cannot_be_waited_for_is_told_to_the_coroutine() -> None:
    """A Future of a loop that does not run here, and a Deferred that it returns instead of awaiting it."""
    clock, loop = Clock(), asyncio.new_event_loop()

    async def foreign() -> None:
        await loop.create_future()

    async def forgetful() -> Deferred[None]:
        await waited
        return Deferred()

    assert isinstance(Waits(foreign(), clock).found[0], RuntimeError)
    waited = Deferred[None]()
    waits = Waits(forgetful(), clock)
    waited.callback(None)
    assert isinstance(waits.found[0], TypeError) and clock.getDelayedCalls() == []
    loop.close()


def test_a_cancelled_inner_call_is_not_logged() -> None:
    """A handler that passes on that its inner call was cancelled with it has not failed: the log says nothing."""
    clock, leaving, events = Clock(), set[Callable[[], None]](), list[Any]()

    async def invoking() -> None:
        inner = Deferred[Any]()
        try:
            await inner
        except CancelledError:
            # As the refusal of an inner call is made of its answer.
            raise Refusal(ForeignReason("cancelled", Status.TIMEOUT)) from None

    begun = invoking()
    found = outcome(continue_coroutine(begun, begun.send(None), 5, Deadlines(clock), leaving))
    globalLogPublisher.addObserver(events.append)  # type: ignore[arg-type]
    try:
        for leave in tuple(leaving):
            leave()
    finally:
        globalLogPublisher.removeObserver(events.append)  # type: ignore[arg-type]
    assert isinstance(found[0], CancelledError) and [event for event in events if "log_failure" in event] == []
