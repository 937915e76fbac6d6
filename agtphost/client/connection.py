"""
One TLS connection of the Twisted client.

How it works. :class:`TwistedConnection` is made when TCP is there and is ready when TLS is:
before the handshake is complete and the certificate's name was checked it
sends nothing. Then it makes one call at a time. It ends for good when the
server ends it, when framing is in doubt, or when a call on it is cancelled:
unless a message tells the server of that. Then the answer is read and
dropped, within :data:`DRAIN_OCTETS` and :data:`DRAIN_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL
from OpenSSL.crypto import X509
from twisted.internet import error as network
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IHandshakeListener, IReactorTime, ITCPTransport
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.client import tls
from agtphost.client.connections import Stream
from agtphost.client.deadline import Deadline
from agtphost.client.delivery import Delivery
from agtphost.client.errors import ClientError, ConnectionLost
from agtphost.client.reply import Reply
from agtphost.client.requests import PreparedCall
from agtphost.client.terminal import escape
from agtphost.client.tls_context import HandshakeNotes
from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.regular_files import Stamp
from agtphost.wire.codec import Limits

DRAIN_OCTETS = 1 << 20
"""The octets of an unwanted answer that are read to keep the connection."""

DRAIN_SECONDS = 5.0
"""How long such an answer may take; then the connection is dropped."""

T = TypeVar("T")

CLOSE_SECONDS = 1.0
"""How long a server may take to answer the closing notice; then the connection is dropped."""


@implementer(IHandshakeListener)
class TwistedConnection(Protocol):
    """
    A connection to one server.

    :param host: the name that the server's certificate must have.
    :param lost: called once, when the connection has ended.
    """

    carrier = "tls"
    is_shared = False

    def __init__(
        self,
        host: str,
        notes: HandshakeNotes,
        limits: Limits,
        clock: IReactorTime,
        lost: Callable[[TwistedConnection], None],
    ) -> None:
        self._host = host
        self._notes = notes
        self._clock = clock
        self._lost = lost
        self._delivery = Delivery(limits, self.abort)
        self._refusal: ClientError | None = None
        self._ended = False
        self._closed: Deferred[None] | None = None
        self._closing: IDelayedCall | None = None
        self._drain_timer: IDelayedCall | None = None
        self.drained: Deferred[None] | None = None
        """Fires when the answer of a cancelled call is over, or the connection is; None: no such answer is awaited."""

        self.cancelled = False
        """Whether a cancelled call has ended it."""

        self.has_served = False
        """Whether it has served a call before."""

        self.presented: Stamp = None
        """The stamp of the file of the client certificate that it was made with."""

        self.ready: Deferred[TwistedConnection] = Deferred(lambda _: self.abort())
        """Fires when a request may be sent; fails with a ClientError."""

    @property
    def reusable(self) -> bool:
        """Whether it can serve another call."""
        return not self._ended and self._delivery.reusable

    @property
    def fresh(self) -> bool:
        """Whether it can serve a call after it lay unused: its end would have been noticed."""
        return self.reusable

    # Calls

    def perform(self, call: PreparedCall, stream: Stream | None, deadline: Deadline) -> Deferred[Reply]:
        """
        Make a call; only while :attr:`reusable`. Cancelling ends the connection, or begins to drain it.

        :param stream: takes interim replies.
        :return: the final reply, or a ClientError.
        """
        deadline.remaining("waiting for the answer")
        final: Deferred[Reply] = Deferred(lambda _: self._give_up(call))
        octets = self._delivery.ask(call, stream, lambda found: fire(final, found))
        self.has_served = True
        assert self.transport is not None
        self.transport.write(octets)
        return final

    def _give_up(self, call: PreparedCall) -> None:
        """Take back a call that is cancelled."""
        if not call.cancelled_by_message:
            self.cancelled = True
            self._delivery.forget()
            return
        self.drained = Deferred()
        self._drain_timer = self._clock.callLater(DRAIN_SECONDS, self.abort)
        self._delivery.discard(DRAIN_OCTETS, lambda _: self._end_drain())

    def _end_drain(self) -> None:
        if self._drain_timer is not None and self._drain_timer.active():
            self._drain_timer.cancel()
        drained, self.drained = self.drained, None
        if drained is not None:
            drained.callback(None)

    def close(self) -> Deferred[None]:
        """End the connection in both directions; fires when it is gone."""
        closed: Deferred[None] = Deferred()
        if self._ended:
            closed.callback(None)
            return closed
        assert self.transport is not None
        self._closed = closed
        self._closing = self._clock.callLater(CLOSE_SECONDS, self.abort)
        self.transport.loseConnection()
        return closed

    def abort(self) -> None:
        """Drop the connection immediately."""
        if not self._ended and self.transport is not None:
            self.transport.abortConnection()  # type: ignore[attr-defined]

    # What Twisted calls

    def handshakeCompleted(self) -> None:
        """Let calls begin, if the certificate is for the host that was dialled."""
        assert self.transport is not None
        if ITCPTransport.providedBy(self.transport):
            # The first request follows the handshake's last flight directly, without waiting for its confirmation.
            self.transport.setTcpNoDelay(True)
        certificate: X509 = self.transport.getPeerCertificate()  # type: ignore[attr-defined]
        try:
            tls.verify_peer_name(certificate.to_cryptography().public_bytes(Encoding.DER), self._host)
        except ClientError as refusal:
            self._refusal = refusal
            self.abort()
            return
        if not self.ready.called:
            self.ready.callback(self)

    def dataReceived(self, data: bytes) -> None:
        """Take octets of an answer."""
        self._delivery.receive(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Handle the end of the connection, caused by either side."""
        self._ended = True
        if self._closing is not None and self._closing.active():
            self._closing.cancel()
        refusal = self._refusal or _refusal_of(reason, self._notes)
        if not self.ready.called:
            self.ready.errback(refusal or tls.to_refusal(""))
        elif refusal is not None and not self._delivery.has_answer:
            self._delivery.fail(refusal)
        else:
            self._delivery.receive(b"")
        self._lost(self)
        if self._closed is not None:
            closed, self._closed = self._closed, None
            closed.callback(None)


def fire(waiting: Deferred[T], found: T | BaseException) -> None:
    """Fire a Deferred with what was waited for, or with why there is none."""
    if isinstance(found, BaseException):
        waiting.errback(found)
    else:
        waiting.callback(found)


def _attach_cause(refusal: ClientError, error: BaseException) -> ClientError:
    """Return an error that keeps the one of the library that it translates."""
    refusal.__cause__ = error
    return refusal


def _refusal_of(reason: Failure, notes: HandshakeNotes) -> ClientError | None:
    """Return the error of a connection that ended for a reason of TLS or the network; None if it simply ended."""
    error = reason.value
    assert error is not None
    if isinstance(error, SSL.Error):
        return _attach_cause(tls.to_refusal(_reason_of(error), notes.message), error)
    if isinstance(error, (network.ConnectionDone, network.ConnectionLost, network.ConnectionAborted)):
        return None
    return ConnectionLost(
        f"The connection broke: {escape(split(error)[0])}.",
        "Whether the server carried the request out is unknown.",
        answered=False,
    )


def _reason_of(error: SSL.Error) -> str:
    """OpenSSL's words, from ``[(library, function, reason), ...]``."""
    entries = error.args[0] if error.args else ()
    if isinstance(entries, (list, tuple)) and entries and isinstance(entries[-1], tuple):
        return str(entries[-1][-1])
    return ""


class ConnectionFactory(Factory):
    """Builds the one link of one connection attempt."""

    noisy = False

    def __init__(self, link: TwistedConnection) -> None:
        self._link = link

    def buildProtocol(self, addr: object) -> TwistedConnection:
        """Return the link; called once."""
        return self._link
