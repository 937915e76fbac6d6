"""
Certificate revocation lists: reading them, issuing them, and asking them on every request (RFC 5280 section 5).

OpenSSL asks the lists once, in the handshake. A connection outlives that by
an hour or more, so what a list says is also put to every request, by the links
of the certificate that the connection began with: its own, and those of the
intermediate certificates above it (T-LC-70).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import inf
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtensionOID

from agtphost.identity.certificates import CLOCK_SKEW, Authority
from agtphost.identity.peer import PeerCertificate

LIST_DAYS = 7
"""How long a list is good unless its issuer says otherwise: it is written anew at least that often."""

REASONS = {
    "unspecified": x509.ReasonFlags.unspecified,
    "key-compromise": x509.ReasonFlags.key_compromise,
    "ca-compromise": x509.ReasonFlags.ca_compromise,
    "affiliation-changed": x509.ReasonFlags.affiliation_changed,
    "superseded": x509.ReasonFlags.superseded,
    "cessation-of-operation": x509.ReasonFlags.cessation_of_operation,
    "privilege-withdrawn": x509.ReasonFlags.privilege_withdrawn,
}
"""RFC 5280 section 5.3.1, without what would make a revocation temporary: a revoked certificate stays revoked."""

_END = b"-----END X509 CRL-----"

_UNREADABLE = (
    ValueError,
    TypeError,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    UnsupportedAlgorithm,
)

_KNOWN_EXTENSIONS = frozenset(
    (ExtensionOID.ISSUING_DISTRIBUTION_POINT, ExtensionOID.CRL_NUMBER, ExtensionOID.AUTHORITY_KEY_IDENTIFIER)
)


class RevocationError(ValueError):
    """A revocation list that cannot be read or believed; the message does not name its file."""


def read_lists(octets: bytes) -> tuple[x509.CertificateRevocationList, ...]:
    """
    Read the revocation lists of a file: PEM, any number of them, or one in DER.

    :raises RevocationError: the file has none, or one cannot be read or has an unsupported critical extension.
    """
    try:
        if _END in octets:
            lists = tuple(x509.load_pem_x509_crl(part + _END) for part in octets.split(_END)[:-1])
        elif octets[:1] == b"\x30":
            lists = (x509.load_der_x509_crl(octets),)
        else:
            raise RevocationError("holds no revocation list in PEM or DER")
        unknown = [
            item.oid.dotted_string
            for found in lists
            for item in found.extensions
            if item.critical and item.oid not in _KNOWN_EXTENSIONS
        ]
        for found in lists:
            # What is read late is read now: names, and every entry.
            _ = found.issuer, found.next_update_utc, found.get_revoked_certificate_by_serial_number(0)
    except RevocationError:
        raise
    except _UNREADABLE:
        raise RevocationError("holds a revocation list that cannot be read") from None
    if unknown:
        raise RevocationError(f"holds a revocation list with the unknown critical extension {unknown[0]}")
    return lists


def require_signatures(
    lists: Iterable[x509.CertificateRevocationList], authorities: Sequence[x509.Certificate]
) -> None:
    """
    Refuse a list that names one of the authorities as its issuer and is not signed by it.

    Lists of issuers further down are OpenSSL's to verify, with the chain that a client shows.

    :raises RevocationError: for the first such list.
    """
    for found in lists:
        named = [authority for authority in authorities if authority.subject == found.issuer]
        if named and not any(_is_signed_by(found, authority) for authority in named):
            raise RevocationError(f"holds a revocation list that {found.issuer.rfc4514_string()} did not sign")


def _is_signed_by(found: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        return found.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False


def entries_of(found: x509.CertificateRevocationList) -> Iterator[tuple[str, x509.RevokedCertificate]]:
    """Yield the entries of a list, each with the key of its certificate: the issuer and the serial number."""
    # The issuer is read once: that takes five times as long as an entry, and a list may have 100,000.
    issuer = sha256(found.issuer.public_bytes()).hexdigest()[:32]
    for entry in found:
        yield f"{issuer}:{entry.serial_number:x}", entry


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedLinks:
    """The certificates that several lists revoke together, at one time."""

    links: frozenset[str] = frozenset()
    until: float = inf
    """Seconds since the Unix epoch: the earliest ``nextUpdate``, after which the state of certificates is unknown."""

    @classmethod
    def from_lists(cls, lists: Iterable[x509.CertificateRevocationList]) -> RevokedLinks:
        """Combine lists that are in force together."""
        links: set[str] = set()
        until = inf
        for found in lists:
            links.update(link for link, _ in entries_of(found))
            if found.next_update_utc is not None:
                until = min(until, found.next_update_utc.timestamp())
        return cls(links=frozenset(links), until=until)


UNKNOWN = RevokedLinks(until=0.0)
"""What is known while a list that is needed cannot be read: nothing, so no certificate counts."""


class Revocations:
    """
    The revocations in force: asked on every request, and replaced as a whole when a list changes.

    :param required: whether certificates count only as long as every list is in force.
    """

    def __init__(self, *, required: bool = True) -> None:
        self._required = required
        self._until = inf
        self._free = frozenset[str]().isdisjoint
        self.revoked = RevokedLinks()

    def adopt(self, revoked: RevokedLinks, *, required: bool | None = None) -> None:
        """
        Replace the revocations; they apply from the next request on every connection.

        :param required: whether every list has to be in force; None: as before.
        """
        if required is not None:
            self._required = required
        self.revoked = revoked
        self._free = revoked.links.isdisjoint
        self._until = revoked.until if self._required else inf

    def objection(self, certificate: PeerCertificate, now: float) -> str:
        """
        Return why a certificate no longer counts; empty if it does.

        :param now: seconds since the Unix epoch.
        """
        if not self._free(certificate.links):
            return "revoked"
        return "unknown" if now > self._until else ""


# Issuing


def issue_list(
    authority: Authority,
    *,
    now: datetime,
    revoke: Iterable[tuple[int, str]] = (),
    before: x509.CertificateRevocationList | None = None,
    days: int = LIST_DAYS,
) -> x509.CertificateRevocationList:
    """
    Issue an authority's next revocation list: everything in the one before, and more.

    :param now: UTC.
    :param revoke: serial numbers with a key of :data:`REASONS` each.
    :param before: the present list; None where this is the first.
    :raises RevocationError: ``before`` is not this authority's.
    """
    number = 1
    start = now.replace(microsecond=0)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.certificate.subject)
        .last_update(start - CLOCK_SKEW)
        .next_update(start + timedelta(days=days))
    )
    known: set[int] = set()
    if before is not None:
        require_own(authority, before)
        number = _number_of(before) + 1
        for entry in before:
            known.add(entry.serial_number)
            builder = builder.add_revoked_certificate(entry)
    for serial, reason in revoke:
        if serial not in known:
            known.add(serial)
            builder = builder.add_revoked_certificate(_entry(serial, reason, start))
    identifier = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
        .add_extension(x509.CRLNumber(number), critical=False)
        .sign(authority.key, hashes.SHA256())
    )


def require_own(authority: Authority, found: x509.CertificateRevocationList) -> None:
    """
    Check that a list was issued by this authority.

    :raises RevocationError: it was not.
    """
    if found.issuer != authority.certificate.subject or not _is_signed_by(found, authority.certificate):
        raise RevocationError("is not a revocation list of this authority")


def _number_of(found: x509.CertificateRevocationList) -> int:
    try:
        return found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        return 0


def _entry(serial: int, reason: str, when: datetime) -> x509.RevokedCertificate:
    builder = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(when)
    if reason != "unspecified":  # RFC 5280 section 5.3.1: absent rather than written.
        builder = builder.add_extension(x509.CRLReason(REASONS[reason]), critical=False)
    return builder.build()


def reason_of(entry: x509.RevokedCertificate) -> str:
    """Return the reason as :data:`REASONS` names it; the standard's own word for any other."""
    try:
        flag = entry.extensions.get_extension_for_class(x509.CRLReason).value.reason
    except x509.ExtensionNotFound:
        return "unspecified"
    return next((name for name, known in REASONS.items() if known is flag), flag.value)


def pem_of(found: x509.CertificateRevocationList) -> bytes:
    """Return a list as PEM."""
    return found.public_bytes(serialization.Encoding.PEM)


def load_list(path: Path) -> x509.CertificateRevocationList | None:
    """
    Return the one list of a file; None if the file does not exist.

    :raises RevocationError: naming the file.
    """
    try:
        lists = read_lists(path.read_bytes())
    except FileNotFoundError:
        return None
    except RevocationError as error:
        raise RevocationError(f"{path} {error}") from None
    if len(lists) != 1:
        raise RevocationError(f"{path} holds {len(lists)} revocation lists; one is expected")
    return lists[0]


def moment(when: datetime | None) -> str | None:
    """RFC 3339, UTC."""
    return None if when is None else when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
