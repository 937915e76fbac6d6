"""``[[acp.agent]]`` entries become services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agtphost.adapters.acp import ACPServer, ACPServerSettings
from agtphost.config.peers import ACPAgent
from agtphost.host.a2a import common


def acp_servers(reactor: Any, entries: Iterable[ACPAgent]) -> list[ACPServer]:
    """A service for each entry."""
    return [
        ACPServer(
            reactor,
            ACPServerSettings(
                **common(entry), scopes=entry.scopes, agents=entry.agents, pins=dict(entry.pins)
            ),
        )
        for entry in entries
    ]
