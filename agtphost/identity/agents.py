"""The agents this host knows: verified, and held for the life of the process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agtphost.errors import Problem
from agtphost.identity import documents
from agtphost.identity.documents import DocumentError
from agtphost.identity.genesis import Genesis
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.trust import TrustPosture, contradiction, resolve_posture
from agtphost.vocabulary import scopes
from agtphost.vocabulary.display_names import tell_apart
from agtphost.vocabulary.read_only import read_only

if TYPE_CHECKING:
    from agtphost.identity.packages import Package


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCertificate:
    """The members of a certificate that lies with an agent's documents."""

    fingerprint: str
    """SHA-256 of its DER, hex: ``cert_fingerprint``."""

    valid_from: float
    valid_to: float
    """Seconds since the Unix epoch."""

    commitment: frozenset[str] | None = None
    """The widest scopes that requests with it may claim; None where it says none, or where it is not known."""

    def status(self, now: float) -> str:
        """``cert_status`` at that moment."""
        if now < self.valid_from:
            return "pending"
        return "active" if now <= self.valid_to else "expired"


@dataclass(frozen=True, kw_only=True)
class Agent:
    """An agent, verified as far as its documents allow; only :func:`reconsider` changes one."""

    agent_id: str
    name: str
    """The label under ``/agents/`` for a hosted agent."""

    description: str
    principal: str
    """The organization or person that governs it, for people."""

    owner_id: str | None
    document: Mapping[str, Any]
    """
    The Identity Document in the core shape, with the resolved posture: what is served.

    Handlers and gates of operators get the agent, and rights, delegation and consent are read from its documents for
    every call: they are read-only.
    """

    document_octets: bytes
    """The Identity Document as received."""

    genesis: Genesis | None
    posture: TrustPosture
    scopes: frozenset[str]
    """
    The most that the agent can claim as a caller: what its document declares, as far as its Genesis or a statement of
    its issuer on record gives it that.
    """

    hosted: bool
    """Whether this host answers for it; otherwise it is known as a caller alone."""

    document_status: str
    """What the document says; the stored lifecycle state overrides it."""

    governance_zone: str | None = None
    role: str = "agent"
    file: str = ""
    """Where the document came from."""

    received: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The document before any posture was resolved; for a packaged agent, as derived from its package."""

    package: Package | None = None
    """The package that the document was read from; None if the document is a separate file."""

    certificate: AgentCertificate | None = None

    issue: Mapping[str, Any] | None = field(default=None, repr=False)
    """What its registrar stated when it was issued: :mod:`agtphost.identity.issuance`; None where it stated nothing."""

    scope_statement: str = field(default="", repr=False)
    """The issuer's signed statement of the scopes (:mod:`agtphost.identity.scope_statement`); empty without one."""

    notes: tuple[str, ...] = ()
    """What an operator should know: for the log at start."""

    shared_name_digits: int = field(default=0, compare=False)
    """Digits of the Agent-ID that tell it from agents of the directory with the same name; 0: there is none."""

    @property
    def display_name(self) -> str:
        """The name for lists, with the beginning of the Agent-ID where another agent has the same name."""
        return tell_apart(self.name, self.agent_id, self.shared_name_digits)

    @property
    def is_listed(self) -> bool:
        """Return whether public lists show the agent: tier 3 is for development (core v08 section 6.5.5)."""
        return self.posture.trust_tier < 3

    @property
    def issuer_fingerprint(self) -> str | None:
        """The Genesis issuer's key fingerprint; without a Genesis None, so that the lifecycle cannot be changed."""
        return None if self.genesis is None else self.genesis.issuer_fingerprint

    def served_document(
        self, *, status: str | None = None, updated_at: str | None = None, methods: Iterable[str] = ()
    ) -> dict[str, Any]:
        """
        Return the Identity Document for a response: core v08 section 6.3.

        :param status: the lifecycle state of this moment; None for the document's own.
        :param updated_at: when it changed, RFC 3339.
        :param methods: what this host accepts beyond the floor.
        """
        return documents.build_served_copy(self.document, status=status, updated_at=updated_at, methods=methods)


@dataclass(frozen=True, kw_only=True)
class Received:
    """A document as it came."""

    octets: bytes
    document: dict[str, Any]
    signer: VerifyingKey | None
    package: Package | None = None


def agent_of(document: bytes, genesis: bytes, *, hosted: bool) -> Agent:
    """
    Return an agent of documents at hand, which name no files and whose issuer counts.

    :param document: the Identity Document, signed or not.
    :raises agtphost.identity.genesis.GenesisError: the Genesis is none.
    :raises DocumentError: the document is none, or the two contradict each other.
    """
    origin = Genesis.load(genesis)
    received = documents.decode(document)
    signer = documents.check_signature(received)
    core = documents.core_shape(received)
    faults = [*documents.faults_of(core), *([wrong] if (wrong := contradiction(core, origin)) else [])]
    if faults:
        raise DocumentError(faults)
    posture = resolve_posture(core, origin, issuer_known=True)
    read = Received(octets=document, document=received, signer=signer)
    return agent_from(read, origin, None, posture, name=core["name"], hosted=hosted)


def agent_from(
    read: Received,
    genesis: Genesis | None,
    certificate: AgentCertificate | None,
    posture: TrustPosture,
    *,
    name: str,
    hosted: bool,
    file: str = "",
    issue: Mapping[str, Any] | None = None,
    notes: Iterable[str] = (),
) -> Agent:
    received = read.document
    document = documents.core_shape(received)
    zone = document.get("governance_zone") or (genesis.governance_zone if genesis is not None else None)
    return Agent(
        agent_id=document["agent_id"],
        name=name,
        description=document["description"],
        principal=document["principal"],
        owner_id=posture.owner_id,
        document=_add_known_members(received, genesis, certificate, posture),
        document_octets=read.octets,
        genesis=genesis,
        posture=posture,
        scopes=within_genesis(genesis, documents.declared_scopes(document)),
        hosted=hosted,
        document_status=documents.status_of(document),
        governance_zone=zone if isinstance(zone, str) else None,
        role=documents.role_of(document),
        file=file,
        received=read_only(received),
        package=read.package,
        certificate=certificate,
        issue=None if issue is None else read_only(issue),
        notes=(*notes, *documents.remarks_on(document), *posture.notes),
    )


def within_genesis(genesis: Genesis | None, declared: Collection[str]) -> frozenset[str]:
    """
    Return those of the declared scopes that the Genesis gives.

    The Genesis of deployed implementations has no scopes and leaves them to the document.
    """
    if genesis is None or "scope" not in genesis.members:
        return frozenset(declared)
    return scopes.intersect(declared, genesis.scopes)


LIFTED = ("org_domain", "governance_zone", "log_inclusion_proof")
"""What a document leaves to its Genesis to say (core v08 section 6.3, recommended members)."""


def _add_known_members(
    received: Mapping[str, Any],
    genesis: Genesis | None,
    certificate: AgentCertificate | None,
    posture: TrustPosture,
) -> Mapping[str, Any]:
    """Return the document with the other known members: posture, members of the Genesis, the certificate."""
    known: dict[str, Any] = {} if genesis is None else {name: genesis.members.get(name) for name in LIFTED}
    if certificate is not None:
        known["cert_fingerprint"] = certificate.fingerprint
    members = {name: value for name, value in known.items() if value is not None and received.get(name) is None}
    served: Mapping[str, Any] = read_only(
        documents.build_served_copy(received, members={**members, **posture.fields()})
    )
    return served


def reconsider(agent: Agent, *, issuer_known: bool) -> bool:
    """
    Resolve an agent's posture anew, because the issuers that count have changed.

    The one exception to agents being immutable: the new posture shows in documents, lists and headers alike.

    :param issuer_known: whether its Genesis's issuer counts now.
    :return: whether the posture is another one.
    """
    posture = resolve_posture(documents.core_shape(agent.received), agent.genesis, issuer_known=issuer_known)
    if posture == agent.posture:
        return False
    document = _add_known_members(agent.received, agent.genesis, agent.certificate, posture)
    object.__setattr__(agent, "posture", posture)
    object.__setattr__(agent, "document", document)
    return True


def distinct(agents: list[Agent]) -> tuple[list[Agent], list[Problem]]:
    """
    Leave out agents that share an identifier, or hosted ones a label: none could be addressed for certain.

    :return: the others in the order given, and a problem for each left out.
    """
    problems: list[Problem] = []
    for attribute in ("agent_id", "name"):
        counts: dict[str, int] = {}
        for agent in agents:
            value = getattr(agent, attribute)
            counts[value] = counts.get(value, 0) + 1
        kept: list[Agent] = []
        for agent in agents:
            value = getattr(agent, attribute)
            if counts[value] == 1 or (attribute == "name" and not agent.hosted):
                kept.append(agent)
            else:
                message = f"{attribute}: another agent has {value} too"
                problems.append(Problem(message=message, file=agent.file))
        agents = kept
    return agents, problems
