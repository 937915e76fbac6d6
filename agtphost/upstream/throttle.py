"""Limit what a server can make the host do without a request: octets read and lines logged."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

UNSOLICITED_OCTETS = 4 << 20
"""Octets per second of notifications, garbage and stderr; answers to calls are free."""

SLICE = 0.25
"""Seconds over which octets are counted: in one go the host reads a quarter of a second's share."""

LEAST = 1024
"""The least octets that a message counts for, since even a short message costs time."""

PATIENCE = 8
"""Slices in a row in which a source may exceed its share; each further one halves the share."""

SMALLEST = 1 / 64
"""The smallest part of the share, for a source that never stops."""

LINES_LOGGED = 20
"""Lines of one server that are logged each second; the rest are counted."""


class ReadThrottle:
    """
    A throttle that pauses a source which exceeds its share, until the slice of time is over.

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
        self._octets = octets * SLICE
        self._part = 1.0
        self._slices_over = 0
        self._left = self._octets
        self._until = 0.0
        self._waiting: IDelayedCall | None = None
        self.is_paused = False
        """Whether the source is paused."""

        self.pauses = 0

    def spend(self, octets: int) -> None:
        """Count unsolicited octets of one message or chunk; pause the source once they exceed its share."""
        now = self._clock.seconds()
        if now >= self._until:
            self._adjust(now)
            self._left = self._octets * self._part
            self._until = now + SLICE
        self._left -= max(octets, LEAST)
        if self._left < 0 and self._waiting is None:
            self.pauses += 1
            self._pause()
            self._waiting = self._clock.callLater(self._until - now, self._resume_reading)
            self.is_paused = True

    def _adjust(self, now: float) -> None:
        if self._left < 0 and now < self._until + SLICE:
            self._slices_over += 1
            if self._slices_over > PATIENCE:
                self._part = max(self._part / 2, SMALLEST)
        else:
            self._slices_over = 0
            slices = min(int((now - self._until) / SLICE) + 1, 8)
            self._part = min(self._part * 2**slices, 1.0)

    def close(self) -> None:
        """Forget the source; it is not resumed."""
        if self._waiting is not None and self._waiting.active():
            self._waiting.cancel()
        self._waiting, self.is_paused = None, False

    def _resume_reading(self) -> None:
        self._waiting, self.is_paused = None, False
        self._resume()


class LogThrottle:
    """
    A quota of log lines per second.

    :param clock: counts the seconds.
    """

    def __init__(self, clock: IReactorTime, lines: int = LINES_LOGGED) -> None:
        self._clock = clock
        self._lines = lines
        self._left = lines
        self._until = 0.0
        self.suppressed_lines = 0
        """Lines since the start that were not logged."""

    def admits(self) -> bool:
        """Return whether one more line may be logged now, and count it."""
        now = self._clock.seconds()
        if now >= self._until:
            self._left = self._lines
            self._until = now + 1.0
        if self._left <= 0:
            self.suppressed_lines += 1
            return False
        self._left -= 1
        return True
