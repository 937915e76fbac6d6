"""Round-robin start of the calls of batches: all batches of a host share one part of each reactor turn."""

from __future__ import annotations

import time
from collections import deque

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from agtphost.vocabulary.steps import TURN

SHARE = TURN / 5
"""
Seconds of a reactor turn in which calls of batches begin, of all batches together. At least one begins.

With half of a turn for each batch, 16 batches at a time held up every other call for 80 ms in each turn.
"""


class BatchTurns:
    """
    Decides when the next call of a batch begins.

    Callers take turns: who has many batches waits for its own.

    :param clock: the reactor.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._queues: dict[str, deque[Deferred[None]]] = {}
        self._scheduled = False

    def wait(self, key: str) -> Deferred[None]:
        """
        Wait until a call may begin, in a later reactor turn.

        :param key: the caller, :func:`agtphost.dispatch.turn_owner.key_of`.
        """
        waiting: Deferred[None] = Deferred()
        self._queues.setdefault(key, deque()).append(waiting)
        self._schedule()
        return waiting

    def _schedule(self) -> None:
        if self._queues and not self._scheduled:
            self._scheduled = True
            self._clock.callLater(0, self._begin_some)

    def _begin_some(self) -> None:
        """Let calls begin, one of each caller after the other, until the time share is used."""
        began = time.perf_counter()
        while self._queues:
            key = next(iter(self._queues))
            own = self._queues.pop(key)
            waiting = own.popleft()
            if own:
                self._queues[key] = own  # behind the other callers
            if not waiting.called:  # It was cancelled with its batch.
                waiting.callback(None)
            if time.perf_counter() - began > SHARE:
                break
        self._scheduled = False
        self._schedule()
