"""Provide the words that complete a filter, as JSON for the script: fields, and the names of agents and tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agtphost.audit.filters import FIELDS
from agtphost.page.person_client import PersonClient, gather_replies

PATH: Final = "/completions"

MOST_NAMES: Final = 200
"""Agents and tools each."""


async def answer(ask: PersonClient) -> tuple[int, dict[str, Any]]:
    """Return the status and the document; of what the person may not see it has nothing."""
    agents, tools = await gather_replies(
        ask.inspect("agents", limit=MOST_NAMES), ask.inspect("tools", limit=MOST_NAMES)
    )
    return 200, {
        "fields": [
            {"name": field.name, "meaning": field.meaning, "allowed": field.allowed, "example": field.example}
            for field in FIELDS.values()
        ],
        "agents": sorted({_unique_name(entry) for entry in agents.entries("agents") if entry.get("name")}),
        "tools": sorted(
            {f"{entry.get('upstream')}.{entry['name']}" for entry in tools.entries("tools") if entry.get("name")}
        ),
    }


def _unique_name(entry: Mapping[str, Any]) -> str:
    """Return the name of an agent; its Agent-ID where others have the same name, which a filter refuses."""
    return str(entry["name"] if entry.get("display_name") == entry["name"] else entry.get("agent_id"))
