"""Who gives calls their spans, as the dispatcher sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agtphost.dispatch.exchange import Exchange
from agtphost.handlers.tracing import CallTrace


class Tracer(Protocol):
    """The tracer of calls: :class:`agtphost.traces.service.TraceService`."""

    @property
    def lost_spans(self) -> Mapping[str, int]:
        """Return how many spans no collector has, by cause: ``dropped`` for lack of room, and ``undelivered``."""

    def begin(self, exchange: Exchange) -> CallTrace | None:
        """Begin the trace of a call, with its gates; None where calls have no span at present."""
