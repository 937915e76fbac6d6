"""A timer queue of keys that acts on many expired keys in small batches, so that other work is not delayed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from agtphost.vocabulary.sorted_blocks import SortedBlocks
from agtphost.vocabulary.steps import TURN

SHARE = TURN / 10
"""Processor seconds of one queue in a turn of the reactor; there are several queues, and all may have due keys."""

log = Logger()


class TimerQueue:
    """
    A timer queue, which acts on each key as soon as its time has come.

    It has one timer for all keys, and acts on many that expire at the same moment in many turns of the reactor.

    :param act: called with a key, which is removed from the queue before.
    """

    def __init__(self, clock: IReactorTime, act: Callable[[str], object]) -> None:
        self._clock = clock
        self._act = act
        self._now: set[str] = set()
        self._queue: deque[str] = deque()  # Keys to act on in the next turns; those no longer in _now are skipped.
        self._times: dict[str, float] = {}
        self._order: SortedBlocks[str] = SortedBlocks()
        self._call: IDelayedCall | None = None
        self._stopped = False

    def at(self, key: str, seconds: float) -> None:
        """
        Schedule a key, in place of an earlier time.

        :param seconds: from now on.
        """
        self.drop(key)
        when = self._times[key] = self._clock.seconds() + max(seconds, 0.0)
        self._order.put((when, key), key)
        self._arm()

    def enqueue(self, keys: Iterable[str]) -> None:
        """Act on keys in their order, in a later turn of the reactor."""
        new = [key for key in keys if key not in self._now]
        self._now.update(new)
        self._queue.extend(new)
        self._arm()

    def drop(self, key: str) -> None:
        """Remove a key from the queue."""
        self._now.discard(key)
        when = self._times.pop(key, None)
        if when is not None:
            self._order.drop((when, key))

    def awaits(self, key: str) -> bool:
        """Return whether a key is in the queue."""
        return key in self._now or key in self._times

    def stop(self) -> None:
        """Remove all keys, and take no further ones."""
        self._stopped = True
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._now.clear()
        self._queue.clear()
        self._times.clear()
        self._order = SortedBlocks()

    def _arm(self) -> None:
        if self._stopped:
            return
        first = self._order.first()
        if self._now:
            when = 0.0
        elif first is not None:
            when = first[0][0]
        else:
            return
        if self._call is not None and self._call.active():
            if self._call.getTime() <= when:
                return
            self._call.cancel()
        self._call = self._clock.callLater(max(when - self._clock.seconds(), 0.0), self._act_on_due)

    def _act_on_due(self) -> None:
        began = time.thread_time()
        while (key := self._next()) is not None:
            try:
                self._act(key)
            except Exception:
                log.failure("what was due did not happen: {key}", key=key)
            if time.thread_time() - began > SHARE:
                break
        self._arm()

    def _next(self) -> str | None:
        """Remove and return the next key whose time has come; None where there is none."""
        while self._queue:
            key = self._queue.popleft()
            if key in self._now:
                break
        else:
            first = self._order.first()
            if first is None or first[0][0] > self._clock.seconds():
                return None
            key = first[1]
        self.drop(key)
        return key
