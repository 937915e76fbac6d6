"""
aioquic's connection with bounds, for both sides of AGTP over QUIC; only the library's core without I/O.

What the library lacks or does otherwise, as of 1.7.1 and 1.7.2, which differ in spelling alone:

- It doubles its windows whenever half is used, so frames that leave gaps make it hold 134 MB for 1.7 kB. Here a window
  follows what was consumed, and never grows.
- It reads datagrams of any length, and says nothing of it: one of 60 kB with the smallest frames takes 70 ms.
- It looks through all gaps before each octet that it takes, however many there are: 186 kB of frames of one octet, with
  as many gaps, cost 20 seconds of processor time (:mod:`.received_ranges`).
- It reads any number of frames in a packet: one full of acknowledgements takes 2.2 ms.
- It holds 512 KiB of handshake octets, and copies those of a message with each frame: 840 kB of frames of one octet
  cost 7 seconds.
- It takes certificates of any length, where OpenSSL takes 102,400 octets, and has room for 16 KiB of its own
  (:mod:`.handshake_messages`).
- It offers SHA-1, and verifies a signature by any hash that the peer names, also one that is not of the curve of its
  key. Certificates of unknown versions and keys raise an exception in place of an alert.
- It keeps the octets behind a gap of a stream that was reset, and lets as many more come on other streams.
- It lets a peer retire connection IDs before they are sent, and makes another for each: two octets cost a key.
- It remembers the number of each connection ID that a peer has ever named, and copies all of them at each new one.
- It keeps each packet that has nothing but an acknowledgement until the peer acknowledges it, which no peer has to.
- It bounds the octets that it has sent and that were not acknowledged, not the packets, each of which takes 700 octets
  of memory however short it is; and not even these octets where it answers probes of other paths.
- It sends the end of a connection to an address that is not proven, however much that has got.
- It sends datagrams that are longer than its peer takes, and reads the delays of a peer's acknowledgements in its own
  unit.
- It takes an idle timeout of 0, by which a peer says that it has none, for one of no seconds.
- It reports the end of a connection only after a closing period.
- It doubles the pause between two probes without bound: after an outage of a minute the next is a minute away.

Private names of the library are used here, in :mod:`agtphost.protocols.quic.core` and in
:mod:`agtphost.client.quic.core`. :func:`find_fault` looks for each of them.
"""

from __future__ import annotations

import logging
from typing import Any

import aioquic
from aioquic import tls
from aioquic.buffer import Buffer, encode_uint_var  # type: ignore[attr-defined]
from aioquic.quic import connection as quic
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import QuicErrorCode, pull_quic_transport_parameters
from aioquic.quic.rangeset import RangeSet
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStream
from cryptography import x509

from agtphost.wire.quic.handshake_messages import check_messages
from agtphost.wire.quic.received_ranges import ReceivedRanges
from agtphost.wire.quic.transport_parameters import refuse_duplicates

logging.getLogger("quic").addHandler(logging.NullHandler())
"""What the library reports is told by errors and the host's log; programs that set up logging still get its records."""

VERSIONS = ((1, 7, 1), (1, 8))
"""The first version of aioquic that is used, and the first that is not: 1.7.0 takes octets behind a stream's end."""

PROTOCOLS = ("agtp", "agtp/1.0")
"""ALPN, in the order of preference. A peer that has neither is refused."""

CONNECTION_ID = 8
"""Octets of our connection IDs."""

MOST_DATAGRAM = 1_500
"""
Octets of a datagram that is read: Ethernet has no longer ones. The time that one takes grows with its octets, and it is
the least that a turn of a reactor takes.
"""

MOST_CRYPTO = 131_072
"""Octets of handshake messages that a peer may send for one level of encryption."""

MOST_CRYPTO_FRAMES = 1_024
"""
Frames of handshake messages in all. A chain of 100 kB takes a hundred; the library copies what it has of a message at
each.
"""

MOST_FRAMES = 160
"""
Frames of a packet that take 1 to 4 us each and may have one to five octets; an acknowledgement counts twice. A client
that cancels all of 128 calls needs that many, and is the one that needs most.
"""

MOST_GAPS = 256
"""
Gaps in what a peer has sent on a stream, or of its handshake. Loss leaves one for each lost packet at most, and a
window takes fewer packets than this.
"""

MOST_ACKNOWLEDGEMENTS = 64
"""Packets that acknowledge and do nothing else, of which is kept that they were sent."""

MOST_PACKETS = 1_024
"""
Packets that were sent and not acknowledged. Full ones have 1.2 MB, enough for 60 Mbit/s at a round trip of 160 ms; a
peer that widens its window octet by octet makes each packet hold one.
"""

MOST_PEER_IDS = 64
"""Connection IDs of a peer, retired ones included, of which is remembered that they came; eight are in use at most."""

MOST_PROBES = 8
"""Full packets by which answers to probes of other paths may exceed the congestion window."""

MOST_AMPLIFICATION = 3
"""Octets that an address gets for each that came from it, until it is proven (RFC 9000 section 8.1)."""

LONGEST_PROBE = 3.0
"""
Seconds between two probes of a peer that acknowledges nothing, unless the path itself is slower: the pause of RFC 8085
section 3.1.3 where nothing comes back. Of the probes in the ten seconds of a handshake, and in what an outage leaves of
an idle timeout, several may be lost.
"""

_MAX_UDP_PAYLOAD_SIZE = 0x03
"""A transport parameter (RFC 9000 section 18.2)."""

_CONNECTION = (
    *("_amplification_blocked_timers", "_close_event", "_close_pending", "_crypto_buffers", "_crypto_streams"),
    *("_cryptos", "_flush_builder", "_write_path_challenge_frame"),
    *("_handle_ack_frame", "_handle_ping_frame", "_handle_stop_sending_frame", "_payload_received"),
    *("_handle_crypto_frame", "_handle_new_connection_id_frame", "_handle_reset_stream_frame"),
    *("_handle_padding_frame", "_handle_retire_connection_id_frame", "_handle_stream_frame"),
    *("_handshake_complete", "_handshake_confirmed", "_host_cids", "_initialize", "_local_max_data"),
    *("_local_max_streams_bidi", "_local_max_streams_uni", "_local_next_stream_id_bidi", "_loss", "_max_datagram_size"),
    *("_network_paths", "_packet_number", "_parse_transport_parameters", "_peer_cid", "_peer_cid_available"),
    *("_peer_cid_sequence_numbers", "_peer_retire_prior_to", "_probe_pending"),
    *("_quic_logger", "_remote_ack_delay_exponent", "_remote_max_idle_timeout", "_remote_max_streams_bidi"),
    *("_replenish_connection_ids", "_send_probing_frames", "_serialize_transport_parameters"),
    *("_spaces", "_state", "_streams"),
    *("_write_connection_limits", "_write_new_connection_id_frame", "_write_stream_limits"),
)
_CONTEXT = (
    *("_check_certificate_verify_signature", "_handle_reassembled_message", "_peer_certificate"),
    *("_peer_certificate_chain", "_request_client_certificate", "_server_handle_hello"),
    *("_is_client", "_signature_algorithms", "_signature_algorithms_for_private_key", "_supported_groups"),
)
_RECOVERY = (
    *("_cc", "_on_packets_lost", "_pacer", "_pto_count", "_rtt_initial", "_rtt_initialized", "_rtt_min"),
    *("bytes_in_flight", "congestion_window", "get_probe_timeout", "max_ack_delay", "spaces"),
)
_CONGESTION = ("_congestion_recovery_start_time", "bytes_in_flight", "congestion_window")
_SPACE = ("ack_at", "ack_eliciting_in_flight", "sent_packets")
_PATH = (
    *("bytes_received", "bytes_sent", "is_validated", "local_challenge_sent", "remote_challenges"),
    "validation_deadline",
)
_SENDER = (
    *("_buffer", "_buffer_fin", "_buffer_start", "_buffer_stop", "_reset_error_code"),
    *("highest_offset", "is_finished", "next_offset"),
)
_RECEIVER = ("_buffer", "_buffer_start", "_ranges", "highest_offset", "is_finished")


def find_fault() -> str:
    """Return why the installed aioquic cannot be used; empty where it can."""
    wanted = (
        f"agtphost needs aioquic {'.'.join(map(str, VERSIONS[0]))} or later, before {VERSIONS[1][0]}.{VERSIONS[1][1]}"
    )
    version = tuple(int(part) for part in aioquic.__version__.split(".")[:3] if part.isdecimal())
    if not VERSIONS[0] <= version < VERSIONS[1]:
        return f"aioquic {aioquic.__version__} is installed; {wanted}"
    connection = quic.QuicConnection(configuration=QuicConfiguration(is_client=True))
    stream = QuicStream(stream_id=0)
    recovery = getattr(connection, "_loss", connection)
    parts: tuple[tuple[object, tuple[str, ...]], ...] = (
        *((connection, _CONNECTION), (recovery, _RECOVERY), (getattr(recovery, "_cc", recovery), _CONGESTION)),
        *((tls.Context(is_client=False), _CONTEXT), (stream.sender, _SENDER), (stream.receiver, _RECEIVER)),
        *((stream, ("is_finished",)), (QuicPacketSpace(), _SPACE), (quic.QuicNetworkPath(("", 0)), _PATH)),
        (getattr(stream.receiver, "_ranges", stream), ("_RangeSet__ranges",)),
    )
    for part, names in parts:
        for name in names:
            if not hasattr(part, name):
                return f"aioquic {aioquic.__version__} has no {type(part).__name__}.{name}; {wanted}"
    for name in ("SIGNATURE_ALGORITHMS", "pull_client_hello"):
        if not hasattr(tls, name):
            return f"aioquic {aioquic.__version__} has no tls.{name}; {wanted}"
    return ""


def _peek(frame: Buffer) -> int:
    """Return the first integer of a frame, and leave the frame to be read."""
    start = frame.tell()
    number: int = frame.pull_uint_var()
    frame.seek(start)
    return number


def is_expected(packet: Any) -> bool:
    """Return whether the peer has to acknowledge a packet, or its octets count until it is lost."""
    return bool(packet.in_flight or packet.is_ack_eliciting)


def _bound_gaps(receiver: Any, frame_type: int) -> None:
    """Let frames behind gaps cost little, and close the connection of a peer that leaves more than MOST_GAPS gaps."""
    gaps = len(receiver._ranges)
    if gaps == 1 and type(receiver._ranges) is RangeSet:
        receiver._ranges = ReceivedRanges(receiver._ranges)
    elif gaps > MOST_GAPS:
        raise quic.QuicConnectionError(
            error_code=QuicErrorCode.PROTOCOL_VIOLATION,
            frame_type=frame_type,
            reason_phrase="too many gaps between the octets of a stream",
        )


class BoundedConnection(quic.QuicConnection):
    """
    A QUIC connection without I/O that holds a bounded number of octets, however its peer behaves.

    :param peer_streams: streams that the peer may open at a time; it may open no unidirectional ones.
    :param identifiers: what aioquic takes of a server: the connection IDs of the first packets.
    """

    def __init__(self, configuration: QuicConfiguration, peer_streams: int, **identifiers: Any) -> None:
        super().__init__(configuration=configuration, **identifiers)
        self._window = configuration.max_data
        self._crypto_frames = 0
        self._packet_frames = 0
        self.packets_read = 0
        """Packets that only the peer can have made; a copy of one does not count."""

        self._newest_id = 0  # the sequence number of the newest connection ID that was sent
        self._local_max_streams_bidi.value = self._local_max_streams_bidi.sent = peer_streams
        self._local_max_streams_uni.value = self._local_max_streams_uni.sent = 0

    # The handshake

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        context: Any = self.tls
        context._supported_groups = [tls.Group.X25519, tls.Group.SECP256R1]
        context._signature_algorithms.remove(tls.SignatureAlgorithm.RSA_PKCS1_SHA1)
        check_messages(context)

    def _serialize_transport_parameters(self) -> bytes:
        most = encode_uint_var(MOST_DATAGRAM)
        parameters: bytes = super()._serialize_transport_parameters()
        return parameters + encode_uint_var(_MAX_UDP_PAYLOAD_SIZE) + encode_uint_var(len(most)) + most

    def _parse_transport_parameters(self, data: bytes, from_session_ticket: bool = False) -> None:
        super()._parse_transport_parameters(data, from_session_ticket)
        refuse_duplicates(data)
        if self._remote_max_idle_timeout == 0:
            self._remote_max_idle_timeout = None  # The peer has none (RFC 9000 section 18.2).
        given = pull_quic_transport_parameters(Buffer(data=data))
        if given.max_udp_payload_size is not None:
            self._max_datagram_size = min(self._max_datagram_size, given.max_udp_payload_size)
        if given.ack_delay_exponent is not None:
            self._remote_ack_delay_exponent = given.ack_delay_exponent

    def _handle_crypto_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        start = buf.tell()
        end = buf.pull_uint_var() + buf.pull_uint_var()
        self._crypto_frames += 1
        if end > MOST_CRYPTO or self._crypto_frames > MOST_CRYPTO_FRAMES:
            raise quic.QuicConnectionError(
                error_code=QuicErrorCode.CRYPTO_BUFFER_EXCEEDED,
                frame_type=frame_type,
                reason_phrase="too many octets or frames of handshake messages",
            )
        buf.seek(start)
        try:
            super()._handle_crypto_frame(context, frame_type, buf)
        except x509.InvalidVersion as error:
            raise quic.QuicConnectionError(
                error_code=QuicErrorCode.CRYPTO_ERROR + tls.AlertDescription.bad_certificate,
                frame_type=frame_type,
                reason_phrase="the version of the certificate is unknown",
            ) from error
        _bound_gaps(self._crypto_streams[context.epoch].receiver, frame_type)

    # Packets

    def receive_datagram(self, data: bytes, addr: Any, now: float) -> None:
        """Take a datagram, unless it is longer than the peer may send."""
        if len(data) <= MOST_DATAGRAM:
            super().receive_datagram(data, addr, now=now)

    def _payload_received(self, context: Any, plain: bytes, crypto_frame_required: bool = False) -> tuple[bool, bool]:
        self._packet_frames = 0
        self.packets_read += 1
        flags: tuple[bool, bool] = super()._payload_received(context, plain, crypto_frame_required)
        return flags

    def _count_frame(self, frame_type: int, count: int = 1) -> None:
        """Close the connection of a peer whose packet has more than :data:`MOST_FRAMES` frames."""
        self._packet_frames += count
        if self._packet_frames > MOST_FRAMES:
            raise quic.QuicConnectionError(
                error_code=QuicErrorCode.PROTOCOL_VIOLATION,
                frame_type=frame_type,
                reason_phrase="too many frames in a packet",
            )

    def _handle_ack_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        self._count_frame(frame_type, 2)
        if _peek(buf) >= self._packet_number:  # All spaces share its count (RFC 9000 section 13.1).
            why = "a packet that was never sent is acknowledged"
            raise quic.QuicConnectionError(QuicErrorCode.PROTOCOL_VIOLATION, frame_type, why)
        super()._handle_ack_frame(context, frame_type, buf)

    def _handle_ping_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        self._count_frame(frame_type)
        super()._handle_ping_frame(context, frame_type, buf)

    def _handle_stop_sending_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        self._count_frame(frame_type)
        super()._handle_stop_sending_frame(context, frame_type, buf)

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Any]]:
        """Return the datagrams that have to be sent, each with its address."""
        self._bound_pause()  # A call may have begun.
        path, is_ending = self._network_paths[0], self._close_pending
        congestion: Any = self._loss._cc
        window = congestion.congestion_window
        if self._is_full:
            congestion.congestion_window = min(window, congestion.bytes_in_flight)
        try:
            found: list[tuple[bytes, Any]] = super().datagrams_to_send(now)
        finally:
            congestion.congestion_window = window
        if is_ending and not path.is_validated and path.bytes_sent > MOST_AMPLIFICATION * path.bytes_received:
            return []
        spaces: Any = self._loss.spaces
        for space in spaces:
            if len(space.sent_packets) - space.ack_eliciting_in_flight > 2 * MOST_ACKNOWLEDGEMENTS:
                # What is forgotten is acknowledged again later, and the library bounds the ranges of that.
                alone = [number for number, packet in space.sent_packets.items() if not is_expected(packet)]
                for number in alone[:-MOST_ACKNOWLEDGEMENTS]:
                    del space.sent_packets[number]
        return found

    @property
    def _is_full(self) -> bool:
        """Whether as many packets are not acknowledged as may be."""
        return sum(len(space.sent_packets) for space in self._loss.spaces) >= MOST_PACKETS

    def _send_probing_frames(self, network_path: Any, now: float) -> list[tuple[bytes, Any]]:
        """Answer a probe of another path while the network has room, of which the library takes no notice here."""
        most = self._loss.congestion_window + MOST_PROBES * self._max_datagram_size
        if self._is_full or self._loss.bytes_in_flight >= most:
            return []
        return super()._send_probing_frames(network_path=network_path, now=now)

    # Connection IDs

    def _write_new_connection_id_frame(self, builder: Any, connection_id: Any) -> None:
        super()._write_new_connection_id_frame(builder, connection_id)
        self._newest_id = max(self._newest_id, connection_id.sequence_number)

    def _handle_retire_connection_id_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        if _peek(buf) > self._newest_id:
            raise quic.QuicConnectionError(
                error_code=QuicErrorCode.PROTOCOL_VIOLATION,
                frame_type=frame_type,
                reason_phrase="a connection ID that was not sent is retired",
            )
        super()._handle_retire_connection_id_frame(context, frame_type, buf)

    def _handle_new_connection_id_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        numbers = self._peer_cid_sequence_numbers
        if len(numbers) >= MOST_PEER_IDS:
            # The older ones are retired: those in use are used in turn.
            self._peer_retire_prior_to = max(self._peer_retire_prior_to, max(numbers) - MOST_PEER_IDS // 2)
        try:
            super()._handle_new_connection_id_frame(context, frame_type, buf)
        except IndexError as error:
            raise quic.QuicConnectionError(
                error_code=QuicErrorCode.PROTOCOL_VIOLATION,
                frame_type=frame_type,
                reason_phrase="all connection IDs were retired",
            ) from error

    # Time

    def handle_timer(self, now: float) -> None:
        """Act on the timer, and send again after :data:`LONGEST_PROBE` at the latest."""
        loss: Any = self._loss
        probes = loss._pto_count
        super().handle_timer(now)
        if loss._pto_count > probes and self._handshake_complete and not self._handshake_confirmed:
            # A probe of the handshake alone: a host that has completed it has no keys for that any more, and would not
            # learn of a client's new address.
            self.send_ping(0)
        self._bound_pause()

    def _bound_pause(self) -> None:
        """
        Make the pause between two probes :data:`LONGEST_PROBE` at most, unless no call waits: then there is time.

        The idle timeout bounds for how long (RFC 9002 section 6.2.1).
        """
        loss: Any = self._loss
        is_awaited = self._streams or not self._handshake_confirmed
        while is_awaited and loss._pto_count and loss.get_probe_timeout() * 2**loss._pto_count > LONGEST_PROBE:
            loss._pto_count -= 1

    # Windows

    def _write_connection_limits(self, builder: Any, space: Any) -> None:
        limit = self._local_max_data
        held = sum(
            each.receiver.highest_offset - each.receiver._buffer_start
            for each in self._streams.values()
            if not each.receiver.is_finished
        )
        if (value := limit.used + self._window - held) >= limit.value + self._window // 4:
            limit.value = value
        used, limit.used = limit.used, 0  # else it doubles
        try:
            super()._write_connection_limits(builder, space)
        finally:
            limit.used = used

    def _write_stream_limits(self, builder: Any, space: Any, stream: Any) -> None:
        receiver = stream.receiver
        highest, receiver.highest_offset = receiver.highest_offset, 0  # else it doubles
        try:
            super()._write_stream_limits(builder, space, stream)
        finally:
            receiver.highest_offset = highest

    def widen(self, stream_id: int, most: int) -> None:
        """Let the peer send up to ``most`` octets in all on a stream."""
        stream = self._streams.get(stream_id)
        if stream is not None and most > stream.max_stream_data_local:
            stream.max_stream_data_local = most

    # Streams

    def _handle_stream_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        self._count_frame(frame_type)
        number = _peek(buf)
        super()._handle_stream_frame(context, frame_type, buf)
        if (stream := self._streams.get(number)) is not None:
            _bound_gaps(stream.receiver, frame_type)

    def _handle_reset_stream_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        number = _peek(buf)
        super()._handle_reset_stream_frame(context, frame_type, buf)
        if (stream := self._streams.get(number)) is not None:
            stream.receiver._buffer = bytearray()  # Nothing reads it, and no window counts it any more.

    def is_open(self, stream_id: int) -> bool:
        """Return whether the stream has state, be it that only an acknowledgement is missing."""
        return stream_id in self._streams

    def takes_octets(self, stream_id: int) -> bool:
        """Return whether our message may go on: a peer that wants none has ended it before its event is read."""
        stream = self._streams.get(stream_id)
        return stream is not None and stream.sender._reset_error_code is None and stream.sender._buffer_fin is None

    def unsent(self, stream_id: int) -> int:
        """Return the octets of our message that the peer has not acknowledged."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.sender._buffer_stop - stream.sender._buffer_start

    def has_received_all(self, stream_id: int) -> bool:
        """Return whether the peer has ended or reset its side of a stream."""
        stream = self._streams.get(stream_id)
        return stream is None or stream.receiver.is_finished

    # The connection

    @property
    def is_fresh(self) -> bool:
        """Whether no packet of the peer could be read yet."""
        return self._state is quic.QuicConnectionState.FIRSTFLIGHT

    @property
    def is_closing(self) -> bool:
        """Whether the connection is over, or its end was sent."""
        return self._state in quic.END_STATES

    @property
    def is_ended_by_peer(self) -> bool:
        """Whether the peer has ended the connection, and not this side; meant for when :attr:`termination` is new."""
        return self._state is quic.QuicConnectionState.DRAINING

    @property
    def termination(self) -> ConnectionTerminated | None:
        """Return why the connection ends, as soon as either side ends it; None before that."""
        return self._close_event
