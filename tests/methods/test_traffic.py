"""Calls of the last hour by the minute, as they are counted from what was sealed."""

from __future__ import annotations

from agtphost.audit.observed_records import ObservedGroup, ObservedRecord
from agtphost.methods.inspection.traffic import MINUTES, MOST_REASONS, OTHERS, Traffic


class Clock:
    """Seconds that a test moves; a whole minute at its beginning."""

    def __init__(self) -> None:
        self.now = 60_000.0

    def __call__(self) -> float:
        return self.now


def record(seconds: float | None, *, status: int = 200, reason: str = "") -> ObservedRecord:
    members = {"method": "QUERY", "path": "/", "status": status, **({"reason": reason} if reason else {})}
    return ObservedRecord("a" * 64, "", "", 1, seconds=seconds, members=members)


def test_calls_and_refusals_are_counted_by_the_minute() -> None:
    """Minutes without any are left out; percentiles are right to a quarter."""
    clock = Clock()
    traffic = Traffic(clock)
    traffic.saw(ObservedGroup([record(0.001)] * 98 + [record(0.5)] * 2, 0.001))
    clock.now += 120
    traffic.saw(ObservedGroup([record(0.002, status=403, reason="scope-insufficient"), record(None)], 0.001))
    first, second = traffic.to_json()["minutes"]
    assert (first["calls"], first["refused"]) == (100, 0)
    assert 1.0 <= first["p50_ms"] <= 1.25 and 500.0 <= first["p99_ms"] <= 625.0
    assert (second["calls"], second["refused"], second["minute"]) == (2, 1, "1970-01-01T16:42:00Z")
    assert traffic.to_json()["reasons"] == {"scope-insufficient": 1}


def test_an_hour_is_kept() -> None:
    """And not a minute more, whether calls come or not."""
    clock = Clock()
    traffic = Traffic(clock)
    for _ in range(MINUTES * 2):
        traffic.saw(ObservedGroup([record(0.001)], 0.001))
        clock.now += 60
    assert len(traffic.to_json()["minutes"]) == MINUTES - 1
    clock.now += MINUTES * 60
    told = traffic.to_json()
    assert (told["minutes"], told["per_second"], told["p99_ms"]) == ([], 0.0, None)


def test_reasons_are_few() -> None:
    """What is beyond the bound is counted together."""
    traffic = Traffic(Clock())
    count = MOST_REASONS * 2
    traffic.saw(ObservedGroup([record(0.001, status=400, reason=f"r-{n}") for n in range(count)], 0.001))
    minute = traffic._minutes[-1]
    assert len(minute.reasons) == MOST_REASONS + 1 and minute.reasons[OTHERS] == count - MOST_REASONS
    assert minute.refused == count


def test_the_longest_and_the_shortest_have_their_classes() -> None:
    """Nothing that takes long, or no time, is lost."""
    traffic = Traffic(Clock())
    traffic.saw(ObservedGroup([record(0.0), record(1e-9), record(1e9)], 0.001))
    assert traffic.to_json()["minutes"][0]["p99_ms"] is not None


def test_the_last_minute_is_that_of_now() -> None:
    """By the second: what is 60 s old does not count."""
    clock = Clock()
    traffic = Traffic(clock)
    assert traffic.last_minute() == (0, 0)
    traffic.saw(ObservedGroup([record(0.001), record(0.001, status=403, reason="x")], 0.001))
    clock.now += 59.0
    traffic.saw(ObservedGroup([record(0.001)], 0.001))
    assert traffic.last_minute() == (3, 1)
    clock.now += 1.0
    assert traffic.last_minute() == (1, 0)
    clock.now += 59.0
    assert traffic.last_minute() == (0, 0)
