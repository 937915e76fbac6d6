"""
Serve one HTTP connection: Twisted's HTTP/1.1 with deadlines and bounded memory.

It has the same deadlines as a connection of AGTP (:class:`agtphost.protocols.ConnectionLimits`), enforced by the same
sweep. The rules:

- The first head must end within ``header_timeout`` of the connection, or of the end of its TLS handshake.
- A body may pause for ``body_gap_timeout``, and must reach ``body_min_rate`` overall.
- What is written in one turn of the reactor is one ``transport.write``, unless it exceeds the high-water mark: the head
  of an answer is never sent without its body.
- Pipelined requests each wait for a turn of the reactor.
- While the peer does not read what it is sent, nothing is read from it and no further request is started.
- An answer that ends the connection is followed by closing only our side. What the peer still sends is read and dropped
  for a moment, because closing a connection with unread octets loses the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from twisted.internet.interfaces import IDelayedCall, IHandshakeListener, IPushProducer, IReactorTime
from twisted.python.failure import Failure
from twisted.web.server import Site
from zope.interface import implementer

from agtphost.http.bounded_request import BodyCounter, BoundedRequest, phrase_of
from agtphost.http.framed_channel import FramedChannel
from agtphost.http.refusals import TurnedAway, agtp_form
from agtphost.protocols.connection_states import Wait
from agtphost.protocols.limits import READ_AHEAD, STALL, UNREAD, WAITING, ConnectionLimits, closing_seconds
from agtphost.protocols.listener_connections import AcceptingFactory
from agtphost.protocols.output_queue import LONG, OutputQueue
from agtphost.protocols.peer_liveness import ReadProgress
from agtphost.vocabulary.reasons import Reason

SPELLED = {
    name.title(): name
    for name in (
        b"AGTP-Status",
        b"AGTP-API-Version",
        b"Audit-ID",
        b"Agent-ID",
        b"Response-ID",
        b"Server-ID",
        b"Task-ID",
    )
}
"""Names of fields as the drafts spell them, by how Twisted writes them."""

DRAINED_OCTETS = 4 << 20
"""Octets that are read and dropped after the last answer."""

CLOSE_PREFERENCE = {Wait.HANDSHAKE: 4, Wait.HEADER: 4, Wait.IDLE: 3, Wait.BODY: 2, Wait.TAKING: 1, Wait.CLOSE: 5}
"""The preference for closing a connection to make room, by what it waits for. One that waits for an answer is kept."""

TIMEOUT_ANSWER = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@implementer(IPushProducer)
class _PassiveProducer:
    """A producer that ignores Twisted's pauses, because :meth:`BoundedChannel._regulate` controls reading."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def pauseProducing(self) -> None:
        """Ignore the call."""

    def resumeProducing(self) -> None:
        """Ignore the call."""

    def stopProducing(self) -> None:
        """Ignore the call."""

    def unregisterProducer(self) -> None:
        """Unregister the channel from the transport's buffer."""
        self._transport.unregisterProducer()


@implementer(IHandshakeListener)
class BoundedChannel(FramedChannel):
    """
    An accepted connection.

    :param address: the peer's, canonical.
    """

    timeOut = None
    requestFactory: Any = BoundedRequest
    site: Any

    greeted = False
    """Whether an answer with Supported-Methods was sent here: see :class:`agtphost.identity.peer.Peer`."""

    reached: object = None
    """The surface and host name of the latest request: see :class:`agtphost.http.mounts.Mounts`."""

    def __init__(
        self,
        owner: AcceptingFactory,
        site: Site,
        bodies: BodyCounter,
        limits: ConnectionLimits,
        clock: IReactorTime,
        address: str,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.factory = cast(Any, owner)
        self.site = site
        self.bodies = bodies
        self.address = address
        self._owner = owner
        self._limits = limits
        self._clock = clock
        self.deadline = math.inf
        self._wait = Wait.HANDSHAKE
        self._output = OutputQueue()
        self._flushing: IDelayedCall | None = None
        self._next: IDelayedCall | None = None
        self._expires = math.inf
        self._spent = False  # whether the next answer is the last
        self._ended = False  # whether our side is closed
        self._reading = ReadProgress()
        self._peer: Any = None
        self._host: Any = None
        self._secure = False
        self._certificate: tuple[object, Any] | None = None
        self._held = False
        self._known = False
        self._served = 0
        self._last = 0
        self._forgotten = 0
        self._body_since = 0.0
        self._body = 0

    def seconds(self) -> float:
        """Return the clock's seconds."""
        return self._clock.seconds()

    # Called by the owner

    @property
    def unread(self) -> int:
        """Return the octets that the peer has not read, as :class:`~.listener_connections.Accepted` asks."""
        return self._output.octets_in_memory

    @property
    def expendable(self) -> int:
        """Return the preference for closing this connection, as :class:`~.listener_connections.Accepted` asks."""
        # A client that pipelines requests is not in a hurry for the present answer.
        return CLOSE_PREFERENCE.get(self._wait, 1 if self._dataBuffer else 0)

    @property
    def is_ending(self) -> bool:
        """Return whether the present answer is the last: one without a length ends with the connection."""
        return self._spent

    def sweep(self, now: float) -> None:
        """Act on the deadline if it has passed."""
        if now >= self._expires:
            self._spent = True
        if now < self.deadline:
            if len(self._output) > WAITING and self._reading.idle(self.transport, now):
                self.cut()
            return
        if self._wait is Wait.BODY or (self._wait is Wait.HEADER and (self.requests or self._buffer)):
            self.write(TIMEOUT_ANSWER)
            self.loseConnection()
        elif self._wait is Wait.IDLE or self._wait is Wait.HEADER:
            self.loseConnection()
        elif self._wait is Wait.TAKING and self._reading.took(self.transport, self._limits.output_high_water):
            self._expect(Wait.TAKING)
        else:
            self.cut()

    def drain(self) -> None:
        """End the connection, after the answer in progress if there is one."""
        self._spent, now, idle = True, self._clock.seconds(), self._wait is Wait.IDLE
        if not self._handlingRequest:
            since = self.deadline - self._limits.idle_timeout
            self.loseConnection()
            if idle and self._wait is Wait.CLOSE:
                self.deadline = now + closing_seconds(self._last, self._limits, now - since)

    def cut(self) -> None:
        """End the connection immediately."""
        self._wait, self.deadline = Wait.GONE, math.inf
        self._output.clear()
        transport: Any = self.transport
        transport.abortConnection()

    # The transport

    def getPeer(self) -> Any:
        """Return the peer's address; the system is asked only once."""
        if self._peer is None:
            self._peer = super().getPeer()  # type: ignore[no-untyped-call]
        return self._peer

    def getHost(self) -> Any:
        """Return our address; the system is asked only once."""
        if self._host is None:
            self._host = super().getHost()  # type: ignore[no-untyped-call]
        return self._host

    def isSecure(self) -> bool:
        """Return whether the connection uses TLS."""
        return self._secure

    def connectionMade(self) -> None:
        """Begin with a new TCP connection."""
        super().connectionMade()  # type: ignore[no-untyped-call]
        self._secure = bool(super().isSecure())  # type: ignore[no-untyped-call]
        self._networkProducer = _PassiveProducer(self.transport)
        self._expires = self._clock.seconds() + self._limits.connection_age
        self._expect(Wait.HANDSHAKE if self._secure else Wait.HEADER)
        self._owner.connection_opened(self)

    def handshakeCompleted(self) -> None:
        """Wait for the first head, as the TLS handshake is complete."""
        if self._wait is Wait.HANDSHAKE:
            self._expect(Wait.HEADER)

    def note_proven(self) -> None:
        """Note that the client has proven its identity."""
        if not self._known:
            self._known = True
            self._owner.connection_authenticated(self)

    def find_certificate(self, certified: Callable[[Any, str], Any], address: str) -> Any:
        """
        Return the client certificate that ``certified`` finds; after the handshake one search is enough.

        :param address: the peer's.
        """
        if self._certificate is None or self._certificate[0] is not certified:
            self._certificate = certified, certified(self.transport, address)
        return self._certificate[1]

    def dataReceived(self, data: bytes) -> None:
        """Take decrypted octets."""
        if self._closing:
            self._forgotten += len(data)
            if self._forgotten > DRAINED_OCTETS:
                self.cut()
            return
        super().dataReceived(data)
        self._settle()

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """End, as the transport is gone."""
        self._wait, self.deadline, self._closing = Wait.GONE, math.inf, True
        self._output.clear()
        for call in (self._flushing, self._next):
            if call is not None:
                call.cancel()
        self._flushing = self._next = None
        super().connectionLost(reason)  # type: ignore[no-untyped-call]
        self._owner.connection_closed(self)

    def pauseProducing(self) -> None:
        """Start no request until the peer has read what was sent."""
        self._waitingForTransport = self.paused = True
        if self._requestProducer is not None:
            self._requestProducer.pauseProducing()

    def resumeProducing(self) -> None:
        """Continue, as the transport has passed everything to the system."""
        self._waitingForTransport = False
        self._flush()
        if self._output or self._waitingForTransport:
            self._settle()
            return
        if self._requestProducer is not None:
            self._requestProducer.resumeProducing()
        self._start_next()
        self._settle()

    # Requests

    def allHeadersReceived(self) -> None:
        """Judge a request by its head before its body is read."""
        request = self.requests[-1]
        self.persistent = self.checkPersistence(request, self._version)
        if not request.admit_head(self._command, self._path, self._version, self.length):
            return
        self._body, self._body_since = 0, self._clock.seconds()
        expected = request.requestHeaders.getRawHeaders(b"Expect", [b""])[0].lower()
        if expected == b"100-continue" and self._version == b"HTTP/1.1" and self.length != 0:
            self._send100Continue()

    def allContentReceived(self) -> None:
        """Start a complete request, unless it was answered before."""
        if not self._closing:
            self._expect(Wait.ANSWER)
            super().allContentReceived()  # type: ignore[no-untyped-call]

    def requestDone(self, request: Any) -> None:
        """Finish an answer."""
        self._served += 1
        self._last = len(self._output)
        if self._spent or self._served >= self._limits.requests_per_connection:
            self.persistent = False
        self._flush()
        self.paused = True  # pipelined requests get one turn of the reactor each
        super().requestDone(request)  # type: ignore[no-untyped-call]
        self._start_next()
        self._settle()

    def _start_next(self) -> None:
        """Start the next request, if there is one, after other connections had their turn."""
        if self._closing or self._waitingForTransport:
            return
        if not self._buffer:
            self.paused = False
        elif self._next is None:
            self._next = self._clock.callLater(0, self._read_next)

    def _read_next(self) -> None:
        self._next = None
        if not self._closing and not self._waitingForTransport:
            self.paused = False
            self.dataReceived(b"")

    def note_progress(self, octets: int) -> None:
        """Note octets of a body; extend its deadline unless it is too slow overall."""
        gap, rate = self._limits.body_gap_timeout, self._limits.body_min_rate
        self._body += octets
        self.deadline = self._clock.seconds() + gap
        if rate:
            self.deadline = min(self.deadline, self._body_since + gap + self._body / rate)

    # Answers

    def write(self, data: bytes) -> None:
        """Send data at the end of this turn of the reactor."""
        if self._ended or self._wait is Wait.GONE:
            return
        self._output.append(data)
        if self._flushing is None and not self._busyReceiving:  # else it is sent once that has ended
            self._flushing = self._clock.callLater(0, self._later)

    def writeSequence(self, iovec: Any) -> None:
        """Send several pieces; see :meth:`write`."""
        self.write(b"".join(iovec))

    def end_with(self, head: bytes, body: bytes) -> None:
        """
        Queue a whole answer; it is sent when its request reports that it is done, immediately after this.

        :param body: must not change afterwards; a long one is not copied.
        """
        if self._ended or self._wait is Wait.GONE:
            return
        if len(body) < LONG:
            self._output.append(head + body)
        else:
            self._output.append(head)
            self._output.append(body)

    def writeHeaders(self, version: bytes, code: bytes, reason: bytes, headers: Any) -> None:
        """Send the head of an answer."""
        self.write(self.head_of(version, code, reason, headers))

    def head_of(self, version: bytes, code: bytes, reason: bytes, headers: Any) -> bytes:
        """Return the head of an answer; AGTP's own fields are spelled as in the drafts, unlike Twisted's spelling."""
        if self.is_last:
            headers.setRawHeaders(b"Connection", [b"close"])
        lines = [version, b" ", code, b" ", reason, b"\r\n"]
        for name, values in headers.getAllRawHeaders():
            spelled = SPELLED.get(name, name)
            for value in values:
                lines += (spelled, b": ", value, b"\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    @property
    def is_last(self) -> bool:
        """Return whether the answer about to be written is the last one of the connection."""
        return self._spent or self._served + 1 >= self._limits.requests_per_connection

    def loseConnection(self) -> None:
        """End the connection once everything is written; octets that arrive are not requests any more."""
        if self._closing:
            return
        self._closing = self.paused = True
        self.persistent = False
        self._buffer = b""
        self._dataBuffer = []
        self._settle()

    def _send100Continue(self) -> None:
        self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse(self, status: int, reason: Reason, explanation: str) -> None:
        # The surface of the request is unknown, so the refusal has the form of AGTP.
        octets, kind = agtp_form(
            TurnedAway(status=status, reason=reason, explanation=explanation, remedy="", fields=())
        )
        head = f"HTTP/1.1 {status} {phrase_of(status)}\r\nContent-Type: {kind}\r\nContent-Length: {len(octets)}\r\n"
        self.write(f"{head}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode("ascii") + octets)
        self.factory.log_malformed(self.address)
        self.loseConnection()

    # Waiting

    def _later(self) -> None:
        self._flushing = None
        self._settle()

    def _settle(self) -> None:
        """Send what can be sent and set the deadline for what is waited for; called after each event."""
        if self._busyReceiving or self._wait is Wait.GONE:
            return
        self._flush()
        wait = self._waiting()
        if wait is not self._wait:
            self._expect(wait)
        self._regulate()
        if wait is Wait.TAKING and len(self._output) > UNREAD:
            self._owner.lagging(self)

    def _waiting(self) -> Wait:
        if self._ended:
            return Wait.CLOSE
        if self._output or self._waitingForTransport:
            return Wait.TAKING
        if self._handlingRequest:
            return Wait.ANSWER
        if self.requests:
            return Wait.HEADER if self.line_mode else Wait.BODY
        # A client that has asked nothing yet has no connection to keep alive.
        return Wait.HEADER if self._buffer or not self._served else Wait.IDLE

    def _expect(self, wait: Wait) -> None:
        limits, now = self._limits, self._clock.seconds()
        self._wait = wait
        if wait is Wait.ANSWER:
            self.deadline = math.inf  # the dispatcher has the deadline of a handler
        elif wait is Wait.TAKING:
            patience = limits.write_timeout
            self._reading.mark(self.transport)
            self.deadline = now + (min(patience, STALL) if len(self._output) > UNREAD else patience)
        elif wait is Wait.CLOSE:
            self.deadline = now + closing_seconds(self._last, limits)
        elif wait is Wait.IDLE:
            self.deadline = now + limits.idle_timeout
        elif wait is Wait.BODY:
            self.deadline = now + limits.body_gap_timeout
        else:
            self.deadline = now + (limits.header_timeout if wait is Wait.HEADER else limits.handshake_timeout)

    def _flush(self) -> None:
        """Pass data to the transport; if it takes all, the peer is reading."""
        transport: Any = self.transport
        output, most, wrote = self._output, self._limits.output_high_water, False
        if self._wait is Wait.GONE or self._wait is Wait.HANDSHAKE:
            return
        while output and not self._waitingForTransport:
            transport.write(output.take(most))
            wrote = True
        if wrote and self._wait is Wait.TAKING:
            self._expect(Wait.TAKING)
        if self._closing and not self._ended and not output and not self._waitingForTransport:
            self._end()

    def _end(self) -> None:
        self._ended = True
        transport: Any = self.transport
        transport.unregisterProducer()
        if self._secure:
            transport.loseConnection()  # waits for the peer's end, and reads until then
        else:
            transport.loseWriteConnection()

    def _regulate(self) -> None:
        """Pause or resume reading from the socket."""
        waiting = len(self._buffer) + sum(map(len, self._dataBuffer))
        hold = not self._ended and (self._wait is Wait.TAKING or waiting > READ_AHEAD)
        if hold is not self._held:
            self._held = hold
            transport: Any = self.transport
            if hold:
                transport.pauseProducing()
            else:
                transport.resumeProducing()
