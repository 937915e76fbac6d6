"""Who gives calls their spans, as the dispatcher sees it."""

from __future__ import annotations

from typing import Protocol

from agtphost.dispatch.exchange import Exchange
from agtphost.handlers.tracing import CallTrace


class Tracer(Protocol):
    """The tracer of calls: :class:`agtphost.traces.service.TraceService`."""

    def begin(self, exchange: Exchange) -> CallTrace | None:
        """Begin the trace of a call, with its gates; None where calls have no span at present."""
