"""Certificates as a test wants them, good and bad; made with the cryptography library alone."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agtphost.identity.extensions import Extension

DAY = timedelta(days=1)
AGENT_ID = "a1" * 32


def now() -> datetime:
    """The present moment; what is made of it when a module is imported would be old when it is used."""
    return datetime.now(UTC)


UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.55555.1"), b"\x05\x00")
"""An extension that nobody knows."""


def agtp_extensions(agent_id: bytes = AGENT_ID.encode()) -> list[tuple[x509.ExtensionType, bool]]:
    """The three critical AGTP extensions."""
    return [
        (x509.UnrecognizedExtension(Extension.SUBJECT_AGENT_ID.oid, agent_id), True),
        (x509.UnrecognizedExtension(Extension.PRINCIPAL_ID.oid, b"owner-1"), True),
        (x509.UnrecognizedExtension(Extension.AUTHORITY_SCOPE_COMMITMENT.oid, b"documents:query"), True),
    ]


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A certificate, its key, and the certificates between it and its root."""

    certificate: x509.Certificate
    key: Any
    chain: tuple[x509.Certificate, ...] = ()

    def pem(self) -> bytes:
        """Certificate and chain."""
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in (self.certificate, *self.chain))

    def key_pem(self) -> bytes:
        """The key, PKCS#8."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def save(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write ``name.pem`` and ``name.key``."""
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        certificate.write_bytes(self.pem())
        key.write_bytes(self.key_pem())
        return certificate, key


def issue(
    issuer: Identity | None = None,
    *,
    name: str = "test",
    key: Any = None,
    authority: bool = False,
    extensions: Sequence[tuple[x509.ExtensionType, bool]] = (),
    usage: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CLIENT_AUTH,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Identity:
    """
    Issue a certificate.

    :param issuer: None: it signs itself.
    :param authority: whether it may issue others.
    :param usage: its extended key usage; None leaves the extension out.
    :param start: None: a day ago.
    :param end: None: in a day.
    """
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start or now() - DAY)
        .not_valid_after(end or now() + DAY)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if not authority and usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if usage == ExtendedKeyUsageOID.SERVER_AUTH:
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    signer = issuer.key if issuer else key
    digest = None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    chain = () if issuer is None or (not issuer.chain and _is_root(issuer)) else (issuer.certificate, *issuer.chain)
    return Identity(certificate=builder.sign(signer, digest), key=key, chain=chain)


def _is_root(identity: Identity) -> bool:
    return identity.certificate.subject == identity.certificate.issuer


def intermediates(root: Identity, count: int, **options: Any) -> Identity:
    """An authority with ``count`` - 1 others between it and the root."""
    issuer = root
    for number in range(count):
        last = options if number == count - 1 else {}
        issuer = issue(issuer, name=f"intermediate {number}", authority=True, **last)
    return issuer


def weak_key() -> rsa.RSAPrivateKey:
    """RSA of 1024 bits."""
    return rsa.generate_private_key(public_exponent=65537, key_size=1024)


def revocation_list(issuer: Identity, *revoked: Identity, extension: x509.ExtensionType | None = None) -> bytes:
    """A current list of ``issuer``'s, PEM."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(now() - DAY)
        .next_update(now() + DAY)
    )
    if extension is not None:
        builder = builder.add_extension(extension, critical=True)
    for each in revoked:
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder()
            .serial_number(each.certificate.serial_number)
            .revocation_date(now() - DAY)
            .build()
        )
    return builder.sign(issuer.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
