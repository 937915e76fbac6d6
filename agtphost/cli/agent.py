"""``agtp agent``: agents and their lifecycle (core v08 sections 7.2.14 to 7.2.19)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli import reach as whereabouts
from agtphost.cli.exchange import ask, result_of
from agtphost.cli.failures import NoConnection, WrongInput
from agtphost.cli.options import Connection, connection_options, json_option
from agtphost.cli.output import print_json, print_summary, print_table
from agtphost.cli.reach import REGISTRAR, agent_id_of, find_config, load_config, require_config, resolve
from agtphost.cli.tools import host_option
from agtphost.identity import documents
from agtphost.identity.extensions import ARCHETYPES
from agtphost.vocabulary.identifiers import is_agent_name

if TYPE_CHECKING:
    from agtphost.config import Config


@click.group()
def command() -> None:
    """
    Agents and their lifecycle.

    AGENT is a label of this host's agents, or an Agent-ID.
    """


# Listing


@dataclass(frozen=True, kw_only=True)
class LocalAgent:
    """An agent whose files lie with this host."""

    name: str
    directory: Path
    hosted: bool
    document: Mapping[str, Any]
    status: str

    @property
    def agent_id(self) -> str:
        """The canonical Agent-ID."""
        return str(self.document.get("agent_id", ""))

    @property
    def kind(self) -> str:
        """``hosted``: this host answers for it; ``caller``: it is admitted as one."""
        return "hosted" if self.hosted else "caller"

    @property
    def scopes(self) -> list[str]:
        """What it declares, sorted."""
        return sorted(documents.declared_scopes(self.document))

    def fields(self) -> dict[str, object]:
        """What a list shows, by name."""
        return {
            "name": self.name,
            "agent_id": self.agent_id,
            "kind": self.kind,
            "status": self.status,
            "scopes": self.scopes,
        }


def local_agents(config: Config) -> Iterator[LocalAgent]:
    """Every agent with a document here, with the state that the store has for it."""
    states = stored_states(config)
    seen: set[str] = set()
    for directory in whereabouts.agent_directories(config):
        if not directory.is_dir():
            continue
        for entry in sorted(directory.iterdir()):
            file = entry / "document.json"
            if not file.is_file() or entry.name in seen:
                continue
            seen.add(entry.name)
            try:
                document = documents.decode(file.read_bytes())
                stated = documents.status_of(document)
            except (documents.DocumentError, OSError) as error:
                raise WrongInput(f"{file} cannot be read: {error}") from None
            yield LocalAgent(
                name=entry.name,
                directory=entry,
                hosted=directory != config.identity.known_agents,
                document=document,
                status=states.get(str(document.get("agent_id")), stated),
            )


def stored_states(config: Config) -> dict[str, str]:
    """Agent-ID to lifecycle state, as the host's store has it; empty before the first start."""
    from agtphost.cli.audit_store import open_records

    if not config.store.path.is_file():
        return {}
    with open_records(config.store.path) as reader:
        return {agent_id: row.status for agent_id, row in reader.lifecycle_states().items()}


@command.command()
@click.option("--uri", metavar="URI", help="List the agents of this host instead.")
@connection_options
@json_option
def ls(uri: str | None, where: Connection, as_json: bool) -> None:
    """
    List agents.

    Those whose files the configured host has, or those that another host discloses.

    \b
    Examples:
      agtp agent ls
      agtp agent ls --uri agtp://agents.example.com
    """
    path = find_config(where) if uri is None else None
    if path is None:
        _list_remote(where, uri, as_json)
        return
    agents = list(local_agents(load_config(path)))
    if as_json:
        print_json([agent.fields() for agent in agents])
        return
    print_table(
        ("NAME", "AGENT-ID", "KIND", "STATUS", "SCOPES"),
        ((one.name, one.agent_id, one.kind, one.status, ", ".join(one.scopes)) for one in agents),
    )


def _list_remote(where: Connection, uri: str | None, as_json: bool) -> None:
    listed = ask(resolve(where, uri), "DISCOVER", "/agents").result
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise NoConnection("the answer is not a list of agents", "Is this an AGTP host of the same version?")
    if as_json:
        print_json(listed)
        return
    columns = ("name", "agent_id", "trust_tier", "description")
    print_table(
        [column.upper().replace("_", "-") for column in columns],
        ([entry.get(column) for column in columns] for entry in listed),
    )


@command.command()
@click.argument("agent", metavar="AGENT")
@click.option("--uri", metavar="URI", help="Ask this host instead of reading the configured one's files.")
@connection_options
@json_option
def show(agent: str, uri: str | None, where: Connection, as_json: bool) -> None:
    """
    Show an agent: identity, state, scopes, trust.

    \b
    Examples:
      agtp agent show demo
      agtp agent show librarian --uri agtp://agents.example.com --json
    """
    path = find_config(where) if uri is None else None
    if path is None:
        document = dict(ask(resolve(where, uri), "DESCRIBE", f"/agents/{_label(agent)}").document)
        print_json(document) if as_json else print_summary(document)
        return
    found = next((one for one in local_agents(load_config(path)) if agent in (one.name, one.agent_id)), None)
    if found is None:
        raise WrongInput(f"no agent is named {agent!r} here", "`agtp agent ls` lists them.")
    fields = {**found.fields(), **_further(found)}
    if as_json:
        print_json({**fields, "document": found.document})
    else:
        print_summary(fields)


def _label(agent: str) -> str:
    if not is_agent_name(agent):
        raise WrongInput(f"{agent[:64]!r} is neither a label nor an Agent-ID")
    return agent


def _further(agent: LocalAgent) -> dict[str, object]:
    """What the files besides the document say."""
    from agtphost.cli.cert import describe
    from agtphost.identity.genesis import Genesis, GenesisError

    fields: dict[str, object] = {
        "description": agent.document.get("description"),
        "principal": agent.document.get("principal"),
        "trust_tier": agent.document.get("trust_tier"),
        "verification_path": agent.document.get("verification_path"),
        "directory": str(agent.directory),
    }
    origin = agent.directory / "genesis.json"
    if origin.is_file():
        try:
            fields["issuer_fingerprint"] = Genesis.load(origin.read_bytes()).issuer_fingerprint
        except GenesisError as error:
            raise WrongInput(f"{origin} is not a Genesis to be believed: {error}") from None
    certificate = agent.directory / "agent.pem"
    if certificate.is_file():
        fields["certificate_expires"] = describe(certificate)["not_after"]
    return fields


# Making


@command.command()
@click.argument("name", metavar="NAME")
@click.option("--description", default="", help="What it does, for people.")
@click.option("--owner", default=None, metavar="TEXT", help="The responsible person or organization.")
@click.option("--owner-id", default=None, metavar="ID", help="The same for machines.")
@click.option(
    "--archetype", type=click.Choice(sorted(ARCHETYPES)), default="assistant", show_default=True, help="Kind."
)
@click.option("--zone", default=None, metavar="ZONE", help="Governance zone, such as zone:sales.")
@click.option("--scope", "scopes", multiple=True, metavar="TOKEN", help="What it may do; may be repeated.")
@click.option("--hosted", is_flag=True, help="An agent that this host answers for, not a caller.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="The host.toml.")
@json_option
def new(
    name: str,
    description: str,
    owner: str | None,
    owner_id: str | None,
    archetype: str,
    zone: str | None,
    scopes: tuple[str, ...],
    hosted: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """
    Issue an agent with this host's keys.

    Its Genesis and Identity Document are signed with the registrar's key; a
    caller gets a key and a client certificate besides. The host admits it once
    it is restarted.

    \b
    Examples:
      agtp agent new buyer --scope booking:* --scope mcp:tools:execute --owner "Example Ltd"
      agtp tools ls --as buyer
    """
    from agtphost.cli.key import load_signing_key
    from agtphost.identity.provisioning import AgentDescription, ProvisioningError, issue_agent

    settings = require_config(Connection(config=config), "issuing an agent")
    registrar = load_signing_key(settings.host.state_dir / "registrar.key")
    parent = settings.identity.agents if hosted else settings.identity.known_agents
    if parent is None:
        raise WrongInput("[identity] agents names no directory of hosted agents")
    if not is_agent_name(name):
        raise WrongInput("the agent cannot be issued: a name is 1 to 64 letters, digits, '-' or '_'")
    if (parent / name).exists():
        raise WrongInput(f"{parent / name} exists", "An agent is never issued again: choose another name.")
    given = {"owner_id": owner_id or owner, "principal": owner, "governance_zone": zone}
    described = AgentDescription(
        name=name,
        description=description,
        archetype=archetype,
        scopes=scopes,
        **{key: value for key, value in given.items() if value is not None},  # type: ignore[arg-type]
    )
    try:
        issued = issue_agent(
            parent / name,
            described,
            registrar,
            issuer=f"registrar.{settings.host.server_id}",
            authority=None if hosted else _authority(settings),
        )
    except (ProvisioningError, OSError) as error:
        with contextlib.suppress(OSError):  # Only an empty directory goes.
            (parent / name).rmdir()
        raise WrongInput(f"the agent cannot be issued: {error}") from None
    fields: dict[str, object] = {
        "name": name,
        "agent_id": issued.agent_id,
        "directory": str(issued.directory),
        "certificate": str(issued.certificate) if issued.certificate.is_file() else None,
    }
    if as_json:
        print_json(fields)
        return
    print_summary(fields)
    if not hosted and fields["certificate"] is None:
        click.echo("the authority's key is not here: `agtp cert issue agent` makes the certificate", err=True)
    click.echo("restart the host to admit it", err=True)


def _authority(config: Config) -> Any:
    from agtphost.identity.certificates import Authority, CertificateError

    certificate = config.tls.client_ca
    key = certificate.with_suffix(".key")
    if not (certificate.is_file() and key.is_file()):
        return None
    try:
        return Authority.load(certificate, key)
    except CertificateError as error:
        raise WrongInput(str(error)) from None


# Lifecycle

_SUMMARIES = {
    "activate": "Let an agent serve and call.",
    "deactivate": "Suspend an agent until it is reinstated.",
    "reinstate": "Bring a suspended or deprecated agent back.",
    "revoke": "Retire an agent for ever.",
    "deprecate": "Announce that an agent will go; it serves on.",
}


def _change(verb: str, agent: str, uri: str, where: Connection, as_json: bool, given: dict[str, Any]) -> None:
    parameters = {name: value for name, value in given.items() if value is not None}
    if "successor_agent_id" in parameters:
        parameters["successor_agent_id"] = agent_id_of(where, parameters["successor_agent_id"])
    target = agent_id_of(where, agent)
    reach = resolve(where, uri, identity=REGISTRAR)
    reply = ask(reach, verb.upper(), "/", {"agent_id": target, **parameters})
    result = dict(result_of(reply))
    if as_json:
        print_json(result)
        return
    if result.get("noop"):
        click.echo(f"{agent} is {result.get('status')} already; nothing changed")
        return
    print_summary(result)


def _options(verb: str) -> list[Callable[[Any], Any]]:
    reason = click.option(
        "--reason", required=verb == "revoke", metavar="TEXT", help="Goes into the signed event."
    )
    options = [click.argument("agent", metavar="AGENT"), reason]
    options.append(click.option("--actor", metavar="TEXT", help="Who decided; goes into the signed event."))
    if verb == "deprecate":
        options.append(
            click.option("--successor", "successor_agent_id", metavar="AGENT", help="Who takes over.")
        )
        options.append(
            click.option("--deadline", "migration_deadline", metavar="TIME", help="RFC 3339: until when.")
        )
    return [*options, host_option, connection_options, json_option]


def _verb(verb: str) -> click.Command:
    def run(agent: str, uri: str, where: Connection, as_json: bool, **given: Any) -> None:
        _change(verb, agent, uri, where, as_json, given)

    run.__doc__ = (
        f"{_SUMMARIES[verb]}\n\n"
        "Needs the client certificate of the agent's Genesis issuer: the configured host's\n"
        "registrar, unless --cert names another. Holds from the agent's next request.\n\n"
        f"\b\nExample:\n  agtp agent {verb} demo --reason planned"
    )
    decorated: Any = run
    for option in reversed(_options(verb)):
        decorated = option(decorated)
    made: click.Command = click.command(verb)(decorated)
    return made


for _name in _SUMMARIES:
    command.add_command(_verb(_name))
