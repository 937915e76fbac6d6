"""A TCP connection that the blocking client begins besides a handshake of QUIC that takes too long."""

from __future__ import annotations

import errno
import selectors
import socket
from typing import Any

from agtphost.client.carriers import HEAD_START
from agtphost.client.deadline import Clock
from agtphost.client.requests import Destination


class Overtaken(Exception):
    """TCP is connected, and QUIC is not."""


class TcpRival:
    """
    A TCP connection to a host, begun once QUIC had its head start.

    :param clock: that of the deadlines.
    """

    def __init__(self, destination: Destination, clock: Clock) -> None:
        self._destination = destination
        self._clock = clock
        self._begins = clock() + HEAD_START
        self._places: list[Any] | None = None
        self._channel: socket.socket | None = None

    def wait(self, datagrams: Any, seconds: float) -> bool:
        """
        Wait until a socket has datagrams.

        :param seconds: at most.
        :return: whether it has.
        :raises Overtaken: if TCP is connected before.
        """
        end = self._clock() + seconds
        while (left := end - self._clock()) > 0:
            until_begin = self._begins - self._clock()
            if self._places is None and until_begin <= 0:
                self._begin()
            limit = left if self._places is not None else min(left, max(until_begin, 0.001))
            with selectors.DefaultSelector() as selector:
                selector.register(datagrams, selectors.EVENT_READ)
                if self._channel is not None:
                    selector.register(self._channel, selectors.EVENT_WRITE)
                ready = [key.fileobj for key, _ in selector.select(limit)]
            if self._channel is not None and self._channel in ready:
                self._settle(self._channel.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            if datagrams in ready:
                return True
        return False

    def take(self) -> socket.socket:
        """Hand out the connection, which is the caller's from then on."""
        assert self._channel is not None, "the rival has won"
        channel, self._channel = self._channel, None
        return channel

    def close(self) -> None:
        """Give the attempt up."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _begin(self) -> None:
        try:
            found = socket.getaddrinfo(self._destination.host, self._destination.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            found = []
        self._places = list(found)
        self._try_next()

    def _try_next(self) -> None:
        """Begin with the next address; without one QUIC alone is left."""
        while self._places:
            family, kind, protocol, _, address = self._places.pop(0)
            try:
                self._channel = socket.socket(family, kind, protocol)
                self._channel.setblocking(False)
                fault = self._channel.connect_ex(address)
            except OSError:
                self.close()
                continue
            if fault in (0, errno.EINPROGRESS):
                return
            self.close()

    def _settle(self, fault: int) -> None:
        if not fault:
            raise Overtaken
        self.close()
        self._try_next()
