"""
aioquic's connection as a client needs it, and the certificates that it trusts and shows.

The library verifies servers by its own rules. Here the chain has the verdict of TLS
(:mod:`agtphost.identity.chain_verification`) and the name that of :func:`agtphost.client.tls.verify_peer_name`, within
the handshake: a server that is refused gets neither the client's certificate nor a request. Early data and resumption,
in which a server shows no certificate, are not used.
"""

from __future__ import annotations

import hmac
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aioquic import tls as quic_tls
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicProtocolVersion
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from agtphost.client import tls
from agtphost.client.errors import ClientError, InvalidCall
from agtphost.identity.chain_verification import ChainRefused, ServerChainVerifier
from agtphost.wire.quic.connection import CONNECTION_ID, PROTOCOLS, BoundedConnection, find_fault
from agtphost.wire.quic.handshake_messages import algorithm_of_curve, make_buffer

WINDOW = 262_144
"""Octets of an answer that a server may send ahead of what was read; all streams of a connection four times as much."""

IDLE_SECONDS = 60.0
"""After so long without a packet of the server a connection is over; servers may name less."""

SMALLEST_RESET = 21
"""Octets of the shortest stateless reset (RFC 9000 section 10.3)."""

_TOKEN = 16


@dataclass(frozen=True, kw_only=True)
class QuicCredentials:
    """The certificates that connections trust and show."""

    verifier: ServerChainVerifier
    chain: tuple[x509.Certificate, ...] = ()
    """The client certificate, and after it its intermediates; empty: none is shown."""

    key: Any = None


def load_credentials(settings: tls.TLSSettings) -> QuicCredentials:
    """
    Read the files of a client's settings.

    :raises InvalidCall: for files that cannot be used, or if the installed library cannot.
    """
    if fault := find_fault():
        raise InvalidCall(f"QUIC cannot be used: {fault}.", "pip install 'agtphost[quic]'")
    try:
        verifier = ServerChainVerifier(settings.trust)
    except ValueError as error:
        raise InvalidCall(f"{settings.trust or 'The platform'} holds no CA certificate in PEM.") from error
    if settings.cert is None:
        return QuicCredentials(verifier=verifier)
    try:
        chain = tuple(x509.load_pem_x509_certificates(settings.cert.read_bytes()))
        key = load_pem_private_key((settings.key or settings.cert).read_bytes(), password=None)
        belongs = key.public_key() == chain[0].public_key()
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise tls.unusable_pair(settings) from error
    if not belongs:
        raise tls.unusable_pair(settings)
    if not _can_sign(key):
        # The library would show no certificate at all, and the call would be an anonymous one.
        raise InvalidCall(
            f"The key of {settings.cert} is of a kind that QUIC cannot use here.",
            "Call without QUIC, or with a key of Ed25519, Ed448, P-256, P-384, P-521 or RSA.",
        )
    return QuicCredentials(verifier=verifier, chain=chain, key=key)


def _can_sign(key: object) -> bool:
    """Return whether the library signs handshakes with a key."""
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return algorithm_of_curve(key) is not None
    return isinstance(key, (rsa.RSAPrivateKey, ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey))


class ClientCore(BoundedConnection):
    """
    The client's side of a QUIC connection without I/O.

    :param host: the name or address that the server's certificate must have.
    """

    def __init__(self, credentials: QuicCredentials, host: str) -> None:
        configuration = QuicConfiguration(
            is_client=True,
            alpn_protocols=[PROTOCOLS[0]],
            server_name=host,
            certificate=credentials.chain[0] if credentials.chain else None,
            certificate_chain=list(credentials.chain[1:]),
            private_key=credentials.key,
            connection_id_length=CONNECTION_ID,
            idle_timeout=IDLE_SECONDS,
            max_data=4 * WINDOW,
            max_stream_data=WINDOW,
            supported_versions=[QuicProtocolVersion.VERSION_1],
            verify_mode=ssl.CERT_NONE,  # by `_verify` instead, without which no connection is used
        )
        super().__init__(configuration, peer_streams=0)
        self._chain = credentials.chain
        self._verifier = credentials.verifier
        self._host = host
        self.is_verified = False
        """Whether the server has shown a certificate that is trusted and for its name, and that it has the key."""

        self.refusal: ClientError | None = None
        """Why this side refused the server's certificate."""

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        self._crypto_buffers[quic_tls.Epoch.HANDSHAKE] = make_buffer(self._chain)
        context: Any = self.tls
        check = context._check_certificate_verify_signature

        def check_server(verify: Any) -> None:
            check(verify)
            self._verify(context._peer_certificate, context._peer_certificate_chain)

        context._check_certificate_verify_signature = check_server

    def _verify(self, own: x509.Certificate, others: Sequence[x509.Certificate]) -> None:
        try:
            self._verifier.verify(own, others)
            tls.verify_peer_name(own.public_bytes(Encoding.DER), self._host)
        except ChainRefused as error:
            self.refusal = tls.to_refusal("certificate verify failed", error.verdict or "untrusted")
        except ClientError as error:
            self.refusal = error
        else:
            self.is_verified = True
            return
        raise quic_tls.AlertBadCertificate(self.refusal.explanation)

    @property
    def is_confirmed(self) -> bool:
        """Whether the server is known to have completed the handshake (RFC 9001 section 4.1.2)."""
        return bool(self._handshake_confirmed)

    @property
    def idle_seconds(self) -> float:
        """Seconds without a packet after which one of both sides takes the connection for over."""
        named = self._remote_max_idle_timeout
        return IDLE_SECONDS if named is None else min(IDLE_SECONDS, float(named))

    @property
    def may_open_stream(self) -> bool:
        """Whether the server allows another request at this time."""
        return self._local_next_stream_id_bidi // 4 < self._remote_max_streams_bidi

    def is_reset(self, datagram: bytes) -> bool:
        """Return whether a datagram says that the server does not know this connection any more (a stateless reset)."""
        if len(datagram) < SMALLEST_RESET or datagram[0] & 0x80:
            return False
        token = self._peer_cid.stateless_reset_token  # Those of unused and retired IDs do not count (RFC 9000, 10.3.1).
        return bool(token) and hmac.compare_digest(token, datagram[-_TOKEN:])
