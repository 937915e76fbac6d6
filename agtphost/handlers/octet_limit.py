"""
A limit on what an upstream may send before it is asked again.

It lies below the HTTP client, so that it counts everything: endless interim
responses, header fields and chunk headers too, which no limit on bodies sees.
"""

from __future__ import annotations

from typing import Any

from twisted.protocols.policies import ProtocolWrapper, WrappingFactory


class LimitedConnection(ProtocolWrapper):
    """Cuts the connection once too much came in since something last went out."""

    _received = 0

    def dataReceived(self, data: bytes) -> None:
        """Some octets of the answer."""
        self._received += len(data)
        factory: Any = self.factory
        if self._received > factory.most:
            self.abortConnection()
            return
        super().dataReceived(data)  # type: ignore[no-untyped-call]

    def write(self, data: bytes) -> None:
        """Some octets of a request: what follows belongs to it."""
        self._received = 0
        super().write(data)  # type: ignore[no-untyped-call]

    def writeSequence(self, data: Any) -> None:
        """The same."""
        self._received = 0
        super().writeSequence(data)  # type: ignore[no-untyped-call]

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
    :param most: octets.
    """

    noisy = False
    protocol = LimitedConnection

    def __init__(self, factory: Any, most: int) -> None:
        super().__init__(factory)  # type: ignore[no-untyped-call]
        self.most = most
