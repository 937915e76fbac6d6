"""
TCP connections that write immediately what the system takes, are read in turns where octets trickle in, and are
accepted a few at a time.

Twisted queues every write until the reactor says that the socket is writable,
which costs two system calls and an event for each answer. An answer that fits
the socket's buffer, as nearly all do, is sent right away here; anything else
goes Twisted's way, back-pressure included. Twisted reads whenever there is an octet;
here a peer that sends small portions and is owed nothing waits for its turn
(:mod:`agtphost.protocols.pacing`). And Twisted accepts a hundred and more
connections in one turn of the reactor, which keeps everybody else waiting for
as long as it takes to make their TLS; here a few are accepted in each turn, and none that is reset already.

Every listener has such connections: :class:`Prompting` is what its endpoint takes for the reactor.
"""

from __future__ import annotations

from errno import EPERM
from socket import AF_INET, AF_INET6, socket
from typing import Any

from twisted.internet import tcp
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST

from agtphost.protocols.pacing import SMALL, WORD, trickles_of

MOST_ACCEPTED = 8
"""Connections accepted in one turn of the reactor: about two milliseconds with TLS, and thousands a second."""


class PromptServer(tcp.Server):
    """The server's side of one accepted connection."""

    _small = False
    """Whether it was read from, a small portion, since the last word to the peer."""

    _gathering = False
    """Whether it waits for its turn to be read from."""

    _held = False
    """Whether the protocol asked for no more."""

    def doRead(self) -> Any:
        """Take what the system has; a peer that trickles waits for its turn from then on."""
        try:
            octets = self.socket.recv(self.bufferSize)
        except BlockingIOError:
            return None
        except OSError:
            return CONNECTION_LOST
        if not octets:
            return CONNECTION_DONE
        if len(octets) < SMALL:
            if self._small:
                self._take_turn()
            self._small = True
        self.protocol.dataReceived(octets)
        return None

    def _take_turn(self) -> None:
        if not trickles_of(self.reactor).take(self):
            self._gathering = True
            self.stopReading()  # type: ignore[no-untyped-call]

    def take_turn(self) -> None:
        """Resume reading from the socket, unless the protocol has paused it."""
        self._gathering = False
        if not self._held and not self._aborting:
            super().resumeProducing()  # type: ignore[no-untyped-call]

    def pauseProducing(self) -> None:
        """Stop reading, as the protocol asks."""
        self._held = True
        super().pauseProducing()  # type: ignore[no-untyped-call]

    def resumeProducing(self) -> None:
        """Resume reading now or when it is the connection's turn."""
        self._held = False
        if not self._gathering:
            super().resumeProducing()  # type: ignore[no-untyped-call]

    def connectionLost(self, reason: Any) -> None:
        """Leave the queue of turns when the connection is lost."""
        if self._gathering:
            trickles_of(self.reactor).leave(self)
        super().connectionLost(reason)

    def write(self, data: bytes) -> None:
        """Send ``data``, or queue what the system does not take."""
        if len(data) >= WORD:
            self._small = False
            if self._gathering:
                trickles_of(self.reactor).leave(self)
                self.take_turn()
        waiting = self.dataBuffer or self._tempDataBuffer
        if waiting or not data or not self.connected or self.disconnecting or self._writeDisconnected:
            super().write(data)  # type: ignore[no-untyped-call]
            return
        try:
            sent = self.socket.send(data if len(data) <= self.SEND_LIMIT else memoryview(data)[: self.SEND_LIMIT])
        except OSError:
            sent = 0  # Full, or lost: the reactor finds out in its own time, and tells the protocol.
        if sent < len(data):
            super().write(data[sent:])  # type: ignore[no-untyped-call]


class _Living:
    """
    A listening socket that hands out no connection which its peer has reset already: making TLS for it is in vain.

    :param listening: everything else is asked of it.
    """

    def __init__(self, listening: Any) -> None:
        self._listening = listening

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)

    def accept(self) -> tuple[socket, Any]:
        """
        Accept the next connection.

        :raises OSError: none waits; PERM, after which Twisted asks for the next one, where it is gone again.
        """
        link, address = self._listening.accept()
        try:
            link.getpeername()
        except OSError:
            link.close()
            raise PermissionError(EPERM, "the peer has reset it") from None
        return link, address


class PromptPort(tcp.Port):
    """A listening port whose connections are :class:`PromptServer`."""

    transport = PromptServer

    def startListening(self) -> None:
        """Begin to listen; see :class:`twisted.internet.interfaces.IListeningPort`."""
        super().startListening()
        self.socket: Any = _Living(self.socket)

    def doRead(self) -> None:
        """Accept a few; the reactor comes back for what is left."""
        self.numberAccepts = min(self.numberAccepts, MOST_ACCEPTED)
        super().doRead()  # type: ignore[no-untyped-call]


class Prompting:
    """
    A wrapper of the reactor for Twisted's endpoints, so that their ports are :class:`PromptPort`.

    :param reactor: one that waits for file descriptors; everything else is asked of it.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listenTCP(self, port: int, factory: IProtocolFactory, backlog: int = 50, interface: str = "") -> IListeningPort:
        """Listen on a TCP port; see :class:`twisted.internet.interfaces.IReactorTCP`."""
        made = PromptPort(port, factory, backlog, interface, self._reactor)
        made.startListening()
        return made

    def adoptStreamPort(self, fileDescriptor: int, addressFamily: int, factory: IProtocolFactory) -> IListeningPort:
        """Listen on a socket that systemd opened; see :class:`twisted.internet.interfaces.IReactorSocket`."""
        if addressFamily not in (AF_INET, AF_INET6):
            found: IListeningPort = self._reactor.adoptStreamPort(fileDescriptor, addressFamily, factory)
            return found
        made: PromptPort = PromptPort._fromListeningDescriptor(  # type: ignore[no-untyped-call]
            self._reactor, fileDescriptor, addressFamily, factory
        )
        made.startListening()
        return made
