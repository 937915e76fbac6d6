"""A grant: what it names, how long it holds, and who issued it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.vocabulary import times


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A permission for one agent to call what the grant names."""

    agent_id: str
    allow: str
    """What it names: see :mod:`agtphost.vocabulary.grants`."""

    until: float | None = None
    """Seconds since the Unix epoch at which it expires; None: never."""

    by: str = ""
    """The fingerprint of the key, or the Agent-ID, of its issuer; empty if it is in the configuration."""

    at: str = ""
    audit_id: str = ""
    """Audit id of the record that created it."""

    operator: str = ""
    """The name of the operator at that time; empty if none gave it, or in an item from before operators had names."""

    def in_force(self, now: float) -> bool:
        """Return whether the grant has not expired."""
        return self.until is None or now < self.until


def read_grant(value: Mapping[str, object]) -> Grant:
    """Return a grant from its state item."""
    until = value["until"]
    return Grant(
        agent_id=str(value["agent_id"]),
        allow=str(value["allow"]),
        until=float(until) if isinstance(until, (int, float)) else None,
        by=str(value["by"]),
        at=str(value["at"]),
        audit_id=str(value.get("audit_id", "")),
        operator=str(value.get("operator", "")),
    )


def entry_of(grant: Grant, now: float) -> dict[str, Any]:
    """Return a grant as answers and commands show it."""
    return {
        "allow": grant.allow,
        "until": stamp_of(grant.until),
        "state": "in force" if grant.in_force(now) else "expired",
        "by": grant.by or "host.toml",
        "operator": grant.operator or None,
        "at": grant.at or None,
        "audit_id": grant.audit_id or None,
    }


def stamp_of(until: float | None) -> str | None:
    """Return the expiry of a grant as text; None if it has none."""
    return None if until is None else times.stamp(until)
