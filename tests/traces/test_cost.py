"""What a call pays for traces: nothing without them, little where its trace is not recorded, and some where it is."""

from __future__ import annotations

import sys

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agtphost.testing import MemoryHost
from agtphost.traces.service import TraceService

CALLS = 20


class Traced:
    """A host in memory, the function calls of whose requests are counted."""

    def __init__(self, sample: float | None) -> None:
        traces = {} if sample is None else {"traces": {"endpoint": "http://127.0.0.1:9", "sample": sample}}
        self.host = MemoryHost(traces)
        self.host.endpoint("QUERY", "/thing", lambda context: {"a": 1})
        self.demo = self.host.agent("demo")
        if isinstance(service := self.host.core.features.tracer, TraceService):
            service.startService()

    def functions(self) -> float:
        """Return how many Python and C functions one request enters in this thread, on average over some requests."""
        entered = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal entered
            entered += event in ("call", "c_call")

        self.host.call("QUERY", "/thing", caller=self.demo)  # What the first request makes is not counted.
        sys.setprofile(count)
        try:
            for _ in range(CALLS):
                self.host.call("QUERY", "/thing", caller=self.demo)
        finally:
            sys.setprofile(None)
        return entered / CALLS

    def close(self) -> None:
        service = self.host.core.features.tracer
        if isinstance(service, TraceService):
            service.stopService()


def test_what_a_call_pays(monkeypatch: pytest.MonkeyPatch, record_property: pytest.RecordProperty) -> None:
    """
    A request that is not recorded enters few functions more than without traces, a recorded one a bounded number.

    Functions are counted, as no other work of the machine changes their number.
    """
    monkeypatch.setattr("agtphost.traces.service.exporter_of", lambda settings: InMemorySpanExporter())
    found: dict[str, float] = {}
    for name, sample in {"off": None, "unrecorded": 0.0, "recorded": 1.0}.items():
        traced = Traced(sample)
        found[name] = traced.functions()
        record_property(f"functions_{name}", found[name])
        traced.close()
    print(found)
    assert found["unrecorded"] - found["off"] < 150
    assert found["recorded"] - found["off"] < 750
