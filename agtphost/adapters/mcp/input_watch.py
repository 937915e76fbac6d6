"""
Whether a process reads its standard input.

The kernel says how many octets lie unread in a pipe, so that a server which
stopped reading is found out by its first unread octet and not only when the
pipe is full. Nothing runs while everything is read.
"""

from __future__ import annotations

import fcntl
import struct
import termios
from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

LOOKS = 8
"""Looks within the time that a process has."""


class InputWatch:
    """
    Watches one pipe.

    :param clock: for the looks.
    :param seconds: in which something has to be read.
    :param descriptor: the pipe's writing end; None once it is closed.
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

    def written(self, octets: int) -> None:
        """So many went into the pipe."""
        self._written += octets
        if self._timer is None:
            self._read, self._since = -1, self._clock.seconds()
            self._timer = self._clock.callLater(self._seconds / LOOKS, self._look)

    def handed(self, octets: int) -> None:
        """So many wait for room in the pipe; :meth:`taken` says when they are in it."""
        self._handed += octets

    def taken(self) -> None:
        """What waited is in the pipe."""
        self._written += self._handed
        self._handed = 0

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _look(self) -> None:
        self._timer = None
        descriptor = self._descriptor()
        if descriptor is None:
            return
        unread = octets_in(descriptor)
        if not unread and not self._handed:
            return
        now = self._clock.seconds()
        # A part of what waits may be in the pipe already: then this is too low, and grows all the same.
        read = self._written - unread
        if read > self._read:
            self._read, self._since = read, now
        elif now - self._since >= self._seconds:
            self._stuck(self._seconds)
            return
        self._timer = self._clock.callLater(self._seconds / LOOKS, self._look)


def octets_in(descriptor: int) -> int:
    """Octets that lie unread in a pipe; 0 where the system does not tell."""
    try:
        answer = fcntl.ioctl(descriptor, termios.FIONREAD, b"\0\0\0\0")
    except OSError:
        return 0
    return int(struct.unpack("i", answer)[0])
