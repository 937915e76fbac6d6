"""
TCP connections that send at once what the system takes at once, and are accepted a few at a time.

Twisted queues every write until the reactor says that the socket is writable,
which costs two system calls and an event for each answer. An answer that fits
the socket's buffer, as nearly all do, is sent right away here; anything else
goes Twisted's way, back-pressure included. And Twisted accepts a hundred and more
connections in one turn of the reactor, which keeps everybody else waiting for
as long as it takes to make their TLS; here a few are accepted in each turn.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import tcp
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IStreamServerEndpoint
from zope.interface import implementer

MOST_ACCEPTED = 8
"""Connections accepted in one turn of the reactor: about two milliseconds with TLS, and thousands a second."""


class PromptServer(tcp.Server):
    """The server's side of one accepted connection."""

    def write(self, data: bytes) -> None:
        """Send ``data``, or queue what the system does not take."""
        waiting = self.dataBuffer or self._tempDataBuffer
        if waiting or not data or not self.connected or self.disconnecting or self._writeDisconnected:
            super().write(data)  # type: ignore[no-untyped-call]
            return
        sent = self.writeSomeData(data)
        if not isinstance(sent, int):
            sent = 0  # Lost: the reactor finds out in its own time, and tells the protocol.
        if sent < len(data):
            super().write(data[sent:])  # type: ignore[no-untyped-call]


class PromptPort(tcp.Port):
    """A listening port whose connections are :class:`PromptServer`."""

    transport = PromptServer

    def doRead(self) -> None:
        """Accept a few; the reactor comes back for what is left."""
        self.numberAccepts = min(self.numberAccepts, MOST_ACCEPTED)
        super().doRead()  # type: ignore[no-untyped-call]


@implementer(IStreamServerEndpoint)
class PromptServerEndpoint:
    """
    Listens on one IP address.

    :param reactor: one that waits for file descriptors.
    :param port: 0 lets the system choose.
    :param backlog: connections that may wait to be accepted.
    :param interface: an IPv4 or IPv6 address of this machine.
    """

    def __init__(self, reactor: Any, port: int, backlog: int, interface: str) -> None:
        self._reactor = reactor
        self._port = port
        self._backlog = backlog
        self._interface = interface

    def listen(self, factory: IProtocolFactory) -> Deferred[IListeningPort]:
        """See :class:`IStreamServerEndpoint`."""
        port = PromptPort(self._port, factory, self._backlog, self._interface, self._reactor)
        try:
            port.startListening()
        except Exception:
            return fail()
        return succeed(port)
