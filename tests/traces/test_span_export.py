"""How spans leave the process, whatever the collector does."""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Tracer

from agtphost.config.traces import TracesSection
from agtphost.traces import span_export
from agtphost.traces.span_export import BoundedProcessor, CountingExporter, exporter_of, url_of
from tests.measuring import measured
from tests.rows import each_row
from tests.system.collector import collecting
from tests.system.hosting import until

MOST = 64


class Told:
    """Hears what becomes of spans."""

    def __init__(self) -> None:
        self.failed: list[int] = []
        self.times_delivered = 0
        self.dropping = 0

    def note_failing(self, spans: int) -> None:
        self.failed.append(spans)

    def note_delivered(self) -> None:
        self.times_delivered += 1

    def drops(self) -> None:
        self.dropping += 1


class Gated(SpanExporter):
    """Delivers nothing until it may."""

    def __init__(self) -> None:
        self.may = threading.Semaphore(0)
        self.entered = threading.Event()
        self.spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.may.acquire(timeout=60)
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


def tracer_of(processor: BoundedProcessor) -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider.get_tracer("test")


def test_what_waits_is_bounded_and_what_is_dropped_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ends a span never waits; once there is room again, spans are taken, and a second time is told again."""
    monkeypatch.setattr(span_export, "MOST_WAITING", MOST)
    monkeypatch.setattr(span_export, "BATCH", 8)
    told, gate = Told(), Gated()
    counted = CountingExporter(gate, told)
    queue = BoundedProcessor(counted, told.drops)
    tracer = tracer_of(queue)
    for _ in range(8):
        tracer.start_span("first").end()
    assert gate.entered.wait(30), "the thread takes a batch, and stays there"
    for _ in range(3 * MOST):
        tracer.start_span("more").end()
    assert queue.waiting == MOST
    assert (queue.dropped, told.dropping) == (2 * MOST, 1)
    gate.may.release()
    until(lambda: counted.taken == 16)
    for _ in range(16):
        tracer.start_span("more").end()
    assert (queue.dropped, told.dropping) == (2 * MOST + 8, 1), "a queue that stays full is told once"
    gate.may.release(100)
    assert queue.force_flush()
    tracer.start_span("again").end()
    assert queue.waiting <= 1
    while gate.may.acquire(blocking=False):
        pass
    for _ in range(3 * MOST):
        tracer.start_span("more").end()
    assert told.dropping == 2, "one that was empty meanwhile is told again"
    gate.may.release(1000)
    queue.shutdown()
    assert queue.waiting == 0 and queue.lost_spans == queue.dropped


def test_a_queue_without_the_bound_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: with room for all, nothing is dropped, and more waits than may."""
    monkeypatch.setattr(span_export, "BATCH", 8)
    told, gate = Told(), Gated()
    queue = BoundedProcessor(CountingExporter(gate, told), told.drops)
    tracer = tracer_of(queue)
    for _ in range(3 * MOST):
        tracer.start_span("more").end()
    assert queue.waiting > MOST and queue.dropped == 0
    gate.may.release(1000)
    queue.shutdown()


def test_an_exporter_that_fails_ends_nothing() -> None:
    """An exception is a failure like others: the thread goes on."""

    class Broken(Gated):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            self.spans += 1
            if self.spans == 1:
                raise RuntimeError("broken")
            return SpanExportResult.SUCCESS

    told = Told()
    queue = BoundedProcessor(CountingExporter(Broken(), told), told.drops)
    tracer = tracer_of(queue)
    for _ in range(2):
        tracer.start_span("x").end()
        queue.force_flush()
    assert told.failed == [1] and told.times_delivered == 1
    queue.shutdown()


# Collectors

Serve = Callable[[socket.socket], None]


@contextmanager
def answering(serve: Serve) -> Iterator[tuple[str, list[bytes]]]:
    """A collector of the worst kind; its URL, and the heads of what it was sent."""
    heads: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    heads.append(connection.recv(65_536))
                    serve(connection)
                except OSError:
                    pass

    threading.Thread(target=run, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", heads
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def endless(head: bytes, rest: bytes) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(rest)

    return serve


def once(octets: bytes) -> Serve:
    return lambda connection: connection.sendall(octets)


def silent(connection: socket.socket) -> None:
    connection.recv(1 << 20)
    threading.Event().wait(30)


def delivered(url: str, **more: Any) -> tuple[SpanExportResult, float]:
    """What became of one span, and how long that took."""
    exporter = exporter_of(TracesSection(endpoint=url, **{"timeout": 2.0, **more}))
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("x")
    span.end()
    assert isinstance(span, ReadableSpan)
    began = time.monotonic()
    return exporter.export([span]), time.monotonic() - began


OK = b"HTTP/1.1 200 OK\r\n"


@measured
@each_row(
    ("serve", "taken"),
    [
        (once(OK + b"Content-Length: 0\r\n\r\n"), True),
        (endless(OK + b"Content-Length: 999999999999\r\n\r\n", b"x" * 65_536), True),
        (endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65_536 + b"\r\n"), True),
        (endless(OK, b"X: " + b"x" * 1000 + b"\r\n"), False),
        (endless(OK + b"X: ", b"x" * 65_536), False),
        (once(b"garbage\r\n\r\n"), False),
        (once(b""), False),
        (once(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"), False),
        (once(b"HTTP/1.1 503 Later\r\nRetry-After: 1e9\r\nContent-Length: 0\r\n\r\n"), False),
        (once(b"HTTP/1.1 503 Later\r\nRetry-After: nan\r\nContent-Length: 0\r\n\r\n"), False),
        (once(b"HTTP/1.1 429 Later\r\nRetry-After: -1\r\nContent-Length: 0\r\n\r\n"), False),
        (silent, False),
    ],
    ids=[
        *("fine", "endless-body", "endless-chunks", "endless-fields", "endless-field", "garbage"),
        *("closed", "refused", "later", "nan", "minus", "silent"),
    ],
)
def test_whatever_a_collector_answers_costs_little(serve: Serve, taken: bool) -> None:
    """It ends within its time, and none of an answer's octets are kept."""
    with answering(serve) as (url, _):
        tracemalloc.start()
        try:
            result, seconds = delivered(url)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (result is SpanExportResult.SUCCESS) is taken
    assert seconds < 20
    assert peak < 8 << 20


@each_row("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    """They are failures: what is at the other place is asked nothing."""
    with collecting() as elsewhere:
        head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {elsewhere.url}/v1/traces\r\nContent-Length: 0\r\n\r\n"
        with answering(once(head.encode())) as (url, heads):
            assert delivered(url)[0] is SpanExportResult.FAILURE
        assert heads and not elsewhere.requests


def test_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No proxy, no password, no field, no place: what is sent, and where, is what the file says."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login x password tell-no-one\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    with collecting() as collector, answering(once(b"")) as (proxy, asked):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "OTEL_EXPORTER_OTLP_ENDPOINT"):
            monkeypatch.setenv(name, proxy)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-other=tell-no-one")
        result, _ = delivered(collector.url, headers={"x-key": "mine"})
        assert result is SpanExportResult.SUCCESS
        ((path, fields),) = collector.requests
        assert path == "/v1/traces"
        assert fields["x-key"] == "mine"
        assert not {"x-other", "authorization"} & fields.keys()
        assert not asked


@each_row(
    ("endpoint", "url"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://c.example/", "https://c.example/v1/traces"),
        ("https://c.example/otlp/v1/traces", "https://c.example/otlp/v1/traces"),
        ("https://c.example/otlp/", "https://c.example/otlp/"),
    ],
)
def test_an_endpoint_without_a_path_is_the_collector_itself(endpoint: str, url: str) -> None:
    """As OpenTelemetry has it of its own variable."""
    assert url_of(endpoint) == url
