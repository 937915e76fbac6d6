"""
Limits on what an upstream may send before it is asked again.

They lie below the HTTP client, so that they count everything: endless interim
responses, header fields and chunk headers too, which no limit on bodies sees.
"""

from __future__ import annotations

import re
from math import inf
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import Factory
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory

MOST_HEAD = 64 << 10
"""Octets of everything before a body: status line, header fields, interim responses."""

_END = re.compile(rb"\r?\n\r?\n")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1[0-9][0-9]")
_ENDING = 3
"""Octets of a head's end that may have come with what was looked at before."""


class LimitedConnection(ProtocolWrapper):
    """Cuts the connection once too much came in since something last went out."""

    _received = 0
    _head: bytearray | None = None
    """What came of a head that has not ended; None once it has."""

    def makeConnection(self, transport: Any) -> None:
        """A connection is there; requests are written whole, so nothing is gained by waiting for more to send."""
        if ITCPTransport.providedBy(transport):
            transport.setTcpNoDelay(True)
        super().makeConnection(transport)  # type: ignore[no-untyped-call]

    def dataReceived(self, data: bytes) -> None:
        """Some octets of the answer."""
        self._received += len(data)
        if self._head is not None:
            self._look(self._head, data)
        factory: Any = self.factory
        if self._received > (factory.most if self._head is None else MOST_HEAD):
            self.abortConnection()
            return
        super().dataReceived(data)  # type: ignore[no-untyped-call]

    def _look(self, head: bytearray, data: bytes) -> None:
        """Find the end of the head, which is not that of an interim response."""
        known = max(len(head) - _ENDING, 0)
        head += data
        while (end := _END.search(head, known)) is not None:
            if _INTERIM.match(head) is None:
                self._head = None
                return
            del head[: end.end()]
            known = 0

    def write(self, data: bytes) -> None:
        """Some octets of a request: what follows belongs to it."""
        self._ask_again()
        super().write(data)  # type: ignore[no-untyped-call]

    def writeSequence(self, data: Any) -> None:
        """The same."""
        self._ask_again()
        super().writeSequence(data)  # type: ignore[no-untyped-call]

    def _ask_again(self) -> None:
        self._received = 0
        self._head = bytearray()

    def loseConnection(self) -> None:
        """End it at once: an upstream that does not take part in a farewell would hold the connection open."""
        self.disconnecting = 1
        self.abortConnection()

    def abortConnection(self) -> None:
        """End it at once."""
        transport: Any = self.transport
        transport.abortConnection()


class LimitedFactory(WrappingFactory):
    """
    Makes limited connections.

    :param factory: makes what is limited.
    :param most: octets of an answer.
    """

    noisy = False
    protocol = LimitedConnection

    def __init__(self, factory: Any, most: float = inf) -> None:
        super().__init__(factory)  # type: ignore[no-untyped-call]
        factory.noisy = False
        self.most = most


class LimitedEndpoint:
    """
    An endpoint that makes limited connections.

    :param endpoint: makes what is limited.
    :param most: octets of an answer.
    """

    def __init__(self, endpoint: Any, most: float = inf) -> None:
        self._endpoint = endpoint
        self._most = most

    def connect(self, factory: Factory) -> Deferred[Any]:
        """Connect."""
        connecting: Deferred[Any] = self._endpoint.connect(LimitedFactory(factory, self._most))
        return connecting.addCallback(lambda protocol: protocol.wrappedProtocol)
