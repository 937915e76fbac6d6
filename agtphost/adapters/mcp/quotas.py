"""Bounds on what a server can make the host do unasked: octets read and lines logged."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

UNSOLICITED_OCTETS = 4 << 20
"""Octets per second of notifications, garbage and stderr; answers to calls are free."""

LINES_LOGGED = 20
"""Lines of one server that reach the host's log each second; the rest are counted."""


class Allowance:
    """
    Pauses a source that sends more than its share, until the second is over.

    :param clock: counts the seconds.
    :param pause: stops reading.
    :param resume: reads again.
    """

    def __init__(
        self,
        clock: IReactorTime,
        pause: Callable[[], None],
        resume: Callable[[], None],
        octets: int = UNSOLICITED_OCTETS,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._resume = resume
        self._octets = octets
        self._left = octets
        self._until = 0.0
        self._waiting: IDelayedCall | None = None
        self.pauses = 0

    def spend(self, octets: int) -> None:
        """Count unsolicited octets; pause the source once they are more than its share."""
        now = self._clock.seconds()
        if now >= self._until:
            self._left = self._octets
            self._until = now + 1.0
        self._left -= octets
        if self._left < 0 and self._waiting is None:
            self.pauses += 1
            self._pause()
            self._waiting = self._clock.callLater(self._until - now, self._over)

    def close(self) -> None:
        """Forget the source; it is not resumed."""
        if self._waiting is not None and self._waiting.active():
            self._waiting.cancel()
        self._waiting = None

    def _over(self) -> None:
        self._waiting = None
        self._resume()


class LineQuota:
    """
    Says which lines may be logged.

    :param clock: counts the seconds.
    """

    def __init__(self, clock: IReactorTime, lines: int = LINES_LOGGED) -> None:
        self._clock = clock
        self._lines = lines
        self._left = lines
        self._until = 0.0
        self.suppressed = 0
        """Lines since the start that were not logged."""

    def admits(self) -> bool:
        """Whether one more line may be logged now."""
        now = self._clock.seconds()
        if now >= self._until:
            self._left = self._lines
            self._until = now + 1.0
        if self._left <= 0:
            self.suppressed += 1
            return False
        self._left -= 1
        return True
