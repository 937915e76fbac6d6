"""What a call pays for traces: nothing without them, little where its trace is not recorded, and some where it is."""

from __future__ import annotations

import time

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agtphost.testing import MemoryHost
from agtphost.traces.service import Traces

ROUNDS, CALLS = 12, 40


class Asked:
    """A host in memory whose calls are timed."""

    def __init__(self, sample: float | None) -> None:
        traces = {} if sample is None else {"traces": {"endpoint": "http://127.0.0.1:9", "sample": sample}}
        self.host = MemoryHost(traces)
        self.host.endpoint("QUERY", "/thing", lambda context: {"a": 1})
        self.demo = self.host.agent("demo")
        self.best = float("inf")
        if isinstance(service := self.host.core.on.traces, Traces):
            service.startService()

    def round(self) -> None:
        """The processor's time of one call, in microseconds, of this thread alone; the best of several rounds."""
        began = time.thread_time()
        for _ in range(CALLS):
            self.host.call("QUERY", "/thing", caller=self.demo)
        self.best = min(self.best, (time.thread_time() - began) / CALLS * 1e6)

    def close(self) -> None:
        service = self.host.core.on.traces
        if isinstance(service, Traces):
            service.stopService()


def test_what_a_call_pays(monkeypatch: pytest.MonkeyPatch, record_property: pytest.RecordProperty) -> None:
    """
    Three hosts by turns on one machine, so that whatever else it does meets all of them.

    The bounds are some ten times what was measured: they are for a mistake, such as parts of what nobody records.
    """
    monkeypatch.setattr("agtphost.traces.service.exporter_of", lambda settings: InMemorySpanExporter())
    hosts = {"off": Asked(None), "unrecorded": Asked(0.0), "recorded": Asked(1.0)}
    for _ in range(ROUNDS):
        for each in hosts.values():
            each.round()
    for name, each in hosts.items():
        record_property(f"microseconds_{name}", round(each.best, 1))
        each.close()
    off = hosts["off"].best
    print({name: round(each.best) for name, each in hosts.items()})
    assert hosts["unrecorded"].best - off < 100
    assert hosts["recorded"].best - off < 1500
