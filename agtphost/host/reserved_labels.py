"""
Leave out agents whose labels are reserved for agents that have ended, where a host takes over.

A start is refused for such an agent, because its operator is there. A takeover asks no operator, and no other host may
be left to serve. A development host gets there without a mistake: on standby it issues the agents that are described
next to its ``host.toml`` itself, and the host that serves revokes its own one of that name.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Set
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from twisted.logger import Logger

from agtphost.audit import retention
from agtphost.config import Config
from agtphost.config.reloadable_keys import merge_reloadable
from agtphost.config.replacement import replace_value
from agtphost.host.host_loader import LoadedHost
from agtphost.http_clients import find_agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.provisioning import HOSTED
from agtphost.stores.settings import locate_store

log = Logger()


SPEAKERS: Final = (
    ("gateway", "agent"),
    ("registry", "agent"),
    ("mcp", "front", "agent"),
    ("mcp", "front", "anonymous"),
    ("a2a", "front", "agent_id"),
)
"""Keys that name an agent which calls for clients without an agent."""


def leave_out_reserved(loaded: LoadedHost) -> LoadedHost:
    """
    Return a host without the hosted agents that are not on record and whose labels are reserved.

    Clients that call in their names are refused, and fronts do not show them. Files of those that the host issued
    itself are removed, so that they are not part of the next configuration.

    :raises agtphost.stores.StoreError: the store cannot be read.
    """
    config, now = loaded.config, time.time()
    with closing(locate_store(config.store).open_reader()) as reader:
        states, ended = reader.lifecycle_states(), reader.state_items(retention.RETAINED)
    kept, left = [], []
    for agent in loaded.directory.list_known():
        is_new = agent.hosted and agent.agent_id not in states
        reserving = retention.reserved_by(agent.name, agent.agent_id, ended, now) if is_new else None
        if reserving is None:
            kept.append(agent)
            continue
        left.append(agent)
        log.error(
            "{name} ({agent_id}) is not admitted: {name} was the label of an agent that ended on {ended}; issue it "
            "under another label, or remove {file}",
            name=agent.name,
            agent_id=agent.agent_id,
            ended=reserving["ended_at"],
            file=agent.file,
        )
        folder = Path(agent.file).parent
        if config.host.development and folder.parent == config.host.state_dir / HOSTED:
            shutil.rmtree(folder, ignore_errors=True)
    if not left:
        return loaded
    names = frozenset(agent.name for agent in left)
    emptied = _leave_out_bindings(config, loaded.directory, frozenset(agent.agent_id for agent in left))
    # A reload compares with the configuration without them, and says that these keys wait.
    waiting = loaded.emptied.union(merge_reloadable(config, emptied)[2])
    directory, left_out = AgentDirectory(kept), loaded.left_out | names
    return replace(loaded, directory=directory, config=emptied, left_out=left_out, emptied=waiting)


def _leave_out_bindings(config: Config, directory: AgentDirectory, left: Set[str]) -> Config:
    """
    Return a configuration that names none of the agents that are left out, so that no other one has their places.

    :param directory: with these agents.
    :param left: their Agent-IDs.
    """

    def is_left_out(named: str) -> bool:
        agent, _ = find_agent(directory, named) if named else (None, "")
        return agent is not None and agent.agent_id in left

    for client in config.http.client:
        if is_left_out(client.agent):
            log.error("the token of [[http.client]] {name} is refused, as its agent is not admitted", name=client.name)
    clients = tuple(client for client in config.http.client if not is_left_out(client.agent))
    config = replace_value(config, ("http", "client"), clients)
    for place in SPEAKERS:
        if is_left_out(_find_value(config, place) or ""):
            what = f"[{'.'.join(place[:-1])}] {place[-1]}"
            log.error("clients that call in the name of {what} are refused, as it is not admitted", what=what)
            config = replace_value(config, place, "")
            if place[0] == "a2a":
                # Its tokens name no other agent.
                config = replace_value(
                    replace_value(config, ("a2a", "front", "tokens"), ()), ("a2a", "front", "oauth"), False
                )
    shown = tuple(each for each in config.a2a.front.agent if each.upstream is not None or not is_left_out(each.name))
    return cast(Config, replace_value(config, ("a2a", "front", "agent"), shown))


def _find_value(config: Any, place: Iterable[str]) -> str | None:
    """Return the value of a key; None where its section is missing."""
    for name in place:
        config = getattr(config, name, None)
    return cast("str | None", config)
