"""
Make the span of a call, of its parts, and of its requests to upstreams.

Attributes follow OpenTelemetry's semantic conventions where these exist (rpc, mcp, gen_ai, error), and begin with
``agtp.`` otherwise. No attribute is a text of a caller: paths are templates, tools and agents are those that the
operator named or approved. Arguments, results, credentials and explanations are in no span.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)

from agtphost.dispatch.exchange import Exchange
from agtphost.handlers.tracing import Attributes, Fields
from agtphost.vocabulary.trace_context import TRACEPARENT, TRACESTATE, TraceContext

SYSTEM = "agtp"
KNOWN_FLAGS = 0x03
"""The flags that a trace is recorded and that its id is random (level 2 of W3C Trace Context)."""

UNNAMED = "AGTP"
"""The name of the span of a request that names nothing callable."""


def fields_of(context: SpanContext) -> Fields:
    """Return a span's place in its trace, as header fields."""
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    if not context.trace_state:
        return ((TRACEPARENT, parent),)
    return ((TRACEPARENT, parent), (TRACESTATE, context.trace_state.to_header()))


def parent_context(place: TraceContext, *, remote: bool) -> Context:
    """Return the context of a span with a given parent."""
    context = SpanContext(
        trace_id=int(place.trace_id, 16),
        span_id=int(place.parent_id, 16),
        is_remote=remote,
        # Other bits have no meaning yet, so they are not passed on.
        trace_flags=TraceFlags(place.flags & KNOWN_FLAGS),
        trace_state=TraceState.from_header([place.state]) if place.state else TraceState(),
    )
    return set_span_in_context(NonRecordingSpan(context), Context())


class UpstreamSpan:
    """The span of a request to an upstream; see :class:`agtphost.handlers.tracing.ClientSpan`."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def fields(self) -> Fields:
        """Return the trace fields for the upstream."""
        return fields_of(self._span.get_span_context())

    def end(self, error: str = "") -> None:
        """End the span."""
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class CallSpan:
    """
    The span of a call of this host; see :class:`agtphost.handlers.tracing.CallTrace`.

    :param tracer: makes spans.
    :param place: the caller's place in its trace; None begins a new one.
    :param agents: whether to include the caller's label.
    """

    __slots__ = (
        *("_agents", "_before", "_exchange", "_inside", "_record_members", "_part", "_is_recorded", "_span", "_tracer"),
        "reason",
    )

    def __init__(self, tracer: Tracer, exchange: Exchange, place: TraceContext | None, *, agents: bool) -> None:
        self._tracer = tracer
        self._exchange: Exchange | None = exchange
        self._agents = agents
        self.reason = ""
        # A call made by another call comes from this host, by any transport.
        parent = Context() if place is None else parent_context(place, remote=not exchange.peer.depth)
        self._span = tracer.start_span(UNNAMED, context=parent, kind=SpanKind.SERVER)
        context = self._span.get_span_context()
        named = {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
        if place is not None:
            named["parent_id"] = place.parent_id
        self._record_members: Mapping[str, str] = named
        self._inside = set_span_in_context(self._span, Context())
        self._before = get_current()
        # Parts of a trace that is not recorded would only cost time.
        self._is_recorded = self._span.is_recording()
        self._part = tracer.start_span("gates", context=self._inside) if self._is_recorded else self._span

    @property
    def record_members(self) -> Mapping[str, str]:
        """Return the members of the call's record about its trace."""
        return self._record_members

    @property
    def fields(self) -> Fields:
        """Return the trace fields for calls made during this one."""
        return fields_of(self._part.get_span_context())

    def part(self, name: str) -> None:
        """Begin the next part of the call."""
        if self._is_recorded:
            self._part.end()
            self._part = self._tracer.start_span(name, context=self._inside)
        # Spans that an operator's function makes by the OpenTelemetry API belong to its call.
        attach(set_span_in_context(self._part, Context()) if name == "handler" else self._before)

    def client(self, name: str, attributes: Attributes) -> UpstreamSpan:
        """Begin the span of a request to an upstream."""
        above = set_span_in_context(self._part, Context())
        return UpstreamSpan(
            self._tracer.start_span(name, context=above, kind=SpanKind.CLIENT, attributes=dict(attributes))
        )

    def finish(self, status: int) -> None:
        """End the span, as the call is answered."""
        span = self._span
        if self._is_recorded and self._exchange is not None:
            self._part.end()
            span.set_attributes(self._attributes(self._exchange, int(status)))
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))
        span.end()
        # The exchange refers to this span: a reference cycle would wait for the collector (agtphost.host.root).
        self._exchange = None

    def _attributes(self, exchange: Exchange, status: int) -> dict[str, str | int | bool]:
        binding = exchange.binding
        told: dict[str, str | int | bool] = {
            "rpc.system.name": SYSTEM,
            "rpc.response.status_code": str(status),
            "agtp.status": status,
            "agtp.assurance": exchange.assurance.label,
        }
        if exchange.peer.recorded is not None:
            told.update(_describe_way(exchange.peer.recorded))
        if exchange.call.audit_id:
            told["agtp.audit_id"] = exchange.call.audit_id
        if self.reason:
            told["agtp.reason"] = self.reason
        if self.reason and status >= 500:
            told["error.type"] = self.reason
        if binding is not None:
            # The name of a resource, a prompt, or a tool that its server has not listed yet is a text of the caller.
            tool = str((binding.extra or {}).get("mcp_tool", "")) if "mcp" in binding.details else ""
            name = f"{exchange.method} {binding.name if tool else binding.path}"
            self._span.update_name(name)
            told.update({"rpc.method": name, "agtp.method": exchange.method, "agtp.path": binding.path})
            if tool:
                told["agtp.tool"] = binding.name
                told["gen_ai.operation.name"] = "execute_tool"
                told["gen_ai.tool.name"] = tool
        if self._agents and exchange.accountable is not None:
            told["agtp.agent"] = exchange.accountable.name
        if exchange.agent is not None:
            told["gen_ai.agent.name"] = exchange.agent.name
        return told


def _describe_way(recorded: Mapping[str, object]) -> Attributes:
    """Return the attributes of a call that did not come over TLS; see :attr:`agtphost.identity.peer.Peer.recorded`."""
    return {"network.transport": str(recorded["carrier"])} if "carrier" in recorded else {}
