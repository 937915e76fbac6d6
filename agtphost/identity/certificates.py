"""
X.509 certificates: reading a client's, issuing the development profile's (companion section 9, AGTP-CERT).

Chain verification is TLS's work. This module checks what TLS cannot know: the AGTP extensions, and critical extensions
that neither TLS nor AGTP handles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from agtphost.identity import extensions
from agtphost.identity.alternative_names import LOOPBACK, alternative_names
from agtphost.identity.extensions import Extension, ExtensionError
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.peer import PeerCertificate
from agtphost.vocabulary.foreign_errors import explain

AGENT_CERTIFICATE_DAYS = 90
"""The longest an agent's certificate may be valid (AGTP-CERT section 4)."""

SERVER_CERTIFICATE_DAYS = 397
"""The longest that common TLS clients accept."""

AUTHORITY_DAYS = 3650

CLOCK_SKEW = timedelta(minutes=5)
"""How far a certificate's start lies before its issue, for clocks that run behind."""

MOST_CERTIFICATES = 1_024
"""Certificates of clients that are remembered as they were read."""

LONGEST_CERTIFICATE = 4_096
"""Octets of one that is remembered; usual ones have 600."""

UNREADABLE = "unreadable"
"""What :func:`refused_critical_extensions` names in a certificate whose extensions cannot be read."""

_VERIFIED_BY_TLS = frozenset(
    oid.dotted_string
    for oid in (
        ExtensionOID.KEY_USAGE,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
        ExtensionOID.NAME_CONSTRAINTS,
        ExtensionOID.CERTIFICATE_POLICIES,
        ExtensionOID.POLICY_CONSTRAINTS,
        ExtensionOID.POLICY_MAPPINGS,
        ExtensionOID.INHIBIT_ANY_POLICY,
        ExtensionOID.CRL_DISTRIBUTION_POINTS,
        ExtensionOID.SUBJECT_KEY_IDENTIFIER,
        ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    )
)
"""The critical extensions that OpenSSL's verification takes care of itself."""


class CertificateError(ValueError):
    """A certificate or its key that cannot be read, or must not be issued."""


# Reading


def refused_critical_extensions(der: bytes) -> tuple[str, ...]:
    """
    Return the critical extensions that keep a certificate from being trusted although its chain verified.

    The AGTP extensions are critical, so OpenSSL is configured to ignore criticality, and this function checks it
    instead: for the leaf and for each intermediate.

    :return: dotted OIDs of critical extensions that neither OpenSSL nor AGTP
        handles; ``("unreadable",)`` if the extensions cannot be read; empty
        if the certificate may pass.
    """
    return _find_refused(der) if len(der) <= LONGEST_CERTIFICATE else _find_refused.__wrapped__(der)


@lru_cache(maxsize=MOST_CERTIFICATES)
def _find_refused(der: bytes) -> tuple[str, ...]:
    try:
        found = list(x509.load_der_x509_certificate(der).extensions)
    except (ValueError, TypeError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return (UNREADABLE,)
    known = _VERIFIED_BY_TLS | extensions.AGTP_OIDS
    critical = [item.oid.dotted_string for item in found if item.critical]
    return tuple(dotted for dotted in critical if dotted not in known)


def _read_extensions(certificate: x509.Certificate) -> dict[Extension, Any]:
    """
    Return the AGTP extensions by kind.

    :raises ExtensionError: naming the first one that is wrong.
    """
    try:
        found = {item.oid: item for item in certificate.extensions}
    except (ValueError, TypeError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise ExtensionError(f"the extensions cannot be read ({explain(error)})") from error
    values = {}
    for kind, read in extensions.READERS.items():
        item = found.get(kind.oid)
        if item is None:
            continue
        if kind.critical and not item.critical:
            raise ExtensionError(f"{kind.label}: it is not marked critical")
        try:
            values[kind] = read(item.value.value)
        except ExtensionError as error:
            raise ExtensionError(f"{kind.label}: {error}") from None
    if values and Extension.SUBJECT_AGENT_ID not in values:
        raise ExtensionError(f"{next(iter(values)).label} without subject-agent-id")
    return values


def _key(certificate: x509.Certificate) -> VerifyingKey | None:
    try:
        return VerifyingKey.from_public_key(certificate.public_key())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def link_of(certificate: x509.Certificate) -> str:
    """Return the key under which revocation lists name a certificate: its issuer and serial number."""
    issuer = hashlib.sha256(certificate.issuer.public_bytes()).hexdigest()[:32]
    return f"{issuer}:{certificate.serial_number:x}"


def parse_peer_certificate(
    der: bytes, above: Iterable[x509.Certificate] = (), authorities: Iterable[str] = ()
) -> PeerCertificate:
    """
    Read a client certificate whose chain TLS has verified.

    :param above: the intermediate certificates of that chain: what revokes one of them revokes this one.
    :param authorities: SHA-256 of these and of the one that is trusted as it is.
    :return: with ``malformed`` set, and no AGTP identity, if an AGTP extension
        breaks its definition; such a peer gets 401 (companion section 9.2).
    :raises CertificateError: if ``der`` is not a certificate.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
        subject = certificate.subject.rfc4514_string()
    except (ValueError, TypeError) as error:
        raise CertificateError(f"it is not an X.509 certificate: {explain(error)}") from error
    malformed = ""
    values: dict[Extension, Any] = {}
    try:
        values = _read_extensions(certificate)
    except ExtensionError as error:
        malformed = str(error)
    key = _key(certificate)
    return PeerCertificate(
        fingerprint="" if key is None else key.fingerprint,
        key=key,
        sha256=hashlib.sha256(der).hexdigest(),
        serial=f"{certificate.serial_number:x}",
        subject=subject,
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        agent_id=values.get(Extension.SUBJECT_AGENT_ID),
        principal_id=values.get(Extension.PRINCIPAL_ID),
        commitment=values.get(Extension.AUTHORITY_SCOPE_COMMITMENT),
        governance_zone=values.get(Extension.GOVERNANCE_ZONE),
        trust_tier=values.get(Extension.TRUST_TIER),
        archetype=values.get(Extension.ARCHETYPE),
        activation_certificate_id=values.get(Extension.ACTIVATION_CERTIFICATE_ID),
        links=(link_of(certificate), *map(link_of, above)),
        authorities=tuple(authorities),
        malformed=malformed,
    )


# Issuing


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A certification authority: what signs a deployment's certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def load(cls, certificate: Path, key: Path) -> Authority:
        """
        Read an authority from its PEM files.

        :raises CertificateError: naming the file that is wrong.
        :raises OSError: if one cannot be opened.
        """
        return cls(certificate=load_certificate(certificate), key=load_tls_key(key))

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as PEM."""
        return pem_of(self.certificate)

    @property
    def key_pem(self) -> bytes:
        """The private key as PEM, PKCS#8, without a passphrase."""
        return key_pem_of(self.key)


def load_certificate(path: Path) -> x509.Certificate:
    """
    Read the first certificate of a PEM file.

    :raises CertificateError: naming the file.
    """
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise CertificateError(f"{path}: it holds no PEM certificate") from None


def load_tls_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """
    Read an ECDSA private key from a PEM file.

    :raises CertificateError: naming the file.
    """
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise CertificateError(f"{path}: it holds no readable private key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{path}: the key is not an elliptic-curve key")
    return key


def pem_of(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM, PKCS#8, without a passphrase."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def new_tls_key() -> ec.EllipticCurvePrivateKey:
    """Create a key for TLS servers and authorities: P-256, which every TLS client knows."""
    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str, organization: str, unit: str | None = None) -> x509.Name:
    attributes = [
        x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64]),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization[:64]),
    ]
    if unit is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit[:64]))
    return x509.Name(attributes)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | Ed25519PublicKey,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    start = now.replace(microsecond=0) - CLOCK_SKEW
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def create_authority(
    *,
    now: datetime,
    organization: str = "agtphost",
    kind: str = "development CA",
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Authority:
    """
    Create a self-signed authority that issues end-entity certificates only.

    :param now: UTC.
    :param kind: what its name says after the organization.
    :param key: an existing key whose certificate got lost; None makes a new one.
    """
    key = key or new_tls_key()
    name = _name(f"{organization} {kind}", organization)
    certificate = (
        _builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate=certificate, key=key)


def _end_entity(
    authority: Authority,
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey | Ed25519PublicKey,
    purpose: x509.ObjectIdentifier,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    identifier = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        _builder(subject, authority.certificate.subject, key, now, days)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    )


def issue_server_certificate(
    authority: Authority,
    key: ec.EllipticCurvePublicKey,
    *,
    server_id: str,
    now: datetime,
    organization: str = "agtphost",
    days: int = SERVER_CERTIFICATE_DAYS,
    addresses: Sequence[str] | None = None,
    listened: str = LOOPBACK[0],
) -> x509.Certificate:
    """
    Issue a TLS server's certificate.

    :param server_id: named, if it is a host name or an address.
    :param addresses: IP addresses named besides; None: ``localhost``, the loopback addresses and ``listened``.
    :param listened: ``[listen] address`` of the host.
    :param now: UTC.
    """
    return (
        _end_entity(authority, _name(server_id, organization), key, ExtendedKeyUsageOID.SERVER_AUTH, now, days)
        .add_extension(x509.SubjectAlternativeName(alternative_names(server_id, addresses, listened)), critical=False)
        .sign(authority.key, hashes.SHA256())
    )


def reissue_server_certificate(
    authority: Authority, certificate: x509.Certificate, *, now: datetime, days: int = SERVER_CERTIFICATE_DAYS
) -> x509.Certificate:
    """
    Issue a TLS server's certificate again, for the same key and the same names.

    :param now: UTC.
    :raises CertificateError: another authority issued it, or its key is not an elliptic-curve key.
    """
    if certificate.issuer != authority.certificate.subject:
        raise CertificateError(f"it was issued by another authority: {certificate.issuer.rfc4514_string()}")
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise CertificateError("its key is not an elliptic-curve key")
    builder = _end_entity(authority, certificate.subject, key, ExtendedKeyUsageOID.SERVER_AUTH, now, days)
    names = server_names(certificate)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(authority.key, hashes.SHA256())


def server_names(certificate: x509.Certificate) -> list[x509.GeneralName]:
    """Return the names and addresses that a server's certificate is for, in its order."""
    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _client(
    authority: Authority, key: VerifyingKey, subject: x509.Name, now: datetime, days: int
) -> x509.CertificateBuilder:
    if not 1 <= days <= AGENT_CERTIFICATE_DAYS:
        raise CertificateError(f"a client certificate is valid for at most {AGENT_CERTIFICATE_DAYS} days")
    return _end_entity(authority, subject, key.public_key, ExtendedKeyUsageOID.CLIENT_AUTH, now, days)


def issue_client_certificate(
    authority: Authority,
    key: VerifyingKey,
    *,
    label: str,
    organization: str,
    now: datetime,
    days: int = AGENT_CERTIFICATE_DAYS,
) -> x509.Certificate:
    """
    Issue a client certificate that names no agent: its key alone counts, as an issuer's or operator's does.

    :param now: UTC.
    :raises CertificateError: for more than 90 days.
    """
    return _client(authority, key, _name(label, organization), now, days).sign(authority.key, hashes.SHA256())


def issue_agent_certificate(
    authority: Authority,
    key: VerifyingKey,
    *,
    label: str,
    organization: str,
    agent_id: str,
    principal_id: str,
    commitment: Iterable[str],
    now: datetime,
    zone: str | None = None,
    trust_tier: int | None = None,
    archetype: str | None = None,
    activation: str | None = None,
    days: int = AGENT_CERTIFICATE_DAYS,
) -> x509.Certificate:
    """
    Issue an agent's client certificate (AGTP-CERT section 3).

    :param key: the agent's own key, Ed25519; it need not hash to the Agent-ID.
    :param principal_id: the owner.
    :param commitment: the widest scopes that requests over this certificate may claim.
    :param now: UTC.
    :raises CertificateError: for more than 90 days.
    :raises ExtensionError: for a value that its extension cannot hold.
    """
    builder = _client(authority, key, _name(label, organization, zone), now, days)
    values: list[tuple[Extension, bytes | None]] = [
        (Extension.SUBJECT_AGENT_ID, agent_id.encode()),
        (Extension.PRINCIPAL_ID, principal_id.encode()),
        (Extension.AUTHORITY_SCOPE_COMMITMENT, extensions.commitment_octets(commitment)),
        (Extension.GOVERNANCE_ZONE, None if zone is None else zone.encode()),
        (Extension.TRUST_TIER, None if trust_tier is None else extensions.tier_octets(trust_tier)),
        (Extension.ARCHETYPE, None if archetype is None else archetype.encode()),
        (Extension.ACTIVATION_CERTIFICATE_ID, None if activation is None else activation.encode()),
    ]
    for kind, octets in values:
        if octets is not None:
            value, critical = extensions.extension_of(kind, octets)
            builder = builder.add_extension(value, critical=critical)
    return builder.sign(authority.key, hashes.SHA256())
