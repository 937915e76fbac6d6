"""
Threads for functions that wait or compute for long, so that the reactor never does.

The threads are separate from the reactor's pool: neither name look-ups nor the store wait behind an operator's
function. They are daemons, because a function that never returns must not keep the host from ending.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from agtphost.errors import Refusal
from agtphost.vocabulary.reasons import Reason

MOST_THREADS = 16
"""Functions that run at the same time."""

MOST_WAITING = 256
"""Calls that wait for a thread; one more is refused."""


class FromThread(Protocol):
    """The part of the reactor that threads need."""

    def callFromThread(self, callable: Callable[..., object], *args: object) -> None:
        """Run soon, in the reactor's thread."""


class _Call:
    """A call that is queued, running or given up."""

    __slots__ = ("deferred", "function", "given_up")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.given_up = False
        self.deferred: Deferred[Any] = Deferred(self._give_up)

    def _give_up(self, _: Deferred[Any]) -> None:
        # A call that has not begun never does; one that has cannot be stopped, and its result is dropped.
        self.given_up = True


class Threads:
    """
    Runs functions in threads, each started when it is first needed.

    :param reactor: gets their results.
    :param most: threads.
    :param waiting: calls that may wait for one.
    """

    def __init__(self, reactor: FromThread, most: int = MOST_THREADS, waiting: int = MOST_WAITING) -> None:
        self._reactor = reactor
        self._most = most
        self._most_waiting = waiting
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._count = 0
        self._busy = 0
        self._queued = 0

    @property
    def busy(self) -> int:
        """Threads that are inside a function."""
        return self._busy

    @property
    def waiting(self) -> int:
        """Calls that no thread has taken up yet."""
        return self._queued

    def run(self, function: Callable[[], Any]) -> Deferred[Any]:
        """
        Call ``function`` in a thread. Cancelling the result keeps a waiting call from ever beginning.

        :raises agtphost.errors.Refusal: 503, where too many calls wait already.
        """
        if self._queued >= self._most_waiting:
            raise Refusal(Reason.HANDLERS_BUSY, headers=(("Retry-After", "1"),))
        call = _Call(function)
        self._queued += 1
        if self._count < self._most and self._busy + self._queued > self._count:
            self._count += 1
            Thread(target=self._work, name=f"agtphost-handler-{self._count}", daemon=True).start()
        self._queue.put(call)
        return call.deferred

    def stop(self) -> None:
        """Let every thread end after the call it is in."""
        for _ in range(self._count):
            self._queue.put(None)
        self._count = 0

    def _work(self) -> None:
        """Run calls until the queue ends; the main function of a thread."""
        while (call := self._queue.get()) is not None:
            # Only ever set to True: the worst that a race can do is to begin a call whose caller just left.
            given_up = call.given_up
            self._reactor.callFromThread(self._note_begin)
            outcome: Any = None
            if not given_up:
                try:
                    outcome = call.function()
                except BaseException:
                    outcome = Failure()  # type: ignore[no-untyped-call]
            self._reactor.callFromThread(self._finish_call, call, outcome)
            del call, outcome

    def _note_begin(self) -> None:
        self._queued -= 1
        self._busy += 1

    def _finish_call(self, call: _Call, outcome: Any) -> None:
        self._busy -= 1
        if not call.deferred.called:
            call.deferred.callback(outcome)
