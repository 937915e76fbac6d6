"""Certificates and keys for servers that a client must take, and for those it must not."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agtphost.identity.certificates import (
    Authority,
    create_authority,
    issue_agent_certificate,
    key_pem_of,
    new_tls_key,
    pem_of,
)
from agtphost.identity.keys import SigningKey

CALLER_ID = "ca11e700" * 8


@dataclass(frozen=True)
class Pair:
    """PEM files of one party."""

    cert: Path
    key: Path


@dataclass(frozen=True)
class Credentials:
    """One deployment's files."""

    authority: Authority
    trust: Path
    server: Pair
    agent: Pair
    strange_agent: Pair
    expired: Pair
    self_signed: Pair
    wrong_name: Pair
    client_only: Pair
    strange_authority: Pair


def _leaf(
    authority: Authority | None,
    names: list[x509.GeneralName],
    *,
    starts: datetime,
    ends: datetime,
    purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = new_tls_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test server")])
    issuer = name if authority is None else authority.certificate.subject
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts)
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    )
    return builder.sign(key if authority is None else authority.key, hashes.SHA256()), key


def create(directory: Path) -> Credentials:
    """Write a set of files into ``directory``."""
    now = datetime.now(UTC)
    day = timedelta(days=1)
    authority, other = create_authority(now=now), create_authority(now=now, organization="another")
    here: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    elsewhere: list[x509.GeneralName] = [
        x509.DNSName("elsewhere.example"),
        x509.IPAddress(ipaddress.ip_address("192.0.2.1")),
    ]

    def write(name: str, cert: bytes, key: bytes) -> Pair:
        pair = Pair(directory / f"{name}.pem", directory / f"{name}.key")
        pair.cert.write_bytes(cert)
        pair.key.write_bytes(key)
        return pair

    def server(
        name: str,
        issuer: Authority | None,
        names: list[x509.GeneralName] = here,
        starts: datetime = now - day,
        ends: datetime = now + day,
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
    ) -> Pair:
        cert, key = _leaf(issuer, names, starts=starts, ends=ends, purpose=purpose)
        return write(name, pem_of(cert), key_pem_of(key))

    def agent(name: str, issuer: Authority) -> Pair:
        key = SigningKey.generate()
        cert = issue_agent_certificate(
            issuer,
            key.public,
            label="caller",
            organization="test",
            agent_id=CALLER_ID,
            principal_id="owner-1",
            commitment=["mcp:tools:execute"],
            now=now,
        )
        return write(name, pem_of(cert), key.pem)

    trust = directory / "ca.pem"
    trust.write_bytes(authority.certificate_pem)
    return Credentials(
        authority=authority,
        trust=trust,
        server=server("server", authority),
        agent=agent("agent", authority),
        strange_agent=agent("strange_agent", other),
        expired=server("expired", authority, starts=now - 9 * day, ends=now - day),
        self_signed=server("self_signed", None),
        wrong_name=server("wrong_name", authority, elsewhere),
        client_only=server("client_only", authority, purpose=ExtendedKeyUsageOID.CLIENT_AUTH),
        strange_authority=server("strange_authority", other),
    )
