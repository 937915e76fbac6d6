"""What the library does not check of a peer's handshake messages, and the room that those of this side need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioquic import tls
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

LONGEST_CERTIFICATES = 102_400
"""Octets of the message with the certificates of a peer, as OpenSSL has it over TLS (``SSL_MAX_CERT_LIST_DEFAULT``)."""

_HEADER = 4
"""Octets before a handshake message: its type and its length."""

_ENTRY = 5
"""Octets besides each certificate of that message: its length, and that of its extensions."""

_ROOM = 16_384
"""Octets that the library has for the messages of a side at one level of encryption."""

_CURVES = {
    int(tls.SignatureAlgorithm.ECDSA_SECP256R1_SHA256): ec.SECP256R1,
    int(tls.SignatureAlgorithm.ECDSA_SECP384R1_SHA384): ec.SECP384R1,
}


def check_messages(context: Any) -> None:
    """
    Let a handshake refuse certificates that are too long, and signatures by the algorithm of another curve.

    :param context: the library's ``tls.Context`` of the handshake.
    """
    handle, check = context._handle_reassembled_message, context._check_certificate_verify_signature

    def handle_message(message_type: int, input_buf: Buffer, output_buf: Any) -> None:
        if message_type == tls.HandshakeType.CERTIFICATE and input_buf.capacity > _HEADER + LONGEST_CERTIFICATES:
            raise tls.AlertIllegalParameter(f"the certificates have more than {LONGEST_CERTIFICATES:,} octets")
        handle(message_type=message_type, input_buf=input_buf, output_buf=output_buf)

    def check_signature(verify: Any) -> None:
        try:
            curve, key = _CURVES.get(int(verify.algorithm)), context._peer_certificate.public_key()
        except (UnsupportedAlgorithm, ValueError) as error:
            raise tls.AlertBadCertificate("the key of the certificate cannot be read") from error
        if isinstance(key, ec.EllipticCurvePublicKey) and (curve is None or not isinstance(key.curve, curve)):
            raise tls.AlertIllegalParameter("CertificateVerify has an algorithm of another curve")
        check(verify)

    context._handle_reassembled_message = handle_message
    context._check_certificate_verify_signature = check_signature


def make_buffer(chain: Sequence[x509.Certificate]) -> Buffer:
    """Return a buffer for the handshake messages of a side that shows these certificates."""
    return Buffer(capacity=_ROOM + sum(_ENTRY + len(each.public_bytes(Encoding.DER)) for each in chain))
