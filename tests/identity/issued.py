"""Agents whose Geneses a registrar really issued, and client certificates, parsed from their DER."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from agtphost.identity.agents import Agent
from agtphost.identity.certificates import (
    Authority,
    create_authority,
    issue_agent_certificate,
    issue_client_certificate,
    parse_peer_certificate,
)
from agtphost.identity.genesis import Genesis
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import PeerCertificate
from agtphost.identity.trust import TrustPosture
from tests.identity.samples import document as identity_document
from tests.identity.samples import genesis_octets, key_of

SIGNING = key_of("signing")
REGISTRAR = key_of("registrar")
DEMO = key_of("demo")
STRANGER = key_of("stranger")


@cache
def _authority() -> Authority:
    """Of the first moment at which a test needs it."""
    return create_authority(now=_now() - timedelta(minutes=1))


def _now() -> datetime:
    return datetime.now(UTC)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def of_key(key: SigningKey) -> PeerCertificate:
    """A client certificate that names no agent, parsed from its DER."""
    certificate = issue_client_certificate(
        _authority(), key.public, label="who", organization="acme", now=_now() - timedelta(minutes=1)
    )
    return parse_peer_certificate(_der(certificate))


def of_agent(
    agent_id: str, key: SigningKey = DEMO, commitment: Iterable[str] = ("booking:*", "mcp:*")
) -> PeerCertificate:
    """An agent's client certificate, parsed from its DER."""
    certificate = issue_agent_certificate(
        _authority(),
        key.public,
        label="demo",
        organization="acme",
        agent_id=agent_id,
        principal_id="acme.tld",
        commitment=commitment,
        now=_now() - timedelta(minutes=1),
    )
    return parse_peer_certificate(_der(certificate))


def of_other_kind(kind: str) -> PeerCertificate:
    """Return a client certificate over an RSA or ECDSA key, parsed from its DER."""
    # The holder proves nothing here, so a public key is enough. An RSA key pair takes 0.1 s, in each worker.
    modulus = (1 << 2047) | int.from_bytes(sha256(kind.encode()).digest()) | 1
    rsa_key = rsa.RSAPublicNumbers(65537, modulus).public_key()
    key: Any = rsa_key if kind == "rsa" else ec.generate_private_key(ec.SECP256R1()).public_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, kind)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(_authority().certificate.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - timedelta(hours=1))
        .not_valid_after(_now() + timedelta(hours=1))
        .sign(_authority().key, hashes.SHA256())
    )
    return parse_peer_certificate(_der(certificate))


def agent(
    name: str,
    *,
    hosted: bool,
    genesis: bool = True,
    scopes: Iterable[str] = ("booking:*", "mcp:tools:execute"),
    status: str = "active",
    zone: str | None = "zone:acme",
) -> Agent:
    """An agent whose Genesis the registrar really issued, or one without a Genesis."""
    origin = Genesis.load(genesis_octets(REGISTRAR, members={"org_label": name}))
    served = identity_document(
        agent_id=origin.agent_id,
        name=name,
        status=status,
        trust_tier=2,
        verification_path="org-asserted",
        trust_warning="verification-incomplete",
        trust_explanation="Nobody checked the domain.",
    )
    return Agent(
        agent_id=origin.agent_id,
        name=name,
        description=f"the agent {name}",
        principal="Acme",
        owner_id="acme.tld",
        document=served,
        document_octets=json.dumps(served).encode(),
        genesis=origin if genesis else None,
        posture=TrustPosture(trust_tier=2, verification_path="org-asserted", trust_warning="verification-incomplete"),
        scopes=frozenset(scopes),
        hosted=hosted,
        document_status=status,
        governance_zone=zone,
    )


DESK = agent("desk", hosted=True)
BARE = agent("bare", hosted=True, genesis=False)
"""A hosted agent of which no Genesis is loaded."""

CALLER = agent("demo", hosted=False)
