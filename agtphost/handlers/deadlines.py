"""
The deadlines of many waits: one timer for all of them.

Nearly every wait ends before its time is up, and a timer of the reactor costs more to make and to cancel than the rest
of its end. So the timer is set for the earliest deadline, and left as it is when that wait ends. When no wait is left,
it is cancelled, unless others are about to follow, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

Late = Callable[[], object]

SPARE = 64
"""So many ended waits may always stay in the heap."""

Entry = list[Any]
"""
The deadline of a wait, its number, and what is called then; None in its place once the wait is over.

The heap keeps an entry until its time is up. With the callable in it, it kept the body and the input of every large
call that had ended within the last half minute: 70 MiB of 50 calls.
"""

log = Logger()


class Deadlines:
    """
    Calls back waits whose time is up.

    Each wait is in a heap by its deadline, and stays there when it ends before, so that adding and ending stay cheap
    with thousands of waits. What is over is cleared away when it is more than what waits.

    :param clock: by which their time is up.
    :param lasting: whether the timer is left as it is even when no wait is left, for an owner of wait after wait.
    """

    __slots__ = ("_at", "_clock", "_count", "_heap", "_lasting", "_timer", "_waits")

    def __init__(self, clock: IReactorTime, *, lasting: bool = False) -> None:
        self._clock = clock
        self._lasting = lasting
        self._waits: dict[Late, Entry] = {}
        self._heap: list[Entry] = []
        self._count = 0
        self._timer: IDelayedCall | None = None
        self._at = inf

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, seconds: float, late: Late) -> float:
        """
        Have ``late`` called after so many seconds, unless it is discarded before; it identifies the wait.

        :return: the time now.
        """
        now = self._clock.seconds()
        at = now + seconds
        self._count = number = self._count + 1
        self._waits[late] = entry = [at, number, late]
        heap = self._heap
        heappush(heap, entry)
        if len(heap) > SPARE and len(heap) > 2 * len(self._waits):
            self._heap = heap = [each for each in heap if self._waits.get(each[2]) is each]
            heapify(heap)
        if at < self._at:
            self._set(at, seconds)
        return now

    def discard(self, late: Late) -> None:
        """End a wait. An unknown one, whose time was up before, is ignored."""
        entry = self._waits.pop(late, None)
        if entry is not None:
            entry[2] = None
        if not self._waits and self._timer is not None:
            self._heap.clear()
            if not self._lasting:
                self._cancel_timer()

    def end(self) -> None:
        """Cancel the timer when no wait is left, now or later, because the owner ends."""
        self._lasting = False
        if not self._waits:
            self._cancel_timer()

    def _cancel_timer(self) -> None:
        timer, self._timer, self._at = self._timer, None, inf
        if timer is not None:
            timer.cancel()

    def _set(self, at: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._clock.callLater(max(seconds, 0.0), self._call_overdue)

    def _call_overdue(self) -> None:
        # Only those that the timer was set for: where the reactor comes late, the deadlines of others come in between,
        # such as that of an upstream, which is to be over before the call that waits for it.
        at, self._timer, self._at = self._at, None, inf
        due = []
        while (first := self._first()) is not None and first[0] <= at:
            due.append(heappop(self._heap))
        for entry in due:
            late = entry[2]
            # The end of one may be the end of others, whose time is up no more.
            if self._waits.get(late) is not entry:
                continue
            del self._waits[late]
            try:
                late()
            except Exception:
                log.failure("the end of a wait failed")
        first = self._first()
        if first is not None and first[0] < self._at:
            now = self._clock.seconds()
            self._set(max(first[0], now), first[0] - now)

    def _first(self) -> Entry | None:
        """Return the wait with the earliest deadline; ended ones before it are removed."""
        while self._heap:
            first = self._heap[0]
            if self._waits.get(first[2]) is first:
                return first
            heappop(self._heap)
        return None
