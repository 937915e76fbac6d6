"""``[[acp.agent]]`` entries become services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agtphost.adapters.acp import ACPServer, ACPServerSettings
from agtphost.adapters.web.pins import Pins, Submit
from agtphost.audit.state import StateTable
from agtphost.config.peers import ACPAgent
from agtphost.host.a2a import common


def acp_servers(
    reactor: Any, entries: Iterable[ACPAgent], held: StateTable, submit: Submit, *, production: bool = True
) -> list[ACPServer]:
    """
    A service for each entry.

    :param submit: makes what was approved durable.
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
            pins=Pins("acp", entry.name, dict(entry.pins), held, submit),
        )
        for entry in entries
    ]
