"""What metrics cost a call: ``python -m tests.bench.watched`` measures it on real hosts, this in one process."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable

import pytest

from agtphost import EndpointContext
from agtphost.audit.drafts import Draft, Sealed
from agtphost.audit.watchers import Watchers
from agtphost.audit.writer import Submission
from agtphost.metrics.call_counts import CallCounts
from agtphost.testing import MemoryHost
from agtphost.vocabulary.steps import run_to_end
from tests.bench.watched import bench
from tests.measuring import measured

SHARE = 0.02
"""Of a call, at most."""


def call_seconds() -> float:
    """CPU time of a call in memory, which has neither TLS nor a disk: the best of several rounds."""
    host = MemoryHost()

    def echo(context: EndpointContext) -> dict[str, object]:
        return {"echo": context.input["text"]}

    host.endpoint("QUERY", "/words", echo, {"text": "string"})
    demo = host.agent("demo")
    spent = []
    for _ in range(7):
        began = time.thread_time()
        for _ in range(30):
            assert host.call("QUERY", "/words", {"text": "tea"}, caller=demo).status == 200
        spent.append((time.thread_time() - began) / 30)
    return min(spent)


def telling_seconds(count: Callable[[CallCounts], object]) -> float:
    """CPU time that telling of one record takes, of a group of one: the most that it can be."""
    draft = Draft(chain="a1" * 32, payload={"method": "QUERY", "status": 200, "path": "/words"})
    draft.began, draft.caller = 1.0, "demo"
    one = Submission(draft)
    one.outcome = Sealed(jws="e30.e30.", audit_id="a" * 64, issued_at="now", number=7)
    watchers = Watchers()
    count_all = CallCounts({"QUERY"}, agents=True)
    watchers.add(lambda group: (count_all.count_group(group), count(count_all)))
    return (
        min(
            timeit.repeat(
                lambda: run_to_end(watchers.report_group([one], 1.5, 0.001)),
                number=500,
                repeat=7,
                timer=time.thread_time,
            )
        )
        / 500
    )


@measured
def test_metrics_cost_a_fiftieth_of_a_call_at_most() -> None:
    """With callers told apart, and in groups of one. Both numbers of one run."""
    call, telling = call_seconds(), telling_seconds(lambda counts: None)
    print(f"{telling * 1e6:.2f} of {call * 1e6:.0f} microseconds: {telling / call:.2%}")
    assert telling < SHARE * call


@measured
def test_control_a_dear_watcher_is_noticed() -> None:
    """One that goes through all it has counted at each call."""
    call = call_seconds()
    assert telling_seconds(lambda counts: [sorted(counts.latencies) for _ in range(200)]) > SHARE * call


@pytest.mark.release
@pytest.mark.slow
def test_the_benchmark_measures_what_it_says() -> None:
    """Both hosts answer, and the one with metrics has counted what it answered and what was still out."""
    found = bench(0.4, 2, access=True)
    rates, answered, counted = found["requests_per_cpu_second"], found["answered"], found["counted"]
    assert isinstance(rates, dict) and set(rates) == {"plain", "watched"} and min(rates.values()) > 10
    assert isinstance(answered, int) and isinstance(counted, int)
    assert 0 < answered <= counted <= answered + 3 * 16
