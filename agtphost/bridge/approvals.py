"""
Calls that wait for a person: what clients are told meanwhile.

The bridge never asks its own client to approve: whoever makes a call is not who decides about it.
"""

from __future__ import annotations

import asyncio

from agtphost.bridge.clients import Context
from agtphost.client.terminal import escape

EVERY = 10.0
"""Seconds between two progress messages: less than clients wait for one."""

STEP = 1e-6
"""By which progress grows meanwhile: the tool, which has not begun, counts from 0 or 1."""


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
