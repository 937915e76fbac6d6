"""
Verify a certificate chain outside of a TLS handshake, with the verdict that OpenSSL's handshake would give.

Over TCP, OpenSSL verifies the chain within the handshake (:mod:`agtphost.protocols.tls`). QUIC's handshake is not
OpenSSL's, and no peer that TLS refuses may come in by QUIC (bindings 00: certificate validation is identical). OpenSSL
itself verifies here too: signatures, dates, purpose, name constraints and revocation lists are its. It is asked through
``X509_verify_cert``, for which pyOpenSSL sets neither a security level nor a depth nor a callback, so those are done
here: :func:`is_strong`, :data:`INTERMEDIATES`, critical extensions, and lists that may be missing.
``tests/protocols/test_chain_verification.py`` compares both verdicts.

A client of QUIC verifies its server here as well: :class:`ServerChainVerifier`, whose verdict is that of the standard
library's client over TLS, compared by ``tests/client/quic/test_server_chains.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from ssl import get_default_verify_paths
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.bindings.openssl.binding import Binding
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import crypto

from agtphost.identity.certificates import link_of, refused_critical_extensions
from agtphost.identity.revocation import RevokedLinks

INTERMEDIATES = 3
"""Certificates allowed between a client's own and the authority: a chain of 5 at most, depths 0 to 4."""

NO_LIST, LIST_EXPIRED = 3, 12
"""OpenSSL's errors for a missing and an outdated revocation list."""

BAD, EXPIRED, REVOKED, UNKNOWN_AUTHORITY, UNSUPPORTED = 42, 45, 44, 48, 43
"""Alerts of TLS (RFC 8446 section 6.2) for a refused chain."""

_ALERTS = {2: UNKNOWN_AUTHORITY, 18: UNKNOWN_AUTHORITY, 19: UNKNOWN_AUTHORITY, 20: UNKNOWN_AUTHORITY}
_ALERTS |= {21: UNKNOWN_AUTHORITY, 22: UNKNOWN_AUTHORITY, 24: UNKNOWN_AUTHORITY, 3: UNKNOWN_AUTHORITY}
_ALERTS |= {10: EXPIRED, 12: EXPIRED, 23: REVOKED, 26: UNSUPPORTED}
"""The alert by OpenSSL's error; for all others :data:`BAD`."""

_LEAST_BITS = 112
"""Security level 2 of OpenSSL, which the TLS listener sets."""

WEAK = "EE certificate key too weak"
"""OpenSSL's words for a key below its security level."""

LEAST_RSA = 2048
"""Bits of a modulus of RSA or DSA."""

_lib: Any = Binding.lib

CAN_SET_PURPOSE = all(
    hasattr(_lib, name) for name in ("X509_STORE_set_purpose", "X509_PURPOSE_SSL_CLIENT", "X509_PURPOSE_SSL_SERVER")
)
"""Whether OpenSSL can be asked for certificates that are for TLS clients or servers; otherwise no chain is accepted."""


class ChainRefused(Exception):
    """
    A chain that is not accepted.

    :param alert: the TLS alert that tells the peer.
    :param verdict: OpenSSL's words for the fault.
    """

    def __init__(self, alert: int, why: str, verdict: str = "") -> None:
        super().__init__(why)
        self.alert = alert
        self.verdict = verdict


def first_refused_extension(certificate: x509.Certificate) -> str:
    """Return the first critical extension for which a certificate is refused; empty where there is none."""
    refused = refused_critical_extensions(certificate.public_bytes(Encoding.DER))
    return refused[0] if refused else ""


class ChainVerifier:
    """
    Verifies the chains of clients.

    :param authorities: the certificates that chains may end in.
    :param lists: the revocation lists.
    :param revoked: what these lists revoke.
    :param asks_lists: whether every certificate of a chain needs a list in force of its issuer.
    :param tolerant: whether such a list may be missing or outdated; what an old list revokes stays revoked.
    """

    def __init__(
        self,
        authorities: Sequence[x509.Certificate],
        lists: Sequence[x509.CertificateRevocationList] = (),
        revoked: RevokedLinks | None = None,
        *,
        asks_lists: bool = False,
        tolerant: bool = False,
    ) -> None:
        self._revoked = frozenset[str]() if revoked is None else revoked.links
        every = crypto.X509StoreFlags.CRL_CHECK | crypto.X509StoreFlags.CRL_CHECK_ALL
        self._store = _build_store(authorities, lists, every if asks_lists and not tolerant else 0)
        # Each certificate's own list, as OpenSSL's callback would be asked about it.
        self._single = (
            _build_store(authorities, lists, crypto.X509StoreFlags.CRL_CHECK, purpose=False)
            if asks_lists and tolerant
            else None
        )

    def verify(self, own: x509.Certificate, others: Sequence[x509.Certificate]) -> tuple[bytes, ...]:
        """
        Return the verified chain in DER, from the client's certificate to the authority's.

        :param others: what the client has shown besides its own, in any order.
        :raises ChainRefused: the chain is not accepted.
        """
        if not CAN_SET_PURPOSE or self._store is None:
            raise ChainRefused(BAD, "the chain cannot be verified")
        shown = [crypto.X509.from_cryptography(each) for each in others]
        chain = _ask_openssl(self._store, own, shown)
        if len(chain) > INTERMEDIATES + 2:
            raise ChainRefused(BAD, "the chain is too long")
        for depth, each in enumerate(chain):
            if not is_strong(each, signed=depth < len(chain) - 1):
                raise ChainRefused(BAD, f"a key or a signature is too weak at depth {depth}")
            if refused := first_refused_extension(each):
                raise ChainRefused(BAD, f"unknown critical extension {refused} at depth {depth}")
        if self._single is not None:
            self._ask_each_list(chain)
        return tuple(each.public_bytes(Encoding.DER) for each in chain)

    def _ask_each_list(self, chain: Sequence[x509.Certificate]) -> None:
        """Refuse a chain with a certificate that a list revokes, or whose list has another fault than its absence."""
        issuers = [crypto.X509.from_cryptography(each) for each in chain]
        for depth, each in enumerate(chain):
            if link_of(each) in self._revoked:
                raise ChainRefused(REVOKED, f"revoked at depth {depth}")
            try:
                _ask_openssl(self._single, each, issuers)
            except _Unverified as error:
                if error.number not in (NO_LIST, LIST_EXPIRED):
                    raise


class ServerChainVerifier:
    """
    Verifies the chains of servers, as a client.

    :param trust: a PEM file of certificates that chains may end in, which OpenSSL reads, as for TLS; None: those of the
        platform.
    :raises ValueError: the file has none, or cannot be read.
    """

    def __init__(self, trust: Path | None) -> None:
        self._store = crypto.X509Store()
        places = get_default_verify_paths()
        file, folder = (places.cafile, places.capath) if trust is None else (str(trust), None)
        if file is not None or folder is not None:
            try:
                self._store.load_locations(file, folder)
            except crypto.Error as error:
                raise ValueError(f"{file} holds no certificates in PEM") from error
        if CAN_SET_PURPOSE:
            _lib.X509_STORE_set_purpose(self._store._store, _lib.X509_PURPOSE_SSL_SERVER)

    def verify(self, own: x509.Certificate, others: Sequence[x509.Certificate]) -> None:
        """
        Verify a server's chain; its name is another question.

        :param others: what the server has shown besides its own certificate, in any order.
        :raises ChainRefused: the chain is not accepted.
        """
        if not CAN_SET_PURPOSE:
            raise ChainRefused(BAD, "the chain cannot be verified")
        chain = _ask_openssl(self._store, own, [crypto.X509.from_cryptography(each) for each in others])
        for depth, each in enumerate(chain):
            if not is_strong(each, signed=depth < len(chain) - 1):
                raise ChainRefused(BAD, f"a key or a signature is too weak at depth {depth}", WEAK)


class _Unverified(ChainRefused):
    """
    A chain that OpenSSL does not accept.

    :param number: OpenSSL's error.
    """

    def __init__(self, number: int, depth: int, verdict: str) -> None:
        super().__init__(_ALERTS.get(number, BAD), f"{verdict} at depth {depth}", verdict)
        self.number = number


def _build_store(
    authorities: Sequence[x509.Certificate],
    lists: Sequence[x509.CertificateRevocationList],
    flags: int,
    *,
    purpose: bool = True,
) -> crypto.X509Store:
    store = crypto.X509Store()
    for authority in authorities:
        store.add_cert(crypto.X509.from_cryptography(authority))
    if flags:
        for each in lists:
            store.add_crl(each)
    store.set_flags(crypto.X509StoreFlags.IGNORE_CRITICAL | flags)
    if purpose and CAN_SET_PURPOSE:
        _lib.X509_STORE_set_purpose(store._store, _lib.X509_PURPOSE_SSL_CLIENT)
    return store


def _ask_openssl(
    store: crypto.X509Store | None, own: x509.Certificate, others: Sequence[crypto.X509]
) -> list[x509.Certificate]:
    """Return the chain that OpenSSL makes and accepts."""
    assert store is not None
    try:
        found = crypto.X509StoreContext(store, crypto.X509.from_cryptography(own), others).get_verified_chain()
    except crypto.X509StoreContextError as error:
        number, depth, message = error.errors
        raise _Unverified(number, depth, message) from None
    except crypto.Error:
        raise ChainRefused(BAD, "the chain cannot be read") from None
    return [each.to_cryptography() for each in found]


def is_strong(certificate: x509.Certificate, *, signed: bool) -> bool:
    """
    Return whether a certificate has at least 112 bits of security, as OpenSSL counts them at security level 2.

    :param signed: whether its signature counts too; that of the authority does not, which is trusted as it is.
    """
    try:
        return _key_bits(certificate.public_key()) >= _LEAST_BITS and (not signed or _is_well_signed(certificate))
    except (ValueError, UnsupportedAlgorithm):
        return False


def _key_bits(key: object) -> int:
    """Return the bits of security of a public key; 0 for one that is not accepted."""
    match key:
        case rsa.RSAPublicKey():
            return _LEAST_BITS if key.key_size >= LEAST_RSA else 0
        case ec.EllipticCurvePublicKey():
            return key.curve.key_size // 2
        case dsa.DSAPublicKey():
            return key.public_numbers().parameter_numbers.q.bit_length() // 2 if key.key_size >= LEAST_RSA else 0
        case ed25519.Ed25519PublicKey():
            return 128
        case ed448.Ed448PublicKey():
            return 224
    return 0


def _is_well_signed(certificate: x509.Certificate) -> bool:
    digest = certificate.signature_hash_algorithm
    if digest is None:  # Ed25519 and Ed448 have their own.
        return True
    return digest.digest_size * 4 >= _LEAST_BITS  # half its bits: SHA-1 has 80
