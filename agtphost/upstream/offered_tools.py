"""List the tools and actions of upstreams for operators, with the reasons why some are off."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from agtphost.contract.binding import Binding

ON, CHANGED, INVALID, UNMATCHED, DISABLED = "on", "changed", "invalid", "rules-unmatched", "disabled"
STATES = (ON, CHANGED, INVALID, UNMATCHED, DISABLED)
"""Whether a tool may be called, or why not; the operator can resolve each of the reasons."""

LONGEST_DESCRIPTION = 300
"""Characters of a description in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool of an upstream, or one of its actions."""

    protocol: str
    """``mcp``, ``a2a`` or ``acp``; of a plugin's tool, the name of its payload adapter."""

    upstream: str
    name: str
    """The upstream's own name for it."""

    upstream_state: str
    """The upstream's state: see :class:`agtphost.upstream.supervision.UpstreamState`."""

    state: str = ON
    """One of :data:`STATES`."""

    description: str = ""
    why: str = ""
    """The errors of its definition, if there are any."""

    sha256: str = ""
    """The SHA-256 of its present definition; empty where no single definition is pinned."""

    approved_sha256: str = ""
    """The SHA-256 of its approved definition."""

    is_fixed: bool = False
    """Whether the configuration sets that digest, so that no other can be approved."""

    binding: Binding | None = None
    """The binding; None where it is off."""

    @property
    def key(self) -> list[str]:
        """The key that lists are sorted by: protocol, upstream and name."""
        return [self.protocol, self.upstream, self.name]

    def to_json(self) -> dict[str, Any]:
        """Return the entry of ``INSPECT target=tools``."""
        described = self.description.partition("\n")[0][:LONGEST_DESCRIPTION]
        entry: dict[str, Any] = {
            "protocol": self.protocol.upper(),
            "upstream": self.upstream,
            "name": self.name,
            "state": self.state,
            "upstream_state": self.upstream_state,
            "description": described,
        }
        known = {"why": self.why, "sha256": self.sha256, "approved": self.approved_sha256, "fixed": self.is_fixed}
        entry.update({name: value for name, value in known.items() if value})
        if self.binding is not None:
            entry["required_scopes"] = list(self.binding.required_scopes)
            entry["min_assurance"] = self.binding.min_assurance.label
            entry["approval"] = self.binding.approval
        return entry


Offering: TypeAlias = Callable[[], Iterable[OfferedTool]]
