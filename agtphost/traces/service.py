"""Begin the spans of calls, and pass them to the collector."""

from __future__ import annotations

from threading import Thread
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from agtphost import __version__
from agtphost.config.traces import TracesSection
from agtphost.dispatch.exchange import Exchange
from agtphost.traces.span_export import BoundedProcessor, CountingExporter, exporter_of
from agtphost.traces.spans import CallSpan
from agtphost.vocabulary import trace_context

STOP_SECONDS = 1.5
"""Seconds that a stop waits for the delivery of remaining spans."""

LONGEST_ATTRIBUTE = 256
"""Characters of an attribute."""

log = Logger()


class TraceService(Service):
    """
    The service of ``[traces]``.

    :param server_id: identifies this host among hosts of one service name.
    """

    name = "traces"

    def __init__(self, reactor: Any, settings: TracesSection, server_id: str) -> None:
        self._reactor = reactor
        self.settings = settings
        self._server_id = server_id
        self._tracer: trace.Tracer | None = None
        self._counted: CountingExporter | None = None
        self._queue: BoundedProcessor | None = None
        self._failing = False
        self.undelivered = 0
        """Spans that the collector did not take."""

    @property
    def lost_spans(self) -> dict[str, int]:
        """Return the spans that no collector has: those dropped for lack of room, and those not taken."""
        return {"dropped": 0 if self._queue is None else self._queue.dropped, "undelivered": self.undelivered}

    def begin(self, exchange: Exchange) -> CallSpan | None:
        """Begin the span of a call; see :class:`agtphost.dispatch.tracing.Tracer`."""
        if self._tracer is None:
            return None
        headers = exchange.request.headers
        place = trace_context.read(headers.get(trace_context.TRACEPARENT), headers.get(trace_context.TRACESTATE))
        return CallSpan(self._tracer, exchange, place, agents=self.settings.agents)

    def startService(self) -> None:
        """Start the tracer; not earlier, since a thread does not survive the fork of a daemon."""
        super().startService()  # type: ignore[no-untyped-call]
        self._counted = CountingExporter(exporter_of(self.settings), self)
        self._queue = BoundedProcessor(self._counted, self._dropping)
        told = {
            SERVICE_NAME: self.settings.service_name,
            SERVICE_VERSION: __version__,
            SERVICE_INSTANCE_ID: self._server_id,
        }
        provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(self.settings.sample)),
            resource=Resource.create().merge(Resource(told)),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_attribute_length=LONGEST_ATTRIBUTE),
        )
        provider.add_span_processor(self._queue)
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            # Spans that an operator's function makes by the API take the same way.
            trace.set_tracer_provider(provider)
        self._tracer = provider.get_tracer("agtphost", __version__)

    def stopService(self) -> Deferred[None]:
        """Deliver the remaining spans, but wait only for a moment: an unavailable collector must not delay the stop."""
        super().stopService()  # type: ignore[no-untyped-call]
        queue, counted = self._queue, self._counted
        self._tracer = None
        if queue is None or counted is None:
            return succeed(None)
        done: Deferred[None] = Deferred()

        def finish() -> None:
            if not done.called:
                done.callback(None)

        def deliver() -> None:
            queue.shutdown()
            self._reactor.callFromThread(finish)

        # A daemon thread: the end of the process would wait for one of the reactor's pool.
        Thread(target=deliver, name="agtphost-traces-end", daemon=True).start()
        waiting = self._reactor.callLater(STOP_SECONDS, finish)

        def note_end(_: None) -> None:
            if waiting.active():
                waiting.cancel()
            else:
                counted.shutdown()
            if queue.lost_spans:
                log.warn("traces: {lost} spans were not delivered", lost=queue.lost_spans)

        return done.addCallback(note_end)

    # Reports of the exporter: logged at the first failure, and again at the recovery

    def _dropping(self) -> None:
        log.warn("traces: spans are dropped, more come than the collector takes")

    def note_failing(self, spans: int) -> None:
        """
        Note in the reactor's thread that spans were lost.

        See :class:`agtphost.traces.span_export.DeliveryListener`.
        """
        self._reactor.callFromThread(self._note_failure, spans)

    def note_delivered(self) -> None:
        """
        Note in the reactor's thread that spans were delivered.

        See :class:`agtphost.traces.span_export.DeliveryListener`.
        """
        if self._failing:
            self._reactor.callFromThread(self._note_recovery)

    def _note_failure(self, spans: int) -> None:
        self.undelivered += spans
        if not self._failing:
            self._failing = True
            log.warn(
                "traces: the collector at {endpoint} does not take spans; calls continue without traces",
                endpoint=self.settings.endpoint,
            )

    def _note_recovery(self) -> None:
        if self._failing:
            self._failing = False
            log.info(
                "traces: the collector takes spans again; {count} were not delivered by then", count=self.undelivered
            )
