"""
Admit browsers by certificates instead of links: ``[admin] browsers``.

Browsers do not support Ed25519, the type of operators' keys. A certificate of another type is listed by its SHA-256,
with the operator whom it represents: actions with it are that operator's, and the record names both. Any issuer is
accepted; the host's gates check expiry and revocation at every request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.interfaces import ISSLTransport

from agtphost.identity.certificates import CertificateError, link_of, parse_peer_certificate
from agtphost.identity.peer import PeerCertificate

LEAST_BITS = 256
"""Bits of an ECDSA key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserCertificate:
    """A certificate whose key a browser has proven to have."""

    digest: str
    """Its SHA-256, hex."""

    certificate: PeerCertificate | None = None
    """The certificate of the operator whom it represents; None if it represents none."""

    refusal: str = ""
    """Why it represents no operator; a sentence."""

    @property
    def person(self) -> str:
        """Return the operator's fingerprint and the certificate's SHA-256; empty if it represents no operator."""
        return "" if self.certificate is None else f"{self.certificate.fingerprint} {self.digest}"


class BrowserCertificates:
    """
    The listed certificates.

    :param listed: returns the key fingerprints of the operators they represent, by SHA-256.
    """

    def __init__(self, listed: Callable[[], Mapping[str, str]]) -> None:
        self._listed = listed

    def find_certificate(self, transport: Any) -> BrowserCertificate | None:
        """Return the certificate that the browser of a connection has presented, or None."""
        if not self._listed() or not ISSLTransport.providedBy(transport):
            return None
        secure: Any = transport
        found = secure.getHandle().get_peer_certificate()
        return None if found is None else self._judge(found.to_cryptography())

    def _judge(self, found: x509.Certificate) -> BrowserCertificate:
        der = found.public_bytes(Encoding.DER)
        digest = sha256(der).hexdigest()
        person = self._listed().get(digest)
        if person is None:
            why = f"The certificate that this browser shows is not listed in [admin] browsers: its SHA-256 is {digest}."
            return BrowserCertificate(digest=digest, refusal=why)
        try:
            read = parse_peer_certificate(der)
            key = found.public_key()
        except (CertificateError, ValueError, TypeError):
            return BrowserCertificate(digest=digest, refusal="The certificate that this browser shows cannot be read.")
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.key_size < LEAST_BITS:
            return BrowserCertificate(
                digest=digest, refusal="The key of the certificate that this browser shows is not ECDSA."
            )
        # It represents a person only: its content never names an agent here.
        standing = PeerCertificate(
            fingerprint=person,
            sha256=digest,
            serial=read.serial,
            subject=read.subject,
            not_before=read.not_before,
            not_after=read.not_after,
            links=(link_of(found),),
        )
        return BrowserCertificate(digest=digest, certificate=standing)


NONE_LISTED = BrowserCertificates(dict)
