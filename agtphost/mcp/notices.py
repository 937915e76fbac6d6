"""Calls that wait for a person: what clients are told meanwhile."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from agtphost.client.terminal import escape
from agtphost.mcp.context import Context

EVERY = 10.0
"""Seconds between two progress messages: less than clients wait for one."""

STEP = 1e-6
"""By which progress grows meanwhile: the tool, which has not begun, counts from 0 or 1."""


class Notices:
    """Progress messages of one request while it is held; none where its client asked for none."""

    def __init__(self, context: Context, clock: IReactorTime) -> None:
        self._context = context
        self._clock = clock
        self._telling: LoopingCall | None = None
        self._progress = 0.0

    def begin(self, approval_id: str) -> None:
        """It is held."""
        if self._telling is None:
            self._telling = LoopingCall(self._tell, approval_id)
            self._telling.clock = self._clock
            self._telling.start(EVERY)

    def end(self) -> None:
        """It goes on, or is over."""
        if self._telling is not None and self._telling.running:
            self._telling.stop()

    def _tell(self, approval_id: str) -> None:
        self._context.progress(self._progress, None, escape(f"held for a person to approve: {approval_id}"))
        self._progress += STEP
