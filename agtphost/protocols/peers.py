"""What a completed TLS handshake says about the other end."""

from __future__ import annotations

from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.identity.authorities import digest_of
from agtphost.identity.certificates import parse_peer_certificate
from agtphost.identity.peer import Peer
from agtphost.protocols.admission import is_loopback


def peer_of(connection: Any, address: str) -> Peer:
    """
    Build the peer once, for every request of its connection.

    :param connection: the OpenSSL connection, its handshake complete; a certificate
        that it holds was verified in the handshake, or there had been none.
    :param address: canonical.
    :raises agtphost.identity.certificates.CertificateError: if the certificate cannot be read.
    """
    certificate = connection.get_peer_certificate()
    chain = () if certificate is None else _chain(connection)
    name = connection.get_servername()
    return Peer(
        address=address,
        certificate=None
        if certificate is None
        else parse_peer_certificate(
            certificate.to_cryptography().public_bytes(Encoding.DER),
            # Between the client's own and the authority's, which is trusted as it is.
            chain[1:-1],
            # One that is trusted itself has no other above it.
            map(digest_of, chain[1:] or chain),
        ),
        server_name=None if not name else name.decode("ascii", "replace").lower(),
        loopback=is_loopback(address),
    )


def _chain(connection: Any) -> list[x509.Certificate]:
    """The client's certificate and everyone above it, as TLS verified them."""
    return [certificate.to_cryptography() for certificate in connection.get_verified_chain() or ()]
