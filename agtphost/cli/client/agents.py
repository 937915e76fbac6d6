"""An agent for one entry of one MCP client: with the scopes of what is connected, and no others."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from agtphost.cli.agent.granting import PATH as GRANTS
from agtphost.cli.agent.issue import issue_caller
from agtphost.cli.audit.store import may_have_store, open_records
from agtphost.cli.exchange import ask
from agtphost.cli.failures import CommandError, NoConnection, WrongInput, local_file, misconfigured
from agtphost.cli.identities import LocalAgent, local_agents
from agtphost.cli.options import Connection
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.errors import ConfigurationError
from agtphost.identity import files

if TYPE_CHECKING:
    from agtphost.config import Config, MCPServerSection

MADE_FOR = "clients"
"""In the state directory: a file for each such agent, with what it was made for."""

_SPELLINGS = 100


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """What an agent is made for: nobody else is to use it, and it ends with this."""

    client: str
    file: str
    entry: str

    def of(self, config: Config, name: str) -> bool:
        """Whether that agent was made for this."""
        try:
            return bool(json.loads(_note(config, name).read_bytes()) == asdict(self))
        except (OSError, ValueError):
            return False


def _note(config: Config, name: str) -> Path:
    return config.host.state_dir / MADE_FOR / f"{name}.json"


def scopes_for(config: Config, server: str | None, *, dry: bool) -> tuple[str, ...]:
    """
    What it takes to use one MCP server of a host, or all of them and the host's own endpoints.

    :param dry: make nothing that is missing.
    :raises CommandError: there is no such server, or the host could not start.
    """
    from agtphost.config import load
    from agtphost.config.reading import STATE_VARIABLE
    from agtphost.host.loaded import load_host

    known = {each.name: each for each in config.mcp.server}
    if server is not None and server not in known:
        listed = f"It has: {', '.join(known)}." if known else "It has none."
        raise WrongInput(f"the host has no MCP server {server!r}", listed)
    try:
        with tempfile.TemporaryDirectory() as aside:
            # A development host that was never started makes its keys; where nothing is to be changed, elsewhere.
            environ = {**os.environ, STATE_VARIABLE: aside} if dry else os.environ
            loaded = load_host(load(config.file, environ), os.environ)
    except ConfigurationError as error:
        raise misconfigured(error) from None
    if server is not None:
        return tuple(sorted(_of_server(known[server])))
    needed = chain.from_iterable(_of_server(each) for each in known.values())
    return tuple(sorted({*needed, *chain.from_iterable(each.required_scopes for each in loaded.endpoints)}))


def _of_server(server: MCPServerSection) -> set[str]:
    rules = [*server.tools.values(), *server.resources.values(), *server.prompts.values()]
    own: Iterable[str] = chain.from_iterable(rule.scopes or () for rule in rules if rule.enabled)
    return {*server.scopes, *server.resource_scopes, *server.prompt_scopes, *own}


def stopped(config: Config, agent: LocalAgent) -> bool:
    """Whether the store says that it was suspended or ended."""
    if not may_have_store(config):
        return False
    with open_records(config) as reader:
        state = reader.lifecycle_states().get(agent.agent_id)
    return state is not None and state.status not in ("active", "deprecated")


def found(config: Config, name: str) -> LocalAgent | None:
    """The caller of that label."""
    return next((agent for agent in local_agents(config) if agent.name == name and not agent.hosted), None)


def agent_for(config: Config, purpose: Purpose, scopes: tuple[str, ...], *, dry: bool) -> tuple[str, bool]:
    """
    The label of an agent with exactly these scopes that serves nothing else; it is issued where there is none yet.

    :param dry: only tell which it would be.
    :return: the label, and whether it is new.
    :raises CommandError: it cannot be issued.
    """
    base = purpose.client if purpose.entry == "agtp" else f"{purpose.client}-{purpose.entry}"
    ended = _ended(config)
    for number in count(1):
        name = base if number == 1 else f"{base}-{number}"
        agent = found(config, name)
        if agent is not None:
            same = purpose.of(config, name) and agent.scopes == sorted(scopes)
            if same and not stopped(config, agent):
                return name, False
        elif name not in ended:
            break
        if number > _SPELLINGS:
            raise WrongInput(f"{base} and many like it are taken", "Name an agent by --as.")
    if not dry:
        issue(config, name, purpose, scopes)
    return name, True


def issue(config: Config, name: str, purpose: Purpose, scopes: tuple[str, ...]) -> None:
    """:raises CommandError: it cannot be issued."""
    issue_caller(config, name, description=f"The MCP client {purpose.client}.", scopes=scopes)
    note = _note(config, name)
    with local_file(doing="written"):
        files.make_directory(note.parent)
        files.replace(note, json.dumps(asdict(purpose)).encode(), files.PRIVATE)


def _ended(config: Config) -> set[str]:
    """Labels of agents that were revoked: not to be had again for a while."""
    if not may_have_store(config):
        return set()
    from agtphost.audit.retention import RETAINED

    with open_records(config) as reader:
        return {str(value["label"]) for value in reader.state_items(RETAINED)}


def narrow(config: Config, name: str, server: str) -> None:
    """
    Grant an agent of a running host one MCP server, and so nothing else.

    :raises CommandError: the host does not.
    """
    given = {"subject": name, "resource": [f"{server}.*"], "scope": "call"}
    ask(resolve(Connection(config=config.file), identity=REGISTRAR), "AUTHORIZE", GRANTS, given)


def retire(config: Config, name: str, purpose: Purpose) -> str:
    """
    End an agent that was made for an entry.

    :return: what became of it, as a sentence; empty where it was not made for this entry.
    """
    agent = found(config, name)
    if agent is None or not purpose.of(config, name):
        return ""
    if stopped(config, agent):
        return f"the agent {name} had ended before"
    given = {"agent_id": agent.agent_id, "reason": f"disconnected from {purpose.client}"}
    try:
        ask(resolve(Connection(config=config.file), identity=REGISTRAR), "REVOKE", "/", given)
    except NoConnection:
        return f"the agent {name} is still there: start the host, then agtp agent revoke {name} --reason disconnected"
    except CommandError as error:
        return f"the agent {name} is still there: {error.message}"
    return f"the agent {name} is revoked"
