"""One stream of a QUIC connection: the transport of a server connection that carries one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from agtphost.errors import RemoteProtocolError
from agtphost.protocols.connection import ServerConnection
from agtphost.protocols.connection_states import Wait
from agtphost.protocols.limits import closing_seconds
from agtphost.vocabulary.quic_codes import Code
from agtphost.vocabulary.reasons import Reason

if TYPE_CHECKING:
    from agtphost.identity.peer import Peer
    from agtphost.protocols.quic.core import ServerCore

_DONE = Failure(ConnectionDone())  # type: ignore[no-untyped-call]


class StreamConnection(ServerConnection):
    """A server connection whose peer can end its own direction and still read the answer."""

    __slots__ = ()

    last_fields = ()  # The connection goes on after each of its streams.

    @property
    def reads(self) -> bool:
        """Whether octets of the peer are part of a request that is not complete."""
        return self._reads

    @property
    def peer(self) -> Peer:
        """Return the other end of the connection."""
        return self._peer

    @property
    def has_surplus(self) -> bool:
        """Whether octets arrived after the request."""
        return not self._reads and bool(self._wire.buffered_octets)

    def expect(self, wait: Wait) -> None:
        """Set the deadline: a whole answer waits for its client as long as the connection may be idle."""
        super().expect(wait)
        if wait is Wait.CLOSE and not self._spent:  # It is spent where the host stops.
            # The stream ends with its answer, the connection does not. Its client may be out of reach for a moment.
            self.deadline = max(self.deadline, self._seconds() + self._limits.idle_timeout)

    def drain(self) -> None:
        """End the connection as one of TLS: a host that stops waits only briefly for a client out of reach."""
        super().drain()
        if self._wait is Wait.CLOSE:
            self.deadline = min(self.deadline, self._seconds() + closing_seconds(self._last, self._limits))

    def end_input(self) -> None:
        """Answer a request that ends before it is complete."""
        if self._reads:
            reason = Reason.INCOMPLETE_MESSAGE
            self._machine.on_malformed(RemoteProtocolError(reason, "The stream ended within a request."))
            self._flush()


class StreamOwner(Protocol):
    """The QUIC connection of a stream."""

    core: ServerCore

    def send(self, number: int, octets: bytes) -> None:
        """Send octets on a stream."""

    def finish(self, number: int) -> None:
        """End the answer of a stream."""

    def stop_reading(self, number: int, code: Code) -> None:
        """Ask the client to send no more on a stream."""

    def reset(self, number: int, code: Code) -> None:
        """End a stream in both directions immediately."""

    def end_stream(self, stream: StreamTransport) -> None:
        """Note that a stream is over."""


class StreamTransport:
    """
    A stream as a transport of Twisted: only what :class:`ServerConnection` uses of one.

    :param link: the QUIC connection.
    :param number: of the stream.
    :param window: octets that the client may send and that were not consumed.
    """

    def __init__(self, link: StreamOwner, number: int, window: int, most_unsent: int) -> None:
        self._link = link
        self.number = number
        self._window = window
        self._most_unsent = most_unsent
        self.connection: StreamConnection
        self._producer: Any = None
        self._choked = False
        self._consumed = 0
        self.has_final_answer = False
        """Whether the whole answer was given to QUIC."""

        self.has_refused_more = False
        """Whether the client was asked to send no more."""

        self.is_ended = False
        """Whether the answer is complete, or nothing more will be sent."""

    # What the client does

    def receive(self, octets: bytes, *, ends: bool) -> None:
        """Take octets of the request, and whether they are its last; only while the stream is not over."""
        if octets and not self.connection.reads:
            self._refuse_surplus()
        elif octets:
            self._consume(octets)
        if ends and not self.is_ended:
            self.connection.end_input()

    def _consume(self, octets: bytes) -> None:
        self.connection.dataReceived(octets)
        self._consumed += len(octets)
        if self.connection.has_surplus:
            self._refuse_surplus()
        else:
            self._link.core.widen(self.number, self._consumed + self._window)

    def _refuse_surplus(self) -> None:
        self.has_refused_more = True
        self._link.stop_reading(self.number, Code.MISUSED)

    def lose(self) -> None:
        """Note that the client has reset the stream, wants no answer, or is gone."""
        if not self.is_ended:
            self.is_ended = True
            self._link.end_stream(self)

    def note_acknowledged(self) -> None:
        """Go on writing once the peer has taken enough, and end once it has taken everything."""
        if self._choked and self._link.core.unsent(self.number) <= self._most_unsent // 2:
            self._choked = False
            if self._producer is not None:
                self._producer.resumeProducing()

    @property
    def unsent(self) -> int:
        """Octets given to QUIC that the peer has not acknowledged."""
        return self._link.core.unsent(self.number)

    @property
    def acknowledged_octets(self) -> int:
        """Octets that the peer has acknowledged; see :mod:`agtphost.protocols.peer_liveness`."""
        return self._link.core.count_acknowledged(self.number)

    def end(self) -> None:
        """Tell the connection that its stream is over; called by the link in a later turn."""
        self._producer = None
        self.connection.connectionLost(_DONE)

    # ITransport, as far as it is used

    def write(self, octets: bytes) -> None:
        """Send octets of the answer."""
        if self.is_ended:
            return
        self._link.send(self.number, octets)
        if not self._choked and self._link.core.unsent(self.number) > self._most_unsent:
            self._choked = True
            if self._producer is not None:
                self._producer.pauseProducing()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Tell ``producer`` when to pause and when to go on."""
        self._producer = producer

    def unregisterProducer(self) -> None:
        """Tell it no more."""
        self._producer = None

    def loseConnection(self) -> None:
        """End the answer; the stream is over once the peer has acknowledged it."""
        self.has_final_answer = True
        self._link.finish(self.number)

    def abortConnection(self) -> None:
        """Reset the stream in both directions."""
        if not self.is_ended:
            self._link.reset(self.number, Code.LATE)
            self.lose()

    def pauseProducing(self) -> None:
        """Do nothing, because the one request of a stream is complete before its answer chokes the connection."""

    def resumeProducing(self) -> None:
        """Do nothing, because reading was not paused."""
