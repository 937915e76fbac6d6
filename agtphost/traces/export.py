"""
How spans leave the process.

The SDK's batch processor has a thread of its own, so nothing here waits for a collector. What waits to be sent is
bounded, what comes beyond is dropped and counted. Of what a collector answers only the status is read: neither its
length nor a redirect nor what it says to a proxy means anything here.
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
"""Spans that wait to be sent, of some four kilobytes each; the newest are dropped beyond that."""

BATCH = 512
"""Spans of one request to the collector."""

DELAY = 1.0
"""Seconds for which spans are gathered."""

PATH = "/v1/traces"
"""Where OTLP/HTTP takes spans, below a URL without a path."""


class Told(Protocol):
    """Hears, in the exporter's thread, how the collector does."""

    def failing(self, spans: int) -> None:
        """Spans could not be delivered, and are gone."""

    def delivered(self) -> None:
        """Spans were delivered."""


def url_of(endpoint: str) -> str:
    """The URL that spans are posted to: one without a path is that of the collector itself."""
    parts = urlsplit(endpoint)
    return endpoint if parts.path.strip("/") else urlunsplit(parts._replace(path=PATH))


class Posting(requests.Session):
    """
    What posts batches.

    Neither proxies nor passwords of the environment, no field but the operator's own, and no octet of an answer's
    body: one that never ends costs nothing.

    :param fields: header fields, secrets opened.
    """

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__()
        self.trust_env = False
        self._fields = {"Content-Type": "application/x-protobuf", **fields}

    def request(self, method: str, url: str | bytes, *args: Any, **options: Any) -> requests.Response:
        """One batch; the connection ends with the head of the answer."""
        options.update(headers=self._fields, stream=True, allow_redirects=False)
        response = super().request(method, url, *args, **options)
        response.close()
        if 300 <= response.status_code < 400:
            # The SDK takes these for deliveries; they are none, and are not followed.
            response.status_code = 421
        return response


class Counted(SpanExporter):
    """
    Counts what is taken out of the queue, and tells what became of it.

    :param inner: sends it.
    """

    def __init__(self, inner: SpanExporter, told: Told) -> None:
        self._inner = inner
        self._told = told
        self.taken = 0
        self.delivered = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """In the processor's thread."""
        self.taken += len(spans)
        try:
            result = self._inner.export(spans)
        except Exception:
            result = SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            self.delivered += len(spans)
            self._told.delivered()
        else:
            self._told.failing(len(spans))
        return result

    def shutdown(self) -> None:
        """Give up whatever is being sent again."""
        self._inner.shutdown()


class Bounded(SpanProcessor):
    """
    The SDK's batch processor, behind a bound that counts what it drops.

    :param exporter: sends batches.
    :param dropping: is told, in the thread that ends spans, when the first of several is dropped.
    """

    def __init__(self, exporter: Counted, dropping: Callable[[], None]) -> None:
        self._exporter = exporter
        self._dropping = dropping
        self._ended = 0
        self.dropped = 0
        self._full = False
        self._batches = BatchSpanProcessor(
            exporter,
            max_queue_size=MOST_WAITING,
            schedule_delay_millis=DELAY * 1000,
            max_export_batch_size=BATCH,
        )

    @property
    def waiting(self) -> int:
        """Spans that wait to be sent."""
        return self._ended - self._exporter.taken

    @property
    def lost(self) -> int:
        """Spans that the collector has not taken so far, for whatever reason."""
        return self._ended - self._exporter.delivered + self.dropped

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing is done with a span before its end."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue it, or count it."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        if self.waiting >= MOST_WAITING:
            self.dropped += 1
            if not self._full:
                self._full = True
                self._dropping()
            return
        if self._full and self.waiting < MOST_WAITING // 2:
            # Not at the first free place: a queue that is full is so again at once.
            self._full = False
        self._ended += 1
        self._batches.on_end(span)

    def shutdown(self) -> None:
        """Send what waits, and end the thread; blocks until then."""
        self._batches.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what waits; blocks until then."""
        return self._batches.force_flush(timeout_millis)


def exporter_of(settings: TracesSection) -> OTLPSpanExporter:
    """The official exporter, told everything by the configuration and nothing by the environment."""
    # What it logs of each attempt is told once here, in one sentence.
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
        session=Posting(settings.opened_headers()),
    )
