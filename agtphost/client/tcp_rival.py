"""A TCP connection that the blocking client begins besides a handshake of QUIC that takes too long."""

from __future__ import annotations

import contextlib
import math
import selectors
import socket
from collections.abc import Collection
from typing import Any

from agtphost.client.carriers import HEAD_START
from agtphost.client.deadline import Clock
from agtphost.client.requests import Destination
from agtphost.client.tcp_attempts import TcpAttempts


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
        self._attempts: TcpAttempts | None = None
        self._channel: socket.socket | None = None

    def wait(self, datagrams: Collection[Any], seconds: float) -> Collection[Any]:
        """
        Wait until one of several sockets has datagrams.

        :param seconds: at most.
        :return: those that have.
        :raises Overtaken: if TCP is connected before.
        """
        end = self._clock() + seconds
        while (left := end - self._clock()) > 0:
            limit = min(left, max(self._begin_due() - self._clock(), 0.001))
            channels = [] if self._attempts is None else self._attempts.channels
            with selectors.DefaultSelector() as selector:
                for each in datagrams:
                    selector.register(each, selectors.EVENT_READ)
                for channel in channels:
                    selector.register(channel, selectors.EVENT_WRITE, channel)
                ready = {key.fileobj: key.data for key, _ in selector.select(limit)}
            for channel in ready.values():
                if channel is not None and self._attempts is not None and self._attempts.settle(channel):
                    self._channel = channel
                    raise Overtaken
            if readable := [each for each in datagrams if each in ready]:
                return readable
        return ()

    def take(self) -> socket.socket:
        """Hand out the connection, which is the caller's from then on."""
        assert self._channel is not None, "the rival has won"
        channel, self._channel = self._channel, None
        return channel

    def close(self) -> None:
        """Give the attempts up."""
        if self._attempts is not None:
            self._attempts.close()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _begin_due(self) -> float:
        """Begin with the addresses whose time has come, and return when the next one's comes."""
        if self._attempts is None and self._clock() >= self._begins:
            self._begins = math.inf
            with contextlib.suppress(OSError, UnicodeError):  # Without an address QUIC alone is left.
                self._attempts = TcpAttempts(self._destination, self._clock)
        if self._attempts is None:
            return self._begins
        self._attempts.begin()
        return self._attempts.due
