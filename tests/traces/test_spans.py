"""What a call's span says, and what it never says; and that a host without ``[traces]`` does none of it."""

from __future__ import annotations

import gc
import linecache
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from agtphost import EndpointContext
from agtphost.client.requests import Identity, prepare
from agtphost.dispatch.exchange import Exchange
from agtphost.identity.peer import Peer
from agtphost.testing import MemoryHost
from agtphost.testing.connection import Answer
from agtphost.testing.identities import TestAgent
from agtphost.traces.service import TraceService
from agtphost.traces.spans import CallSpan

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
GIVEN = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
SETTINGS = {"traces": {"endpoint": "http://127.0.0.1:9"}}


class Traced:
    """A host in memory whose spans end here."""

    def __init__(self, settings: dict[str, Any] | None = None, sample: float = 1.0) -> None:
        self.host = MemoryHost(settings or SETTINGS)
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(sample)), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._provider = provider
        self.demo = self.host.agent("demo")
        self.host.endpoint("QUERY", "/things/{name}", self.answer)
        self.host.endpoint("QUERY", "/outer", self.outer)
        self.host.endpoint("QUERY", "/bad", self.bad)
        self.host.endpoint("QUERY", "/own", self.own)

    def answer(self, context: EndpointContext) -> dict[str, Any]:
        return {"of": context.input["name"]}

    async def outer(self, context: EndpointContext) -> dict[str, Any]:
        await context.invoke("QUERY", "/things/one", {})
        await context.invoke("QUERY", "/things/two", {})
        return {}

    def bad(self, context: EndpointContext) -> dict[str, Any]:
        raise RuntimeError("tell-no-one")

    def own(self, context: EndpointContext) -> dict[str, Any]:
        with self._provider.get_tracer("operator").start_as_current_span("own work"):
            call = prepare("agtp://elsewhere.example", "QUERY", identity=Identity())
        return {"carried": call.request.headers.get("traceparent")}

    def call(self, method: str, path: str, **options: Any) -> Answer:
        """By an agent."""
        return self.host.call(method, path, caller=self.demo, **options)

    def begin(self) -> Traced:
        """From here on calls have spans."""
        traces = self.host.core.features.tracer
        assert isinstance(traces, TraceService)
        traces._tracer = self._provider.get_tracer("agtphost")
        return self

    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans() if span.name == name]
        return found


@pytest.fixture
def traced() -> Iterator[Traced]:
    yield Traced()


def ids(span: ReadableSpan) -> tuple[str, str, str]:
    """Trace, span and parent, as they are written."""
    assert span.context is not None
    parent = "" if span.parent is None else f"{span.parent.span_id:016x}"
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}", parent


def test_a_call_has_a_span_with_its_parts(traced: Traced) -> None:
    """Its record names both, and the path of the caller is not in it."""
    answer = traced.begin().call("QUERY", "/things/tell-no-one", headers=GIVEN)
    call = traced.named("QUERY /things/{name}")
    trace_id, span_id, parent = ids(call)
    assert (trace_id, parent) == (TRACE, PARENT)
    assert call.kind is trace.SpanKind.SERVER
    assert call.parent is not None and call.parent.is_remote
    assert dict(call.attributes or {}) == {
        "rpc.system.name": "agtp",
        "rpc.method": "QUERY /things/{name}",
        "rpc.response.status_code": "200",
        "agtp.status": 200,
        "agtp.method": "QUERY",
        "agtp.path": "/things/{name}",
        "agtp.assurance": "certificate",
        "agtp.agent": "demo",
        "agtp.audit_id": answer.headers.get("audit-id"),
    }
    for part in ("gates", "handler", "ledger"):
        assert ids(traced.named(part))[2] == span_id
    assert answer.record["extra"]["trace"] == {"trace_id": TRACE, "span_id": span_id, "parent_id": PARENT}
    assert not any("tell-no-one" in span.to_json() for span in traced.spans())


def test_a_call_without_a_trace_begins_one(traced: Traced) -> None:
    """Each its own; the record has no parent."""
    first, second = (traced.begin().call("QUERY", "/things/x").record["extra"]["trace"] for _ in range(2))
    assert first["trace_id"] != second["trace_id"]
    assert "parent_id" not in first


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "00-00000000000000000000000000000000-00f067aa0ba902b7-01"},
        {"traceparent": GIVEN["traceparent"] + "-x"},
        {"traceparent": "x" * 5000},
        {"tracestate": "a=1"},
    ],
)
def test_a_malformed_trace_counts_as_absent(traced: Traced, headers: dict[str, str]) -> None:
    """The call is made as ever, and its trace is a new one."""
    answer = traced.begin().call("QUERY", "/things/x", headers=headers)
    assert answer.status == 200
    assert "parent_id" not in answer.record["extra"]["trace"]
    assert answer.record["extra"]["trace"]["trace_id"] != TRACE


def test_a_repeated_field_counts_as_absent(traced: Traced) -> None:
    """No guess which of two is meant."""
    twice = prepare(
        "agtp://x", "QUERY", "/things/x", identity=Identity(), headers=[*GIVEN.items(), *GIVEN.items()], body=b""
    )
    host = traced.begin().host
    asked = host.connect(traced.demo).ask(twice)
    host.clock.settle()
    found: list[Any] = []
    asked.addCallback(found.append)
    assert "parent_id" not in found[0].record["extra"]["trace"]


def test_calls_of_a_handler_are_below_it(traced: Traced) -> None:
    """One trace; each inner call is a server span below the outer handler, and no foreign one."""
    traced.begin().call("QUERY", "/outer", headers=GIVEN)
    outer = traced.named("QUERY /outer")
    inner = [span for span in traced.spans() if span.name == "QUERY /things/{name}"]
    handlers = {ids(span)[1] for span in traced.spans() if span.name == "handler" and ids(span)[2] == ids(outer)[1]}
    assert len(inner) == 2
    assert {ids(span)[2] for span in inner} == handlers and len(handlers) == 1
    assert {ids(span)[0] for span in traced.spans()} == {TRACE}
    assert not any(span.parent is not None and span.parent.is_remote for span in inner)
    # After them the outer call is itself again: its record's part is below it.
    assert sum(ids(span)[2] == ids(outer)[1] for span in traced.spans() if span.name == "ledger") == 1


def test_refusals_say_why_and_are_no_errors(traced: Traced) -> None:
    """What a caller does wrong is no fault of the host; a path that nothing has is in no name."""
    traced.begin().call("QUERY", "/tell-no-one")
    span = traced.named("AGTP")
    assert span.attributes is not None and span.attributes["agtp.status"] == 404
    assert span.attributes["agtp.reason"] == "not-found"
    assert span.status.status_code is trace.StatusCode.UNSET
    assert "tell-no-one" not in span.to_json()


def test_faults_of_the_host_are_errors(traced: Traced) -> None:
    """With their reason, and without what the exception says."""
    traced.begin().call("QUERY", "/bad")
    span = traced.named("QUERY /bad")
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == span.attributes["agtp.reason"]
    assert not any("tell-no-one" in span.to_json() for span in traced.spans())


def test_the_callers_label_can_be_left_out() -> None:
    """``agents = false``."""
    traced = Traced({"traces": {**SETTINGS["traces"], "agents": False}})
    traced.begin().call("QUERY", "/things/x")
    assert "demo" not in traced.named("QUERY /things/{name}").to_json()


def test_a_callers_decision_counts_and_the_ratio_otherwise() -> None:
    """Parent-based: a sampled trace is recorded at a ratio of 0, and an unsampled one at 1 is not."""
    none, all_of_them = Traced(sample=0.0).begin(), Traced(sample=1.0).begin()
    unsampled = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    none.call("QUERY", "/things/x")
    all_of_them.call("QUERY", "/things/x", headers=unsampled)
    assert none.spans() == all_of_them.spans() == []
    none.call("QUERY", "/things/x", headers=GIVEN)
    all_of_them.call("QUERY", "/things/x")
    assert len(none.spans()) == len(all_of_them.spans()) == 4


def test_an_unrecorded_trace_goes_on_all_the_same() -> None:
    """Its record names it, and what the handler calls is told of it."""
    traced = Traced(sample=0.0).begin()
    answer = traced.call("QUERY", "/own", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    assert answer.record["extra"]["trace"]["trace_id"] == TRACE
    assert answer.result["carried"].startswith(f"00-{TRACE}-") and answer.result["carried"].endswith("-00")


def test_spans_of_a_function_belong_to_its_call(traced: Traced) -> None:
    """And so does what it calls with the client library: the active span goes along."""
    answer = traced.begin().call("QUERY", "/own", headers=GIVEN)
    own = traced.named("own work")
    assert ids(own)[::2] == (TRACE, ids(traced.named("handler"))[1])
    assert answer.result["carried"] == f"00-{TRACE}-{ids(own)[1]}-01"
    assert not trace.get_current_span().get_span_context().is_valid


def alive() -> int:
    """Calls, and spans of calls, that something refers to."""
    return sum(type(each) in (CallSpan, Exchange) for each in gc.get_objects())


@pytest.mark.parametrize("sample", [0.0, 1.0])
def test_a_traced_call_leaves_no_circle_behind(sample: float) -> None:
    """The collector of a host runs rarely, because calls leave it nothing: traced ones neither."""
    traced = Traced(sample=sample).begin()
    traced.call("QUERY", "/outer")
    gc.collect()
    gc.disable()
    try:
        before = alive()
        for _ in range(5):
            traced.call("QUERY", "/outer")
        assert alive() == before
    finally:
        gc.enable()


def functions(host: MemoryHost, demo: TestAgent) -> set[str]:
    """The files of all functions of traces that one call runs, but for the client's."""
    found: set[str] = set()

    def saw(frame: Any, event: str, argument: object) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    host.call("QUERY", "/things/x", caller=demo)
    sys.setprofile(saw)
    try:
        host.call("QUERY", "/things/x", caller=demo, headers=GIVEN)
    finally:
        sys.setprofile(None)
    ours = {name for name in found if name.endswith(("tracing.py", "trace_context.py")) or "agtphost/traces/" in name}
    return {name for name in ours | {name for name in found if "opentelemetry" in name} if "/client/" not in name}


def test_without_the_section_no_function_of_traces_runs() -> None:
    """Not one for a call, and its record says nothing of a trace; with the section there are some."""
    plain = MemoryHost()
    plain.endpoint("QUERY", "/things/{name}", lambda context: {})
    demo = plain.agent("demo")
    assert functions(plain, demo) == set()
    assert "trace" not in plain.call("QUERY", "/things/x", caller=demo, headers=GIVEN).record.get("extra", {})
    traced = Traced().begin()
    assert {Path(name).name for name in functions(traced.host, traced.demo)} >= {"spans.py", "trace_context.py"}


def test_without_the_section_nothing_of_opentelemetry_is_imported() -> None:
    """Neither the SDK nor the API, nor what sends spans."""
    program = (
        "import sys\nfrom agtphost.testing import MemoryHost\nhost = MemoryHost()\nhost.call('DISCOVER', '/')\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'requests', 'agtphost.traces'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_attributes_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whatever is told: what is longer than 256 characters is cut by the SDK."""
    traced = Traced()
    service = traced.host.core.features.tracer
    assert isinstance(service, TraceService)
    monkeypatch.setattr("agtphost.traces.service.exporter_of", lambda settings: InMemorySpanExporter())
    service.startService()
    try:
        assert service._tracer is not None
        span = service._tracer.start_span("x")
        span.set_attribute("a", "x" * 1000)
        assert isinstance(span, ReadableSpan) and span.attributes == {"a": "x" * 256}
    finally:
        service.stopService()


def test_calls_over_quic_say_so(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    """A span names the transport where it is not TCP, as the record does its carrier."""
    monkeypatch.setattr("agtphost.testing.host.Peer", partial(Peer, carrier="quic"))
    answer = traced.begin().call("QUERY", "/things/one")
    assert (traced.named("QUERY /things/{name}").attributes or {})["network.transport"] == "quic"
    assert answer.record["extra"]["carrier"] == "quic"


def test_a_call_over_tls_looks_at_no_carrier(traced: Traced) -> None:
    """What a span says of a way other than TLS is known of the connection, as what a record says of it."""
    caller = traced.begin()
    caller.call("QUERY", "/things/one")
    seen: set[tuple[str, int]] = set()

    def note(frame: Any, event: str, argument: object) -> Any:
        name = frame.f_code.co_filename
        if "agtphost/traces/" not in name:
            return None
        seen.add((name, frame.f_lineno))
        return note

    sys.settrace(note)
    try:
        caller.call("QUERY", "/things/two")
    finally:
        sys.settrace(None)
    lines = [linecache.getline(*place) for place in seen]
    assert len(lines) > 30 and not [line for line in lines if "carrier" in line or "quic" in line]
