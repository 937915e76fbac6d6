"""
Deliver spans to a collector.

The SDK's batch processor runs in a separate thread, so nothing here waits for a collector. The queue is bounded;
further spans are dropped and counted. Only the status of a collector's answer is read: its length, a redirect, or
fields for a proxy have no effect.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from agtphost.config.traces import TracesSection

MOST_WAITING = 4096
"""Spans that wait to be sent, of about four kilobytes each; beyond that the newest are dropped."""

BATCH = 512
"""Spans of one request to the collector."""

BATCH_SECONDS = 1.0
"""Seconds for which spans are collected into a batch."""

PATH = "/v1/traces"
"""The path of OTLP/HTTP for spans, below a URL without a path."""


class DeliveryListener(Protocol):
    """A listener for the results of deliveries, called in the exporter's thread."""

    def note_failing(self, spans: int) -> None:
        """Note that spans could not be delivered and are lost."""

    def note_delivered(self) -> None:
        """Note that spans were delivered."""


def url_of(endpoint: str) -> str:
    """Return the URL that spans are posted to; an endpoint without a path gets the default path."""
    parts = urlsplit(endpoint)
    return endpoint if parts.path.strip("/") else urlunsplit(parts._replace(path=PATH))


class BatchSession(requests.Session):
    """
    An HTTP session that posts batches.

    It ignores proxies and passwords of the environment, sends only the operator's fields, and reads no octet of an
    answer's body, so an endless one costs nothing.

    :param fields: header fields, with secrets revealed.
    """

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__()
        self.trust_env = False
        self._fields = {"Content-Type": "application/x-protobuf", **fields}

    def request(self, method: str, url: str | bytes, *args: Any, **options: Any) -> requests.Response:
        """Post a batch; the connection ends after the head of the answer."""
        options.update(headers=self._fields, stream=True, allow_redirects=False)
        response = super().request(method, url, *args, **options)
        response.close()
        if 300 <= response.status_code < 400:
            # The SDK would count a redirect as a delivery. It is not one, and is not followed.
            response.status_code = 421
        return response


class CountingExporter(SpanExporter):
    """
    An exporter that counts the spans taken from the queue, and reports the results.

    :param inner: sends the spans.
    """

    def __init__(self, inner: SpanExporter, listener: DeliveryListener) -> None:
        self._inner = inner
        self._listener = listener
        self.taken = 0
        self.delivered = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export a batch, in the processor's thread."""
        self.taken += len(spans)
        try:
            result = self._inner.export(spans)
        except Exception:
            result = SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            self.delivered += len(spans)
            self._listener.note_delivered()
        else:
            self._listener.note_failing(len(spans))
        return result

    def shutdown(self) -> None:
        """Stop retries of a batch."""
        self._inner.shutdown()


class BoundedProcessor(SpanProcessor):
    """
    The SDK's batch processor behind a bound that counts dropped spans.

    :param exporter: sends batches.
    :param dropping: called, in the thread that ends spans, when the first of several is dropped.
    """

    def __init__(self, exporter: CountingExporter, dropping: Callable[[], None]) -> None:
        self._exporter = exporter
        self._dropping = dropping
        self._ended = 0
        self.dropped = 0
        self._full = False
        self._batches = BatchSpanProcessor(
            exporter,
            max_queue_size=MOST_WAITING,
            schedule_delay_millis=BATCH_SECONDS * 1000,
            max_export_batch_size=BATCH,
        )

    @property
    def waiting(self) -> int:
        """Return the number of spans that wait to be sent."""
        return self._ended - self._exporter.taken

    @property
    def lost_spans(self) -> int:
        """Return the number of spans that the collector has not taken, for any reason."""
        return self._ended - self._exporter.delivered + self.dropped

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Do nothing yet. A span is processed at its end."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span, or count it as dropped."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        if self.waiting >= MOST_WAITING:
            self.dropped += 1
            if not self._full:
                self._full = True
                self._dropping()
            return
        if self._full and self.waiting < MOST_WAITING // 2:
            # Not at the first free place: a full queue would soon be full again.
            self._full = False
        self._ended += 1
        self._batches.on_end(span)

    def shutdown(self) -> None:
        """Send the waiting spans, and end the thread; blocks until then."""
        self._batches.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send the waiting spans; blocks until then."""
        return self._batches.force_flush(timeout_millis)


def exporter_of(settings: TracesSection) -> OTLPSpanExporter:
    """Return the official exporter, set up by the configuration and not by the environment."""
    # Its log of each attempt is replaced by one message of this package.
    quiet = logging.getLogger("opentelemetry")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    paths = ssl.get_default_verify_paths()
    trusted = settings.ca or paths.cafile or paths.capath
    return OTLPSpanExporter(
        endpoint=url_of(settings.endpoint),
        certificate_file=None if trusted is None else str(trusted),
        timeout=settings.timeout,
        compression=Compression.NoCompression,
        session=BatchSession(settings.opened_headers()),
    )
