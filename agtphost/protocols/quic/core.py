"""
aioquic's connection with the bounds that this host needs. This is the only module that uses private names of aioquic.

What the library lacks or does otherwise, as of 1.7.2:

- It asks for client certificates by a private switch only, and does not verify the chain:
  :attr:`ServerCore.client_chain` is verified by the caller at ``HandshakeCompleted``.
- It doubles its windows whenever half is used, so frames that leave gaps make it hold 134 MB for 1.7 kB. Here a window
  follows what was consumed, and never grows.
- It lets a client open 128 streams of each kind, and holds 512 KiB of handshake octets.
- It chooses no certificate by SNI, offers SHA-1, and verifies a signature by any hash that the client names,
  also one that is not of the curve of its key.
- Its tokens of stateless resets are random, so that nothing can be reset after a restart.

:func:`find_fault` looks for each private name. Where one is missing no listener starts.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import aioquic
from aioquic import tls
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic import connection as quic
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicErrorCode, QuicProtocolVersion
from aioquic.quic.stream import QuicStream
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from agtphost.protocols.own_certificates import OwnCertificates

VERSIONS = ((1, 7, 2), (1, 8))
"""The first version of aioquic that is used, and the first that is not."""

PROTOCOLS = ("agtp", "agtp/1.0")
"""ALPN, in the order of preference. A client that offers neither is refused."""

CONNECTION_ID = 8
"""Octets of this host's connection IDs."""

MOST_CRYPTO = 131_072
"""Octets of handshake messages that a client may send for one level of encryption."""

_CURVES = {
    int(tls.SignatureAlgorithm.ECDSA_SECP256R1_SHA256): ec.SECP256R1,
    int(tls.SignatureAlgorithm.ECDSA_SECP384R1_SHA384): ec.SECP384R1,
}

_CONNECTION = (
    *("_handle_crypto_frame", "_host_cids", "_initialize", "_local_max_data", "_local_max_streams_bidi"),
    *("_local_max_streams_uni", "_network_paths", "_replenish_connection_ids", "_streams", "_write_connection_limits"),
    *("_write_stream_limits", "_state"),
)
_CONTEXT = (
    *("_check_certificate_verify_signature", "_peer_certificate", "_peer_certificate_chain"),
    *("_request_client_certificate", "_server_handle_hello", "_signature_algorithms", "_supported_groups"),
)
_SENDER = ("_buffer", "_reset_error_code", "_buffer_start", "_buffer_stop", "is_finished", "highest_offset")
_RECEIVER = ("_buffer_start", "highest_offset", "is_finished")


def find_fault() -> str:
    """Return why the installed aioquic cannot be used; empty where it can."""
    wanted = (
        f"this host needs aioquic {'.'.join(map(str, VERSIONS[0]))} or later, before {VERSIONS[1][0]}.{VERSIONS[1][1]}"
    )
    version = tuple(int(part) for part in aioquic.__version__.split(".")[:3] if part.isdecimal())
    if not VERSIONS[0] <= version < VERSIONS[1]:
        return f"aioquic {aioquic.__version__} is installed; {wanted}"
    connection = quic.QuicConnection(configuration=QuicConfiguration(is_client=True))
    stream = QuicStream(stream_id=0)
    parts = ((connection, _CONNECTION), (tls.Context(is_client=False), _CONTEXT))
    for part, names in (*parts, (stream.sender, _SENDER), (stream.receiver, _RECEIVER)):
        for name in names:
            if not hasattr(part, name):
                return f"aioquic {aioquic.__version__} has no {type(part).__name__}.{name}; {wanted}"
    if not hasattr(tls, "pull_client_hello"):
        return f"aioquic {aioquic.__version__} has no tls.pull_client_hello; {wanted}"
    return ""


def configuration_of(
    certificates: OwnCertificates, *, window: int, idle: float, datagram_size: int
) -> QuicConfiguration:
    """
    Return aioquic's configuration of a server.

    :param window: octets that a stream may have sent and that were not consumed; a connection four times as much.
    :param idle: seconds.
    """
    own = certificates.find("")
    return QuicConfiguration(
        is_client=False,
        alpn_protocols=list(PROTOCOLS),
        certificate=own.chain[0],
        certificate_chain=list(own.chain[1:]),
        private_key=own.key,
        connection_id_length=CONNECTION_ID,
        idle_timeout=idle,
        max_data=4 * window,
        max_stream_data=window,
        max_datagram_size=datagram_size,
        supported_versions=[QuicProtocolVersion.VERSION_1],
    )


def reset_token(secret: bytes, connection_id: bytes) -> bytes:
    """Return the token of stateless resets for a connection ID, the same after a restart."""
    return hmac.digest(secret, connection_id, "sha256")[:16]


class ServerCore(quic.QuicConnection):
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
            configuration=configuration,
            original_destination_connection_id=original,
            retry_source_connection_id=retried,
        )
        self._certificates = certificates
        self._asks = asks_certificate
        self._secret = secret
        self._window = configuration.max_data
        self._local_max_streams_bidi.value = self._local_max_streams_bidi.sent = streams
        self._local_max_streams_uni.value = self._local_max_streams_uni.sent = 0
        self._host_cids[0].stateless_reset_token = reset_token(secret, self.host_cid)
        self.server_name: str | None = None
        """The name that the client asked for by SNI, in lower case."""

    # The handshake

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        context: Any = self.tls
        context._request_client_certificate = self._asks
        context._supported_groups = [tls.Group.X25519, tls.Group.SECP256R1]
        context._signature_algorithms.remove(tls.SignatureAlgorithm.RSA_PKCS1_SHA1)
        handle, check = context._server_handle_hello, context._check_certificate_verify_signature

        def handle_hello(message: Buffer, *buffers: Buffer) -> None:
            whole = message.data_slice(0, message.capacity)
            self._choose_certificate(context, tls.pull_client_hello(Buffer(data=whole)).server_name)
            handle(message, *buffers)

        def check_signature(verify: Any) -> None:
            curve, key = _CURVES.get(int(verify.algorithm)), context._peer_certificate.public_key()
            if isinstance(key, ec.EllipticCurvePublicKey) and (curve is None or not isinstance(key.curve, curve)):
                raise tls.AlertIllegalParameter("CertificateVerify has an algorithm of another curve")
            check(verify)

        context._server_handle_hello, context._check_certificate_verify_signature = handle_hello, check_signature

    def _choose_certificate(self, context: Any, name: str | None) -> None:
        self.server_name = None if not name else name.lower()
        own = self._certificates.find(self.server_name or "")
        context.certificate, context.certificate_chain = own.chain[0], list(own.chain[1:])
        context.certificate_private_key = own.key

    def _handle_crypto_frame(self, context: Any, frame_type: int, buf: Buffer) -> None:
        start = buf.tell()
        end = buf.pull_uint_var() + buf.pull_uint_var()
        if end > MOST_CRYPTO:
            raise quic.QuicConnectionError(
                error_code=QuicErrorCode.CRYPTO_BUFFER_EXCEEDED,
                frame_type=frame_type,
                reason_phrase="too many octets of handshake messages",
            )
        buf.seek(start)
        super()._handle_crypto_frame(context, frame_type, buf)

    @property
    def client_chain(self) -> tuple[x509.Certificate, Sequence[x509.Certificate]] | None:
        """The client's certificate and the others that it has shown, none of them verified; None: it has shown none."""
        context: Any = self.tls
        own = context._peer_certificate
        return None if own is None else (own, context._peer_certificate_chain)

    def _replenish_connection_ids(self) -> None:
        super()._replenish_connection_ids()
        for each in self._host_cids:
            if not each.was_sent:
                each.stateless_reset_token = reset_token(self._secret, each.cid)

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
        """Let a client send up to ``most`` octets in all on a stream."""
        stream = self._streams.get(stream_id)
        if stream is not None and most > stream.max_stream_data_local:
            stream.max_stream_data_local = most

    # Streams

    def is_open(self, stream_id: int) -> bool:
        """Return whether the stream has state, be it that only an acknowledgement is missing."""
        return stream_id in self._streams

    def unsent(self, stream_id: int) -> int:
        """Return the octets of an answer that the peer has not acknowledged."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.sender._buffer_stop - stream.sender._buffer_start

    def count_acknowledged(self, stream_id: int) -> int:
        """Return the octets of an answer that the peer has acknowledged."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.sender._buffer_start

    def has_sent_all(self, stream_id: int) -> bool:
        """Return whether everything including the end was acknowledged, or nothing more will be sent."""
        stream = self._streams.get(stream_id)
        return stream is None or stream.sender.is_finished

    def has_received_all(self, stream_id: int) -> bool:
        """Return whether the peer has ended or reset its side of a stream."""
        stream = self._streams.get(stream_id)
        return stream is None or stream.receiver.is_finished

    def drop_answer(self, stream_id: int) -> None:
        """Free the octets of an answer that is not sent any more, because the stream was reset."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.sender._reset_error_code is not None:
            stream.sender._buffer = bytearray()

    # The connection

    @property
    def address(self) -> tuple[str, int] | None:
        """Return the client's address once it has shown that it receives there; None before."""
        path = self._network_paths[0] if self._network_paths else None
        return (str(path.addr[0]), int(path.addr[1])) if path is not None and path.is_validated else None

    @property
    def is_fresh(self) -> bool:
        """Whether no packet of the client could be read yet."""
        return self._state is quic.QuicConnectionState.FIRSTFLIGHT

    @property
    def is_closing(self) -> bool:
        """Whether the connection is over, or its end was sent."""
        return self._state in quic.END_STATES


def key_of_state(material: bytes) -> bytes:
    """Return the secret of reset tokens, derived from what the state directory keeps secret."""
    return sha256(b"agtphost quic stateless reset" + material).digest()
