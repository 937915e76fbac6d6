"""
The server's side of one connection: Twisted below, the sans-I/O core within, the dispatcher above.

Octets from the transport go into :class:`agtphost.wire.Connection`, the requests that come out go to the dispatcher one
at a time, and the answers go back. :mod:`agtphost.protocols.connection_states` decides the order. The rules:

- Nothing is read before the TLS handshake is complete, and nothing written.
- Between any two requests, also of one read, the loop checks whether it may go on: not while a request is unanswered,
  and not while the transport has enough to write.
- What a turn of the reactor yields for the peer is one ``transport.write``, unless it exceeds the high-water mark.
- Reading from the socket stops while more than :data:`READ_AHEAD` waits after an unanswered request, and while the peer
  does not take what it is sent.
- A connection has a deadline instead of timers: one sweep over all connections calls :meth:`ServerConnection.sweep`.
- A peer that ends its side is gone, be it by close_notify or FIN: what was in dispatch is
  completed, or given up where it changes nothing, and recorded, and its answer is dropped.
  While its socket is not read, the sweep asks the system.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol

from twisted.internet.interfaces import IHandshakeListener, IProtocol, IPushProducer, IReactorTime, ITCPTransport
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.errors import RemoteProtocolError
from agtphost.iagtp import IDispatcher
from agtphost.identity.peer import Peer
from agtphost.protocols.connection_states import Wait, automaton
from agtphost.protocols.coroutines import drive
from agtphost.protocols.limits import (
    READ_AHEAD,
    STALL,
    UNREAD,
    UNREAD_INTERIM,
    WAITING,
    ConnectionLimits,
    closing_seconds,
)
from agtphost.protocols.listener_connections import compact
from agtphost.protocols.peer_liveness import ReadProgress
from agtphost.protocols.peers import call_each, peer_of
from agtphost.vocabulary.reasons import Reason
from agtphost.wire import Connection, Headers, Request, Response

log = Logger()

TAKES = (Wait.TAKING, Wait.FLUSHING)
"""Where the peer is to take what it is sent."""


class Owner(Protocol):
    """The listener of a connection, which is notified of its events."""

    def connection_opened(self, connection: ServerConnection) -> None:
        """Note that the connection has a transport; it is swept from now on."""

    def connection_authenticated(self, connection: ServerConnection) -> None:
        """Note that the handshake ended with a client certificate."""

    def connection_closed(self, connection: ServerConnection) -> None:
        """Note that the connection lost its transport."""

    def lagging(self, connection: ServerConnection) -> None:
        """Note that more than ``UNREAD`` octets wait for the peer."""

    def call_started(self) -> None:
        """Note that a call of the dispatcher begins."""

    def call_ended(self) -> None:
        """Note that a call of the dispatcher ended, even if its connection is gone."""


class Interim:
    """Takes the interim messages of one request, and of no other: ``IDispatcher.dispatch``'s ``interim``."""

    __slots__ = ("_connection", "_turn")

    def __init__(self, connection: ServerConnection, turn: int) -> None:
        self._connection = connection
        self._turn = turn

    def __call__(self, response: Response) -> None:
        """
        Send one message ahead of the final one; dropped if that was sent, or the connection is gone.

        :raises agtphost.errors.LocalProtocolError: if it cannot be a message.
        """
        self._connection.send_interim(self._turn, response)


@implementer(IProtocol, IHandshakeListener, IPushProducer)
class ServerConnection:
    """
    The server's side of an accepted connection.

    :param wire: the framing, unused so far.
    :param address: the peer's, canonical.
    """

    __slots__ = (
        "_body_since",
        "_choked",
        "_dispatcher",
        "_expires",
        "_held",
        "_last",
        "_limits",
        "_machine",
        "_output",
        "_owing",
        "_owner",
        "_peer",
        "_pumping",
        "_reading",
        "_reads",
        "_seconds",
        "_served",
        "_spent",
        "_transport",
        "_wait",
        "_wire",
        "address",
        "deadline",
    )

    last_fields: tuple[tuple[str, str], ...] = (("Connection", "close"),)
    """Headers of the last answer: its client makes its next call on another connection."""

    def __init__(
        self,
        dispatcher: IDispatcher,
        limits: ConnectionLimits,
        clock: IReactorTime,
        wire: Connection,
        owner: Owner,
        address: str,
    ) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._seconds = clock.seconds
        self._wire = wire
        self._owner = owner
        self.address = address
        """The peer's IP address, canonical."""
        self.deadline = math.inf
        """The time at which the awaited side is late, in the clock's seconds."""
        self._machine = automaton(self)
        self._wait = Wait.HANDSHAKE
        self._peer = Peer(address=address)  # until the handshake says more
        self._transport: Any = None
        self._output = bytearray()  # not yet given to the transport
        self._last = 0  # octets of the latest answer
        self._served = 0
        self._body_since = 0.0
        self._expires = math.inf  # when the connection is old enough
        self._reads = False  # whether the state parses
        self._owing = False  # whether a request is in dispatch
        self._pumping = False
        self._choked = False  # whether the transport asked for no more
        self._reading = ReadProgress()
        self._held = False  # whether we asked the transport for no more
        self._spent = False  # whether the next answer is the last

    # IProtocol

    def makeConnection(self, transport: Any) -> None:
        """A TCP connection is there, and its TLS handshake about to begin."""
        self._transport = transport
        if ITCPTransport.providedBy(transport):
            # Answers are written whole: waiting for more to send would only delay them.
            transport.setTcpNoDelay(True)
        self.expect(Wait.HANDSHAKE)
        self._owner.connection_opened(self)

    def connectionMade(self) -> None:
        """Required by the interface; :meth:`makeConnection` does it all."""

    def handshakeCompleted(self) -> None:
        """Read the peer's identity at the end of the TLS handshake."""
        if self._wait is not Wait.HANDSHAKE:
            return
        try:
            peer = peer_of(self._transport.getHandle(), self.address)
        except Exception:
            log.failure("the identity of a peer at {address} could not be read", address=self.address)
            self._machine.on_broken()
            return
        self.accept_peer(peer)

    def accept_peer(self, peer: Peer) -> None:
        """Begin to read requests, because the peer's identity is known."""
        self._peer = peer
        if peer.certificate is not None:
            self._owner.connection_authenticated(self)
        self._transport.registerProducer(self, True)
        self._expires = self._seconds() + self._limits.connection_age
        self._machine.on_secured()

    def dataReceived(self, octets: bytes) -> None:
        """Take decrypted octets that arrived."""
        wait = self._wait
        if self._reads:
            self._wire.receive(octets)
            self._pump()
            if wait is Wait.BODY and self._wait is Wait.BODY:
                self._note_progress()
        elif wait is Wait.ANSWER or wait is Wait.TAKING:
            self._wire.receive(octets)
            self._regulate()
        elif wait is Wait.HANDSHAKE:
            # Without TLS nothing is answered.
            self._machine.on_broken()

    def connectionLost(self, reason: Failure) -> None:
        """The transport is gone."""
        self._machine.on_departed()
        self._wire.receive(b"")
        self._output.clear()
        self._transport = None
        self._owner.connection_closed(self)
        call_each(self._peer.leaving)

    # IPushProducer: the transport says whether it takes more

    def pauseProducing(self) -> None:
        """The transport has enough; noticed by :meth:`_flush`, in whose write this happens."""
        self._choked = True

    def resumeProducing(self) -> None:
        """The transport has handed everything to the system."""
        self._choked = False
        self._flush()
        self._pump()

    def stopProducing(self) -> None:
        """The transport is about to be gone; :meth:`connectionLost` follows."""

    # What the owner does

    @property
    def unread(self) -> int:
        """Octets that wait here for the peer to read on."""
        return len(self._output)

    @property
    def expendable(self) -> int:
        """A connection of AGTP is not cut for another's sake."""
        return 0

    def sweep(self, now: float) -> None:
        """
        Act on the deadline, if it is over.

        :param now: the clock's seconds.
        """
        if now >= self._expires:
            self._spent = True
        if now >= self.deadline:
            self._give_up()
        elif self._reading.is_over(self._transport, now, waits=len(self._output) > WAITING, held=self._held):
            self._machine.on_broken()

    def drain(self) -> None:
        """End the connection, after the answer that is owed, if one is."""
        self._spent, now, idle = True, self._seconds(), self._wait is Wait.IDLE
        if not self._owing:
            since = self.deadline - self._limits.idle_timeout
            self._machine.on_ended()
            self._flush()
            if idle and self._wait is Wait.CLOSE:
                self.deadline = now + closing_seconds(self._last, self._limits, now - since)

    def cut(self) -> None:
        """End the connection immediately."""
        self._machine.on_broken()

    # Effects

    def expect(self, wait: Wait) -> None:
        """Set the deadline and whether requests are read; see :class:`agtphost.protocols.connection_states.Effects`."""
        self._wait = wait
        self._reads = False
        limits = self._limits
        if wait is Wait.ANSWER:
            self.deadline = math.inf  # a handler's deadline is the dispatcher's
        elif wait is Wait.IDLE:
            self._reads = True
            self.deadline = self._seconds() + limits.idle_timeout
        elif wait is Wait.HEADER:
            self._reads = True
            self.deadline = self._seconds() + limits.header_timeout
        elif wait is Wait.BODY:
            self._reads = True
            self._body_since = self._seconds()
            self.deadline = self._body_since + limits.body_gap_timeout
        elif wait in TAKES:
            patience = limits.write_timeout
            if len(self._output) > UNREAD:
                patience = min(patience, STALL)
            self._reading.mark(self._transport)
            self.deadline = self._seconds() + patience
        elif wait is Wait.CLOSE:
            self.deadline = self._seconds() + closing_seconds(self._last, limits)
        elif wait is Wait.HANDSHAKE:
            self.deadline = self._seconds() + limits.handshake_timeout
        else:
            self.deadline = math.inf

    def refuse(self, error: RemoteProtocolError) -> None:
        """Answer a malformed message; see :class:`agtphost.protocols.connection_states.Effects`."""
        self._owing = True
        drive(self._answer_malformed(error))

    def close(self) -> None:
        """Close the transport after its output; see :class:`agtphost.protocols.connection_states.Effects`."""
        self._regulate()
        self._transport.unregisterProducer()
        self._transport.loseConnection()

    def abort(self) -> None:
        """Cut the transport; see :class:`agtphost.protocols.connection_states.Effects`."""
        self._output.clear()
        self._transport.abortConnection()

    # Requests

    def _pump(self) -> None:
        """Take requests out of what arrived, until one is unanswered or no whole one is left."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._reads and not self._choked:
                event = self._wire.next_event()
                if type(event) is not Request:
                    self._note_partial()
                    break
                self.expect(Wait.ANSWER)
                self._owing = True
                self._served += 1
                drive(self._answer(event))
                if len(self._output) >= self._limits.output_high_water:
                    self._flush()
        except RemoteProtocolError as error:
            self._machine.on_malformed(error)
        finally:
            self._pumping = False
        if self._output or self._choked or self._wait is not Wait.ANSWER:
            self._flush()
        self._regulate()

    def _note_partial(self) -> None:
        part = self._wire.mid_message
        if part == "header" and self._wait is not Wait.HEADER:
            self.expect(Wait.HEADER)
        elif part == "body" and self._wait is not Wait.BODY:
            self.expect(Wait.BODY)

    def _note_progress(self) -> None:
        """A body grew: it may pause again, unless it is too slow on the whole."""
        gap, rate = self._limits.body_gap_timeout, self._limits.body_min_rate
        self.deadline = self._seconds() + gap
        if rate:
            self.deadline = min(self.deadline, self._body_since + gap + self._wire.buffered_octets / rate)

    def _give_up(self) -> None:
        """The deadline is over."""
        if self._wait is Wait.IDLE:
            self._last = 0  # taken long ago
            self._machine.on_ended()
        elif self._wait is Wait.HEADER:
            self._machine.on_malformed(_late(Reason.HEADER_TIMEOUT))
        elif self._wait is Wait.BODY:
            self._machine.on_malformed(_late(Reason.BODY_TIMEOUT))
        elif self._wait in TAKES and self._reading.took(self._transport, self._limits.output_high_water):
            self.expect(self._wait)
        else:
            self._machine.on_broken()
        self._flush()

    async def _answer(self, request: Request) -> None:
        self._owner.call_started()
        try:
            interim = Interim(self, self._served)
            self._finish(await self._dispatcher.dispatch(request, self._peer, interim))
        except Exception:
            log.failure("a request could not be answered; its connection is cut")
            self._machine.on_broken()
        finally:
            self._owner.call_ended()

    async def _answer_malformed(self, error: RemoteProtocolError) -> None:
        self._owner.call_started()
        try:
            refusal = self._dispatcher.refuse(error.reason, error.explanation, self._peer, self._wire.line)
            # The framing is lost, so the connection is closed even if the dispatcher would keep it open.
            self._finish(replace(await refusal, close=True))
        except Exception:
            log.failure("a malformed request could not be answered; its connection is cut")
            self._machine.on_broken()
        finally:
            self._owner.call_ended()

    # Answers

    def _finish(self, response: Response) -> None:
        """The final answer is there."""
        if self._wait is Wait.GONE:
            return
        self._owing = False
        if ends := response.close or self._spent or self._served >= self._limits.requests_per_connection:
            response = replace(response, headers=Headers((*response.headers, *self.last_fields)))
        octets = self._wire.send(response)
        size = self._last = len(octets)
        if ends:
            self._output += octets
            self._machine.on_ended()
        else:
            self.expect(Wait.IDLE)
            if self._pumping or self._choked or self._output or size > self._limits.output_high_water:
                self._output += octets
            else:
                self._transport.write(octets)
                if not (self._choked or self._held or self._wire.buffered_octets):
                    return  # All is written, and reading is not paused.
        if not self._pumping:
            self._flush()
            if self._wire.buffered_octets:
                self._pump()
            else:
                self._regulate()

    def send_interim(self, turn: int, response: Response) -> None:
        """
        Send a message ahead of the final answer; see :class:`Interim`.

        :param turn: the number of the request, from 1.
        """
        if turn != self._served or not self._owing or self._wait is Wait.GONE:
            return
        self._output += self._wire.send(response, final=False)
        if len(self._output) > UNREAD_INTERIM:
            self._machine.on_broken()
        elif not self._pumping:
            self._flush()

    def _flush(self) -> None:
        """Give the transport what it takes, and wait for the peer if that was not all."""
        if self._wait is Wait.GONE or self._wait is Wait.CLOSE:
            return
        output, most, wrote = self._output, self._limits.output_high_water, False
        while output and not self._choked:
            if len(output) <= most:
                piece = bytes(output)
                output.clear()
            else:
                piece = bytes(memoryview(output)[:most])
                del output[:most]
            self._transport.write(piece)
            wrote = True
        wait = self._wait
        if output or self._choked:
            if wait is not Wait.FLUSHING and wait is not Wait.TAKING:
                self.expect(Wait.TAKING)
            elif wrote:
                # Another piece shows that the peer took the ones before it, and gives it time anew.
                self.expect(wait)
            self._regulate()
            if len(output) > UNREAD:
                self._output = compact(output)
                self._owner.lagging(self)
        elif wait is Wait.FLUSHING:
            self._machine.on_cleared()
        elif wait is Wait.TAKING:
            self.expect(Wait.ANSWER if self._owing else Wait.IDLE)

    def _regulate(self) -> None:
        """Stop reading from the socket, or read on."""
        if self._wait is Wait.GONE:
            return
        hold = self._wait is not Wait.CLOSE and (
            self._choked or (not self._reads and self._wire.buffered_octets > READ_AHEAD)
        )
        if hold is not self._held:
            self._held = hold
            if hold:
                self._transport.pauseProducing()
            else:
                self._transport.resumeProducing()


def _late(reason: Reason) -> RemoteProtocolError:
    return RemoteProtocolError(reason, reason.meaning)
