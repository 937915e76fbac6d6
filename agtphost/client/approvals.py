"""Calls that a person decides about: what a host says of one, and how long a client waits for the decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REASON = "approval-required"
"""Of the 202 that says so, no call having been made; and the type of the event by which a stream says it."""

WAIT = "approval_wait"
"""Member of an envelope's ``context``: seconds for which a stream waits for a person; without it, as long as it can."""

PAUSE = 5.0
"""Seconds between two attempts where the host does not say."""

LONGEST_PAUSE = 30.0
"""Seconds; a host that asks for more is asked again after these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingApproval:
    """An approval that a host keeps for a person to decide; untrusted, like everything in a body."""

    approval_id: str
    """Under which people find it: ``agtp approvals show``."""

    expires_at: str
    """When it can no longer be decided (RFC 3339); empty where the host does not say."""

    digest: str
    """Of what is asked for: caller, target, input, definition and policy; any other call has another."""


def pending_of(document: Mapping[str, Any]) -> PendingApproval | None:
    """Return the approval in the body of a 202; None for any other 202."""
    approval_id = document.get("approval_id")
    if document.get("reason") != REASON or "result" in document:
        return None
    if not isinstance(approval_id, str) or not approval_id:
        return None
    said = {name: document.get(name) for name in ("expires_at", "digest")}
    expires_at, digest = (value if isinstance(value, str) else "" for value in said.values())
    return PendingApproval(approval_id=approval_id, expires_at=expires_at, digest=digest)


def pause_after(retry_after: float | None) -> float:
    """Seconds until the same call is worth making again."""
    return PAUSE if retry_after is None else min(max(retry_after, 1.0), LONGEST_PAUSE)
