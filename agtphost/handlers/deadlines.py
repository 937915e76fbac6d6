"""
The deadlines of many waits: one timer for all of them.

Nearly every wait ends before its time is up, and a timer of the reactor costs
more to make and to cancel than the rest of its end. So the timer is set for the
first that is due, and left as it is when that one ends; where none is left, it
is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

Late = Callable[[], object]

log = Logger()


class Deadlines:
    """
    Tells waits that their time is up.

    :param clock: by which it is.
    """

    __slots__ = ("_at", "_clock", "_timer", "_waits")

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._waits: dict[Late, float] = {}
        self._timer: IDelayedCall | None = None
        self._at = inf

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, seconds: float, late: Late) -> None:
        """Have ``late`` called after so many seconds, unless it is discarded before; it stands for the wait itself."""
        at = self._waits[late] = self._clock.seconds() + seconds
        if at < self._at:
            self._set(at, seconds)

    def discard(self, late: Late) -> None:
        """The wait is over. One that is not known, as its time was up, is no error."""
        self._waits.pop(late, None)
        if not self._waits and self._timer is not None:
            timer, self._timer, self._at = self._timer, None, inf
            timer.cancel()

    def _set(self, at: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._clock.callLater(max(seconds, 0.0), self._look)

    def _look(self) -> None:
        self._timer, self._at = None, inf
        now = self._clock.seconds()
        for late, _ in sorted(self._due(now), key=lambda each: each[1]):
            # The end of one may be the end of others, whose time is up no more.
            if self._waits.pop(late, None) is not None:
                try:
                    late()
                except Exception:
                    log.failure("the end of a wait failed")
        first = min(self._waits.values(), default=inf)
        if first < self._at:
            self._set(first, first - now)

    def _due(self, now: float) -> list[tuple[Late, float]]:
        return [(late, at) for late, at in self._waits.items() if at <= now]
