"""Which client authority may vouch for which agents: what ``[[tls.client_authority]]`` gives it, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agtphost.identity.agents import Agent
from agtphost.identity.peer import PeerCertificate

ANY = "*"
"""The zone that covers all agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandate:
    """
    The agents that an authority may vouch for: those of its zones, and those whose Genesis one of its issuers signed.
    """

    zones: frozenset[str] = frozenset()
    issuers: frozenset[str] = frozenset()
    """Key fingerprints."""

    def covers(self, agent: Agent) -> bool:
        """Return whether the authority may vouch for an agent."""
        genesis = agent.genesis
        zone = agent.governance_zone if genesis is None else genesis.governance_zone or agent.governance_zone
        return ANY in self.zones or zone in self.zones or agent.issuer_fingerprint in self.issuers


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandates:
    """All of them, by the SHA-256 of the authority's certificate; empty where one authority speaks for everybody."""

    by_authority: Mapping[str, Mandate] = field(default_factory=dict)


class ClientAuthorities:
    """Asked on every request with a certificate, replaced as a whole when the files are read again."""

    def __init__(self) -> None:
        self._mandates: Mapping[str, Mandate] = {}

    def adopt(self, mandates: Mandates) -> None:
        """Replace the mandates; they apply from the next request on every connection."""
        self._mandates = mandates.by_authority

    def follow(self, other: ClientAuthorities) -> None:
        """Ask for what another one asks for, from the next request on."""
        self._mandates = other._mandates

    def vouches(self, certificate: PeerCertificate, agent: Agent) -> bool:
        """
        Return whether the issuers of a certificate may vouch for that agent.

        Of the authorities in its chain everyone that has a mandate has to cover the agent, and one has to have one.
        """
        mandates = self._mandates
        if not mandates:
            return True
        found = [mandates[digest] for digest in certificate.authorities if digest in mandates]
        return bool(found) and all(mandate.covers(agent) for mandate in found)


def digest_of(certificate: x509.Certificate) -> str:
    """Return the digest by which :attr:`~agtphost.identity.peer.PeerCertificate.authorities` names an authority."""
    return sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def ambiguity(certificates: Iterable[x509.Certificate]) -> str:
    """
    Return what is wrong with authorities that were given without mandates; empty for a single one, which needs none.
    """
    count = len(roots(certificates))
    return "" if count < 2 else f"holds {count} authorities, each of which could vouch for every agent"


REMEDY = (
    "write a file for each, and [[tls.client_authority]] with its file and its zones or issuers; "
    'zones = ["*"] accepts every zone'
)
"""What helps against :func:`ambiguity`."""


def roots(certificates: Iterable[x509.Certificate]) -> list[x509.Certificate]:
    """Return the certificates that no other of them issued: one for each authority in a file."""
    given = list(certificates)
    subjects = {each.subject for each in given}
    tops = [each for each in given if each.issuer == each.subject or each.issuer not in subjects]
    # A renewed certificate of the same key is the same authority.
    return list({(each.subject, _key(each)): each for each in tops}.values())


def _key(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
