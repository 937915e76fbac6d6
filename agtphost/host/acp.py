"""``[[acp.agent]]`` entries become services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agtphost.adapters.acp import ACPServer, ACPServerSettings
from agtphost.config.peers import ACPAgent
from agtphost.host.a2a import common
from agtphost.upstream.pins import Pins, Store


def acp_servers(reactor: Any, entries: Iterable[ACPAgent], store: Store, *, production: bool = True) -> list[ACPServer]:
    """
    A service for each entry.

    :param store: where approvals are kept.
    :param production: whether names that a server does not list keep it off, unless its entry says otherwise.
    """
    return [
        ACPServer(
            reactor,
            ACPServerSettings(
                **common(entry),
                scopes=entry.scopes,
                agents=entry.agents,
                pins=dict(entry.pins),
                unmatched_rules=entry.unmatched_rules or ("off" if production else "warn"),
            ),
            pins=Pins("acp", entry.name, dict(entry.pins), store),
        )
        for entry in entries
    ]
