"""``agtp agent``: the agents of a host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.agent.issue import new_command
from agtphost.cli.agent.lifecycle import COMMANDS
from agtphost.cli.agent.retained import retained_command
from agtphost.cli.audit.store import may_have_store, open_records
from agtphost.cli.cert.commands import describe
from agtphost.cli.configured import find_config, load_config
from agtphost.cli.exchange import ask
from agtphost.cli.failures import NoConnection, WrongInput
from agtphost.cli.identities import agent_directories
from agtphost.cli.options import EXISTING, Connection, connection_options, json_option
from agtphost.cli.output import print_json, print_summary, print_table
from agtphost.cli.target import resolve
from agtphost.identity import documents
from agtphost.identity.genesis import Genesis, GenesisError
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
    for directory in agent_directories(config):
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
    if not may_have_store(config):
        return {}
    with open_records(config) as reader:
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
@click.option("--html", type=EXISTING, metavar="FILE", help="Write a page for people to FILE instead.")
@connection_options
@json_option
def show(agent: str, uri: str | None, html: Path | None, where: Connection, as_json: bool) -> None:
    """
    Show an agent: identity, state, scopes, trust.

    \b
    Examples:
      agtp agent show demo
      agtp agent show demo --html demo.html
      agtp agent show librarian --uri agtp://agents.example.com --json
    """
    path = find_config(where) if uri is None else None
    if path is None:
        document = dict(ask(resolve(where, uri), "DESCRIBE", f"/agents/{_label(agent)}").document)
        if html is not None:
            _write_page(document, html, as_json)
            return
        print_json(document) if as_json else print_summary(document)
        return
    found = next((one for one in local_agents(load_config(path)) if agent in (one.name, one.agent_id)), None)
    if found is None:
        raise WrongInput(f"no agent is named {agent!r} here", "`agtp agent ls` lists them.")
    if html is not None:
        _write_page(documents.served(found.document, status=found.status), html, as_json)
        return
    fields = {**found.fields(), **_further(found)}
    if as_json:
        print_json({**fields, "document": found.document})
    else:
        print_summary(fields)


def _write_page(document: Mapping[str, Any], file: Path, as_json: bool) -> None:
    """The human-readable page of an Identity Document (core v08 section 6.3)."""
    from agtphost.identity.rendering import page

    try:
        file.write_text(page(document), encoding="utf-8")
    except OSError as error:
        raise WrongInput(f"{file} cannot be written: {error.strerror}") from None
    print_json({"file": str(file)}) if as_json else click.echo(f"wrote {file}")


def _label(agent: str) -> str:
    if not is_agent_name(agent):
        raise WrongInput(f"{agent[:64]!r} is neither a label nor an Agent-ID")
    return agent


def _further(agent: LocalAgent) -> dict[str, object]:
    """What the files besides the document say."""
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


command.add_command(new_command)
command.add_command(retained_command)
for _lifecycle_command in COMMANDS:
    command.add_command(_lifecycle_command)
