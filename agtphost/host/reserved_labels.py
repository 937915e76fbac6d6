"""
Leave out agents whose labels are reserved for agents that have ended, where a host takes over.

A start is refused for such an agent, because its operator is there. A takeover asks no operator, and no other host may
be left to serve. A development host gets there without a mistake: on standby it issues the agents that are described
next to its ``host.toml`` itself, and the host that serves revokes its own one of that name.
"""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from twisted.logger import Logger

from agtphost.audit import retention
from agtphost.config import Config
from agtphost.host.host_loader import LoadedHost
from agtphost.host.http_clients import find_agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.provisioning import HOSTED
from agtphost.stores.settings import locate_store

log = Logger()


def leave_out_reserved(loaded: LoadedHost) -> LoadedHost:
    """
    Return a host without the hosted agents that are not on record and whose labels are reserved.

    Tokens of HTTP clients that call in their names are refused. Files of those that the host issued itself are removed,
    so that they are not part of the next configuration.

    :raises agtphost.stores.StoreError: the store cannot be read.
    """
    config, now = loaded.config, time.time()
    with closing(locate_store(config.store).open_reader()) as reader:
        states, ended = reader.lifecycle_states(), reader.state_items(retention.RETAINED)
    kept = []
    for agent in loaded.directory.list_known():
        is_new = agent.hosted and agent.agent_id not in states
        reserving = retention.reserved_by(agent.name, agent.agent_id, ended, now) if is_new else None
        if reserving is None:
            kept.append(agent)
            continue
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
    if len(kept) == len(loaded.directory.list_known()):
        return loaded
    directory = AgentDirectory(kept)
    return replace(loaded, directory=directory, config=_leave_out_clients(config, directory))


def _leave_out_clients(config: Config, directory: AgentDirectory) -> Config:
    """Return a configuration without the HTTP clients whose agents are left out."""
    known = [client for client in config.http.client if find_agent(directory, client.agent)[0] is not None]
    for client in config.http.client:
        if client not in known:
            log.error("the token of [[http.client]] {name} is refused, as its agent is not admitted", name=client.name)
    http = config.http.model_copy(update={"client": tuple(known)})
    return config.model_copy(update={"http": http})
