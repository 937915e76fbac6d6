"""What upstreams offer, one by one, for operators: what is on, and why something is off."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from agtphost.contract.binding import Binding

ON, CHANGED, INVALID, UNMATCHED, DISABLED = "on", "changed", "invalid", "rules-unmatched", "disabled"
STATES = (ON, CHANGED, INVALID, UNMATCHED, DISABLED)
"""Whether a tool may be called, and what keeps it from that: each of the others is the operator's to see to."""

LONGEST_DESCRIPTION = 300
"""Characters of a description in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One tool of an upstream, or one of its actions."""

    protocol: str
    """``mcp``, ``a2a`` or ``acp``."""

    upstream: str
    name: str
    """The upstream's own name for it."""

    upstream_state: str
    """See :class:`agtphost.upstream.supervision.State`."""

    state: str = ON
    """One of :data:`STATES`."""

    description: str = ""
    why: str = ""
    """What is wrong with it, where that can be said in a sentence."""

    sha256: str = ""
    """Of its definition as the upstream gives it now; empty where no single definition is pinned."""

    approved: str = ""
    """Of the definition that is approved."""

    fixed: bool = False
    """Whether the configuration names that digest, so that nobody else approves another."""

    binding: Binding | None = None
    """Where it is on."""

    @property
    def key(self) -> list[str]:
        """Its place in lists: by protocol, upstream and name."""
        return [self.protocol, self.upstream, self.name]

    def told(self) -> dict[str, Any]:
        """One entry of ``INSPECT target=tools``."""
        described = self.description.partition("\n")[0][:LONGEST_DESCRIPTION]
        entry: dict[str, Any] = {
            "protocol": self.protocol.upper(),
            "upstream": self.upstream,
            "name": self.name,
            "state": self.state,
            "upstream_state": self.upstream_state,
            "description": described,
        }
        known = {"why": self.why, "sha256": self.sha256, "approved": self.approved, "fixed": self.fixed}
        entry.update({name: value for name, value in known.items() if value})
        if self.binding is not None:
            entry["required_scopes"] = list(self.binding.required_scopes)
            entry["min_assurance"] = self.binding.min_assurance.label
            entry["approval"] = self.binding.approval
        return entry


Offering: TypeAlias = Callable[[], Iterable[Offered]]
