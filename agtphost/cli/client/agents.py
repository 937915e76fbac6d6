"""Agents for entries of MCP clients, with only the scopes that the connected servers require."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from agtphost.cli.agent.issue import issue_caller
from agtphost.cli.agent.rights_requests import PATH as GRANTS
from agtphost.cli.audit.store import may_have_store, open_records
from agtphost.cli.exchange import ask
from agtphost.cli.failures import CommandError, NoConnection, WrongInput, configuration_error, local_file
from agtphost.cli.identities import LocalAgent, local_agents
from agtphost.cli.options import Connection
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.errors import ConfigurationError
from agtphost.identity import files

if TYPE_CHECKING:
    from agtphost.config import Config, MCPServerSection

MADE_FOR = "clients"
"""Directory in the state directory, with one file for each such agent that states its purpose."""

_SPELLINGS = 100


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """The single entry that an agent was made for; the agent ends with the entry."""

    client: str
    file: str
    entry: str

    def matches(self, config: Config, name: str) -> bool:
        """Return whether the agent with that name was made for this entry."""
        try:
            return bool(json.loads(_purpose_file(config, name).read_bytes()) == asdict(self))
        except (OSError, ValueError):
            return False


def _purpose_file(config: Config, name: str) -> Path:
    return config.host.state_dir / MADE_FOR / f"{name}.json"


def scopes_for(config: Config, server: str | None, *, dry: bool) -> tuple[str, ...]:
    """
    Return the scopes for one MCP server of a host, or for all of them and the host's own endpoints.

    :param dry: do not create missing files.
    :raises CommandError: the host has no such server, or could not start.
    """
    from agtphost.config import load
    from agtphost.config.loader import STATE_VARIABLE
    from agtphost.host.host_loader import load_host

    known = {each.name: each for each in config.mcp.server}
    if server is not None and server not in known:
        listed = f"Choose one of: {', '.join(known)}." if known else "It has no MCP servers."
        raise WrongInput(f"the host has no MCP server {server!r}", listed)
    try:
        with tempfile.TemporaryDirectory() as aside:
            # Loading a development host creates missing keys; a dry run creates them in a temporary directory.
            environ = {**os.environ, STATE_VARIABLE: aside} if dry else os.environ
            loaded = load_host(load(config.file, environ), os.environ)
    except ConfigurationError as error:
        raise configuration_error(error) from None
    if server is not None:
        return tuple(sorted(_of_server(known[server])))
    needed = chain.from_iterable(_of_server(each) for each in known.values())
    return tuple(sorted({*needed, *chain.from_iterable(each.required_scopes for each in loaded.endpoints)}))


def _of_server(server: MCPServerSection) -> set[str]:
    rules = [*server.tools.values(), *server.resources.values(), *server.prompts.values()]
    own: Iterable[str] = chain.from_iterable(rule.scopes or () for rule in rules if rule.enabled)
    return {*server.scopes, *server.resource_scopes, *server.prompt_scopes, *own}


def is_stopped(config: Config, agent: LocalAgent) -> bool:
    """Return whether the store has the agent as suspended, revoked or otherwise ended."""
    if not may_have_store(config):
        return False
    with open_records(config) as reader:
        state = reader.lifecycle_states().get(agent.agent_id)
    return state is not None and state.status not in ("active", "deprecated")


def find_caller(config: Config, name: str) -> LocalAgent | None:
    """Return the caller with that label, or None."""
    return next((agent for agent in local_agents(config) if agent.name == name and not agent.hosted), None)


def agent_for(config: Config, purpose: Purpose, scopes: tuple[str, ...], *, dry: bool) -> tuple[str, bool]:
    """
    Return the label of an agent with exactly these scopes and this purpose; issue one if necessary.

    :param dry: only return the label that it would have.
    :return: the label, and whether the agent is new.
    :raises CommandError: the agent cannot be issued.
    """
    base = purpose.client if purpose.entry == "agtp" else f"{purpose.client}-{purpose.entry}"
    ended = _ended_labels(config)
    for number in count(1):
        name = base if number == 1 else f"{base}-{number}"
        agent = find_caller(config, name)
        if agent is not None:
            same = purpose.matches(config, name) and agent.scopes == sorted(scopes)
            if same and not is_stopped(config, agent):
                return name, False
        elif name not in ended:
            break
        if number > _SPELLINGS:
            raise WrongInput(f"the names {base} to {base}-{number} are taken", "Name an agent with --as.")
    if not dry:
        issue(config, name, purpose, scopes)
    return name, True


def issue(config: Config, name: str, purpose: Purpose, scopes: tuple[str, ...]) -> None:
    """
    Issue an agent for a client's entry, and record its purpose.

    :raises CommandError: the agent cannot be issued.
    """
    issue_caller(config, name, description=f"The MCP client {purpose.client}.", scopes=scopes)
    note = _purpose_file(config, name)
    with local_file(doing="written"):
        files.make_directory(note.parent)
        files.replace(note, json.dumps(asdict(purpose)).encode(), files.PRIVATE)


def _ended_labels(config: Config) -> set[str]:
    """Return the labels of agents that were revoked; they are reserved for some time."""
    if not may_have_store(config):
        return set()
    from agtphost.audit.retention import RETAINED

    with open_records(config) as reader:
        return {str(value["label"]) for value in reader.state_items(RETAINED)}


def narrow(config: Config, name: str, server: str) -> None:
    """
    Grant an agent of a running host one MCP server, and thus nothing else.

    :raises CommandError: the host refuses.
    """
    given = {"subject": name, "resource": [f"{server}.*"], "scope": "call"}
    ask(resolve(Connection(config=config.file), identity=REGISTRAR), "AUTHORIZE", GRANTS, given)


def retire(config: Config, name: str, purpose: Purpose) -> str:
    """
    Revoke an agent that was made for an entry.

    :return: the result as a sentence; empty if the agent was not made for this entry.
    """
    agent = find_caller(config, name)
    if agent is None or not purpose.matches(config, name):
        return ""
    if is_stopped(config, agent):
        return f"the agent {name} had already ended"
    given = {"agent_id": agent.agent_id, "reason": f"disconnected from {purpose.client}"}
    try:
        ask(resolve(Connection(config=config.file), identity=REGISTRAR), "REVOKE", "/", given)
    except NoConnection:
        return f"the agent {name} was not revoked: start the host, then agtp agent revoke {name} --reason disconnected"
    except CommandError as error:
        return f"the agent {name} was not revoked: {error.message}"
    return f"the agent {name} is revoked"
