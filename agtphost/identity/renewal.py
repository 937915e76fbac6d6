"""A client certificate issued again: for the same key, with the same members, for a time that begins now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from agtphost.identity import certificates
from agtphost.identity.certificates import Authority, CertificateError


def renew_certificate(
    certificate: x509.Certificate,
    authority: Authority,
    now: datetime,
    days: int,
    *,
    further_scopes: Iterable[str] = (),
) -> x509.Certificate:
    """
    Issue the next certificate for the subject of this one.

    :param now: UTC.
    :param further_scopes: scopes that it commits to as well.
    :raises CertificateError: another authority issued it, its extensions cannot be read, or its key is not Ed25519.
    """
    if certificate.issuer != authority.certificate.subject:
        raise CertificateError(f"it was issued by another authority: {certificate.issuer.rfc4514_string()}")
    said = certificates.parse_peer_certificate(certificate.public_bytes(Encoding.DER))
    if said.malformed:
        raise CertificateError(f"it cannot be read: {said.malformed}")
    if said.key is None:
        raise CertificateError("its key is not Ed25519")
    label, organization = _part(certificate, NameOID.COMMON_NAME), _part(certificate, NameOID.ORGANIZATION_NAME)
    if said.agent_id is None:
        return certificates.issue_client_certificate(
            authority, said.key, label=label, organization=organization, now=now, days=days
        )
    return certificates.issue_agent_certificate(
        authority,
        said.key,
        label=label,
        organization=organization,
        agent_id=said.agent_id,
        principal_id=said.principal_id or "",
        commitment=sorted({*(said.commitment or ()), *further_scopes}),
        zone=said.governance_zone,
        trust_tier=said.trust_tier,
        archetype=said.archetype,
        activation=said.activation_certificate_id,
        now=now,
        days=days,
    )


def _part(certificate: x509.Certificate, kind: x509.ObjectIdentifier) -> str:
    """Return a part of the certificate's subject; empty where it has none."""
    found = certificate.subject.get_attributes_for_oid(kind)
    return str(found[0].value) if found else ""
