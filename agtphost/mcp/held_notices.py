"""Send progress messages while a call waits for approval."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from agtphost.client.terminal import escape
from agtphost.mcp.context import Context

INTERVAL = 10.0
"""Seconds between two progress messages: less than clients wait for one."""

STEP = 1e-6
"""The growth of progress per message, tiny because the tool, which has not begun, counts from 0 or 1."""


class HeldNotices:
    """A sender of progress messages while a request is held; it sends none if the client asked for none."""

    def __init__(self, context: Context, clock: IReactorTime) -> None:
        self._context = context
        self._clock = clock
        self._sending: LoopingCall | None = None
        self._progress = 0.0

    def begin(self, approval_id: str) -> None:
        """Begin to send progress, because the request is held."""
        if self._sending is None:
            self._sending = LoopingCall(self._send_notice, approval_id)
            self._sending.clock = self._clock
            self._sending.start(INTERVAL)

    def end(self) -> None:
        """Stop sending, because the request goes on or has ended."""
        if self._sending is not None and self._sending.running:
            self._sending.stop()

    def _send_notice(self, approval_id: str) -> None:
        self._context.progress(self._progress, None, escape(f"held for a person to approve: {approval_id}"))
        self._progress += STEP
