"""Tools whose calls a person approves, and calls that wait for that, as MCP clients see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.client.approvals import PendingApproval
from agtphost.client.reply import Reply
from agtphost.client.terminal import escape

APPROVAL = "agtp/approval"
"""Member of the ``_meta`` of tools, where it is ``required``, and of the results of held calls."""

REQUIRED = "required"

NOTE = "A person approves each call. While one is held, call again with the same arguments."
"""Behind the description of such a tool: models read nothing else of it."""


def mark_approval(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a tool whose calls a person approves, as clients see it."""
    described = str(definition.get("description") or "").rstrip()
    meta = definition.get("_meta")
    return {
        **{name: value for name, value in definition.items() if name != "approval"},
        "description": f"{described}\n\n{NOTE}" if described else NOTE,
        "_meta": {**(meta if isinstance(meta, dict) else {}), APPROVAL: REQUIRED},
    }


def needs_approval(entry: Mapping[str, Any]) -> bool:
    """Return whether the host says of a tool or an endpoint that a person approves its calls."""
    return entry.get("approval") == REQUIRED


def describe_pending(pending: PendingApproval) -> str:
    """Return what a model reads about a call that waits for approval."""
    until = f" until {pending.expires_at}" if pending.expires_at else ""
    return escape(f"held for a person: {pending.approval_id}; call again with the same arguments. It waits{until}.")


def facts_of(pending: PendingApproval) -> dict[str, str]:
    """Return what a program reads about a call that waits for approval: its id, expiry and digest."""
    said = {"approval_id": pending.approval_id, "expires_at": pending.expires_at, "digest": pending.digest}
    return {name: value for name, value in said.items() if value}


def held_answer(reply: Reply, pending: PendingApproval) -> dict[str, Any]:
    """Return a CallToolResult for a call that was not made."""
    explanation = [{"type": "text", "text": escape(reply.explanation)}] if reply.explanation else []
    return {
        "content": [{"type": "text", "text": describe_pending(pending)}, *explanation],
        "isError": True,
        "_meta": {APPROVAL: facts_of(pending)},
    }
