"""
The files of agents: read, verified, and made into :class:`~agtphost.identity.agents.Agent`.

A folder holds pairs ``NAME.agent.json`` and ``NAME.genesis.json``
(AGTP-API section 5.8.1), or folders ``NAME/document.json`` and
``NAME/genesis.json``; in place of the document there may be a package, from
which it is taken. Every problem is reported; what has one is not admitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.errors import Problem
from agtphost.identity import documents, issuance, packages
from agtphost.identity.agents import Agent, AgentCertificate, Received, agent_from, distinct, within_genesis
from agtphost.identity.certificates import CertificateError, load_certificate, parse_peer_certificate
from agtphost.identity.documents import DocumentError
from agtphost.identity.genesis import Genesis, GenesisError
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.packages import PackageError
from agtphost.identity.trust import TrustedIssuers, contradiction, resolve_posture
from agtphost.vocabulary import jsontext
from agtphost.vocabulary import scopes as scope_tokens
from agtphost.vocabulary.foreign_errors import explain, original_of
from agtphost.vocabulary.identifiers import is_agent_name
from agtphost.vocabulary.regular_files import read_octets

DOCUMENT_SUFFIX = ".agent.json"
GENESIS_SUFFIX = ".genesis.json"

AS_ISSUED = "restore it as it was issued, or issue the agent anew; without its files the host has no such agent"
"""What to do about an agent whose files are wrong."""


class _Refused(Exception):
    """An agent that is not admitted, and every reason."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)


@dataclass(frozen=True, kw_only=True)
class _Policy:
    hosted: bool
    production: bool
    issuers: TrustedIssuers

    def knows(self, genesis: Genesis | None) -> bool:
        """Return whether nothing speaks against the Genesis's issuer; without trust anchors every issuer passes."""
        return genesis is None or not self.issuers or self.issuers.knows(genesis.issuer_key, genesis.governance_zone)


def pairs_in(directory: Path) -> Iterator[tuple[str, Path, Path]]:
    """Label, document file and Genesis file of each agent, in label order; a file may be missing."""
    found: dict[str, tuple[Path, Path]] = {}
    for path in directory.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir() and any((path / name).exists() for name in ("document.json", "genesis.json")):
            found[path.name] = (path / "document.json", path / "genesis.json")
        for suffix in (DOCUMENT_SUFFIX, GENESIS_SUFFIX, *packages.FORMATS):
            label = path.name.removesuffix(suffix)
            if label != path.name:
                found.setdefault(label, (directory / (label + DOCUMENT_SUFFIX), directory / (label + GENESIS_SUFFIX)))
    for label in sorted(found):
        yield label, *found[label]


def is_description(document: object) -> bool:
    """Return whether a parsed ``*.agent.json`` describes an agent yet to be issued: it names no ``agent_id``."""
    return isinstance(document, dict) and "agent_id" not in document and "document_type" not in document


def descriptions_in(directory: Path) -> list[Path]:
    """Return the ``*.agent.json`` of ``directory`` that describe agents yet to be issued, in name order."""
    found = []
    for path in sorted(directory.glob(f"*{DOCUMENT_SUFFIX}")):
        try:
            document = jsontext.decode(read_octets(path), max_depth=jsontext.SIGNED_DEPTH)
        except (OSError, jsontext.JSONTextError):
            continue  # Loading the directory reports it.
        if is_description(document):
            found.append(path)
    return found


def load_agents(
    directory: Path,
    *,
    hosted: bool,
    production: bool,
    trusted_issuers: Collection[VerifyingKey] | TrustedIssuers,
) -> tuple[list[Agent], list[Problem]]:
    """
    Load every agent under ``directory``.

    In production a Genesis of a trusted issuer and a document signed by one
    are needed; in development neither is, and descriptions of agents yet to
    be issued are passed over.

    :param hosted: whether this host answers for them.
    :param trusted_issuers: keys of Genesis issuers and registrars, by zone where they differ; without any, the profile
        development trusts all and production none.
    :return: the agents admitted, in label order, and why each other was not.
    """
    if not isinstance(trusted_issuers, TrustedIssuers):
        trusted_issuers = TrustedIssuers(everywhere=frozenset(trusted_issuers))
    policy = _Policy(hosted=hosted, production=production, issuers=trusted_issuers)
    if not directory.is_dir():
        return [], [Problem(message="the directory of agents does not exist", file=str(directory))]
    agents: list[Agent] = []
    problems: list[Problem] = []
    for label, document_file, genesis_file in pairs_in(directory):
        try:
            agent = _load(label, document_file, genesis_file, policy)
        except _Refused as refused:
            problems.extend(each if each.hint else replace(each, hint=AS_ISSUED) for each in refused.problems)
            continue
        if agent is not None:
            agents.append(agent)
    agents, clashes = distinct(agents)
    return agents, problems + clashes


def _read(path: Path) -> bytes | None:
    try:
        return read_octets(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _Refused(
            [Problem(message=f"it cannot be read: {explain(error)}", original=original_of(error), file=str(path))]
        ) from error


def _read_document(path: Path, policy: _Policy) -> Received | None:
    """Return the document as received, without faults and with a signature that holds; None for a description."""
    octets = _read(path)
    if octets is None:
        raise _Refused([Problem(message="the Identity Document of this Genesis is missing", file=str(path))])
    return _parse_document(octets, path, policy)


def _parse_document(octets: bytes, path: Path, policy: _Policy) -> Received | None:
    try:
        document = documents.decode(octets)
        if is_description(document) and not policy.production:
            return None
        signer = documents.check_signature(document)
        faults = documents.faults_of(documents.core_shape(document))
    except DocumentError as error:
        faults, signer = list(error.faults), None
    if faults:
        raise _Refused(Problem(message=fault, file=str(path)) for fault in faults)
    return Received(octets=octets, document=document, signer=signer)


def _read_package(path: Path, genesis_file: Path) -> Received:
    """Return the document of a package whose hash is the one that the Genesis names."""
    octets = _read(genesis_file)
    if octets is None:
        raise _Refused([Problem(message="the Genesis of this package is missing", file=str(genesis_file))])
    try:
        package, document = packages.open_package(path, Genesis.load(octets))
    except GenesisError as error:
        raise _Refused([Problem(message=str(error), file=str(genesis_file))]) from None
    except PackageError as error:
        raise _Refused([Problem(message=f"{packages.FAILURE}: {error}", file=str(path))]) from None
    faults = documents.faults_of(documents.core_shape(document))
    if faults:
        raise _Refused(Problem(message=fault, file=str(path)) for fault in faults)
    return Received(octets=jsontext.encode(document), document=document, signer=None, package=package)


def _require_registrar(received: Received, genesis: Genesis | None, path: Path, policy: _Policy) -> list[str]:
    """
    Check that a trusted registrar signed the document, which production requires; otherwise warn of an untrusted one
    (AGTP-149).
    """
    signer = received.signer
    zone = genesis.governance_zone if genesis is not None else received.document.get("governance_zone")
    if received.package is not None:
        # The Genesis covers the package's hash, and with it the manifest: its issuer is judged there.
        return []
    if signer is None:
        message, hint = "the Identity Document is not signed", "sign it: agtp document sign"
        if not policy.production:
            return []
    elif not policy.issuers or policy.issuers.knows(signer, zone if isinstance(zone, str) else None):
        return []
    else:
        message = f"untrusted issuer: no trusted key signed the Identity Document ({signer.kid} did)"
        hint = "add the registrar's key to [identity] trusted_issuers, or to its zone in [identity.registrars]"
        awaited = genesis is not None and policy.issuers.awaited and signer == genesis.issuer_key
        if not policy.production or awaited:
            return [message]
    raise _Refused([Problem(message=message, file=str(path), hint=hint)])


def _parse_genesis(
    octets: bytes | None, path: Path, agent_id: str, policy: _Policy
) -> tuple[Genesis | None, list[str]]:
    """Return the Genesis if it is this agent's, and notes."""
    if octets is None:
        if policy.production:
            raise _Refused([Problem(message="the agent's Genesis is missing", file=str(path))])
        return None, ["no Genesis: the agent cannot be identified by certificate"]
    try:
        genesis = Genesis.load(octets)
    except GenesisError as error:
        raise _Refused([Problem(message=str(error), file=str(path))]) from None
    if genesis.agent_id != agent_id:
        message = f"the Genesis is another agent's ({genesis.agent_id})"
        if policy.production:
            raise _Refused([Problem(message=message, file=str(path))])
        return None, [f"{message} and is not used"]
    return genesis, [*genesis.notes, *_judge_issuer(genesis, path, policy)]


def _judge_issuer(genesis: Genesis, path: Path, policy: _Policy) -> list[str]:
    if policy.production and genesis.self_signed:
        raise _Refused([Problem(message="a self-signed Genesis is for development only", file=str(path))])
    notes = ["the Genesis is self-signed: for development only"] if genesis.self_signed else []
    if (policy.production and not policy.issuers) or not policy.knows(genesis):
        message = f"untrusted issuer: {genesis.issuer_key.kid} issued the Genesis"
        if policy.production and not policy.issuers.awaited:
            hint = "add the issuer's key to [identity] trusted_issuers, or to its zone in [identity.registrars]"
            raise _Refused([Problem(message=message, file=str(path), hint=hint)])
        notes.append(message)
    return notes


def _label(name: str, stem: str, path: Path, policy: _Policy) -> str:
    if is_agent_name(name):
        return name
    if policy.hosted and not is_agent_name(stem):
        message = f"name: {name[:64]!r} is not a label of letters, digits, '-' and '_'"
        raise _Refused([Problem(message=message, file=str(path))])
    return stem


def _load(stem: str, document_file: Path, genesis_file: Path, policy: _Policy) -> Agent | None:
    package_file = packages.find(genesis_file, stem)
    if package_file is None:
        read = _read_document(document_file, policy)
    else:
        read, document_file = _read_package(package_file, genesis_file), package_file
    if read is None:
        return None
    genesis, notes = _parse_genesis(
        _read(genesis_file), genesis_file, documents.core_shape(read.document)["agent_id"], policy
    )
    agent = _admit(stem, read, genesis, notes, _certificate(genesis_file, stem), document_file, policy)
    return replace(agent, issue=_statement(genesis_file, genesis))


def _admit(
    stem: str,
    read: Received,
    genesis: Genesis | None,
    notes: list[str],
    certificate: AgentCertificate | None,
    document_file: Path,
    policy: _Policy,
) -> Agent:
    received = read.document
    document = documents.core_shape(received)
    notes.extend(_require_registrar(read, genesis, document_file, policy))
    fault = contradiction(document, genesis)
    if fault:
        raise _Refused([Problem(message=fault, file=str(document_file))])
    posture = resolve_posture(document, genesis, issuer_known=policy.knows(genesis))
    declared = documents.declared_scopes(document)
    if beyond := scope_tokens.missing(within_genesis(genesis, declared), sorted(declared)):
        notes.append(
            f"the document declares {', '.join(beyond)} beyond the Genesis's scope, which counts as far as a statement "
            f"of the issuer is on record: agtp agent rights {document['name']}"
        )
    if documents.is_reference_shape(received):
        notes.append("the document has the shape of deployed implementations and is served in the core shape")
    return agent_from(
        read,
        genesis,
        certificate,
        posture,
        name=_label(document["name"], stem, document_file, policy),
        hosted=policy.hosted,
        file=str(document_file),
        notes=notes,
    )


STORED = Path("the host's store")
"""In place of the files of an agent whose documents are state items."""


def to_item(agent: Agent) -> dict[str, Any] | None:
    """
    Return the public documents of an agent as the value of a state item; None where these alone do not make an agent.

    Agents without a Genesis are for development, and those of a package need its file.
    """
    if agent.genesis is None or agent.package is not None:
        return None
    certificate = agent.certificate
    return {
        "label": agent.name,
        "hosted": agent.hosted,
        "document": agent.document_octets.decode(),
        "genesis": agent.genesis.octets.decode(),
        **({} if certificate is None else {"certificate": _certificate_to_json(certificate)}),
    }


def agent_of_item(
    value: Mapping[str, Any], *, production: bool, trusted_issuers: TrustedIssuers
) -> tuple[Agent | None, list[Problem]]:
    """
    Return the agent of a state item, judged as :func:`load_agents` judges files, or why it is not admitted.

    :param value: as :func:`to_item` made it.
    """
    policy = _Policy(hosted=value["hosted"], production=production, issuers=trusted_issuers)
    try:
        read = _parse_document(value["document"].encode(), STORED, policy)
        if read is None:
            return None, []
        agent_id = documents.core_shape(read.document)["agent_id"]
        genesis, notes = _parse_genesis(value["genesis"].encode(), STORED, agent_id, policy)
        certificate = AgentCertificate(**value["certificate"]) if "certificate" in value else None
        return _admit(value["label"], read, genesis, notes, certificate, STORED, policy), []
    except _Refused as refused:
        return None, list(refused.problems)


def _certificate_to_json(certificate: AgentCertificate) -> dict[str, Any]:
    """Return the members that every version of this program reads."""
    return {name: value for name, value in asdict(certificate).items() if name != "commitment"}


def _certificate(genesis_file: Path, stem: str) -> AgentCertificate | None:
    """Return the certificate next to the documents: ``agent.pem`` in the agent's folder, or ``NAME.pem``."""
    name = "agent.pem" if genesis_file.name == "genesis.json" else f"{stem}.pem"
    path = genesis_file.with_name(name)
    if not path.is_file():
        return None
    try:
        found = load_certificate(path)
        octets = found.public_bytes(Encoding.DER)
        commitment = parse_peer_certificate(octets).commitment
    except (CertificateError, OSError) as error:
        raise _Refused(
            [
                Problem(
                    message=f"the agent's certificate cannot be read: {explain(error)}",
                    original=original_of(error),
                    file=str(path),
                )
            ]
        ) from error
    return AgentCertificate(
        fingerprint=sha256(octets).hexdigest(),
        valid_from=found.not_valid_before_utc.timestamp(),
        valid_to=found.not_valid_after_utc.timestamp(),
        commitment=commitment,
    )


def _statement(genesis_file: Path, genesis: Genesis | None) -> Mapping[str, Any] | None:
    """Return the registrar's statement next to the Genesis; None if that file is missing."""
    path = genesis_file.with_name(issuance.STATEMENT)
    octets = _read(path) if genesis is not None and genesis_file.name == "genesis.json" else None
    if octets is None or genesis is None:
        return None
    try:
        return issuance.read_statement(octets, genesis)
    except issuance.IssueError as error:
        raise _Refused([Problem(message=str(error), file=str(path))]) from None
