"""One QUIC connection: from aioquic's events to the streams, its timer, its peer, its end."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from aioquic.quic import events
from aioquic.quic.packet import QuicErrorCode
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from agtphost.identity.chain_verification import ChainRefused, ChainVerifier
from agtphost.identity.peer import Peer
from agtphost.protocols.admission import canonical_address, is_loopback
from agtphost.protocols.connection import ServerConnection
from agtphost.protocols.peers import call_each, certificate_of
from agtphost.protocols.quic.core import ServerCore
from agtphost.protocols.quic.link_settings import LinkSettings
from agtphost.protocols.quic.progress import HANDSHAKE, ProgressAccount
from agtphost.protocols.quic.stream import StreamConnection, StreamTransport
from agtphost.vocabulary.quic_codes import (
    CERTIFICATE_REQUIRED,
    CERTIFICATE_UNKNOWN,
    CRYPTO_ERROR,
    CRYPTO_FRAME,
    MOST_RESETS,
    RESET_SECONDS,
    SHUTTING_DOWN,
    Code,
)
from agtphost.wire import Connection, Role

log = Logger()

MOST_MOVES, MOVE_SECONDS = 8, 60.0
"""Changes of a client's address in so many seconds."""

GRANULARITY = 0.001
"""Seconds: a timer is not set for less, so that one which is rounded to its own past does not spin (RFC 9002)."""

TRANSPORT_INTERNAL, PADDING = 0x01, 0x00
"""QUIC's own code for a fault of this side."""


def _end_streams(streams: Iterable[StreamTransport]) -> None:
    """Tell the connections of streams that these are over; a fault of one leaves the others."""
    for each in streams:
        try:
            each.end()
        except Exception:
            log.failure("the end of a request over QUIC failed")


class QuicLink:
    """
    A QUIC connection, as its listener sees it: :class:`agtphost.protocols.listener_connections.Accepted`.

    :param core: aioquic's side of it.
    :param address: where its first datagram came from.
    :param verifier: of the client's chain; None: no client is asked.
    :param needs_certificate: whether a client without a certificate is refused.
    """

    def __init__(
        self,
        settings: LinkSettings,
        core: ServerCore,
        address: str,
        *,
        verifier: ChainVerifier | None,
        needs_certificate: bool,
    ) -> None:
        self._settings = settings
        self.core = core
        self.address = address
        self._verifier = verifier
        self._needs_certificate = needs_certificate
        self._owner = settings.owner
        self._clock = settings.clock
        self._peer: Peer | None = None
        self._streams: dict[int, StreamTransport] = {}
        self._served: set[int] = set()  # over here, with state in the core
        self._ended: list[StreamTransport] = []
        self._resets: deque[float] = deque(maxlen=MOST_RESETS)
        self._moves: deque[float] = deque(maxlen=MOST_MOVES)
        self._timer: IDelayedCall | None = None
        self._requests = 0
        self._draining = self._is_stopping = False
        self._seen_at = ""  # the client's address as the system spells it
        self._active = self._clock.seconds()
        self._progress = ProgressAccount(self._active, HANDSHAKE)
        self._progress_elsewhere = ProgressAccount(self._active)
        self._expires = math.inf
        self.handshake_until = self._active + settings.limits.handshake_timeout
        """When the handshake has to be over."""

        self.is_admitted = False
        """Whether the connection is counted for its address."""

        self.is_gone = False
        self._outcome = "broken"

    # Datagrams and time

    def receive(self, datagram: bytes, address: tuple[str, int]) -> None:
        """
        Take a datagram for one of this connection's IDs.

        A handshake belongs to one address (RFC 9000 section 9): the library takes any as proven that the end of a
        handshake comes from, also where the host's part of it was sent to another one.
        """
        is_elsewhere = self._is_elsewhere(address)
        if self.is_gone or (self._peer is None and is_elsewhere):
            return
        core = self.core
        read, fresh, long = core.packets_read, core.fresh_octets, core.long_octets
        in_flight = core.count_in_flight()
        self._call_core(core.receive_datagram, datagram, address)
        fresh, long = core.fresh_octets - fresh, core.long_octets - long
        acknowledged = in_flight - core.count_in_flight()
        # The address of a datagram may be forged: the client has sent what could be read, and that only.
        is_clients = core.packets_read > read and not is_elsewhere
        progress = self._progress if is_clients else self._progress_elsewhere
        progress.note_datagram(len(datagram), long, fresh, acknowledged, self._clock.seconds())
        self._handle_events()
        if self.core.is_fresh:
            self._go()  # Not even keys could be agreed upon.
        elif not self.is_gone:
            self._note_address()
            self._wake()

    def is_costly(self, address: tuple[str, int]) -> bool:
        """
        Return whether a datagram waits behind those of other connections.

        That is so where much of what came for this one brought nothing. What comes from another address than the
        client's has another balance, because anyone may send it who has seen an ID; so has what cannot be read.
        """
        progress = self._progress_elsewhere if self._is_elsewhere(address) else self._progress
        return progress.is_costly(self._clock.seconds())

    def _is_elsewhere(self, address: tuple[str, int]) -> bool:
        return address[0] not in (self._seen_at, self.address) and canonical_address(address[0]) != self.address

    def _call_core(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call the core; an exception that is none of QUIC's closes the connection, and nothing else."""
        try:
            function(*arguments, now=self._clock.seconds())
        except Exception:
            log.failure("a QUIC connection failed, and is closed")
            self.core.close(TRANSPORT_INTERNAL, PADDING)

    def _wake(self) -> None:
        """Send what there is in one of the next turns of the reactor."""
        if not self.is_gone:
            self._owner.wake(self)

    def flush(self) -> None:
        """Send what there is, and end the streams that are over."""
        ended, self._ended = self._ended, []
        _end_streams(ended)
        if self.is_gone:
            return
        for stream in tuple(self._streams.values()):
            stream.note_acknowledged()
            if self.core.has_sent_all(stream.number):
                if self._resets and stream.has_final_answer:
                    self._resets.popleft()
                stream.lose()
        self._served = {number for number in self._served if self.core.is_open(number)}
        if self._draining and not self._streams and not self._ended:
            self._transmit()  # A packet that closes the connection has no other frames: resets would not be sent.
            if self._peer is None:
                self._outcome = "ending"
                self.core.close(QuicErrorCode.CONNECTION_REFUSED, PADDING, SHUTTING_DOWN)
            else:
                self.core.close(Code.ENDING)
        self._transmit()
        if self._ended:
            self._wake()

    def _transmit(self) -> None:
        try:
            datagrams = self.core.datagrams_to_send(now=self._clock.seconds())
        except Exception:
            log.failure("a QUIC connection failed, and is dropped")
            self._go()
            return
        for octets, address in datagrams:
            self._owner.transmit(octets, address)
        self._handle_events()
        if self.core.is_closing:
            self._go()
        elif not self.is_gone:
            self._set_timer()

    def _set_timer(self) -> None:
        due = self.core.get_timer()
        if self._peer is None:
            due = min(math.inf if due is None else due, self.handshake_until)
        if self._timer is not None and self._timer.active():
            if due is not None and self._timer.getTime() == due:
                return
            self._timer.cancel()
        self._timer = None
        if due is not None:
            self._timer = self._clock.callLater(max(GRANULARITY, due - self._clock.seconds()), self._act_on_time)

    def _act_on_time(self) -> None:
        self._timer = None
        if self._peer is None and self._clock.seconds() >= self.handshake_until:
            self._outcome = "late"
            self._go()
            return
        self._call_core(self.core.handle_timer)
        self._handle_events()
        self._wake()

    # Events

    def _handle_events(self) -> None:
        while not self.is_gone and (event := self.core.next_event()) is not None:
            kind = type(event)
            if kind is events.HandshakeCompleted:
                self._identify()
            elif kind is events.ConnectionIdIssued:
                self._owner.use(self, event.connection_id)  # type: ignore[attr-defined]
            elif kind is events.ConnectionIdRetired:
                self._owner.drop(event.connection_id)  # type: ignore[attr-defined]
            elif kind is events.ConnectionTerminated:
                self._go()
            elif self._peer is None:
                continue  # Ignore a peer that was refused or is not known yet.
            elif kind is events.StreamDataReceived:
                self._take(event)
            elif kind in (events.StreamReset, events.StopSendingReceived):
                self._cancel(event)

    def _identify(self) -> None:
        """Judge the client at the end of the handshake, before anything that it sent is read."""
        try:
            certificate = self._verify()
        except ChainRefused as error:
            log.debug("a client certificate was refused: {why}", why=str(error))
            self._refuse(error.alert)
            return
        except Exception:
            log.failure("the identity of a peer at {address} could not be read", address=self.address)
            self._refuse(CERTIFICATE_UNKNOWN)
            return
        if not self.is_admitted and not self._owner.admit(self, self.address):
            self._outcome = "limit"
            self.core.close(Code.TOO_MUCH)
            return
        if certificate is not None:
            self._owner.vouch(self)
        self._owner.establish(self)
        self.core.end_handshake()
        self._progress.clear()
        self._peer = Peer(
            address=self.address,
            carrier="quic",
            certificate=certificate,
            server_name=self.core.server_name,
            loopback=is_loopback(self.address),
            parting=set(),
        )
        self._outcome = "done"
        self._active = self._clock.seconds()
        self._expires = self._active + self._settings.limits.connection_age

    def _verify(self) -> Any:
        """Return the client's certificate; None where it has shown none and needs none."""
        shown = self.core.client_chain
        if shown is None:
            if self._needs_certificate:
                raise ChainRefused(CERTIFICATE_REQUIRED, "the client has shown no certificate")
            return None
        if self._verifier is None:
            raise ChainRefused(CERTIFICATE_UNKNOWN, "no client was asked for a certificate")
        return certificate_of(self._verifier.verify(*shown))

    def _refuse(self, alert: int) -> None:
        self._outcome = "refused"
        self.core.close(CRYPTO_ERROR + alert, CRYPTO_FRAME)

    def _note_address(self) -> None:
        """Count the connection for another address, once the client has shown that it receives there."""
        found = self.core.address
        if self._peer is None or found is None or found[0] == self._seen_at:
            return
        self._seen_at, address = found[0], canonical_address(found[0])
        if address == self.address:
            return
        now = self._clock.seconds()
        is_often = len(self._moves) == MOST_MOVES and now - self._moves[0] < MOVE_SECONDS
        self._moves.append(now)
        if is_often or not self._owner.move(self, address):
            self.core.close(Code.TOO_MUCH)
            return
        self._peer = replace(self._peer, address=address, loopback=is_loopback(address))

    # Streams

    def _take(self, event: Any) -> None:
        number = event.stream_id
        stream = self._streams.get(number)
        if stream is None:
            if number in self._served:
                return
            if self._draining:
                self._served.add(number)
                self.reset(number, Code.ENDING)
                return
            if not event.data:  # It ends without a request.
                self._served.add(number)
                self.finish(number)
                self._count_reset()
                return
            stream = self._open(number)
        self._active = self._clock.seconds()
        stream.receive(event.data, ends=event.end_stream)

    def _open(self, number: int) -> StreamTransport:
        """Begin the request of a stream."""
        settings, peer = self._settings, self._peer
        assert peer is not None
        self._requests += 1
        self._progress.note_request(self._clock.seconds())
        self._draining |= self._requests >= settings.limits.requests_per_connection
        wire = Connection(Role.SERVER, settings.wire_limits, strict_request_line=settings.strict_request_line)
        connection = StreamConnection(settings.dispatcher, settings.one_request, self._clock, wire, self, self.address)
        stream = StreamTransport(self, number, settings.window, settings.limits.output_high_water)
        stream.connection = connection
        self._streams[number] = stream
        connection.makeConnection(stream)
        connection.accept_peer(replace(peer, leaving=set()))
        return stream

    def _cancel(self, event: Any) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            if event.stream_id not in self._served:  # It ends before its request has begun.
                self._served.add(event.stream_id)
                self.reset(event.stream_id, Code.CANCELLED)
                self._count_reset()
            return
        if type(event) is events.StreamReset and (stream.has_final_answer or stream.has_refused_more):
            return  # No cancellation: STOP_SENDING must be answered by RESET_STREAM (RFC 9000 section 3.5).
        self.core.reset_stream(event.stream_id, Code.CANCELLED)
        self.core.drop_answer(event.stream_id)
        stream.lose()
        self._count_reset()

    def _count_reset(self) -> None:
        now = self._clock.seconds()
        if len(self._resets) == MOST_RESETS and now - self._resets[0] < RESET_SECONDS:
            self.core.close(Code.TOO_MUCH)
        self._resets.append(now)

    # What streams ask for

    def send(self, number: int, octets: bytes) -> None:
        """Send octets on a stream."""
        if not self.is_gone and self.core.takes_octets(number):
            self.core.send_stream_data(number, octets)
            self._wake()

    def finish(self, number: int) -> None:
        """End the answer of a stream."""
        if not self.is_gone and self.core.takes_octets(number):
            self.core.send_stream_data(number, b"", end_stream=True)
            if not self.core.has_received_all(number):
                self.core.stop_stream(number, Code.DONE)
            self._wake()

    def stop_reading(self, number: int, code: Code) -> None:
        """Ask the client to send no more on a stream."""
        if not self.is_gone and self.core.is_open(number) and not self.core.has_received_all(number):
            self.core.stop_stream(number, code)
            self._wake()

    def reset(self, number: int, code: Code) -> None:
        """End a stream in both directions immediately."""
        if not self.is_gone and self.core.is_open(number):
            self.core.reset_stream(number, code)
            self.core.drop_answer(number)
            self.stop_reading(number, code)
            self._wake()

    def end_stream(self, stream: StreamTransport) -> None:
        """Note that a stream is over; its connection learns of it in a later turn."""
        if self._streams.pop(stream.number, None) is not None:
            if self._peer is not None and stream.connection.peer.greeted:
                self._peer.greeted = True
            self._served.add(stream.number)
            self._ended.append(stream)
            self._active = self._clock.seconds()
            self._wake()

    # agtphost.protocols.connection.Owner

    def connection_opened(self, connection: ServerConnection) -> None:
        """Required by the interface: the link knows its streams."""

    def connection_authenticated(self, connection: ServerConnection) -> None:
        """Required by the interface: the certificate is the link's."""

    def connection_closed(self, connection: ServerConnection) -> None:
        """Required by the interface: :meth:`end_stream` does it all."""

    def lagging(self, connection: ServerConnection) -> None:
        """Note that much of an answer waits for the peer."""
        self._owner.lagging(connection)

    def call_started(self) -> None:
        """Count a call that begins."""
        self._owner.call_started()

    def call_ended(self) -> None:
        """Count a call that ended."""
        self._owner.call_ended()

    # agtphost.protocols.listener_connections.Accepted

    @property
    def unread(self) -> int:
        """Octets that wait here for the peer to read on."""
        return sum(each.connection.unread + each.unsent for each in self._streams.values())

    @property
    def streams(self) -> int:
        """Requests that are not over."""
        return len(self._streams)

    @property
    def expendable(self) -> int:
        """A connection of AGTP is not cut for another's sake."""
        return 0

    def sweep(self, now: float) -> None:
        """Act on the deadlines of the streams, and on the idleness and age of the connection."""
        for each in tuple(self._streams.values()):
            each.connection.sweep(now)
        self._draining |= now >= self._expires or self.core.is_worn_out
        is_idle = not self._streams and now - self._active >= self._settings.limits.idle_timeout
        if is_idle:
            self.core.close(Code.DONE)
        if self._draining or is_idle:
            self._wake()

    def drain(self) -> None:
        """End the connection after the answers that are owed; a second call does nothing."""
        if self._is_stopping:
            return
        self._draining = self._is_stopping = True
        for each in tuple(self._streams.values()):
            each.connection.drain()
        self._wake()

    def cut(self) -> None:
        """End the connection immediately."""
        if not self.is_gone:
            self.core.close(Code.LATE)
            self._transmit()

    def _go(self) -> None:
        """The connection is over: no datagram belongs to it any more."""
        if self.is_gone:
            return
        self.is_gone = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        streams = [*self._ended, *self._streams.values()]
        self._ended.clear()
        self._streams.clear()
        for each in streams:
            each.is_ended = True
        self._owner.forget(self, self._outcome)
        _end_streams(streams)
        if self._peer is not None:
            call_each(self._peer.parting or ())
