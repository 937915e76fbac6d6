"""One QUIC connection of the Twisted client: a UDP port, with a stream for each call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from twisted.internet import error as network
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import DatagramProtocol, Factory, Protocol

from agtphost.client.connection import fire
from agtphost.client.connections import Stream
from agtphost.client.deadline import Clock, Deadline
from agtphost.client.errors import CannotConnect
from agtphost.client.quic.core import QuicCredentials
from agtphost.client.quic.driver import MISSES, MOST_PLACES, QuicDriver, await_first
from agtphost.client.quic.errors import PROBE_SECONDS
from agtphost.client.quic.session import QuicSession, choose_patience
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.twisted_attempts import connect_by_tcp, connect_to_first, find_places
from agtphost.vocabulary.regular_files import Stamp
from agtphost.wire.codec import Limits


class TwistedQuicConnection(DatagramProtocol):
    """
    A QUIC connection to one server.

    :param address: of the server, and its port.
    :param reactor: provides IReactorTime and IReactorUDP.
    :param clock: that of the session.
    :param lost: called once, when the connection has ended.
    """

    carrier = "quic"
    is_shared = True

    def __init__(
        self,
        session: QuicSession,
        address: tuple[str, int],
        reactor: Any,
        clock: Clock,
        lost: Callable[[TwistedQuicConnection], None],
    ) -> None:
        self._driver = QuicDriver(session, clock, reactor.callLater, self._write, self._note_ready, self._note_end)
        self._address = address
        self._reactor = reactor
        self._lost = lost
        self._refusing: IDelayedCall | None = None
        self._closed: Deferred[None] | None = None
        self._local = 0
        self.no_way: OSError | None = None
        """Why the system sends nothing to the server's address; None: it does."""

        self.presented: Stamp = None
        """The stamp of the file of the client certificate that it was made with."""

        self.ready: Deferred[TwistedQuicConnection] = Deferred(lambda _: self.abort())
        """Fires when a request may be sent; fails with a ClientError."""

    @property
    def reusable(self) -> bool:
        """Whether it can serve further calls."""
        return self._driver.reusable

    @property
    def fresh(self) -> bool:
        """Whether it can serve a call after it lay unused: its end would have been noticed."""
        return self.reusable

    @property
    def has_served(self) -> bool:
        """Whether it has served a call before."""
        return self._driver.session.was_answered

    # Calls

    def perform(self, call: PreparedCall, stream: Stream | None, deadline: Deadline) -> Deferred[Reply]:
        """
        Make a call besides those that are out; only while :attr:`reusable`. Cancelling it ends no other.

        :param stream: takes interim replies.
        :return: the final reply, or a ClientError.
        """
        deadline.remaining("waiting for the answer")
        deadline.count_silence = self._driver.count_silence
        final: Deferred[Reply] = Deferred(lambda _: self._driver.give_up(begun))
        begun = self._driver.begin(call, stream, lambda found: fire(final, found))
        return final

    def close(self) -> Deferred[None]:
        """End the connection, and tell the server; fires when the port is free."""
        self._driver.close()
        assert self._closed is not None
        waiting: Deferred[None] = Deferred()
        self._closed.chainDeferred(waiting) if not self._closed.called else waiting.callback(None)
        return waiting

    def abort(self) -> None:
        """End the connection, and tell the server."""
        self.close()

    # What Twisted calls

    def startProtocol(self) -> None:
        """Begin the handshake, or go on where the port was opened again."""
        assert self.transport is not None
        try:
            self.transport.connect(*self._address)
        except OSError as error:
            self.no_way = error
        self._local = self.transport.getHost().port
        self._driver.can_send = True
        self._driver.flush()

    def datagramReceived(self, datagram: bytes, addr: Any) -> None:
        """Take a datagram of the server."""
        self._driver.receive(datagram)

    def connectionRefused(self) -> None:
        """Take the system's report that nothing listens at the server's port; in a later turn: a write may cause it."""
        if self._refusing is None and self._closed is None:
            self._refusing = self._reactor.callLater(0, self._note_refused)

    def stopProtocol(self) -> None:
        """Handle the end of the port: epoll's reactor closes it at a report that nothing listens at the server's."""
        if self._closed is None:
            self.transport = None
            self._driver.can_send = False
            self.connectionRefused()

    def _note_refused(self) -> None:
        self._refusing = None
        self._driver.note_unreachable()
        if self.transport is None and self._closed is None:
            self._open_again()

    def _open_again(self) -> None:
        """Open the port that a report has closed: a single report, which is easily forged, ends no connection."""
        interface = "::" if ":" in self._address[0] else ""
        for port in (self._local, 0):  # At another port the server sees an address that has changed.
            with suppress(network.CannotListenError):
                self._reactor.listenUDP(port, self, interface=interface)
                return

    # What the driver calls

    def _write(self, octets: bytes) -> None:
        # A datagram that cannot be sent is lost, and sent again like any other.
        with suppress(OSError):
            self.transport.write(octets)  # type: ignore[union-attr, call-arg]

    def _note_ready(self) -> None:
        if not self.ready.called:
            self.ready.callback(self)

    def _note_end(self) -> None:
        """Give the port back."""
        self._closed = Deferred()
        if self._refusing is not None:
            self._refusing.cancel()
            self._refusing = None
        transport = self.transport
        if transport is not None:
            stopped = maybeDeferred(transport.stopListening)
            stopped.addBoth(lambda _: None).chainDeferred(self._closed)
        else:
            self._closed.callback(None)
        self._lost(self)
        fault = self._driver.session.fault
        if fault is not None and not self.ready.called:
            self.ready.errback(fault)


async def connect(
    reactor: Any,
    destination: Destination,
    credentials: QuicCredentials,
    limits: Limits,
    deadline: Deadline,
    lost: Callable[[TwistedQuicConnection], None],
    *,
    tls_port: int | None = 0,
) -> TwistedQuicConnection:
    """
    Connect, and verify the server before a single octet of a request can be sent.

    :param lost: called once, when the connection has ended.
    :param tls_port: where the error of a silent server looks for TLS: see
        :func:`~agtphost.client.quic.errors.explain_silence`; None: TLS is tried besides, and that error looks nowhere.
    :raises agtphost.client.errors.CannotConnect: if no server answers there by UDP.
    :raises agtphost.client.errors.TLSRefused: if one side refuses the other.
    """
    doing = f"connecting to {destination} by QUIC"
    deadline.remaining(doing)

    async def open_link(found: tuple[int, str]) -> TwistedQuicConnection:
        _, host = found
        place = (host, destination.port)
        patience = choose_patience(deadline.remaining(doing), alone=tls_port is not None)
        session = QuicSession(destination, credentials, limits, place, deadline.clock(), patience)
        link = TwistedQuicConnection(session, place, reactor, deadline.clock, lost)
        try:
            reactor.listenUDP(0, link, interface="::" if ":" in host else "")
        except network.CannotListenError as error:
            raise OSError(str(error.socketError)) from error  # As where the machine has no IPv6.
        if link.no_way is not None:
            link.ready.addErrback(lambda _: None)  # Its error would be logged.
            link.abort()
            raise link.no_way
        return await link.ready

    places = (await find_places(reactor, destination, "UDP"))[:MOST_PLACES]
    first = connect_to_first(reactor, places, open_link, MISSES, TwistedQuicConnection.abort)
    probe = partial(_answers_by_tcp, reactor)
    return await await_first(first, destination, probe, tls_port)


async def _answers_by_tcp(reactor: Any, destination: Destination) -> bool:
    try:
        connected = await connect_by_tcp(reactor, destination, Factory.forProtocol(Protocol), PROBE_SECONDS)
    except CannotConnect:
        return False
    connected.transport.abortConnection()
    return True
