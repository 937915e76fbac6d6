"""
aioquic's connection as this host's listener needs it, besides the bounds of :mod:`agtphost.wire.quic.connection`.

What the library lacks or does otherwise, as of 1.7.2:

- It asks for client certificates by a private switch only, and does not verify the chain:
  :attr:`ServerCore.client_chain` is verified by the caller at ``HandshakeCompleted``.
- It lets a client open 128 streams of each kind, and chooses no certificate by SNI.
- A stream counts until its answer is acknowledged, and MAX_STREAMS is sent when half are used: a client that makes no
  more calls at a time than it may waits for round trips.
- It takes names of servers of any length and with any octets.
- Its tokens of stateless resets are random, so that nothing can be reset after a restart.
- It asks a client that moved to prove its address only where the congestion window has room, which packets to the
  address before may fill for good; it does not ask again where the answer is lost, and has sent all that the address
  may get; and it waits for 0.6 seconds. It measures round trips and congestion of the new path with those before.
- It does not ask the address before, so that who forwards a few packets in both directions has the connection.
"""

from __future__ import annotations

import hmac
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from aioquic import tls
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import QuicErrorCode, QuicFrameType, QuicPacketType, QuicProtocolVersion
from aioquic.quic.packet_builder import QuicPacketBuilder
from cryptography import x509

from agtphost.protocols.own_certificates import OwnCertificates
from agtphost.protocols.quic.qlog import QlogDirectory
from agtphost.wire.quic.connection import CONNECTION_ID, MOST_AMPLIFICATION, PROTOCOLS, BoundedConnection
from agtphost.wire.quic.handshake_messages import make_buffer

NEW_PATH_PROBE = 1.0
"""
Seconds of a probe timeout where the round trip is not known yet (RFC 9002 section 6.2.2). With the library's 0.2 a
client that moves to a path by satellite has no time to prove its address.
"""

FORMER_PAUSE = 10.0
"""
Seconds between two requests of proof to addresses before. Where copies of a client's packets are always faster than
these, its answers would bring the connection to another new address each time, and seem to be lost.
"""

PROOF_OCTETS, MOST_SAVED = 96, 192
"""Octets of a request of proof with an acknowledgement, and those that an address may get and are kept for requests."""

LONGEST_NAME = 255
"""Octets of a name that a client may ask for, as in OpenSSL."""

LEAST_IDLE = 60.0
"""
Seconds without a packet after which QUIC ends a connection, at least (core v08 section 5.4): a client that waits for an
answer sends PING every 15. Without a call, ``idle_timeout`` of ``[limits]`` ends it earlier, as over TLS.
"""

SHORT_FRAME = 16
"""Octets of a frame of PADDING, of a stream or of the handshake that count as those of a short one."""

MOST_PACKETS_OF_KEYS = 4_194_304
"""
Packets that a host encrypts with one set of keys, half of what AES-GCM may have (RFC 9001 section 6.6): 5 GB.
The library does not count them.
"""


class UnrecognizedNameAlert(tls.Alert):
    """The alert for a name that cannot be one."""

    description = tls.AlertDescription.unrecognized_name


def configuration_of(
    certificates: OwnCertificates, *, window: int, idle: float, datagram_size: int, traces: QlogDirectory | None
) -> QuicConfiguration:
    """
    Return aioquic's configuration of a server.

    :param window: octets that a stream may have sent and that were not consumed; a connection four times as much.
    :param idle: seconds that a connection without a call may last.
    :param traces: takes a trace of each connection.
    """
    own = certificates.find("")
    return QuicConfiguration(
        is_client=False,
        alpn_protocols=list(PROTOCOLS),
        certificate=own.chain[0],
        certificate_chain=list(own.chain[1:]),
        private_key=own.key,
        connection_id_length=CONNECTION_ID,
        idle_timeout=max(idle, LEAST_IDLE),
        max_data=4 * window,
        max_stream_data=window,
        max_datagram_size=datagram_size,
        supported_versions=[QuicProtocolVersion.VERSION_1],
        quic_logger=traces,
    )


def reset_token(secret: bytes, connection_id: bytes) -> bytes:
    """Return the token of stateless resets for a connection ID, the same after a restart."""
    return hmac.digest(secret, connection_id, "sha256")[:16]


class ServerCore(BoundedConnection):
    """
    The server's side of a QUIC connection without I/O.

    :param certificates: of the host, by the name that a client asks for.
    :param asks_certificate: whether the client is asked for a certificate.
    :param streams: requests at a time.
    :param secret: of the tokens of stateless resets.
    """

    def __init__(
        self,
        configuration: QuicConfiguration,
        certificates: OwnCertificates,
        *,
        asks_certificate: bool,
        streams: int,
        secret: bytes,
        original: bytes,
        retried: bytes | None,
    ) -> None:
        super().__init__(
            configuration,
            streams,
            original_destination_connection_id=original,
            retry_source_connection_id=retried,
        )
        self._certificates = certificates
        self._asks = asks_certificate
        self._secret = secret
        self._most_streams = streams
        self._granted = streams
        self._host_cids[0].stateless_reset_token = reset_token(secret, self.host_cid)
        self.server_name: str | None = None
        """The name that the client asked for by SNI, in lower case."""

        self._challenged: Any = None  # the path that was asked for a proof of its address
        self._challenged_at = -math.inf
        self._asked: tuple[Any, float] = None, 0.0  # the newest path that was asked, and since when
        self._active: Any = None  # the path that packets were sent on last
        self._former: Any = None  # the path before that, which was not asked yet
        self._former_due = -math.inf  # when it may be asked
        self._measured: str | None = None  # the address that round trips and congestion are measured of
        self.fresh_octets = 0
        """Octets of streams that came from the client, each of them counted once, but for the first of each frame."""

        self.long_octets = 0
        """Octets of PADDING, streams and the handshake from the client, but for the first of each frame."""

        self.packets_lost = 0
        """Packets that the client did not acknowledge in time."""

        loss: Any = self._loss
        note_lost = loss._on_packets_lost

        def count_lost(**parts: Any) -> None:
            self.packets_lost += len(parts["packets"])
            note_lost(**parts)

        loss._on_packets_lost = count_lost

    @property
    def is_worn_out(self) -> bool:
        """Whether as many packets were sent as the keys of the connection may encrypt."""
        return self._packet_number >= MOST_PACKETS_OF_KEYS

    def end_trace(self) -> None:
        """Close the file of the connection's trace, if there is one."""
        trace, self._quic_logger = self._quic_logger, None
        if trace is not None and self._configuration.quic_logger is not None:
            self._configuration.quic_logger.end_trace(trace)

    def release(self) -> None:
        """
        Free what the library holds, 60 KiB, once the connection is over and nothing asks for more than its streams.

        Its parts refer to each other. The host's garbage collector, which runs rarely, would find them after thirty
        thousand connections.
        """
        parts: tuple[Any, ...] = (self, self._loss, getattr(self, "tls", self))
        for part in parts:
            vars(part).clear()
        self._streams = {}

    # The handshake

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        context: Any = self.tls
        context._request_client_certificate = self._asks
        handle = context._server_handle_hello

        def handle_hello(message: Buffer, initial: Buffer, _: Buffer) -> None:
            whole = message.data_slice(0, message.capacity)
            self._choose_certificate(context, tls.pull_client_hello(Buffer(data=whole)).server_name)
            self._crypto_buffers[tls.Epoch.HANDSHAKE] = make_buffer([context.certificate, *context.certificate_chain])
            handle(message, initial, self._crypto_buffers[tls.Epoch.HANDSHAKE])

        context._server_handle_hello = handle_hello

    def _choose_certificate(self, context: Any, name: str | None) -> None:
        if name is not None and (len(name) > LONGEST_NAME or "\0" in name):
            raise UnrecognizedNameAlert("the name is too long, or has a zero octet")
        self.server_name = None if not name else name.lower()
        own = self._certificates.find(self.server_name or "")
        context.certificate, context.certificate_chain = own.chain[0], list(own.chain[1:])
        context.certificate_private_key = own.key

    def end_handshake(self) -> None:
        """Note that the handshake has succeeded, and free 32 KiB that it needs no more."""
        trace: Any = self._quic_logger
        if trace is not None:
            trace.is_established = True
        for epoch in (tls.Epoch.INITIAL, tls.Epoch.HANDSHAKE):
            self._crypto_buffers[epoch] = Buffer(capacity=0)

    @property
    def client_chain(self) -> tuple[x509.Certificate, Sequence[x509.Certificate]] | None:
        """The client's certificate and the others that it has shown, none of them verified; None: it has shown none."""
        context: Any = self.tls
        own = context._peer_certificate
        return None if own is None else (own, context._peer_certificate_chain)

    def _replenish_connection_ids(self) -> None:
        known = len(self._host_cids)
        super()._replenish_connection_ids()
        for each in self._host_cids[known:]:
            each.stateless_reset_token = reset_token(self._secret, each.cid)

    # Streams

    def _handle_stream_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        start = buf.tell()
        stream = self._streams.get(buf.pull_uint_var())
        offset = buf.pull_uint_var() if frame_type & 4 else 0
        length = buf.pull_uint_var() if frame_type & 2 else buf.capacity - buf.tell()
        buf.seek(start)
        filled = 0 if stream is None else count_missing(stream.receiver, offset, offset + length)
        used = self._local_max_data.used  # the highest octets of all streams
        try:
            super()._handle_stream_frame(context, frame_type, buf)
        finally:
            self._note_frame(buf.tell() - start)  # Also a copy for a stream that is over, which the library refuses.
        self.fresh_octets += max(0, min(length, filled + self._local_max_data.used - used) - SHORT_FRAME)

    def _handle_crypto_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        start = buf.tell()
        super()._handle_crypto_frame(context, frame_type, buf)
        self._note_frame(buf.tell() - start)

    def _handle_padding_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        start = buf.tell()
        super()._handle_padding_frame(context, frame_type, buf)
        self._note_frame(buf.tell() - start)

    def _note_frame(self, octets: int) -> None:
        self.long_octets += max(0, octets - SHORT_FRAME)

    def _write_connection_limits(self, builder: Any, space: Any) -> None:
        limit = self._local_max_streams_bidi
        self._granted = max(self._granted, limit.used + self._count_free_streams())
        limit.value = self._granted
        used, limit.used = limit.used, limit.sent  # else it waits until few are left
        try:
            super()._write_connection_limits(builder, space)
        finally:
            limit.used = used

    def _count_free_streams(self) -> int:
        """
        Return how many further streams the client may open.

        A request counts until the last datagram of its answer is written, so that the client learns of its free stream
        with the answer. Twice as many streams may wait for an acknowledgement, which takes a client a round trip and
        its delay of acknowledgements.
        """
        kept = [stream.sender for stream in self._streams.values() if not stream.is_finished]
        answered = sum(map(self._is_answered, kept))
        under_way = len(kept) - answered
        return self._most_streams - under_way - max(0, answered - 2 * self._most_streams)

    def _is_answered(self, sender: Any) -> bool:
        """Return whether what is left of an answer fits the datagram that is being written."""
        if sender._buffer_fin is None:
            return sender.is_finished or sender._reset_error_code is not None
        return bool(sender._buffer_stop - sender.next_offset <= self._max_datagram_size)

    def count_acknowledged(self, stream_id: int) -> int:
        """Return the octets of an answer that the peer has acknowledged."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.sender._buffer_start

    def has_sent_all(self, stream_id: int) -> bool:
        """Return whether everything including the end was acknowledged, or nothing more will be sent."""
        stream = self._streams.get(stream_id)
        return stream is None or stream.sender.is_finished

    def drop_answer(self, stream_id: int) -> None:
        """Free the octets of an answer that is not sent any more, because the stream was reset."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.sender._reset_error_code is not None:
            stream.sender._buffer = bytearray()

    # The connection

    def count_in_flight(self) -> int:
        """Return how many packets the client has neither acknowledged nor lost, and has to acknowledge."""
        return sum(space.ack_eliciting_in_flight for space in self._loss.spaces)

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Any]]:
        """Return the datagrams that have to be sent, with a request of proof where the client's address is new."""
        path, *others = self._network_paths
        for each in others:
            if not each.remote_challenges:
                each.local_challenge_sent = True  # The client has left it, and does not probe it.
        if self._handshake_complete and not path.is_validated and path.validation_deadline is None:
            # Then the address before counts again (RFC 9000 section 9.3.2), be it that this one got no challenge.
            path.validation_deadline = now + 3 * max(self._loss.get_probe_timeout(), NEW_PATH_PROBE)
        self._note_path(path, now)
        asks, is_proven = now >= self._challenge_due, path.is_validated and path is self._challenged
        if asks:
            path.local_challenge_sent = False
            # A client that repeats a packet until it is acknowledged gets a challenge each time.
            space = self._spaces[tls.Epoch.ONE_RTT]
            space.ack_at = None if space.ack_at is None else min(space.ack_at, now)
        if asks or is_proven:
            # Packets to the address before do not count for the new one (RFC 9000 section 9.4): a probe may exceed the
            # congestion window, and its acknowledgement shows that they are lost.
            self._probe_pending |= not self._is_full
            self._challenged = None
        elif not path.is_validated and self._handshake_complete:
            path.local_challenge_sent = True  # It was asked a moment ago.
        with self._saving_octets(asks=asks):
            found = super().datagrams_to_send(now)
        if asks and path.local_challenge_sent:
            self._challenged, self._challenged_at = path, now
            if self._asked[0] is not path:
                self._asked = path, now
        if path is not self._active:
            self._former, self._active = self._active, path
        is_left = self._handshake_complete and self._former in others and self._former.is_validated
        if is_left and now >= self._former_due and not self.is_closing:
            found += self._ask_former_path(self._former, now)
        return found

    def _ask_former_path(self, former: Any, now: float) -> list[tuple[bytes, Any]]:
        """
        Ask the address before for a proof where the client seems to have moved (RFC 9000 section 9.3.3).

        A client that has not moved acknowledges it from there, which makes that address the one in use again.
        """
        if self._is_full:
            return []
        self._former, self._former_due = None, now + FORMER_PAUSE
        if former.peer_cid is None and self._peer_cid_available:
            former.peer_cid = self._peer_cid_available.pop(0)
        peer_cid = (former.peer_cid or self._peer_cid).cid
        builder = QuicPacketBuilder(
            host_cid=self.host_cid,
            is_client=False,
            max_datagram_size=self._max_datagram_size,
            packet_number=self._packet_number,
            peer_cid=peer_cid,
            quic_logger=self._quic_logger,
            version=QuicProtocolVersion.VERSION_1,
        )
        builder.start_packet(QuicPacketType.ONE_RTT, self._cryptos[tls.Epoch.ONE_RTT])
        self._write_path_challenge_frame(builder, former)
        found = list(self._flush_builder(builder=builder, network_path=former, peer_cid=peer_cid, now=now))
        packet = self._spaces[tls.Epoch.ONE_RTT].sent_packets.get(builder.packet_number - 1)
        if packet is not None and packet.in_flight:
            # The port that a client had before a translator forgot it never answers. That says nothing of how congested
            # the path in use is (RFC 9000 section 9.4), whose window would be halved each time.
            packet.in_flight = False
            self._loss._cc.bytes_in_flight -= packet.sent_bytes
        return found

    def _note_path(self, path: Any, now: float) -> None:
        """Measure round trips and congestion anew where the client has shown that it is at another address."""
        if not (self._handshake_complete and path.is_validated):
            return
        before, self._measured = self._measured, path.addr[0]
        if before in (None, path.addr[0]):
            return
        recovery: Any = self._loss
        old, new = recovery._cc, type(recovery._cc)(max_datagram_size=self._max_datagram_size)
        new.bytes_in_flight = old.bytes_in_flight
        new._congestion_recovery_start_time = now  # What was sent before, and is lost or arrives, says nothing of it.
        recovery._cc = new
        recovery._pacer.packet_time = None
        # The proof took about a round trip, which does not count as a sample (RFC 9002 section 6.2.2).
        asked, at = self._asked
        proof = now - at + recovery.max_ack_delay if asked is path else math.inf
        recovery._rtt_initial = min(proof, NEW_PATH_PROBE / 2)
        recovery._rtt_initialized, recovery._rtt_min, recovery._pto_count = False, math.inf, 0

    def get_timer(self) -> float | None:
        """Return when :meth:`handle_timer` is to be called."""
        due = super().get_timer()
        path = self._network_paths[0] if self._network_paths else None
        if path is not None and path.local_challenge_sent and not super()._amplification_blocked_timers()[1]:
            due = min(math.inf if due is None else due, self._challenge_due)
        return due

    @contextmanager
    def _saving_octets(self, *, asks: bool) -> Iterator[None]:
        """
        Save octets for further requests of proof.

        Parts of an answer would use all that the address may get; where the proof is lost, and its client waits for
        the answer, no packet of it would bring more.
        """
        path = self._network_paths[0]
        saved = 0
        if self._handshake_complete and not path.is_validated and not self._close_pending:
            spare = MOST_AMPLIFICATION * path.bytes_received - path.bytes_sent - (PROOF_OCTETS if asks else 0)
            saved = max(0, min(MOST_SAVED, spare))
        path.bytes_sent += saved
        try:
            yield
        finally:
            path.bytes_sent -= saved

    def _amplification_blocked_timers(self) -> tuple[bool, bool]:
        with self._saving_octets(asks=False):
            acknowledgement, probe = super()._amplification_blocked_timers()
        return bool(acknowledgement), bool(probe)

    @property
    def _challenge_due(self) -> float:
        """
        Return when the client is to be sent a PATH_CHALLENGE.

        It is repeated until it is answered (RFC 9000 section 13.3), no sooner than an Initial packet would be (RFC 9000
        section 8.2.1), also where the address has changed again: behind a translator that gives each datagram another
        port, its answer asks for the next one.
        """
        path = self._network_paths[0]
        if path.is_validated or not self._handshake_complete:
            return math.inf
        return self._challenged_at + self._loss.get_probe_timeout()

    @property
    def address(self) -> tuple[str, int] | None:
        """Return the client's address once it has shown that it receives there; None before."""
        path = self._network_paths[0] if self._network_paths else None
        return (str(path.addr[0]), int(path.addr[1])) if path is not None and path.is_validated else None


def count_missing(receiver: Any, start: int, stop: int) -> int:
    """Return how many octets from ``start`` to ``stop`` are in gaps of what came on a stream."""
    start, stop = max(start, receiver._buffer_start), min(stop, receiver.highest_offset)
    if stop <= start or receiver.is_finished:
        return 0
    missing, known = stop - start, receiver._ranges
    for number in range(bisect_right(known, start, key=attrgetter("stop")), len(known)):
        if known[number].start >= stop:
            break
        missing -= min(stop, known[number].stop) - max(start, known[number].start)
    return missing


def encode_refusal(destination_cid: bytes, source_cid: bytes, code: QuicErrorCode, reason: str) -> bytes:
    """
    Return the datagram that refuses a connection before any of it is read (RFC 9000 section 5.2.2).

    :param destination_cid: of the client's first packet.
    :param source_cid: of the same packet.
    :param code: why, such as CONNECTION_REFUSED.
    :param reason: a phrase of a few words, or none.
    """
    version, size, phrase = QuicProtocolVersion.VERSION_1, 1200, reason.encode()
    keys = CryptoPair()
    keys.setup_initial(destination_cid, is_client=False, version=version)
    builder = QuicPacketBuilder(
        host_cid=destination_cid, peer_cid=source_cid, version=version, is_client=False, max_datagram_size=size
    )
    builder.start_packet(QuicPacketType.INITIAL, keys)
    frame = builder.start_frame(QuicFrameType.TRANSPORT_CLOSE, capacity=4 + len(phrase))
    for number in (code, QuicFrameType.PADDING, len(phrase)):
        frame.push_uint_var(number)
    frame.push_bytes(phrase)
    [datagram], _ = builder.flush()
    return datagram
