"""Agents for tests, with real Genesis documents, Identity Documents, keys and client certificates."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.identity.agents import Agent, agent_of
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
from agtphost.identity.provisioning import ZONE, AgentDescription, new_document, new_genesis, registrar_url
from agtphost.vocabulary import lru

ISSUED = datetime(2026, 1, 1, tzinfo=UTC)
"""Time at which every agent was issued, so that Agent-IDs are the same in every run."""


def key_of(name: str) -> SigningKey:
    """Return the key with that name. It is the same in every process, and thus only for tests."""
    seed = sha256(b"agtphost.testing key " + name.encode()).digest()
    return SigningKey(Ed25519PrivateKey.from_private_bytes(seed))


@dataclass(frozen=True, eq=False, kw_only=True)
class TestAgent:
    """An agent with its credentials."""

    __test__ = False  # Keep pytest from collecting this class because of its name.

    agent: Agent
    """The agent as the host has it in its directory."""

    key: SigningKey
    certificate: PeerCertificate | None
    """The client certificate; None for an agent that only sends its Agent-ID."""

    @property
    def agent_id(self) -> str:
        """The Agent-ID, 64 hexadecimal digits."""
        return self.agent.agent_id

    @property
    def name(self) -> str:
        """The label of the agent."""
        return self.agent.name


_ISSUED: OrderedDict[str, TestAgent] = OrderedDict()
"""Agents by what they were issued for: most hosts in memory have some that an earlier one had."""

MOST_ISSUED = 1_000


@cache
def _certifying() -> tuple[Authority, datetime]:
    """Return the authority that signs the client certificates of this process, and when they become valid."""
    began = datetime.now(UTC) - timedelta(minutes=1)
    return create_authority(now=began), began


class Identities:
    """
    An issuer of agents for tests.

    :param server_id: the ``server_id`` of the host that has this registrar.
    """

    def __init__(self, server_id: str) -> None:
        self._server_id = server_id
        self.registrar = key_of("registrar")
        """Key that issues every Genesis and signs every Identity Document."""

    def agent(
        self,
        name: str,
        *,
        scopes: Iterable[str] = (),
        hosted: bool = False,
        certificate: bool = True,
        tier: int = 2,
        zone: str = ZONE,
        description: str = "",
        members: Mapping[str, Any] | None = None,
    ) -> TestAgent:
        """
        Issue an agent.

        :param scopes: scopes that it declares, and that its certificate commits to.
        :param hosted: whether the host serves it, instead of only knowing it as a caller.
        :param certificate: whether it has a client certificate.
        :param tier: ``trust_tier``, 1 to 3.
        :param description: text in its Identity Document; by default one that repeats its name.
        :param members: further members of its Identity Document.
        :raises agtphost.identity.provisioning.ProvisioningError: the agent cannot be issued; the message says why.
        """
        described = AgentDescription(
            name=name,
            description=description or f"The agent {name}.",
            scopes=tuple(scopes),
            governance_zone=zone,
            trust_tier=tier,
            evidence={"method": "dns", "record": f"_agtp.{self._server_id}"} if tier == 1 else None,
            org_domain=self._server_id if tier == 1 else None,
            verification_path="dns-anchored" if tier == 1 else "org-asserted",
            members=members or {},
        )
        asked = repr((self._server_id, described, hosted, certificate))
        issued = _ISSUED.get(asked) or self._issue(described, hosted=hosted, certificate=certificate)
        lru.keep(_ISSUED, asked, issued, MOST_ISSUED)
        # A host may change the posture of its agent.
        return replace(issued, agent=copy.copy(issued.agent))

    def _issue(self, described: AgentDescription, *, hosted: bool, certificate: bool) -> TestAgent:
        octets = new_genesis(described, self.registrar, ISSUED)
        origin = Genesis.load(octets)
        document = new_document(described, origin, self.registrar, registrar_url(self._server_id), ISSUED)
        agent, key = agent_of(document, octets, hosted=hosted), key_of(described.name)
        shown = self.of_agent(agent, key) if certificate else None
        return TestAgent(agent=agent, key=key, certificate=shown)

    def of_agent(self, agent: Agent, key: SigningKey) -> PeerCertificate:
        """Return an agent's client certificate as TLS would deliver it."""
        authority, began = _certifying()
        issued = issue_agent_certificate(
            authority,
            key.public,
            label=agent.name,
            organization=agent.principal,
            agent_id=agent.agent_id,
            principal_id=agent.owner_id or agent.principal,
            commitment=agent.scopes,
            now=began,
        )
        return parse_peer_certificate(issued.public_bytes(Encoding.DER))

    def of_key(self, key: SigningKey, label: str = "somebody") -> PeerCertificate:
        """Return a client certificate that names no agent, such as an operator's."""
        authority, began = _certifying()
        issued = issue_client_certificate(authority, key.public, label=label, organization="acme", now=began)
        return parse_peer_certificate(issued.public_bytes(Encoding.DER))
