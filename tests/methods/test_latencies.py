"""Latencies of calls: by tool and by agent, in ranges of time, each bounded."""

from __future__ import annotations

from typing import Any

from agtphost.audit.observed_records import ObservedGroup, ObservedRecord
from agtphost.methods.inspection.latencies import MOST_DURATIONS, MOST_NAMES, OTHERS, Latencies
from agtphost.vocabulary.display_names import CLAIMED

DAY = 86_400


class Clock:
    now = 10.0 * DAY

    def __call__(self) -> float:
        return self.now


def call(seconds: float | None, audit_id: str = "", **members: Any) -> ObservedRecord:
    extra = {"mcp_server": "files", "mcp_tool": "read"}
    found = {"method": "EXECUTE", "status": 200, "caller_id": "aa", "extra": extra, **members}
    return ObservedRecord(audit_id, "", "", seconds=seconds, members=found, caller="demo", label="files.read")


def test_percentiles_are_of_the_range() -> None:
    """Each tool and each agent has those of the calls in the range alone."""
    clock = Clock()
    latencies = Latencies(clock)
    latencies.saw(ObservedGroup([call(1.0)], None))
    clock.now += 3 * 3_600
    latencies.saw(ObservedGroup([call(0.001)] * 99 + [call(0.1), call(0.1, caller_id="bb"), call(None)], None))
    recent = latencies.to_json(clock.now - 900, clock.now + 1)
    assert recent["tools"]["files.read"]["timed"] == recent["all"]["timed"] == 101
    assert recent["agents"]["aa"]["timed"] == 100 and recent["agents"]["bb"]["timed"] == 1
    assert recent["agents"]["aa"]["p50_ms"] < 1.3 and 100 <= recent["agents"]["bb"]["p99_ms"] < 130
    day = latencies.to_json(clock.now - DAY, clock.now + 1)
    assert day["all"]["timed"] == 102
    assert day["measured_from"] == "1970-01-11T00:00:00Z", "nothing was measured before the process began"
    assert latencies.to_json(clock.now - 9 * DAY, clock.now - 8 * DAY)["all"] == {
        "timed": 0,
        "p50_ms": None,
        "p99_ms": None,
    }


def test_reads_of_operators_count_for_nobody_else() -> None:
    """What an operator looks at is no part of the latencies that callers see."""
    latencies = Latencies(Clock())
    latencies.saw(ObservedGroup([call(1.0, method="INSPECT", extra={}, operator={"name": "anna"})], None))
    assert latencies.to_json(0, 11 * DAY)["all"]["timed"] == 0


def test_names_that_strangers_invent_take_no_place() -> None:
    """What is not known here, as a tool or as an agent, is counted together."""
    latencies = Latencies(Clock())
    unknown = [call(0.1, extra={"tool": f"x{each}"}, caller_id=f"{each}") for each in range(MOST_NAMES)]
    latencies.saw(ObservedGroup([record._replace(caller="", label="") for record in unknown] + [call(0.1)], None))
    found = latencies.to_json(9 * DAY, 11 * DAY)
    assert set(found["tools"]) == {OTHERS, "files.read"} and set(found["agents"]) == {OTHERS, "aa"}


def test_an_operator_has_latencies_of_its_own() -> None:
    """They are under the value that summaries of records have, and not those of callers without a name."""
    latencies = Latencies(Clock())
    changed = call(0.1, method="ACTIVATE", extra={}, caller_id="", operator={"name": "anna", "key": "sha256:00"})
    latencies.saw(ObservedGroup([changed._replace(caller=""), call(0.1, caller_id="")._replace(caller="")], None))
    agents = latencies.to_json(9 * DAY, 11 * DAY)["agents"]
    assert {name: found["timed"] for name, found in agents.items()} == {"operator:anna": 1, "": 1}


def test_a_header_adds_nothing_to_the_latencies_of_an_agent() -> None:
    """What a stranger sends in an agent's name is no call of the agent; where names are believed, it is."""
    latencies = Latencies(Clock())
    believed = call(0.1, identity_assurance="header", caller_principal_id="Acme")
    latencies.saw(ObservedGroup([call(0.1, identity_assurance="header"), believed], None))
    agents = latencies.to_json(9 * DAY, 11 * DAY)["agents"]
    assert {name: found["timed"] for name, found in agents.items()} == {CLAIMED: 1, "aa": 1}


def test_memory_is_bounded() -> None:
    """Further names are counted together, and of old calls the duration is forgotten."""
    latencies = Latencies(Clock())
    many = [call(0.1, audit_id=str(number), caller_id=f"agent-{number}") for number in range(MOST_DURATIONS + 2)]
    latencies.saw(ObservedGroup(many, None))
    agents = latencies.to_json(9 * DAY, 11 * DAY)["agents"]
    assert len(agents) == MOST_NAMES + 1 and agents[OTHERS]["timed"] == MOST_DURATIONS + 2 - MOST_NAMES
    assert latencies.duration_of("1") is None and latencies.duration_of("2") == 0.1
