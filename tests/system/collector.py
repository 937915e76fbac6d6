"""A collector of OpenTelemetry: takes spans over OTLP/HTTP, decodes them with the official schema, and keeps them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.system.hosting import until

KINDS = {1: "internal", 2: "server", 3: "client"}
ERROR = 2


@dataclass(frozen=True)
class Span:
    """One span as it arrived."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, Any]
    error: bool
    state: str
    began: int
    ended: int


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value") or "string_value")


def decoded(octets: bytes) -> Iterator[Span]:
    """The spans of one request."""
    request = ExportTraceServiceRequest()
    request.ParseFromString(octets)
    for resource in request.resource_spans:
        named = {each.key: _value(each.value) for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    service=named["service.name"],
                    name=span.name,
                    kind=KINDS.get(span.kind, str(span.kind)),
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    attributes={each.key: _value(each.value) for each in span.attributes},
                    error=span.status.code == ERROR,
                    state=span.trace_state,
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                )


class Collector:
    """What arrived, and where to send it."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.octets = b""
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, trace_id: str) -> list[Span]:
        """The spans of one trace."""
        return [span for span in self.spans if span.trace_id == trace_id]

    def wait(self, trace_id: str, *names: str) -> dict[str, Span]:
        """Until spans of these names of a trace arrived; all of it by name, the latest of each."""
        until(lambda: set(names) <= {span.name for span in self.of(trace_id)})
        return {span.name: span for span in self.of(trace_id)}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            octets = self.rfile.read(int(self.headers["Content-Length"]))
            found.octets += octets
            found.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            found.spans.extend(decoded(octets))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield found
        server.shutdown()
