"""A system clock that jumps under a whole host: answers are remembered, schedules go on, and the jump is on record."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft
from agtphost.audit.host_clock import BELIEVED_AFTER
from agtphost.audit.verify import verify_records
from agtphost.identity import jws
from agtphost.vocabulary.bounds import DAY, HOUR
from agtphost.vocabulary.quotas import CLOCK_LEAP
from tests.methods.standard.orchestration.hosts import Workshop, book
from tests.methods.standard.orchestration.mortal import MortalStore


def restart(before: Workshop, ahead: float) -> Workshop:
    """Another process over the same store, as late as the one before, whose system clock differs by so much."""
    before.close()
    host = Workshop(store=before.mortal, done=before.done)
    host.clock.advance(before.clock.seconds())
    host.ahead = ahead
    return host


def stay(host: Workshop, key: str) -> Any:
    """A keyed call, after what has expired was forgotten."""
    host.core.services.evidence.ledger._forget()
    return host.ask("BOOK", {"room": "7"}, "/stays", idempotency_key=key)


def events(host: Workshop) -> list[str]:
    """What the host's own chain says of the clock."""
    payloads = (jws.parse_unverified(each.signed) for each in host.records())
    return [each["event_type"] for each in payloads if each.get("event_type", "").startswith("clock-")]


def assert_in_order(host: Workshop) -> None:
    """Every chain verifies: no signed time is earlier than the one before it."""
    assert verify_records(host.records(), {host.key.public.kid: host.key.public}).faults == []


@pytest.mark.parametrize("ahead", [5.0 * DAY, -5.0 * DAY])
def test_a_jump_and_back_runs_no_keyed_call_twice(ahead: float) -> None:
    """Within the jump and after it the answer is the stored one; the jump and its end are signed events."""
    host = Workshop(store=MortalStore())
    first = stay(host, "k-1")
    host.set_clock(ahead)
    during = stay(host, "k-1")
    host.set_clock(0.0)
    after = stay(host, "k-1")
    assert first.result == during.result == after.result and host.rooms() == ["7"]
    assert events(host) == ["clock-jumped", "clock-returned"]
    assert_in_order(host)
    host.advance(DAY + 60)
    stay(host, "k-1")
    assert host.rooms() == ["7", "7"], "the control: after a day that really passed it is forgotten"


def test_a_jump_that_is_believed_runs_no_keyed_call_twice() -> None:
    """The host's time follows after an hour, and answers are kept for as much longer: for a day of real time."""
    host = Workshop(store=MortalStore())
    stay(host, "k-1")
    host.set_clock(5.0 * DAY)
    host.advance(BELIEVED_AFTER + 60)
    host.set_clock(5.0 * DAY)
    assert events(host) == ["clock-jumped", "clock-jump-believed"]
    host.advance(20.0 * HOUR)
    stay(host, "k-1")
    assert host.rooms() == ["7"]
    host.advance(5.0 * HOUR)
    assert host.core.services.evidence.clock.leaped_seconds() == 0.0
    stay(host, "k-1")
    assert host.rooms() == ["7", "7"]


def test_restarts_within_the_jump_run_no_keyed_call_twice() -> None:
    """A start believes a clock that is ahead; the leap is a state item, so a second start knows of it too."""
    host = Workshop(store=MortalStore())
    stay(host, "k-1")
    host = restart(host, 5.0 * DAY)
    stay(host, "k-1")
    assert events(host) == ["clock-ahead-at-start"]
    host.advance(600)
    host = restart(host, 5.0 * DAY)
    stay(host, "k-1")
    host = restart(host, 0.0)
    stay(host, "k-1")
    assert host.rooms() == ["7"]
    assert events(host)[-1] == "clock-behind-at-start"
    assert host.core.services.seconds() > host.seconds() + 4.9 * DAY, "the newest signed time is the lower bound"
    host.advance(BELIEVED_AFTER)
    host.set_clock(0.0)
    host.advance(BELIEVED_AFTER)
    host.set_clock(0.0)
    assert events(host)[-1] == "clock-jump-believed"
    assert host.core.services.seconds() == pytest.approx(host.seconds(), abs=1)
    stay(host, "k-1")
    assert host.rooms() == ["7"]
    assert_in_order(host)


def test_a_second_leap_does_not_end_the_first_one() -> None:
    """Three starts, each far ahead of the one before: an answer outlasts all of them, for a day of real time."""
    host = Workshop(store=MortalStore())
    stay(host, "k-1")
    for ahead in (3.0 * DAY, 40.0 * DAY, 41.5 * DAY):
        host = restart(host, ahead)
        host.advance(60)
        stay(host, "k-1")
        assert host.rooms() == ["7"], f"it ran again {ahead / DAY} days ahead"
    assert host.core.services.evidence.clock.leaped_seconds() == pytest.approx(41.5 * DAY, abs=600)
    host.set_clock(60.0 * DAY)
    host.advance(BELIEVED_AFTER + 60)
    host.set_clock(60.0 * DAY)
    stay(host, "k-1")
    assert (host.rooms(), events(host)[-1]) == (["7"], "clock-jump-believed")
    host.advance(DAY)
    assert host.core.services.evidence.clock.leaped_seconds() == 0.0
    host.set_clock(60.0 * DAY)
    assert not list(host.core.services.evidence.held.all(CLOCK_LEAP))
    stay(host, "k-1")
    assert host.rooms() == ["7", "7"], "the control: after a day that really passed it is forgotten"
    assert_in_order(host)


def test_a_host_that_was_off_for_a_week_starts_and_says_so() -> None:
    """That is normal: it serves by the system's clock, and has it on record."""
    host = Workshop(store=MortalStore())
    stay(host, "k-1")
    host.clock.advance(7 * DAY)
    host = restart(host, 0.0)
    assert stay(host, "k-2").status == 200
    assert events(host) == ["clock-ahead-at-start"]
    assert host.core.services.evidence.held.count(CLOCK_LEAP) == 1
    host.advance(DAY + 60)
    host.set_clock(0.0)
    assert not list(host.core.services.evidence.held.all(CLOCK_LEAP))


@pytest.mark.parametrize("ahead", [40.0 * DAY, -40.0 * DAY])
def test_a_schedule_goes_on_through_a_jump_and_after_it(ahead: float) -> None:
    """A run each minute that really passes: none too early, none left out, and none waits for the jump to be over."""
    host = Workshop()
    host.result("CHAIN", {"steps": [book("=nightly")], "every": 60})
    host.turn()
    runs = len(host.rooms())
    host.set_clock(ahead)
    host.turn()
    assert len(host.rooms()) == runs
    for _ in range(5):
        host.turn(60)
    assert len(host.rooms()) == runs + 5
    host.set_clock(0.0)
    for _ in range(5):
        host.turn(60)
    assert len(host.rooms()) == runs + 10


@pytest.mark.parametrize("ahead", [5.0 * DAY, -5.0 * DAY])
def test_state_items_live_for_as_long_as_really_passes(ahead: float) -> None:
    """What expires in an hour expires in an hour, whatever the system's clock says meanwhile."""
    host = Workshop()
    held, now = host.core.services.evidence.held, host.core.services.seconds
    change = Change(
        kind="notification", key="n", value={"recipient": "x"}, owner="", expires_at=int((now() + HOUR) * 1000)
    )
    host.core.services.evidence.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=(change,)))
    host.set_clock(ahead)
    held.prune()
    assert held.get("notification", "n") is not None
    host.advance(HOUR - 10)
    assert held.get("notification", "n") is not None
    host.advance(11)
    assert held.get("notification", "n") is None


def test_two_jumps_leave_two_events_and_no_more() -> None:
    """However often it is looked at: events come of jumps, and not of time."""
    host = Workshop(store=MortalStore())
    stay(host, "k-1")
    for ahead in (5.0 * DAY, 5.0 * DAY, -9.0 * DAY, -9.0 * DAY, 0.0, 0.0):
        host.set_clock(ahead)
        host.advance(30)
        host.set_clock(ahead)
    assert events(host) == ["clock-jumped", "clock-jumped", "clock-returned"]
    assert_in_order(host)
