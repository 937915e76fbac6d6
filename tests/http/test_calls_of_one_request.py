"""How much Python a call over HTTP takes: functions between the octets of a request and those of its answer."""

from __future__ import annotations

import gc
import sys
from collections import Counter

import pytest

from agtphost.http.bounded_request import BoundedRequest
from agtphost.testing import MemoryHost
from tests.bench.call_bounds import HTTP_CALL
from tests.dispatch.test_calls_of_one_request import nothing_as_time_passes as nothing_as_time_passes
from tests.function_calls import ROUNDS, count_functions
from tests.http.test_left_over import REQUESTS, connected
from tests.http.test_left_over import served as served

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="interpreters differ in what they call a call")


def functions(host: MemoryHost, case: str) -> Counter[str]:
    """Calls of Python functions by module, but for those of tests and of their clock."""
    _, octets, status = REQUESTS[case]
    channel, wire = connected(host)

    def ask() -> None:
        wire.clear()
        channel.dataReceived(octets)
        host.clock.settle()

    for _ in range(ROUNDS):
        ask()
        assert wire.value().startswith(b"HTTP/1.1 %d " % status), wire.value()
    return count_functions(ask)


@pytest.mark.parametrize("case", HTTP_CALL)
def test_a_call_over_http_takes_no_more_functions_than_it_did(case: str, served: MemoryHost) -> None:
    """From octets to octets, signed and stored."""
    counted = functions(served, case)
    assert counted.total() <= HTTP_CALL[case], counted.most_common(30)


def test_no_garbage_is_collected_between_rounds() -> None:
    """After thousands of tests that would be another second in each round, which takes one to three functions more."""
    events: list[str] = []

    def note(phase: str, about: object) -> None:
        events.append(phase)

    gc.callbacks.append(note)
    try:
        count_functions(lambda: events.append("round"))
    finally:
        gc.callbacks.remove(note)
    assert events[-ROUNDS:] == ["round"] * ROUNDS


def test_control_fields_that_are_read_twice_are_seen(served: MemoryHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that looks for its fields once more is beyond the bound."""
    process = BoundedRequest.process

    def doubting(request: BoundedRequest) -> None:
        for name, _ in list(request.requestHeaders.getAllRawHeaders()):
            assert request.requestHeaders.getRawHeaders(name)
        process(request)

    monkeypatch.setattr(BoundedRequest, "process", doubting)
    assert functions(served, "a call").total() > HTTP_CALL["a call"]
