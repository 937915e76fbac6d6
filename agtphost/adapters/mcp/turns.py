"""Taking turns: a bounded number of calls at work, and a bounded number waiting, first come first served."""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from agtphost.adapters.mcp.failures import CallTimeout, LinkLost, Overloaded


class Turns:
    """
    Admits calls.

    :param clock: for the deadlines of those that wait.
    :param at_once: calls at work.
    :param waiting: calls that may wait besides.
    """

    def __init__(self, clock: IReactorTime, at_once: int, waiting: int) -> None:
        self._clock = clock
        self._free = at_once
        self._room = waiting
        self._queue: deque[Deferred[None]] = deque()

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return len(self._queue)

    def take(self) -> bool:
        """Take a turn if one is free and nobody waits."""
        if self._free > 0 and not self._queue:
            self._free -= 1
            return True
        return False

    def wait(self, timeout: float) -> Deferred[None]:
        """
        Wait for a turn; it is taken when the Deferred fires.

        :raises Overloaded: at once, where too many wait.
        """
        if len(self._queue) >= self._room:
            raise Overloaded("too many calls wait")
        turn: Deferred[None] = Deferred(self._leave)
        self._queue.append(turn)
        timer = self._clock.callLater(
            max(timeout, 0), self._expel, turn, CallTimeout("the deadline passed before the call's turn came")
        )

        def over(result: object) -> object:
            if timer.active():
                timer.cancel()
            return result

        turn.addBoth(over)
        return turn

    def give_back(self) -> None:
        """End a turn; the next in line takes it."""
        if self._queue:
            self._queue.popleft().callback(None)
        else:
            self._free += 1

    def fail_all(self, failure: LinkLost) -> None:
        """Send everyone who waits away."""
        queue = list(self._queue)
        self._queue.clear()
        for turn in queue:
            turn.errback(failure.again())

    def _expel(self, turn: Deferred[None], failure: CallTimeout) -> None:
        self._leave(turn)
        turn.errback(failure)

    def _leave(self, turn: Deferred[None]) -> None:
        if turn in self._queue:
            self._queue.remove(turn)
