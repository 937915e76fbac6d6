"""
Limit what an upstream may send per request.

The limits are below the HTTP client, so that they count everything: endless interim responses, header fields and chunk
headers too, which limits on bodies do not count.
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
"""Octets of a head's end that may be in the part that was searched before."""


class LimitedConnection(ProtocolWrapper):
    """A connection that is cut once too much was received since the last request."""

    _received = 0
    _head: bytearray | None = None
    """The received part of a head that has not ended; None once it has."""

    def makeConnection(self, transport: Any) -> None:
        """Set up the connection without delays for small writes, since requests are written whole."""
        if ITCPTransport.providedBy(transport):
            transport.setTcpNoDelay(True)
        super().makeConnection(transport)  # type: ignore[no-untyped-call]

    def dataReceived(self, data: bytes) -> None:
        """Count and pass on octets of the answer."""
        self._received += len(data)
        if self._head is not None:
            self._find_head_end(self._head, data)
        factory: Any = self.factory
        if self._received > (factory.most if self._head is None else MOST_HEAD):
            self.abortConnection()
            return
        super().dataReceived(data)  # type: ignore[no-untyped-call]

    def _find_head_end(self, head: bytearray, data: bytes) -> None:
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
        """Write octets of a request, whose answer is counted from zero."""
        self._begin_request()
        super().write(data)  # type: ignore[no-untyped-call]

    def writeSequence(self, data: Any) -> None:
        """Write parts of a request, whose answer is counted from zero."""
        self._begin_request()
        super().writeSequence(data)  # type: ignore[no-untyped-call]

    def _begin_request(self) -> None:
        self._received = 0
        self._head = bytearray()

    def loseConnection(self) -> None:
        """Abort the connection: an upstream that does not close its side would keep it open."""
        self.disconnecting = 1
        self.abortConnection()

    def abortConnection(self) -> None:
        """Abort the connection."""
        transport: Any = self.transport
        transport.abortConnection()


class LimitedFactory(WrappingFactory):
    """
    A factory of limited connections.

    :param factory: makes the protocol that is wrapped.
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

    :param endpoint: the endpoint that is wrapped.
    :param most: octets of an answer.
    """

    def __init__(self, endpoint: Any, most: float = inf) -> None:
        self._endpoint = endpoint
        self._most = most

    def connect(self, factory: Factory) -> Deferred[Any]:
        """Connect, and return the wrapped protocol."""
        connecting: Deferred[Any] = self._endpoint.connect(LimitedFactory(factory, self._most))
        return connecting.addCallback(lambda protocol: protocol.wrappedProtocol)
