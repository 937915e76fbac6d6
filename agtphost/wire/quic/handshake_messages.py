"""What the library does not check of a peer's handshake messages, and the room that those of this side need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioquic import tls
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
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

_BRAINPOOL: dict[int, tuple[type[ec.EllipticCurve], type[hashes.HashAlgorithm]]] = {
    0x081A: (ec.BrainpoolP256R1, hashes.SHA256),
    0x081B: (ec.BrainpoolP384R1, hashes.SHA384),
    0x081C: (ec.BrainpoolP512R1, hashes.SHA512),
}
"""The signature algorithms of RFC 8734, which OpenSSL knows and the library does not."""

_CURVES: dict[int, type[ec.EllipticCurve]] = {
    int(tls.SignatureAlgorithm.ECDSA_SECP256R1_SHA256): ec.SECP256R1,
    int(tls.SignatureAlgorithm.ECDSA_SECP384R1_SHA384): ec.SECP384R1,
    int(tls.SignatureAlgorithm.ECDSA_SECP521R1_SHA512): ec.SECP521R1,
} | {number: curve for number, (curve, _) in _BRAINPOOL.items()}

# A library without this table is refused by `find_fault`.
getattr(tls, "SIGNATURE_ALGORITHMS", {}).update({number: (None, digest) for number, (_, digest) in _BRAINPOOL.items()})


def algorithm_of_curve(key: ec.EllipticCurvePrivateKey) -> int | None:
    """Return the number of the algorithm by which a key signs a handshake; None where TLS 1.3 has none."""
    return next((number for number, curve in _CURVES.items() if isinstance(key.curve, curve)), None)


def check_messages(context: Any) -> None:
    """
    Let a handshake refuse certificates that are too long, and signatures by the algorithm of another curve.

    The curves are those of OpenSSL over TLS, for keys of this side and of its peer. A client takes no server with
    Brainpool, as the standard library's may not: its OpenSSL can be older.

    :param context: the library's ``tls.Context`` of the handshake.
    """
    context._signature_algorithms.append(tls.SignatureAlgorithm.ECDSA_SECP521R1_SHA512)
    if not context._is_client:
        context._signature_algorithms.extend(_BRAINPOOL)
    choose = context._signature_algorithms_for_private_key
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

    def algorithms_of_key() -> list[int]:
        key = context.certificate_private_key
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            return list(choose())
        number = algorithm_of_curve(key)
        return [] if number is None else [number]

    context._signature_algorithms_for_private_key = algorithms_of_key
    context._handle_reassembled_message = handle_message
    context._check_certificate_verify_signature = check_signature


def make_buffer(chain: Sequence[x509.Certificate]) -> Buffer:
    """Return a buffer for the handshake messages of a side that shows these certificates."""
    return Buffer(capacity=_ROOM + sum(_ENTRY + len(each.public_bytes(Encoding.DER)) for each in chain))
