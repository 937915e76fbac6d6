"""A call belongs to the trace of the program that makes it, where that uses OpenTelemetry."""

from __future__ import annotations

import sys
from typing import Any

from agtphost.vocabulary import trace_context
from agtphost.vocabulary.trace_context import TRACEPARENT, TRACESTATE


def active_trace() -> tuple[tuple[str, str], ...]:
    """
    Return the fields that name the active span: W3C Trace Context.

    Nothing is imported for it: without an import of the OpenTelemetry API, no span is active.
    """
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None or not hasattr(api, "get_current_span"):
        return ()
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return ()
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags) & 0xFF:02x}"
    state = context.trace_state.to_header()
    if not trace_context.is_state(state):
        return ((TRACEPARENT, parent),)
    return ((TRACEPARENT, parent), (TRACESTATE, state))
