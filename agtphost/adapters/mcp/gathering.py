"""
Answers that come one by one are read together where many calls wait for theirs.

A server that works on one call after the other gives its answers one at a time.
Each that is read by itself wakes the host, takes the processor from the server
that may well run on it, and leaves the ledger one record to commit. So once an
answer was read, the next ones gather in the pipe for a part of the time that
calls take there anyway. Where few calls wait, or answers are quick, or none
came in the meantime, nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

LEAST = 4
"""Calls without an answer among which the next answers may gather."""

PART = 2
"""
One in so many parts of what a quick call takes is as long as answers gather.

Who calls again as soon as an answer is there has the next one later than that: nobody waits behind their own answer.
"""

SHORTEST = 0.001
"""Seconds; the timers of a reactor are no finer."""

LONGEST = 0.008
"""Seconds, however long calls take."""

MOST_SKIPPED = 63
"""Readings after which nothing gathers, at most, once nothing had come: calls may last for minutes."""


class Gathering:
    """
    Says when a pipe of answers is read.

    :param clock: for the moment that answers have.
    :param over: is called when it is over; says with :meth:`found` what had come.
    """

    def __init__(self, clock: IReactorTime, over: Callable[[], None]) -> None:
        self._clock = clock
        self._told = over
        self._timer: IDelayedCall | None = None
        self._vain = 0  # times in a row that nothing had come
        self._skipped = 0  # readings after which still nothing gathers

    @property
    def going(self) -> bool:
        """Whether nothing is to be read at this moment."""
        return self._timer is not None

    def begins(self, waiting: int, quick: float) -> bool:
        """
        Whether nothing is to be read until it is over; asked after each reading.

        :param waiting: calls without an answer.
        :param quick: seconds that a quick one of them takes.
        """
        if self._timer is not None:
            return True
        if waiting < LEAST:
            return False
        seconds = min(quick / PART, LONGEST)
        if seconds < SHORTEST:
            return False
        if self._skipped:
            self._skipped -= 1
            return False
        self._timer = self._clock.callLater(seconds, self._over)
        return True

    def found(self, anything: bool) -> None:
        """Whether anything had come when it was over."""
        self._vain = 0 if anything else min(self._vain + 1, MOST_SKIPPED.bit_length())
        self._skipped = (1 << self._vain) - 1

    def stop(self) -> None:
        """Nothing will be read any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        self._timer = None
        self._told()
