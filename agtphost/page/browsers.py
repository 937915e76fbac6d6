"""
Certificates that browsers show in place of a link: ``[admin] browsers``.

Browsers know no Ed25519, the kind that operators' keys are of. One of another kind is listed by its SHA-256, with the
operator that it stands for: what is done with it is done by that operator, and the record names both. It is taken as it
is listed, whoever issued it; when it ends, and whether it was revoked, the host's gates ask at every request.
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
"""Of an ECDSA key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A certificate that a browser has proven to be its own."""

    digest: str
    """Its SHA-256, hex."""

    certificate: PeerCertificate | None = None
    """As whom it enters; None where it is for nobody."""

    why: str = ""
    """Why it is for nobody; a sentence."""

    @property
    def person(self) -> str:
        """As whom it enters, and with what; empty where as nobody."""
        return "" if self.certificate is None else f"{self.certificate.fingerprint} {self.digest}"


class Browsers:
    """
    The certificates that are listed.

    :param listed: the key fingerprints of those for whom they stand at this moment, by SHA-256.
    """

    def __init__(self, listed: Callable[[], Mapping[str, str]]) -> None:
        self._listed = listed

    def shown(self, transport: Any) -> Shown | None:
        """What the browser at the other end of a connection has shown; None where it has shown nothing."""
        if not self._listed() or not ISSLTransport.providedBy(transport):
            return None
        secure: Any = transport
        found = secure.getHandle().get_peer_certificate()
        return None if found is None else self._judged(found.to_cryptography())

    def _judged(self, found: x509.Certificate) -> Shown:
        der = found.public_bytes(Encoding.DER)
        digest = sha256(der).hexdigest()
        person = self._listed().get(digest)
        if person is None:
            why = f"The certificate that this browser shows is not listed in [admin] browsers: its SHA-256 is {digest}."
            return Shown(digest=digest, why=why)
        try:
            read = parse_peer_certificate(der)
            key = found.public_key()
        except (CertificateError, ValueError, TypeError):
            return Shown(digest=digest, why="The certificate that this browser shows cannot be read.")
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.key_size < LEAST_BITS:
            return Shown(digest=digest, why="The key of the certificate that this browser shows is not ECDSA.")
        # A person's, whatever else it may say: it never names an agent here.
        standing = PeerCertificate(
            fingerprint=person,
            sha256=digest,
            serial=read.serial,
            subject=read.subject,
            not_before=read.not_before,
            not_after=read.not_after,
            links=(link_of(found),),
        )
        return Shown(digest=digest, certificate=standing)


NONE_LISTED = Browsers(dict)
