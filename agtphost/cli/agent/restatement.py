"""Issue an agent's Identity Document and certificate again, with other scopes and under the same Agent-ID."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agtphost.cli.agent.issue import authority_of
from agtphost.cli.agent.rights_requests import PATH, read_rights, result_with_record, scopes_of
from agtphost.cli.exchange import ask
from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.host_config import AGENT_FILES, find_config, load_usable_config
from agtphost.cli.identities import agent_directories, find_agent_config
from agtphost.cli.local_files import load_signing_key
from agtphost.cli.options import Connection
from agtphost.cli.target import Target
from agtphost.identity import certificates, documents, files, packages, renewal, scope_statement
from agtphost.identity.agent_files import pairs_in
from agtphost.identity.canonical import canonical
from agtphost.identity.certificates import CertificateError
from agtphost.identity.documents import DocumentError
from agtphost.identity.genesis import Genesis, GenesisError
from agtphost.identity.keys import SigningKey
from agtphost.identity.provisioning import timestamp
from agtphost.vocabulary import scopes
from agtphost.vocabulary.foreign_errors import explain

if TYPE_CHECKING:
    from agtphost.config import Config


NO_FILES = "A scope is given and taken with the agent's files on this machine; correct the file first."
"""What to do where a fault of ``host.toml`` hides the files of agents."""


@dataclass(frozen=True, kw_only=True)
class AgentFiles:
    """The files of an agent that are on this machine."""

    name: str
    document: Path
    genesis: Path

    @property
    def certificate(self) -> Path:
        """The client certificate; it need not be there."""
        own = self.genesis.name == "genesis.json"
        return self.genesis.with_name("agent.pem" if own else f"{self.name}.pem")


@dataclass(frozen=True, kw_only=True)
class Restated:
    """A document that was issued again, and is not written yet."""

    files: AgentFiles
    document: bytes
    statement: str

    def parameters(self) -> dict[str, str]:
        """Return the members of the request that puts it on record."""
        return {"statement": self.statement, "document": self.document.decode()}

    def write(self) -> None:
        """Replace the agent's document by the new one."""
        with local_file(self.files.document, doing="written"):
            files.replace(self.files.document, self.document, files.PUBLIC)


def local_config(where: Connection) -> Config | None:
    """
    Return the configuration of the host on this machine; None if there is none.

    :raises agtphost.cli.failures.CommandError: a fault of ``host.toml`` hides where the files of agents are.
    """
    path = find_config(where)
    if path is None:
        return None
    return find_agent_config(path) or load_usable_config(path, *AGENT_FILES, remedy=NO_FILES)


def find_files(config: Config | None, agent_id: str) -> AgentFiles | None:
    """Return the files of an agent; None if they are not on this machine."""
    for directory in () if config is None else agent_directories(config):
        for name, document, genesis in pairs_in(directory) if directory.is_dir() else ():
            if not (document.is_file() and genesis.is_file()):
                continue
            try:
                found = documents.decode(document.read_bytes())
            except (DocumentError, OSError):
                continue
            if found.get("agent_id") == agent_id:
                return AgentFiles(name=name, document=document, genesis=genesis)
    return None


def _find_package(config: Config, agent_id: str) -> Path | None:
    """Return the package that an agent's document is in; None if it is in none, or not here."""
    for directory in agent_directories(config):
        for name, _document, genesis in pairs_in(directory) if directory.is_dir() else ():
            found = packages.find(genesis, name) if genesis.is_file() else None
            if found is not None and _read_genesis(genesis).agent_id == agent_id:
                return found
    return None


def restate(config: Config | None, shown: dict[str, Any], tokens: Iterable[str]) -> Restated:
    """
    Issue an agent's document again with exactly these scopes, and sign the statement of them.

    :param shown: the agent's rights, as the host tells them.
    :raises WrongInput: the registrar's key or the agent's files are not here.
    """
    name = str(shown.get("label") or shown["agent_id"])
    found = find_files(config, str(shown["agent_id"]))
    package = None if config is None else _find_package(config, str(shown["agent_id"]))
    if package is not None:
        raise WrongInput(
            f"{name} is of the package {package}, whose manifest states its scopes: its Genesis has the package's hash",
            f"Put the scopes into the manifest, pack it again, and run `agtp agent create {name}-2 --package FILE`.",
        )
    if config is None or found is None:
        raise WrongInput(
            f"the files of {name} are not here, so its Identity Document cannot be issued again",
            "Run this on the host's own machine, or name its host.toml with --config.",
        )
    genesis = _read_genesis(found.genesis)
    issuer = _issuer_of(config, genesis, name)
    listed = sorted(set(tokens))
    now = timestamp(datetime.now(UTC))
    number = int((shown.get("scope_statement") or {}).get("number", 0)) + 1
    try:
        present = documents.decode(found.document.read_bytes())
        document = canonical(scope_statement.restate_document(present, listed, issuer, now))
    except (DocumentError, OSError) as error:
        raise WrongInput(f"{found.document} cannot be issued again: {explain(error)}") from error
    statement = scope_statement.sign_statement(genesis, issuer, number=number, scopes=listed, issued_at=now)
    return Restated(files=found, document=document, statement=statement)


def _read_genesis(path: Path) -> Genesis:
    try:
        return Genesis.load(path.read_bytes())
    except (GenesisError, OSError) as error:
        raise WrongInput(f"{path} is not a valid Genesis: {explain(error)}") from error


def _issuer_of(config: Config, genesis: Genesis, name: str) -> SigningKey:
    path = config.host.state_dir / "registrar.key"
    registrar = load_signing_key(path)
    if registrar.public != genesis.issuer_key:
        raise WrongInput(
            f"{path} did not issue {name}: only the issuer of its Genesis gives it scopes",
            f"Run this where the key {genesis.issuer_key.kid} is.",
        )
    return registrar


def lacking_commitments(found: AgentFiles | None, needed: Iterable[str]) -> list[str]:
    """Return the scopes that an agent's certificate does not commit to; none if the certificate is not here."""
    if found is None or not found.certificate.is_file():
        return []
    return list(scopes.missing(_commitment(found.certificate), sorted(set(needed))))


def _commitment(path: Path) -> frozenset[str]:
    from cryptography.hazmat.primitives.serialization import Encoding

    with local_file(path, CertificateError):
        der = certificates.load_certificate(path).public_bytes(Encoding.DER)
    read = certificates.parse_peer_certificate(der).commitment
    return frozenset({"*:*", *scopes.EXPLICIT.values()}) if read is None else read


def recertify(config: Config, found: AgentFiles, further: Iterable[str]) -> None:
    """
    Issue an agent's certificate again for the same key, with further scopes.

    :raises WrongInput: the authority's key is not here, or another authority issued the certificate.
    """
    path = found.certificate
    authority = authority_of(config)
    if authority is None:
        raise WrongInput(
            f"the key of the authority is not here, so the certificate {path} stays as it is",
            "Have its authority issue it again with the new scopes.",
        )
    with local_file(path, CertificateError):
        old = certificates.load_certificate(path)
    try:
        new = renewal.renew_certificate(
            old, authority, datetime.now(UTC), certificates.AGENT_CERTIFICATE_DAYS, further_scopes=further
        )
    except CertificateError as error:
        raise WrongInput(f"{path} cannot be issued again: {error}") from None
    with local_file(path, doing="written"):
        files.replace(path, certificates.pem_of(new), files.PUBLIC)


def take_scopes(target: Target, where: Connection, agent: str, tokens: Sequence[str]) -> dict[str, Any]:
    """
    Take scopes from an agent, and return the host's answer with the Audit-ID of its record.

    :raises WrongInput: the agent does not have one of them in this form, or the keys for it are not here.
    """
    shown = read_rights(target, agent)
    held = scopes_of(shown)
    for token in tokens:
        if token not in held:
            listed = f"It has {', '.join(held)}." if held else "It has none."
            raise WrongInput(f"{agent} does not have the scope {token}", listed)
    restated = restate(local_config(where), shown, [each for each in held if each not in tokens])
    given = {"subject": shown["agent_id"], **restated.parameters()}
    result = result_with_record(ask(target, "REVOKE", PATH, given))
    restated.write()
    return result
