"""Agents whose files are on this machine, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agtphost.cli.failures import CommandError, WrongInput
from agtphost.cli.host_config import (
    AGENT_FILES,
    STATE_FILES,
    find_config,
    load_usable_config,
    read_config,
    recall_faulty,
    warn_of_faults,
)
from agtphost.cli.options import Connection
from agtphost.cli.output import print_note
from agtphost.vocabulary.display_names import find_shared_names, split_told_apart, tell_apart
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.identifiers import is_agent_id, is_agent_name

if TYPE_CHECKING:
    from agtphost.config import Config

MOST_NAMED = 10
"""Names of agents that a message lists."""


def agent_id_of(where: Connection, agent: str) -> str:
    """
    Return the Agent-ID of an agent given by its Agent-ID, or by its label in the state directory.

    Where a fault of ``host.toml`` hides files of agents, the running host is asked for the label.

    :raises agtphost.cli.failures.CommandError: the label is not known here, or several agents have it.
    """
    if is_agent_id(agent):
        return agent
    path = find_config(where)
    if path is None:
        raise WrongInput(
            f"{agent!r} is not an Agent-ID, and without a host.toml labels are not known",
            "Give 64 hexadecimal digits, or add --config host.toml.",
        )
    reading = read_config(path, warn=False)
    config = find_agent_config(path)
    if config is None and all(map(reading.is_known, STATE_FILES)):
        config = reading.config  # Agents that a fault hides are found at the running host alone.
    found = None if config is None else find_named(config, agent)
    if found is not None:
        warn_of_faults(path, reading)
        return found.agent_id
    if not all(map(reading.is_known, AGENT_FILES)):
        if (running := _ask_running_host(where, agent)) is not None:
            return running
        load_usable_config(path, *AGENT_FILES, remedy="Or give the Agent-ID: 64 hexadecimal digits.")
    names = [] if config is None else [one.name for one in local_agents(config)]
    raise WrongInput(f"no agent is named {agent!r} here", suggest_name(agent, names))


def suggest_name(agent: str, names: Sequence[str]) -> str:
    """Return what to write in place of a name that no agent has: the closest one, or any where there are few."""
    from agtphost.audit.filters.record_filter import close_names

    if not names:
        return "Start the host once."
    if close := close_names(agent.lower(), names):
        return f"Did you mean {close[0]}? `agtp agent ls` lists all."
    few = len(names) <= MOST_NAMED
    return f"Choose one of: {', '.join(names)}." if few else "`agtp agent ls` lists the agents."


def name_at_host(where: Connection, agent: str) -> str:
    """
    Return a name by which the host knows an agent: its Agent-ID where ``agent`` is only the name of its directory.

    Any other name is returned as it is, since the host may know agents that have no files here.

    :raises agtphost.cli.failures.WrongInput: several agents have the name.
    """
    path = find_config(where) if where.host_uri == Connection.host_uri else None
    config = None if path is None else read_config(path, warn=False).config
    found = None if config is None or is_agent_id(agent) else find_named(config, agent)
    return agent if found is None or agent == found.document.get("name") else found.agent_id


def _ask_running_host(where: Connection, label: str) -> str | None:
    """Return the Agent-ID of an agent that the running host lists, with a note; None if it lists no such agent."""
    from agtphost.cli.agent.rights_requests import ANSWER_SECONDS, list_admitted
    from agtphost.cli.exchange import open_client
    from agtphost.cli.target import resolve
    from agtphost.client.local_identities import REGISTRAR

    try:
        target = replace(resolve(where, identity=REGISTRAR), timeout=ANSWER_SECONDS)
        with open_client(target) as client:
            found = [str(each.get("agent_id")) for each in list_admitted(client, target) if each.get("name") == label]
    except CommandError:
        return None
    if len(found) > 1:
        raise WrongInput(f"the running host has {len(found)} agents named {label!r}", f"Choose: {', '.join(found)}.")
    if not found or not is_agent_id(found[0]):
        return None
    print_note(f"note: {label} is {found[0]}, as the running host lists it; the fault hides its files")
    return found[0]


def labels(where: Connection) -> dict[str, str]:
    """
    Return names by Agent-ID for agents in the configured host's files; empty where none is known.

    Names that several of them have are followed by the beginning of the Agent-ID.
    """
    path = find_config(where)
    if path is None:
        return {}
    config = find_agent_config(path)
    if config is None:
        read_config(path)
    return {} if config is None else display_names(local_agents(config))


def find_agent_config(path: Path) -> Config | None:
    """
    Return a configuration that says where the files of agents are; None if a fault hides that.

    What a fault hides is taken from the last reading without one, but for ``[identity] agents``.
    """
    found = read_config(path, warn=False)
    if all(map(found.is_known, AGENT_FILES)):
        warn_of_faults(path, found)
        return found.config
    last, config = recall_faulty(path, found), found.config
    if last is None:
        return None
    host = config.host.model_copy(update={"state_dir": last.state_dir})
    identity = config.identity.model_copy(update={"known_agents": last.known_agents})
    tls = config.tls.model_copy(update={"client_ca": last.client_ca})
    return config.model_copy(update={"host": host, "identity": identity, "tls": tls})


@dataclass(frozen=True, kw_only=True)
class LocalAgent:
    """An agent whose files are stored with this host."""

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
        """``hosted`` if this host serves the agent; ``caller`` if it is admitted as a caller."""
        return "hosted" if self.hosted else "caller"

    @property
    def scopes(self) -> list[str]:
        """The scopes that the agent's document declares, sorted."""
        from agtphost.identity import documents

        return sorted(documents.declared_scopes(self.document))

    def fields(self) -> dict[str, object]:
        """Return the fields of a list entry."""
        return {
            "name": self.name,
            "agent_id": self.agent_id,
            "kind": self.kind,
            "status": self.status,
            "scopes": self.scopes,
        }


def local_agents(config: Config) -> Iterator[LocalAgent]:
    """Yield every agent whose files are stored with this host; of several directories of one agent, the first."""
    seen: set[str] = set()
    for agent in _read_agents(config):
        if agent.agent_id not in seen:
            seen.add(agent.agent_id)
            yield agent


def display_names(agents: Iterable[LocalAgent]) -> dict[str, str]:
    """Return the names of agents for lists, by Agent-ID."""
    names = {each.agent_id: each.name for each in agents}
    shared = find_shared_names(names)
    return {agent_id: tell_apart(name, agent_id, shared.get(agent_id, 0)) for agent_id, name in names.items()}


def find_named(config: Config, name: str) -> LocalAgent | None:
    """
    Return the agent whose files are stored with this host under a name, or whose label it is; None if there is none.

    :param name: an Agent-ID is a name, too; so is what lists show of a name that several agents have.
    :raises agtphost.cli.failures.WrongInput: several agents have the name; a command for one must not reach another.
    """
    label, digits = split_told_apart(name)
    found = {
        one.agent_id: one
        for one in reversed(list(_read_agents(config)))
        if label in (one.name, one.agent_id, one.document.get("name")) and one.agent_id.startswith(digits)
    }
    if len(found) > 1:
        choices = ", ".join(f"{each.agent_id} ({each.directory})" for each in found.values())
        raise WrongInput(f"{len(found)} agents have the name {name!r}", f"Give the Agent-ID of one of them: {choices}.")
    return next(iter(found.values()), None)


def _read_agents(config: Config) -> Iterator[LocalAgent]:
    from agtphost.identity import documents

    for directory in agent_directories(config):
        for entry in sorted(directory.iterdir()) if directory.is_dir() else ():
            file = entry / "document.json"
            if not file.is_file() or not is_agent_name(entry.name):
                continue
            try:
                document = documents.decode(file.read_bytes())
                status = documents.status_of(document)
            except (documents.DocumentError, OSError) as error:
                raise WrongInput(f"{file} cannot be read: {explain(error)}") from error
            if not is_agent_id(str(document.get("agent_id"))):
                raise WrongInput(f"{file} has no valid agent_id", "Issue the agent again, or restore its files.")
            hosted = directory != config.identity.known_agents
            yield LocalAgent(name=entry.name, directory=entry, hosted=hosted, document=document, status=status)


def agent_directories(config: Config) -> tuple[Path, ...]:
    """Return the directories of agents: admitted callers, hosted agents, and those that the operator placed."""
    listed = [config.identity.known_agents, config.host.state_dir / "hosted"]
    if config.identity.agents is not None:
        listed.append(config.identity.agents)
    return tuple(listed)
