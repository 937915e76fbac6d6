"""The state of a hosted server for DESCRIBE and the operator's tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agtphost.upstream.service import UpstreamSnapshot

if TYPE_CHECKING:
    from agtphost.adapters.mcp.versions import Negotiated

MAX_INSTRUCTIONS = 8192
"""Characters of a server's instructions that are shown."""


@dataclass(frozen=True, kw_only=True)
class ServerSnapshot(UpstreamSnapshot):
    """The state of one server at one moment."""

    transport: str
    """``stdio`` or ``http``."""

    pid: int | None
    era: str | None
    """``stateless`` or ``handshake``; None while not up."""

    version: str | None
    """The protocol version in use."""

    server: Mapping[str, Any]
    """Name and version that the server gives."""

    tools: int
    changed_tools: tuple[str, ...]
    """Tools that are off until their new definition is approved."""

    unmatched_rules: tuple[str, ...]
    """Tools, prompts and resources that the configuration has rules for and the server lacks: for operators."""

    invalid_tools: Mapping[str, tuple[str, ...]]
    """Tools that are off because a schema is invalid, with the errors: for operators."""

    capabilities: Mapping[str, Any]
    """The capabilities that the server declares; empty while not up."""

    instructions: str
    instances: int
    """Processes or sessions that belong to one caller each, besides this one."""

    link: Mapping[str, object] = field(default_factory=dict)
    """Counters of the link, and the last stderr lines under ``stderr``: for operators only."""

    def to_json(self) -> dict[str, object]:
        """Return what DESCRIBE shows besides name and version: AGTP-API section 8.6."""
        return {
            **super().to_json(),
            "era": self.era,
            "capabilities": dict(self.capabilities),
            "server_info": dict(self.server),
            "instructions": self.instructions,
            "tools": self.tools,
            "changed_tools": list(self.changed_tools),
        }

    def to_full_json(self) -> dict[str, object]:
        """Return everything, for operators."""
        shown = super().to_full_json()
        shown["link"] = {name: list(v) if isinstance(v, tuple) else v for name, v in self.link.items()}
        shown["changed_tools"] = list(self.changed_tools)
        shown["unmatched_rules"] = list(self.unmatched_rules)
        shown["invalid_tools"] = {name: list(said) for name, said in self.invalid_tools.items()}
        return shown


def terms_members(terms: Negotiated | None) -> dict[str, Any]:
    """Return the members of :class:`ServerSnapshot` that have the negotiated terms; None: it is not up."""
    return {
        "era": None if terms is None else terms.era,
        "version": None if terms is None else terms.version,
        "server": {} if terms is None else terms.server,
        "capabilities": {} if terms is None else terms.capabilities,
        "instructions": "" if terms is None else terms.instructions[:MAX_INSTRUCTIONS],
    }
