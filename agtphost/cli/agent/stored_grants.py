"""Grants stored with a host: in its store, and in its host.toml."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from agtphost.cli.audit.store import may_have_store, open_records
from agtphost.cli.identities import local_agents
from agtphost.contract.grants import Grant, entry_of, read_grant
from agtphost.vocabulary.quotas import GRANT

if TYPE_CHECKING:
    from agtphost.config import Config


def stored_grants(config: Config) -> list[dict[str, Any]]:
    """Return every agent with grants, in the form that ``QUERY /grants`` answers, sorted by label."""
    names = {agent.agent_id: agent.name for agent in local_agents(config)}
    ids = {name: agent_id for agent_id, name in reversed(names.items())}
    found: dict[str, list[Grant]] = {}
    for section in config.grant:
        agent_id = ids.get(section.agent, section.agent)
        found.setdefault(agent_id, []).extend(
            Grant(agent_id=agent_id, allow=text, until=section.ends) for text in section.allow
        )
    if may_have_store(config):
        with open_records(config) as reader:
            for value in reader.state_items(GRANT):
                own = found.setdefault(str(value["agent_id"]), [])
                if value["allow"]:
                    own.append(read_grant(value))
                names.setdefault(str(value["agent_id"]), str(value["label"]))
    now = time.time()
    return sorted(
        (
            {
                "agent_id": agent_id,
                "label": names.get(agent_id, ""),
                "narrowed": True,
                "grants": [entry_of(grant, now) for grant in grants],
            }
            for agent_id, grants in found.items()
        ),
        key=lambda entry: (entry["label"], entry["agent_id"]),
    )
