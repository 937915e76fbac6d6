"""What a completed TLS handshake says about the other end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from cryptography import x509
from OpenSSL import crypto
from twisted.logger import Logger

from agtphost.identity.authorities import digest_of
from agtphost.identity.certificates import MOST_CERTIFICATES, parse_peer_certificate
from agtphost.identity.peer import Peer, PeerCertificate
from agtphost.protocols.admission import is_loopback

LONGEST_CHAIN = 8_192
"""Octets of a client's certificate and of those above it that are remembered: usual ones have 600 each."""

log = Logger()


def peer_of(connection: Any, address: str) -> Peer:
    """
    Build the peer once, for every request of its connection.

    :param connection: the OpenSSL connection, its handshake complete; a certificate
        that it holds was verified in the handshake, or there had been none.
    :param address: canonical.
    :raises agtphost.identity.certificates.CertificateError: if the certificate cannot be read.
    """
    shown = connection.get_peer_certificate()
    name = connection.get_servername()
    return Peer(
        address=address,
        certificate=None if shown is None else _read(_octets(shown), _chain(connection)),
        server_name=None if not name else name.decode("ascii", "replace").lower(),
        loopback=is_loopback(address),
    )


def certificate_of(chain: tuple[bytes, ...]) -> PeerCertificate:
    """
    Read a client certificate whose chain was verified outside of a TLS handshake.

    :param chain: DER, from the client's to the authority's.
    :raises agtphost.identity.certificates.CertificateError: if the certificate cannot be read.
    """
    return _read(chain[0], chain)


def _chain(connection: Any) -> tuple[bytes, ...]:
    """Return the client's certificate and everyone above it, as TLS verified them: DER."""
    return tuple(map(_octets, connection.get_verified_chain() or ()))


def _octets(certificate: crypto.X509) -> bytes:
    return crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate)


def _read(own: bytes, chain: tuple[bytes, ...]) -> PeerCertificate:
    read = _certificate if sum(map(len, chain)) <= LONGEST_CHAIN else _certificate.__wrapped__
    return read(own, chain)


@lru_cache(maxsize=MOST_CERTIFICATES)
def _certificate(own: bytes, chain: tuple[bytes, ...]) -> PeerCertificate:
    """Parse a certificate and its chain; cached, because a client presents the same on each connection."""
    found = [x509.load_der_x509_certificate(octets) for octets in chain]
    return parse_peer_certificate(
        own,
        # Between the client's own and the authority's, which is trusted as it is.
        found[1:-1],
        # One that is trusted itself has no other above it.
        map(digest_of, found[1:] or found),
    )


def call_each(functions: Iterable[Callable[[], None]]) -> None:
    """Call the functions that wait for the end of a call or connection; a fault of one is logged."""
    for function in tuple(functions):  # They remove themselves and others.
        try:
            function()
        except Exception:
            log.failure("what follows from the end of a call or connection failed")
