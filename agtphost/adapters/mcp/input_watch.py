"""
Watch whether a process reads its standard input.

The kernel tells how many octets lie unread in a pipe. So a server that stopped reading is detected by its first unread
octet, and not only when the pipe is full. No timer runs while everything is read.
"""

from __future__ import annotations

import fcntl
import struct
import termios
from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

CHECKS = 8
"""Checks within the time limit."""


class InputWatch:
    """
    A watch on one pipe.

    :param clock: runs the checks.
    :param seconds: the time within which something has to be read.
    :param descriptor: returns the pipe's writing end; None once it is closed.
    :param stuck: called once, with those seconds, when nothing was read for so long.
    """

    def __init__(
        self,
        clock: IReactorTime,
        seconds: float,
        descriptor: Callable[[], int | None],
        stuck: Callable[[float], None],
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._descriptor = descriptor
        self._stuck = stuck
        self._written = 0
        self._handed = 0
        self._read = -1
        self._since = 0.0
        self._timer: IDelayedCall | None = None

    def count_written(self, octets: int) -> None:
        """Count octets that were written into the pipe."""
        self._written += octets
        if self._timer is None:
            self._read, self._since = -1, self._clock.seconds()
            self._timer = self._clock.callLater(self._seconds / CHECKS, self._check)

    def count_queued(self, octets: int) -> None:
        """Count octets that wait for room in the pipe, until :meth:`count_taken`."""
        self._handed += octets

    def count_taken(self) -> None:
        """Count the waiting octets as written."""
        self._written += self._handed
        self._handed = 0

    def stop(self) -> None:
        """Stop watching the pipe."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _check(self) -> None:
        self._timer = None
        descriptor = self._descriptor()
        if descriptor is None:
            return
        unread = octets_in(descriptor)
        if not unread and not self._handed:
            return
        now = self._clock.seconds()
        # A part of the waiting octets may be in the pipe already: then this count is too low, but it still grows.
        read = self._written - unread
        if read > self._read:
            self._read, self._since = read, now
        elif now - self._since >= self._seconds:
            self._stuck(self._seconds)
            return
        self._timer = self._clock.callLater(self._seconds / CHECKS, self._check)


def octets_in(descriptor: int) -> int:
    """Return the octets that lie unread in a pipe; 0 where the system does not tell."""
    try:
        answer = fcntl.ioctl(descriptor, termios.FIONREAD, b"\0\0\0\0")
    except OSError:
        return 0
    return int(struct.unpack("i", answer)[0])
