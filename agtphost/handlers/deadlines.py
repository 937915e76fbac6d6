"""
The deadlines of many waits: one timer for all of them.

Nearly every wait ends before its time is up, and a timer of the reactor costs
more to make and to cancel than the rest of its end. So the timer is set for the
first that is due, and left as it is when that one ends; where none is left, it
is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

Late = Callable[[], object]

SPARE = 64
"""Waits that are over and may stand among the others whatever there are of these."""

log = Logger()


class Deadlines:
    """
    Tells waits that their time is up.

    Each is in a heap by when it is due, and stays there when it is over before, so that neither costs more where
    thousands wait. What is over is cleared away when it is more than what waits.

    :param clock: by which their time is up.
    """

    __slots__ = ("_at", "_clock", "_count", "_heap", "_timer", "_waits")

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._waits: dict[Late, int] = {}
        self._heap: list[tuple[float, int, Late]] = []
        self._count = 0
        self._timer: IDelayedCall | None = None
        self._at = inf

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, seconds: float, late: Late) -> float:
        """
        Have ``late`` called after so many seconds, unless it is discarded before; it stands for the wait itself.

        :return: the time now.
        """
        now = self._clock.seconds()
        at = now + seconds
        self._count = number = self._count + 1
        self._waits[late] = number
        heap = self._heap
        heappush(heap, (at, number, late))
        if len(heap) > SPARE and len(heap) > 2 * len(self._waits):
            self._heap = heap = [each for each in heap if self._waits.get(each[2]) == each[1]]
            heapify(heap)
        if at < self._at:
            self._set(at, seconds)
        return now

    def discard(self, late: Late) -> None:
        """The wait is over. One that is not known, as its time was up, is no error."""
        self._waits.pop(late, None)
        if not self._waits and self._timer is not None:
            timer, self._timer, self._at = self._timer, None, inf
            timer.cancel()
            self._heap.clear()

    def _set(self, at: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._clock.callLater(max(seconds, 0.0), self._look)

    def _look(self) -> None:
        self._timer, self._at = None, inf
        now = self._clock.seconds()
        due = []
        while (first := self._first()) is not None and first[0] <= now:
            due.append(heappop(self._heap))
        for _, number, late in due:
            # The end of one may be the end of others, whose time is up no more.
            if self._waits.get(late) != number:
                continue
            del self._waits[late]
            try:
                late()
            except Exception:
                log.failure("the end of a wait failed")
        first = self._first()
        if first is not None and first[0] < self._at:
            self._set(first[0], first[0] - now)

    def _first(self) -> tuple[float, int, Late] | None:
        """Whoever is due next; what is over and stands before it is cleared away."""
        while self._heap:
            first = self._heap[0]
            if self._waits.get(first[2]) == first[1]:
                return first
            heappop(self._heap)
        return None
