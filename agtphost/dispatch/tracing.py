"""Who gives calls their spans, as the dispatcher sees it."""

from __future__ import annotations

from typing import Protocol

from agtphost.dispatch.exchange import Exchange
from agtphost.handlers.tracing import CallTrace


class Tracer(Protocol):
    """:class:`agtphost.traces.service.Traces`."""

    def begin(self, exchange: Exchange) -> CallTrace | None:
        """A call begins, with its gates; None where calls have no span at present."""
