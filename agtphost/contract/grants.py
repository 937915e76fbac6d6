"""One grant: what it names, how long it holds, and who said so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.vocabulary import times


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One grant."""

    agent_id: str
    allow: str
    """What it names: see :mod:`agtphost.vocabulary.grants`."""

    until: float | None = None
    """Seconds since the Unix epoch from which on it grants nothing; None: for good."""

    by: str = ""
    """The fingerprint of the key, or the Agent-ID, that said so; empty: the configuration does."""

    at: str = ""
    audit_id: str = ""
    """The record of it."""

    def in_force(self, now: float) -> bool:
        """Whether it grants anything."""
        return self.until is None or now < self.until


def granted(value: Mapping[str, object]) -> Grant:
    """A grant as its state item says it."""
    until = value["until"]
    return Grant(
        agent_id=str(value["agent_id"]),
        allow=str(value["allow"]),
        until=float(until) if isinstance(until, (int, float)) else None,
        by=str(value["by"]),
        at=str(value["at"]),
        audit_id=str(value.get("audit_id", "")),
    )


def entry_of(grant: Grant, now: float) -> dict[str, Any]:
    """A grant as answers and commands show it."""
    return {
        "allow": grant.allow,
        "until": stamp_of(grant.until),
        "state": "in force" if grant.in_force(now) else "expired",
        "by": grant.by or "host.toml",
        "at": grant.at or None,
        "audit_id": grant.audit_id or None,
    }


def stamp_of(until: float | None) -> str | None:
    """The end of a grant as text; None where it has none."""
    return None if until is None else times.stamp(until)
