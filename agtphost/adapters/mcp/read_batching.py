"""
Read answers in batches where many calls wait for them.

A server that works on one call after the other gives its answers one at a time. A separate read for each answer wakes
the host, takes the processor from the server, which often runs on the same one, and gives the ledger single records to
commit. So after a read, the next answers collect in the pipe for a fraction of the time that a call takes. Reads are
not delayed where few calls wait, where answers are quick, or where no answer came during the last delay.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

LEAST_CALLS = 4
"""The least number of calls in flight for which reads are delayed."""

DELAY_DIVISOR = 2
"""
The divisor of a quick call's duration that gives the delay.

A caller that calls again as soon as it has an answer gets the next one later than that, so it never waits for itself.
"""

SHORTEST_DELAY = 0.001
"""The shortest delay in seconds; a reactor's timers have that resolution."""

LONGEST_DELAY = 0.008
"""The longest delay in seconds, however long calls take."""

MOST_SKIPPED = 63
"""The most reads without a delay after delays in which nothing came, since calls may take minutes."""


class ReadBatcher:
    """
    A timer that decides when a pipe of answers is read.

    :param clock: runs the delay.
    :param on_end: called when the delay ends; it reports with :meth:`note_result` whether answers came.
    """

    def __init__(self, clock: IReactorTime, on_end: Callable[[], None]) -> None:
        self._clock = clock
        self._on_end = on_end
        self._timer: IDelayedCall | None = None
        self._empty_reads = 0  # times in a row that nothing had come
        self._skipped = 0  # reads that are still to be done without a delay

    @property
    def is_delaying(self) -> bool:
        """Whether a delay runs, so that nothing is to be read at present."""
        return self._timer is not None

    def begin_delay(self, waiting: int, quick: float) -> bool:
        """
        Return whether reading pauses now; called after each read.

        :param waiting: calls in flight.
        :param quick: seconds that a quick one of them takes.
        """
        if self._timer is not None:
            return True
        if waiting < LEAST_CALLS:
            return False
        seconds = min(quick / DELAY_DIVISOR, LONGEST_DELAY)
        if seconds < SHORTEST_DELAY:
            return False
        if self._skipped:
            self._skipped -= 1
            return False
        self._timer = self._clock.callLater(seconds, self._end_delay)
        return True

    def note_result(self, anything: bool) -> None:
        """Take whether answers came during the delay."""
        self._empty_reads = 0 if anything else min(self._empty_reads + 1, MOST_SKIPPED.bit_length())
        self._skipped = (1 << self._empty_reads) - 1

    def stop(self) -> None:
        """Cancel the delay, since nothing will be read any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_delay(self) -> None:
        self._timer = None
        self._on_end()
