"""
Making identities: the development profile's files, and new agents (interface section 1).

Every step looks whether its file is there and makes it from the ones before,
so a run that was cut short is finished by the next, and a run with everything
in place changes nothing. Files appear whole or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509

from agtphost.identity import certificates, documents, files, genesis, packages
from agtphost.identity.agent_files import DOCUMENT_SUFFIX, is_description
from agtphost.identity.alternative_names import addresses_of, reachable_addresses
from agtphost.identity.canonical import canonical
from agtphost.identity.certificates import Authority, CertificateError
from agtphost.identity.extensions import ARCHETYPES
from agtphost.identity.genesis import Genesis
from agtphost.identity.issuance import Inspected
from agtphost.identity.keys import SigningKey
from agtphost.identity.packages import PackageError
from agtphost.identity.trust import resolve_posture
from agtphost.vocabulary import jsontext, scopes
from agtphost.vocabulary.catalog import FLOOR
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.identifiers import is_agent_name

OWNER = "development"
"""Owner and principal of everything that the development profile issues."""

ZONE, PRODUCTION_ZONE = "zone:development", "zone:production"

DEMO_SCOPES = (
    "booking:*",
    "calendar:*",
    "documents:query",
    "knowledge:query",
    "mcp:prompts:get",
    "mcp:resources:read",
    "mcp:tools:execute",
)
"""What the development profile's caller may do."""

RENEWAL = 0.8
"""The part of a certificate's life after which it is issued again (AGTP-CERT section 4)."""


class ProvisioningError(Exception):
    """
    Identity material cannot be made; the message says why, and names the file.

    :param descriptions: the descriptions of agents that are to blame, each with what is wrong; the rest was made.
    """

    def __init__(self, message: str, descriptions: Sequence[tuple[Path, str]] = ()) -> None:
        super().__init__(message)
        self.descriptions = descriptions


HOSTED, CALLERS = "hosted", "agents"
"""Folders of the state directory: of the agents that the development profile issues for this host, and of callers."""


@dataclass(frozen=True, kw_only=True)
class AgentDescription:
    """The description of an agent that is to be issued."""

    name: str
    description: str = ""
    archetype: str = "assistant"
    principal: str = OWNER
    owner_id: str = OWNER
    governance_zone: str = ZONE
    scopes: Sequence[str] = ()
    capabilities: Sequence[str] = ()
    methods: Sequence[str] = ()
    trust_tier: int = 2
    verification_path: str = "org-asserted"
    org_domain: str | None = None
    evidence: Mapping[str, Any] | None = None
    """What the issuer looked at; tier 1 needs it."""

    package: Inspected | None = None
    """What the agent is packed in; its manifest is then the document."""

    members: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the Identity Document."""

    @classmethod
    def read(cls, octets: bytes, stem: str) -> AgentDescription:
        """
        Read a ``*.agent.json`` that has no ``agent_id`` yet.

        :param octets: a JSON object with any members of an Identity Document,
            and ``archetype``; what is missing gets the defaults above.
        :param stem: the label if it has no ``name``.
        :raises ProvisioningError: naming the member that is wrong.
        """
        try:
            described = jsontext.decode(octets, max_depth=jsontext.SIGNED_DEPTH)
        except jsontext.JSONTextError as error:
            raise ProvisioningError(str(error)) from error
        if not is_description(described):
            raise ProvisioningError("it does not describe a new agent: it has an agent_id, or is not an object")
        return cls._from_members(described, stem)

    @classmethod
    def _from_members(cls, described: dict[str, Any], stem: str) -> AgentDescription:
        granted = _strings(described, "scopes_accepted") or _strings(described, "scopes")
        owner = _line(described, "owner_id", _line(described, "principal_id", OWNER))
        known = {"name", "archetype", "owner_id", "principal", "principal_id", "scopes", *documents.REQUIRED}
        return cls(
            name=_line(described, "name", stem),
            description=_line(described, "description", ""),
            archetype=_line(described, "archetype", "assistant"),
            principal=_line(described, "principal", owner),
            owner_id=owner,
            governance_zone=_line(described, "governance_zone", ZONE),
            scopes=granted,
            trust_tier=described.get("trust_tier", 2),
            verification_path=_line(described, "verification_path", "org-asserted"),
            org_domain=_line(described, "org_domain", "") or None,
            capabilities=_strings(described, "capabilities"),
            methods=_strings(described, "methods"),
            members={
                name: value
                for name, value in described.items()
                if name not in known and name not in documents.SIGNATURE_FIELDS and name not in _RESOLVED
            },
        )


DEMO = AgentDescription(
    name="demo",
    description="The development profile's caller.",
    archetype="executor",
    scopes=DEMO_SCOPES,
)
"""The caller that the development profile issues."""

_RESOLVED = frozenset({"governance_zone", "org_domain", "trust_tier", "verification_path"})
"""What a description states about the Genesis as well as the document."""


def _line(described: Mapping[str, Any], name: str, default: str) -> str:
    value = described.get(name, default)
    if not isinstance(value, str) or not value.isprintable():
        raise ProvisioningError(f"{name}: it is not a line of text")
    return value


def _strings(described: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = described.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ProvisioningError(f"{name}: it is not an array of text")
    return tuple(value)


def timestamp(moment: datetime) -> str:
    """RFC 3339 UTC with microseconds: what tells two otherwise equal Genesis documents apart."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# New agents


def new_genesis(description: AgentDescription, registrar: SigningKey, now: datetime) -> bytes:
    """
    Issue an agent's Genesis.

    :param now: UTC.
    :raises ProvisioningError: naming what is wrong with the description.
    """
    if not is_agent_name(description.name):
        raise ProvisioningError(f"name: {description.name[:64]!r} is not a label of letters, digits, - and _")
    if description.archetype not in ARCHETYPES:
        raise ProvisioningError(f"archetype: it is none of {', '.join(sorted(ARCHETYPES))}")
    wrong = [token for token in description.scopes if not scopes.is_token(token)]
    if wrong:
        raise ProvisioningError(f"scopes_accepted: {wrong[0][:64]!r} is not a scope token")
    members = {"org_label": description.name}
    if description.org_domain is not None:
        members["org_domain"] = description.org_domain
    if description.package is not None:
        members["package_ref"] = description.package.reference
    try:
        return genesis.issue(
            registrar,
            owner=description.principal,
            owner_id=description.owner_id,
            archetype=description.archetype,
            governance_zone=description.governance_zone,
            scope=description.scopes,
            issued_at=timestamp(now),
            trust_tier=description.trust_tier,
            verification_path=description.verification_path,
            members=members,
            evidence=description.evidence,
        )
    except genesis.GenesisError as error:
        raise ProvisioningError(str(error)) from error


def registrar_url(server_id: str) -> str:
    """Return the URL by which documents name the registrar of a host (core v08 section 6.3)."""
    return f"https://registrar.{server_id}"


def new_document(
    description: AgentDescription, origin: Genesis, registrar: SigningKey, issuer: str, now: datetime
) -> bytes:
    """
    Write and sign the Identity Document that belongs to a Genesis: complete, so that it is served as signed.

    :param issuer: the registrar's name.
    :param now: UTC.
    :raises ProvisioningError: naming what is wrong with the description.
    """
    document: dict[str, Any] = {
        **description.members,
        "agtp_version": "1.0",
        "document_type": documents.DOCUMENT_TYPE,
        "document_version": "1.0",
        "agent_id": origin.agent_id,
        "name": description.name,
        "description": description.description,
        "principal": description.principal,
        "principal_id": description.owner_id,
        "issuer": issuer,
        "issued_at": origin.issued_at,
        "updated_at": timestamp(now),
        "status": "active",
        "methods": list(dict.fromkeys([*FLOOR, *description.methods])),
        "capabilities": list(description.capabilities),
        "scopes_accepted": sorted(set(description.scopes)),
        "trust_score": documents.NEW_AGENT_SCORE,
        "trust_score_computed_at": timestamp(now),
        "role": description.members.get("role", "agent"),
        "governance_zone": description.governance_zone,
    }
    if description.org_domain is not None:
        document["org_domain"] = description.org_domain
    document.update(resolve_posture(document, origin).fields())
    try:
        return canonical(documents.sign(document, issuer, registrar))
    except documents.DocumentError as error:
        raise ProvisioningError(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class IssuedAgent:
    """An agent's files."""

    agent_id: str
    directory: Path

    @property
    def genesis(self) -> Path:
        return self.directory / "genesis.json"

    @property
    def document(self) -> Path:
        return self.directory / "document.json"

    @property
    def certificate(self) -> Path:
        """The client certificate; not there for an agent that never calls out."""
        return self.directory / "agent.pem"

    @property
    def key(self) -> Path:
        """The client certificate's key."""
        return self.directory / "agent.key"


def issue_agent(
    directory: Path,
    description: AgentDescription,
    registrar: SigningKey,
    *,
    issuer: str,
    authority: Authority | None = None,
    now: datetime | None = None,
) -> IssuedAgent:
    """
    Issue an agent: Genesis, Identity Document and, with an authority, key and client certificate.

    What is there already is kept; a certificate past most of its life is
    issued again for the same key.

    :param directory: where its files go; created if missing.
    :param registrar: signs Genesis and document.
    :param issuer: the registrar's name.
    :param authority: signs the client certificate; None issues none.
    :param now: UTC; None for the present.
    :raises ProvisioningError: naming what is wrong.
    :raises OSError: if a file cannot be written.
    """
    moment = now or datetime.now(UTC)
    files.make_directory(directory)
    issued = IssuedAgent(agent_id="", directory=directory)
    _make(issued.genesis, lambda: new_genesis(description, registrar, moment), files.PUBLIC)
    origin = _load_genesis(issued.genesis)
    if (package := description.package) is not None:
        path = directory / f"{description.name}{package.path.suffix}"
        _make(path, lambda: package.octets, files.PUBLIC)
        _make(issued.document, lambda: _packaged_document(path, origin), files.PUBLIC)
    _make(issued.document, lambda: new_document(description, origin, registrar, issuer, moment), files.PUBLIC)
    if authority is not None:
        _issue_client(issued, description, origin, authority, moment)
    return IssuedAgent(agent_id=origin.agent_id, directory=directory)


def _issue_client(
    issued: IssuedAgent, description: AgentDescription, origin: Genesis, authority: Authority, now: datetime
) -> None:
    key = _signing_key(issued.key)
    try:
        declared = documents.read_scopes(issued.document.read_bytes())
        _certify(
            issued.certificate,
            authority,
            now,
            lambda: certificates.issue_agent_certificate(
                authority,
                key.public,
                label=description.name,
                organization=description.principal,
                agent_id=origin.agent_id,
                principal_id=origin.owner_id or description.owner_id,
                commitment=declared,
                zone=origin.governance_zone if (origin.governance_zone or "").startswith("zone:") else None,
                trust_tier=origin.trust_tier,
                archetype=origin.archetype,
                now=now,
            ),
        )
    except ValueError as error:
        broken = issued.document if isinstance(error, documents.DocumentError) else issued.certificate
        raise ProvisioningError(f"{broken}: {explain(error)}") from error


def _packaged_document(path: Path, origin: Genesis) -> bytes:
    """Return a copy for readers of the directory; what is served is always taken from the package itself."""
    try:
        return canonical(packages.open_package(path, origin)[1])
    except PackageError as error:
        raise ProvisioningError(f"{packages.FAILURE}: {error}") from None


def _load_genesis(path: Path) -> Genesis:
    try:
        return Genesis.load(path.read_bytes())
    except genesis.GenesisError as error:
        raise ProvisioningError(f"{path}: {error}") from None


# Single files


def _make(path: Path, content: Callable[[], bytes], mode: int) -> None:
    if not path.exists():
        with contextlib.suppress(FileExistsError):  # Another process was quicker: its file is as good.
            files.write_once(path, content(), mode)


def _signing_key(path: Path) -> SigningKey:
    _make(path, lambda: SigningKey.generate().pem, files.PRIVATE)
    try:
        return SigningKey.load(path)
    except ValueError as error:
        raise ProvisioningError(str(error)) from error


def _certify(
    path: Path, authority: Authority, now: datetime, issue: Callable[[], x509.Certificate], names: Sequence[str] = ()
) -> None:
    """Write a certificate where there is none, or ours is about to expire or lacks an address; leave others' alone."""
    _make(path, lambda: certificates.pem_of(issue()), files.PUBLIC)
    certificate = certificates.load_certificate(path)
    named = addresses_of(certificate)
    lacks_one = bool(named) and not named >= set(names)
    if certificate.issuer == authority.certificate.subject and (lacks_one or _is_due(certificate, now)):
        files.replace(path, certificates.pem_of(issue()), files.PUBLIC)


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= start + (end - start) * RENEWAL


def _authority(state_dir: Path, now: datetime) -> Authority | None:
    """Return the development CA; None where its key was taken away and nothing is left to issue."""
    certificate, key = state_dir / "ca.pem", state_dir / "ca.key"
    if certificate.exists() and not key.exists():
        if all((state_dir / name).exists() for name in _CERTIFICATES):
            return None
        raise ProvisioningError(f"{key}: it is missing, so nothing can be issued under {certificate}")
    _make(key, lambda: certificates.key_pem_of(certificates.new_tls_key()), files.PRIVATE)
    loaded = certificates.load_tls_key(key)
    _make(certificate, lambda: certificates.create_authority(now=now, key=loaded).certificate_pem, files.PUBLIC)
    return Authority.load(certificate, key)


_CERTIFICATES = ("server.pem", "registrar.pem", "agents/demo/agent.pem")


def _server(state_dir: Path, authority: Authority, server_id: str, listened: str, now: datetime) -> None:
    certificate, key = state_dir / "server.pem", state_dir / "server.key"
    if certificate.exists() and not key.exists():
        raise ProvisioningError(f"{key}: it is missing; remove {certificate} to have both made again")
    _make(key, lambda: certificates.key_pem_of(certificates.new_tls_key()), files.PRIVATE)

    def issue() -> x509.Certificate:
        public = certificates.load_tls_key(key).public_key()
        return certificates.issue_server_certificate(authority, public, server_id=server_id, now=now, listened=listened)

    _certify(certificate, authority, now, issue, reachable_addresses(listened))


def _registrar(state_dir: Path, key: SigningKey, authority: Authority, now: datetime) -> None:
    """Write the registrar's client certificate, which is for the key that issues Genesis documents."""
    _certify(
        state_dir / "registrar.pem",
        authority,
        now,
        lambda: certificates.issue_client_certificate(
            authority, key.public, label="registrar", organization=OWNER, now=now
        ),
    )


def provision_development(
    state_dir: Path,
    *,
    server_id: str,
    hosted: Iterable[Path],
    listened: str = "127.0.0.1",
    now: datetime | None = None,
    issued: list[Path] | None = None,
) -> None:
    """
    Make what the development profile needs and does not have yet (interface section 1).

    :param state_dir: created for the owner alone if missing.
    :param server_id: in the server's certificate, if it is a host name, and the registrar's name.
    :param hosted: descriptions (``*.agent.json``) of agents, each of which gets files in ``hosted/NAME``.
    :param listened: ``[listen] address``, which the server's certificate names too.
    :param now: UTC; None for the present.
    :param issued: collects the folders of hosted agents that did not exist.
    :raises ProvisioningError: naming the file that is in the way.
    :raises OSError: if a file cannot be written.
    """
    moment = now or datetime.now(UTC)
    issuer = registrar_url(server_id)
    files.make_directory(state_dir)
    signing = _signing_key(state_dir / "signing.key")
    _make(state_dir / "signing.pub", lambda: signing.public.pem, files.PUBLIC)
    registrar = _signing_key(state_dir / "registrar.key")
    try:
        authority = _authority(state_dir, moment)
        if authority is not None:
            _server(state_dir, authority, server_id, listened, moment)
            _registrar(state_dir, registrar, authority, moment)
    except CertificateError as error:
        raise ProvisioningError(str(error)) from error
    issue_agent(state_dir / CALLERS / "demo", DEMO, registrar, issuer=issuer, authority=authority, now=moment)
    faulty, named = list[tuple[Path, str]](), dict[str, Path]()
    for path in hosted:
        try:
            folder, description = _folder_of(state_dir / HOSTED, path, named)
            if issued is not None and not folder.exists():
                issued.append(folder)
            issue_agent(folder, description, registrar, issuer=issuer, now=moment)
        except ProvisioningError as error:
            faulty.append((path, str(error)))
    if faulty:
        raise ProvisioningError("\n".join(f"{path}: {why}" for path, why in faulty), faulty)


def _folder_of(home: Path, path: Path, named: dict[str, Path]) -> tuple[Path, AgentDescription]:
    """Return the folder and the description of a hosted agent. :raises ProvisioningError: another has its name."""
    description = AgentDescription.read(path.read_bytes(), path.name.removesuffix(DOCUMENT_SUFFIX))
    if not is_agent_name(description.name):
        raise ProvisioningError("name: it is not a label of letters, digits, '-' and '_'")
    if named.setdefault(description.name, path) != path:
        raise ProvisioningError(f"name: {named[description.name].name} describes an agent of that name, too")
    folder, caller = home / description.name, home.parent / CALLERS / description.name
    if caller.exists() and not folder.exists():
        # What is issued here stays, also where the host takes no two agents of one name.
        raise ProvisioningError(f"name: {caller} is an agent of that name, too")
    return folder, description
