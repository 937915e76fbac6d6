"""
Export the bridge's spans, and continue the trace that it is started in, by the variables of OpenTelemetry.

Each request of a client gets a span, below the one that the client names in ``_meta``, and the client library carries
it to the host. Without a collector in the environment no span is made and the client's own is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

from agtphost import extras
from agtphost.mcp.context import Context
from agtphost.mcp.messages import McpFault
from agtphost.mcp.server import Handler, Server
from agtphost.vocabulary import trace_context
from agtphost.vocabulary.trace_context import TRACEPARENT, TRACESTATE

SERVICE = "agtp-mcp-bridge"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
SHUTDOWN_SECONDS = 1.5
"""Seconds that the end waits for the delivery of the last spans."""

API = "opentelemetry.trace"
EXPORTER = "opentelemetry.exporter.otlp.proto.http"


def begin(environ: Mapping[str, str]) -> Callable[[], None]:
    """
    Begin to export spans, before any request is served.

    :param environ: the environment, with ``TRACEPARENT``, ``TRACESTATE`` and the variables of the SDK.
    :return: a function that ends the export, within two seconds.
    """
    place = trace_context.read(environ.get("TRACEPARENT"), environ.get("TRACESTATE"))
    if place is not None and extras.is_installed(API):
        from opentelemetry import context, propagate

        fields = {TRACEPARENT: environ["TRACEPARENT"], TRACESTATE: place.state}
        context.attach(propagate.extract(fields))
    wanted = any(environ.get(name) for name in ENDPOINTS) and environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    return _start_export(environ) if wanted and extras.is_installed(EXPORTER) else lambda: None


def _start_export(environ: Mapping[str, str]) -> Callable[[], None]:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": SERVICE}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=1000))
    trace.set_tracer_provider(provider)

    def end() -> None:
        parting = Thread(target=provider.shutdown, daemon=True)
        parting.start()
        parting.join(SHUTDOWN_SECONDS)

    return end


def trace_requests(server: Server) -> None:
    """Make a span of each request, where OpenTelemetry is installed."""
    if extras.is_installed(API):
        for method, handler in server.handlers.items():
            server.handlers[method] = _trace_handler(handler)


def _trace_handler(handler: Handler) -> Handler:
    from opentelemetry import propagate, trace

    tracer = trace.get_tracer(SERVICE)

    async def run(context: Context) -> dict[str, Any]:
        named = context.params.get("name")
        name = f"{context.method} {named}" if isinstance(named, str) else context.method
        meta = context.meta
        fields = {key: meta[key] for key in (TRACEPARENT, TRACESTATE) if isinstance(meta.get(key), str)}
        place = propagate.extract(fields) if TRACEPARENT in fields else None
        if place is None and type(trace.get_tracer_provider()) is trace.ProxyTracerProvider:
            return await handler(context)  # nothing exports spans, and the call continues no trace
        attributes = {"mcp.method.name": context.method, "mcp.protocol.version": context.revision}
        with tracer.start_as_current_span(
            name, place, trace.SpanKind.SERVER, attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                return await handler(context)
            except McpFault as fault:
                span.set_attribute("error.type", str(fault.code))
                span.set_status(trace.StatusCode.ERROR, fault.message)
                raise

    return run
