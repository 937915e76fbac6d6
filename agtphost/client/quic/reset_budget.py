"""How many calls of a QUIC connection may be cancelled before its server takes that for an attack."""

from __future__ import annotations

import math
from collections.abc import Callable

from agtphost.vocabulary.quic_codes import MOST_RESETS, RESET_SECONDS


class ResetBudget:
    """
    The cancellations that the server may still count.

    A server closes a connection with more than :data:`.MOST_RESETS` of them in :data:`.RESET_SECONDS`, and with it all
    other calls. So calls that run are counted as if they were cancelled, and further ones wait. Where more would wait,
    new calls are made over a new connection.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        """Until when a cancellation counts, by stream; infinite until the server has acknowledged it."""

    def add(self, stream: int) -> None:
        """Count the cancellation of the call on a stream."""
        self._until[stream] = math.inf

    def update(self, now: float, is_open: Callable[[int], bool]) -> None:
        """
        Forget what the server counts no more.

        :param is_open: whether the end of a stream is still not acknowledged: the server may count it later than it was
            sent, never later than it is known to have it.
        """
        for stream, until in tuple(self._until.items()):
            if until <= now:
                del self._until[stream]
            elif until == math.inf and not is_open(stream):
                self._until[stream] = now + RESET_SECONDS

    def takes_call(self, under_way: int) -> bool:
        """Return whether a new call belongs on this connection, besides ``under_way`` that run or wait."""
        return not self._until or self.allows_call(under_way)

    def allows_call(self, running: int) -> bool:
        """Return whether one more call could be cancelled besides ``running`` others."""
        return len(self._until) + running < MOST_RESETS

    @property
    def due(self) -> float:
        """Return when the first cancellation is forgotten; infinite where none is known to have arrived."""
        return min(self._until.values(), default=math.inf)
