"""TCP connections to the addresses of a name, of which the first that is there is used (RFC 8305)."""

from __future__ import annotations

import errno
import math
import os
import selectors
import socket
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from agtphost.client.deadline import Clock
from agtphost.client.requests import Destination

ATTEMPT_DELAY = 0.25
"""Seconds after which the next address is tried besides (RFC 8305 section 5): the one before may never answer."""


def interleave(places: Sequence[Any]) -> list[Any]:
    """
    Return what ``getaddrinfo`` found, with an address of another family after each where there is one (RFC 8305).

    Else a name with several addresses of a family that leads nowhere would cost a pause for each.
    """
    preferred = [each for each in places if each[0] == places[0][0]]
    others = [each for each in places if each[0] != places[0][0]]
    return [each for pair in zip_longest(preferred, others) for each in pair if each is not None]


class TcpAttempts:
    """
    Attempts to connect to the addresses of a host, in their order.

    :param clock: that of the deadlines.
    :raises OSError, UnicodeError: if the name has no address.
    """

    def __init__(self, destination: Destination, clock: Clock) -> None:
        found = socket.getaddrinfo(destination.host, destination.port, type=socket.SOCK_STREAM)
        self._places = interleave(found)
        self._clock = clock
        self._next_at = clock()
        self.channels: list[socket.socket] = []
        """Sockets that are not connected yet; they become writable once they are, or have failed."""

        self.fault: OSError | None = None
        """Why the first attempt that has failed did."""

    @property
    def due(self) -> float:
        """Return the time of the next :meth:`begin`."""
        return self._next_at if self._places else math.inf

    def begin(self) -> None:
        """Begin with the next address, if it is time for it or no other attempt is left."""
        while self._places and (not self.channels or self._clock() >= self._next_at):
            self._next_at = self._clock() + ATTEMPT_DELAY
            family, kind, protocol, _, address = self._places.pop(0)
            try:
                channel = socket.socket(family, kind, protocol)
            except OSError as error:
                self.fault = self.fault or error
                continue
            channel.setblocking(False)
            self.channels.append(channel)
            if (fault := channel.connect_ex(address)) not in (0, errno.EINPROGRESS):
                self._drop(channel, fault)

    def settle(self, channel: socket.socket) -> bool:
        """Return whether a writable socket is connected; it is the caller's then, and all others are closed."""
        if fault := channel.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._drop(channel, fault)
            return False
        self.channels.remove(channel)
        self.close()
        return True

    def connect(self, seconds: float) -> socket.socket | None:
        """
        Return a connection, or None where there is none after so many seconds.

        :raises OSError: if no address can be connected to.
        """
        end = self._clock() + seconds
        while (now := self._clock()) < end:
            self.begin()
            if not self.channels:
                raise self.fault or OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
            with selectors.DefaultSelector() as selector:
                for channel in self.channels:
                    selector.register(channel, selectors.EVENT_WRITE, channel)
                ready = [key.data for key, _ in selector.select(min(end, self.due) - now)]
            for channel in ready:
                if self.settle(channel):
                    return channel  # type: ignore[no-any-return]
        return None

    def close(self) -> None:
        """Give all attempts up."""
        self._places.clear()
        while self.channels:
            self.channels.pop().close()

    def _drop(self, channel: socket.socket, fault: int) -> None:
        self.fault = self.fault or OSError(fault, os.strerror(fault))
        self.channels.remove(channel)
        channel.close()
