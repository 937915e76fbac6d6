"""Waits for handlers: no longer than they may take, and not for callers who are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.errors import Refusal
from agtphost.handlers.deadlines import Deadlines
from agtphost.vocabulary.reasons import Reason

if TYPE_CHECKING:
    from agtphost.dispatch.running_calls import Leaving

log = Logger()

_CANCELLATIONS = frozenset({Reason.CANCELLED, Reason.UPSTREAM_CANCELLED})
"""What a cancelled handler refuses with where it turns its cancellation into a refusal."""


class _Wait:
    """
    A handler whose result is awaited.

    :param awaited: what is cancelled with it.
    :param seconds: how long it may take.
    :param deadlines: tell it when that is over.
    :param leaving: where to hear that the caller is gone.
    """

    __slots__ = ("_awaited", "_deadlines", "_leaving", "answer")

    def __init__(self, awaited: Deferred[Any], seconds: float, deadlines: Deadlines, leaving: Leaving | None) -> None:
        self.answer: Deferred[Any] = Deferred(self._cancel_handler)
        self._awaited = awaited
        self._leaving = leaving
        self._deadlines = deadlines
        deadlines.add(seconds, self._late)
        if leaving is not None:
            leaving.add(self._end_for_caller)

    def settle(self, outcome: Any) -> None:
        """Note that the handler has ended."""
        if not self.answer.called:
            self._tidy()
            self.answer.callback(outcome)
        elif isinstance(outcome, Failure) and not _is_cancellation(outcome.value):
            if isinstance(outcome.value, Refusal):
                log.info("a handler refused after its call had ended: {why}", why=str(outcome.value))
            else:
                log.failure("a handler failed after its call had ended", outcome)

    def _late(self) -> None:
        self._give_up(TimeoutError())

    def _end_for_caller(self) -> None:
        self._give_up(CancelledError())

    def _cancel_handler(self, _: Deferred[Any]) -> None:
        self._awaited.cancel()

    def _give_up(self, error: Exception) -> None:
        if not self.answer.called:
            self._tidy()
            self.answer.errback(error)
            self._awaited.cancel()

    def _tidy(self) -> None:
        self._deadlines.discard(self._late)
        if self._leaving is not None:
            self._leaving.discard(self._end_for_caller)


def _is_cancellation(error: BaseException | None) -> bool:
    """Return whether a handler ended because it was cancelled: itself, in a call inside this host, or upstream."""
    return isinstance(error, CancelledError) or (isinstance(error, Refusal) and error.reason in _CANCELLATIONS)


class _Course(_Wait):
    """
    A handler's coroutine on its way, from its first wait to its end.

    This class drives it without a Deferred and a driver in between, because most handlers wait once.
    """

    __slots__ = ("_coroutine", "_run")

    def __init__(
        self,
        begun: Coroutine[Any, Any, Any],
        awaited: Deferred[Any],
        seconds: float,
        deadlines: Deadlines,
        leaving: Leaving | None,
    ) -> None:
        super().__init__(awaited, seconds, deadlines, leaving)
        self._coroutine = begun
        # A separate context: its context variables must not leak into other calls.
        self._run = copy_context().run

    def advance(self, result: Any) -> None:
        """Run the handler until it waits again, or ends; ``result`` is consumed."""
        try:
            if isinstance(result, Failure):
                awaited = self._run(result.throwExceptionIntoGenerator, self._coroutine)
            else:
                awaited = self._run(self._coroutine.send, None)
        except StopIteration as ended:
            self.settle(ended.value if not isinstance(ended.value, Deferred) else _nothing_to_wait_for())
        except BaseException:
            self.settle(Failure())  # type: ignore[no-untyped-call]
        else:
            self._awaited = _to_deferred(awaited)
            self._awaited.addBoth(self.advance)


def _nothing_to_wait_for() -> Failure:
    return Failure(TypeError("the handler returned a Deferred that it should have awaited"))  # type: ignore[no-untyped-call]


def _to_deferred(awaited: Any) -> Deferred[Any]:
    """Return the Deferred that a coroutine awaits; for other awaitables, one that awaits them."""
    if isinstance(awaited, Deferred):
        return awaited

    async def waiting() -> Any:
        return await awaited

    return Deferred.fromCoroutine(waiting())


def limit_time(
    working: Deferred[Any],
    seconds: float,
    clock: IReactorTime,
    leaving: Leaving | None = None,
) -> Deferred[Any]:
    """
    Return a Deferred of a handler's result, limited in time.

    A late handler is cancelled, but not waited for: one that ignores this does not delay the answer. Its later result
    is dropped, and logged where it is an error.

    :param working: the handler's own Deferred.
    :param leaving: called when the caller is gone, which also ends the handler; None where it is to finish.
    :return: fails with TimeoutError when time is up, and with CancelledError where the caller left.
        Cancelling it cancels the handler.
    """
    wait = _Wait(working, seconds, Deadlines(clock), leaving)
    working.addBoth(wait.settle)
    return wait.answer


def continue_coroutine(
    begun: Coroutine[Any, Any, Any],
    awaited: Any,
    seconds: float,
    deadlines: Deadlines,
    leaving: Leaving | None = None,
) -> Deferred[Any]:
    """
    Continue a coroutine that has run up to its first wait; see :func:`limit_time`.

    :param awaited: what it waits for.
    :param deadlines: of all waiting calls of one dispatcher.
    """
    working = _to_deferred(awaited)
    course = _Course(begun, working, seconds, deadlines, leaving)
    working.addBoth(course.advance)
    return course.answer


def refuse_late(seconds: float) -> Refusal:
    """Return the refusal of a call whose handler took longer than so many seconds: 408."""
    return Refusal(
        Reason.TIMEOUT,
        f"The call did not end within {seconds:g} seconds.",
        remedy="Ask for less, or have the operator raise the endpoint's timeout.",
    )


def as_deferred(answer: Awaitable[Any]) -> Deferred[Any]:
    """Return what a handler answered as a Deferred: another kind of awaitable is awaited by a coroutine."""
    return answer if isinstance(answer, Deferred) else Deferred.fromCoroutine(_await_answer(answer))


async def _await_answer(answer: Awaitable[Any]) -> Any:
    return await answer
