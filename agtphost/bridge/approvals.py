"""
Calls that wait for a person: what clients are told meanwhile, and where nobody decides in time.

The bridge never asks its own client to approve: whoever makes a call is not who decides about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agtphost.bridge.clients import Context
from agtphost.client.approvals import PendingApproval
from agtphost.client.reply import Reply
from agtphost.client.terminal import escape

APPROVAL = "agtp/approval"
"""Member of the ``_meta`` of tools, where it is ``required``, and of the results of held calls."""

REQUIRED = "required"

NOTE = "A person approves each call. While one is held, call again with the same arguments."
"""Behind the description of such a tool: models read nothing else of it."""

EVERY = 10.0
"""Seconds between two progress messages: less than clients wait for one."""

STEP = 1e-6
"""By which progress grows meanwhile: the tool, which has not begun, counts from 0 or 1."""


def marked(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a tool whose calls a person approves, as clients see it."""
    described = str(definition.get("description") or "").rstrip()
    meta = definition.get("_meta")
    return {
        **{name: value for name, value in definition.items() if name != "approval"},
        "description": f"{described}\n\n{NOTE}" if described else NOTE,
        "_meta": {**(meta if isinstance(meta, dict) else {}), APPROVAL: REQUIRED},
    }


def needs_approval(entry: Mapping[str, Any]) -> bool:
    """Whether the host says of a tool or an endpoint that a person approves its calls."""
    return entry.get("approval") == REQUIRED


def told_of(pending: PendingApproval) -> str:
    """What a model reads, and does."""
    until = f" until {pending.expires_at}" if pending.expires_at else ""
    return escape(f"held for a person: {pending.approval_id}; call again with the same arguments. It waits{until}.")


def facts_of(pending: PendingApproval) -> dict[str, str]:
    """The same for programs."""
    said = {"approval_id": pending.approval_id, "expires_at": pending.expires_at, "digest": pending.digest}
    return {name: value for name, value in said.items() if value}


def held_answer(reply: Reply, pending: PendingApproval) -> dict[str, Any]:
    """A CallToolResult for a call that was not made."""
    explanation = [{"type": "text", "text": escape(reply.explanation)}] if reply.explanation else []
    return {
        "content": [{"type": "text", "text": told_of(pending)}, *explanation],
        "isError": True,
        "_meta": {APPROVAL: facts_of(pending)},
    }


class Notices:
    """Progress messages of one request while it is held; none where its client asked for none."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._task: asyncio.Task[None] | None = None

    def begin(self, approval_id: str) -> None:
        """It is held."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._tell(approval_id))

    def end(self) -> None:
        """It goes on, or is over."""
        if self._task is not None:
            self._task.cancel()

    async def _tell(self, approval_id: str) -> None:
        progress = 0.0
        while True:
            await self._context.session.report_progress(
                progress, None, escape(f"held for a person to approve: {approval_id}")
            )
            progress += STEP
            await asyncio.sleep(EVERY)
