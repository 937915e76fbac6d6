"""The command ``agtp agent new``: issue an agent with the keys of a host (core v08 section 6.5.6)."""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.agent.admission import admit, require_no_standby, serves_here
from agtphost.cli.agent.unasked_scopes import confirm_unasked, on_terminal, unasked_scopes
from agtphost.cli.audit.store import may_have_store, open_records
from agtphost.cli.failures import CommandError, WrongInput
from agtphost.cli.genesis import tier_1_evidence
from agtphost.cli.host_config import require_config
from agtphost.cli.identities import agent_directories
from agtphost.cli.local_files import load_signing_key
from agtphost.cli.options import EXISTING, HOST_TOML, Connection, json_option
from agtphost.cli.output import print_json, print_note, print_summary
from agtphost.identity import files, issuance
from agtphost.identity.agent_files import DOCUMENT_SUFFIX, load_agents, pairs_in
from agtphost.identity.certificates import Authority, CertificateError
from agtphost.identity.extensions import ARCHETYPES
from agtphost.identity.genesis import Genesis
from agtphost.identity.packages import FAILURE, PackageError
from agtphost.identity.provisioning import (
    PRODUCTION_ZONE,
    AgentDescription,
    IssuedAgent,
    ProvisioningError,
    issue_agent,
    registrar_url,
    timestamp,
)
from agtphost.vocabulary import times
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.identifiers import is_agent_name, is_owner_id

if TYPE_CHECKING:
    from agtphost.config import Config
    from agtphost.identity.keys import VerifyingKey


@click.command("new")
@click.argument("name", metavar="NAME")
@click.option("--description", default="", metavar="TEXT", help="What the agent does, for people.")
@click.option("--owner", default=None, metavar="TEXT", help="Responsible person or organization; default: the host.")
@click.option("--owner-id", default=None, metavar="ID", help="Identifier of the owner; default: derived from --owner.")
@click.option(
    "--archetype", type=click.Choice(sorted(ARCHETYPES)), default="assistant", show_default=True, help="Kind of agent."
)
@click.option("--zone", default=None, metavar="ZONE", help="Governance zone, such as zone:sales.")
@click.option("--org-domain", default=None, metavar="DOMAIN", help="Domain of the agent's organization.")
@click.option("--scope", "scopes", multiple=True, metavar="TOKEN", help="A scope of the agent; may be repeated.")
@click.option("--hosted", is_flag=True, help="Issue an agent that this host serves, not a caller.")
@click.option("--package", type=EXISTING, metavar="FILE", help="A .agent or .nomo package that describes the agent.")
@click.option("--package-hash", metavar="HASH", help="Hash that the author published: sha256:...")
@click.option("--package-ca", type=EXISTING, metavar="FILE", help="Certificate authorities of .nomo authors, PEM.")
@click.option("--resolver", metavar="HOST[:PORT]", help="DNS resolver to ask; default: the system's.")
@click.option("--yes", is_flag=True, help="Do not ask about a scope that nothing here asks for.")
@click.option("--admit", "admitted", is_flag=True, help="Make the running host admit the agent now.")
@click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml, or its directory.")
@json_option
def new_command(
    name: str,
    hosted: bool,
    package: Path | None,
    package_hash: str | None,
    package_ca: Path | None,
    resolver: str | None,
    yes: bool,
    admitted: bool,
    config: Path | None,
    as_json: bool,
    **said: Any,
) -> None:
    """
    Issue an agent with this host's keys.

    Its Genesis and Identity Document are signed with the registrar's key. A caller also gets a key and a client
    certificate. The label must be free: no other agent may have it, or have had it within the last 90 days. A running
    host admits the agent on SIGHUP, which --admit sends, and records that it was issued; on a terminal you are asked. A
    scope that nothing of this host asks for is warned of, and on a terminal asked about.

    \b
    Examples:
      agtp agent new buyer --scope booking:* --scope mcp:tools:execute --owner "Example Ltd"
      agtp agent new visitor --scope mcp:tools:execute --admit
      agtp agent new desk --hosted --package desk.nomo --package-ca authors.pem
      agtp tools ls --as buyer
    """
    settings = require_config(Connection(config=config), "issuing an agent")
    registrar = load_signing_key(settings.host.state_dir / "registrar.key")
    parent = settings.identity.agents if hosted else settings.identity.known_agents
    if parent is None:
        raise WrongInput(
            "[identity] agents names no directory of hosted agents",
            'Write agents = "hosted" under [identity], or leave out --hosted.',
        )
    if not is_agent_name(name):
        raise WrongInput(
            f"the agent cannot be issued: {name[:80]!r} is not the name of an agent",
            "Give 1 to 64 letters, digits, '-' or '_'.",
        )
    if (parent / name).exists():
        raise WrongInput(f"{parent / name} exists", "An agent is issued only once: choose another name.")
    _require_free_label(settings, name)
    if admitted and not hosted:
        require_no_standby(settings)
    inspected = None if package is None else _inspect_package(package, package_hash, package_ca)
    described = (
        _describe_agent(name, said, settings)
        if inspected is None
        else _describe_packaged_agent(name, said, settings, inspected)
    )
    _require_domain(settings, described)
    if described.scopes:
        confirm_unasked(unasked_scopes(settings, described.scopes), yes=yes, question="Issue it all the same?")
    if described.trust_tier == 1:
        described = _add_evidence(described, registrar.public, resolver)
    issued = _issue(parent, described, registrar, settings, hosted=hosted)
    fields: dict[str, object] = {
        "name": name,
        "agent_id": issued.agent_id,
        "owner_id": described.owner_id,
        "directory": str(issued.directory),
        "certificate": str(issued.certificate) if issued.certificate.is_file() else None,
    }
    if inspected is not None:
        fields["package"] = inspected.evidence()
    if not as_json:
        # Before the host is asked: where that fails, the agent is issued all the same.
        print_summary(fields)
        if not (hosted or admitted) and on_terminal() and serves_here(settings):
            admitted = click.confirm("Make the running host admit it now, by a reload?", default=True, err=True)
    runs = not hosted and admitted and _admit(settings, fields)
    if as_json:
        print_json(fields)
        return
    if not hosted and fields["certificate"] is None:
        print_note("the authority's key is not here: make the certificate with `agtp cert issue agent`")
    if not runs:
        print_note("a running host admits it on `agtp reload`")


def _admit(config: Config, fields: Mapping[str, object]) -> bool:
    """
    Make a running host admit an agent that was issued just now; return whether one runs.

    :raises CommandError: it does not; the answer in JSON has the agent's fields.
    """
    try:
        return admit(config, str(fields["name"]))
    except CommandError as error:
        error.answer = {**fields, "error": error.message, "remedy": error.remedy, "exit_status": error.exit_code}
        raise


def issue_caller(config: Config, name: str, *, description: str, scopes: Sequence[str]) -> IssuedAgent:
    """
    Issue a caller for this host itself, under a free label.

    :raises agtphost.cli.failures.CommandError: the agent cannot be issued.
    """
    registrar = load_signing_key(config.host.state_dir / "registrar.key")
    _require_free_label(config, name)
    described = AgentDescription(name=name, description=description, scopes=scopes, **_owned_by_host(config))
    if authority_of(config) is None:
        raise WrongInput("the key of the authority is not here, so no certificate can be issued", "Name one with --as.")
    return _issue(config.identity.known_agents, described, registrar, config, hosted=False)


# Descriptions


def _add_evidence(described: AgentDescription, key: VerifyingKey, resolver: str | None) -> AgentDescription:
    """Return an agent of tier 1 with what its issuer looked at."""
    evidence = tier_1_evidence(
        described.verification_path,
        described.org_domain,
        described.governance_zone,
        key,
        resolver,
        timestamp(datetime.now(UTC)),
    )
    return replace(described, evidence=evidence)


def _owned_by_host(config: Config) -> dict[str, Any]:
    """Return the owner and the zone of an agent that is given neither; both are signed and published."""
    if config.host.development:
        return {}
    owner = config.host.server_id
    return {"principal": owner, "owner_id": _derive_owner_id(owner), "governance_zone": PRODUCTION_ZONE}


def _describe_agent(name: str, said: dict[str, Any], config: Config) -> AgentDescription:
    given = {
        "owner_id": said["owner_id"] or _derive_owner_id(said["owner"]),
        "principal": said["owner"],
        "governance_zone": said["zone"],
        "org_domain": said["org_domain"],
    }
    return AgentDescription(
        name=name,
        description=said["description"],
        archetype=said["archetype"],
        scopes=said["scopes"],
        **{**_owned_by_host(config), **{key: value for key, value in given.items() if value is not None}},
    )


def _derive_owner_id(owner: object) -> str | None:
    """
    Return the identifier of an owner for whom none is given: the owner's name, converted if necessary.

    :raises WrongInput: no character of the name may occur in an identifier.
    """
    if not isinstance(owner, str) or is_owner_id(owner):
        return owner if isinstance(owner, str) else None
    made = re.sub(r"[^a-z0-9]+", "-", owner.lower(), flags=re.ASCII).strip("-")
    if not is_owner_id(made):
        raise WrongInput(f"no identifier can be derived from the owner {owner!r}", "Give one with --owner-id.")
    return made


def _inspect_package(package: Path, expected_hash: str | None, authorities: Path | None) -> issuance.Inspected:
    from cryptography import x509

    try:
        trusted = [] if authorities is None else x509.load_pem_x509_certificates(authorities.read_bytes())
    except (OSError, ValueError) as error:
        raise WrongInput(
            f"{authorities} has no usable certificates: {explain(error)}",
            "Give the authorities of its author as PEM: --package-ca FILE.",
        ) from error
    try:
        return issuance.inspect_package(
            package, expected_hash=expected_hash, authorities=trusted, now=datetime.now(UTC)
        )
    except PackageError as error:
        raise WrongInput(f"the agent cannot be issued: {FAILURE}: {package}: {error}") from None


def _describe_packaged_agent(
    name: str, said: dict[str, Any], config: Config, package: issuance.Inspected
) -> AgentDescription:
    """Describe an agent by the manifest of its package."""
    twice = [option for option in ("description", "owner", "owner_id", "zone", "org_domain", "scopes") if said[option]]
    if twice:
        raise WrongInput(f"--package excludes --{twice[0].replace('_', '-')}", "The package's manifest has this value.")
    manifest = package.manifest
    if manifest.get("name") != name:
        raise WrongInput(
            f"the agent cannot be issued: the package is for an agent named {manifest.get('name')!r}, not {name!r}",
            "Issue it under the name in the package's manifest.",
        )
    wanted: dict[str, Any] = {
        "principal": manifest.get("principal"),
        "owner_id": manifest.get("owner_id")
        or manifest.get("principal_id")
        or _derive_owner_id(manifest.get("principal")),
        "governance_zone": manifest.get("governance_zone"),
        "org_domain": manifest.get("org_domain"),
        "trust_tier": manifest.get("trust_tier"),
        "verification_path": manifest.get("verification_path"),
    }
    granted = manifest.get("scopes_accepted", [])
    return AgentDescription(
        name=name,
        archetype=said["archetype"],
        scopes=tuple(str(token) for token in granted) if isinstance(granted, list) else (),
        package=package,
        **{**_owned_by_host(config), **{key: value for key, value in wanted.items() if value is not None}},
    )


# Requirements


def _require_free_label(config: Config, name: str) -> None:
    """Require that no agent has the label, nor had it within the last 90 days (core v08 section 6.5)."""
    for directory in agent_directories(config):
        taken = {label for label, _, _ in pairs_in(directory)} if directory.is_dir() else set()
        if name in taken:
            raise WrongInput(
                f"the agent cannot be issued: {directory} has an agent named {name}",
                f"A label names one agent: choose another name. {DOCUMENT_SUFFIX} files count, too.",
            )
    if not may_have_store(config):
        return
    from agtphost.audit.retention import RETAINED, free_at

    with open_records(config) as reader:
        for value in reader.state_items(RETAINED):
            if value["label"] == name and time.time() < (free := free_at(value)):
                raise WrongInput(
                    f"the agent cannot be issued: {name} was the label of an agent that ended on {value['ended_at']}",
                    f"The label is free from {times.stamp(free)} on. Choose another name.",
                )


def _require_domain(config: Config, described: AgentDescription) -> None:
    """Require that the agent's domain neither expired nor belongs to another owner (core v08 section 11.8)."""
    if described.org_domain is None or not may_have_store(config):
        return
    from agtphost.audit.domains import ORG_DOMAIN, OrgDomain

    with open_records(config) as reader:
        for value in reader.state_items(ORG_DOMAIN):
            told = OrgDomain.from_item(value)
            if told.covers(described.org_domain.lower()) and told.withholds(described.owner_id, time.time()):
                raise WrongInput(
                    f"the agent cannot be issued: {told.domain} expired or belongs to another owner now",
                    "`agtp domain ls` shows the state of domains on this host.",
                )


# Issuing


def _issue(parent: Path, described: AgentDescription, registrar: Any, config: Config, *, hosted: bool) -> IssuedAgent:
    """
    Write all files of the agent, or none.

    The files are written in a temporary directory and checked as the host would check them; one rename publishes them.
    """
    aside = parent / f".{described.name}.{secrets.token_hex(8)}"
    try:
        made = issue_agent(
            aside / described.name,
            described,
            registrar,
            issuer=registrar_url(config.host.server_id),
            authority=None if hosted else authority_of(config),
        )
        genesis = Genesis.load(made.genesis.read_bytes())
        statement = issuance.state(
            genesis,
            registrar,
            label=described.name,
            issued_at=timestamp(datetime.now(UTC)),
            package=described.package,
        )
        files.write_once(made.directory / issuance.STATEMENT, statement, files.PUBLIC)
        _, problems = load_agents(aside, hosted=hosted, production=False, trusted_issuers=())
        if problems:
            raise ProvisioningError("; ".join(problem.message for problem in problems))
        target = parent / described.name
        made.directory.rename(target)
    except (ProvisioningError, OSError) as error:
        raise WrongInput(f"the agent cannot be issued: {explain(error)}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return IssuedAgent(agent_id=made.agent_id, directory=target)


def authority_of(config: Config) -> Authority | None:
    """Return the authority that signs client certificates, or None if its key is not here."""
    certificate = config.tls.client_ca
    key = certificate.with_suffix(".key")
    if not (certificate.is_file() and key.is_file()):
        return None
    try:
        return Authority.load(certificate, key)
    except CertificateError as error:
        raise WrongInput(str(error)) from None
