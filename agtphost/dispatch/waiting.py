"""Waits for handlers: no longer than they may take, and not for callers who are gone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from agtphost.dispatch.running import Leaving

log = Logger()


def bounded(
    working: Deferred[Any],
    seconds: float,
    clock: IReactorTime,
    leaving: Leaving | None = None,
) -> Deferred[Any]:
    """
    What a handler comes to, if it does so in time.

    A handler that is late is cancelled, but not waited for: one that pays no
    attention does not delay the answer. What it comes to afterwards is
    dropped, and logged where it is an error.

    :param working: the handler's own Deferred.
    :param leaving: called when the caller is gone, which also ends the handler; None where it is to finish.
    :return: fails with TimeoutError when time is up, and with CancelledError where the caller left.
        Cancelling it cancels the handler.
    """
    answer: Deferred[Any] = Deferred(lambda _: working.cancel())

    def give_up(error: Exception) -> None:
        if not answer.called:
            tidy()
            answer.errback(error)
            working.cancel()

    def left() -> None:
        give_up(CancelledError())

    def tidy() -> None:
        if timer.active():
            timer.cancel()
        if leaving is not None:
            leaving.discard(left)

    def settle(outcome: Any) -> None:
        if not answer.called:
            tidy()
            answer.callback(outcome)
        elif isinstance(outcome, Failure) and not isinstance(outcome.value, CancelledError):
            log.failure("a handler failed after its call had ended", outcome)

    timer = clock.callLater(seconds, lambda: give_up(TimeoutError()))
    if leaving is not None:
        leaving.add(left)
    working.addBoth(settle)
    return answer


async def resumed(begun: Coroutine[Any, Any, Any], awaited: Any) -> Any:
    """
    Go on with a coroutine that has run up to its first wait.

    :param awaited: what it waits for.
    """
    resume: Callable[[Any], Any]
    while True:
        try:
            value = await awaited
        except GeneratorExit:
            begun.close()
            raise
        except BaseException as error:
            resume, argument = begun.throw, error
        else:
            resume, argument = begun.send, value
        try:
            awaited = resume(argument)
        except StopIteration as ended:
            return ended.value
