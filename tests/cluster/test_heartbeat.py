"""The lease is kept while reactor and writer work, and no handler begins once it may be another host's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock
from zope.interface import implementer

from agtphost.cluster import heartbeat as heartbeat_module
from agtphost.cluster.heartbeat import MARGIN, Heartbeat, beat_seconds, freshness
from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import LONGEST_LEASE, SHORTEST_LEASE, Holder, HostProcess, LeaseState
from agtphost.stores.rows import StoreError
from tests.rows import each_row

ME = Holder(name="a", machine="m", directory="/state", takeover_after=10)
OTHER = Holder(name="b", machine="n", directory="/state", takeover_after=10)


@implementer(ILease)
class MemoryLease:
    """A lease without a store."""

    def __init__(self, now: Callable[[], float], me: Holder = ME) -> None:
        self._now = now
        self.me = me
        self.term = 0
        self.confirmed = -math.inf
        self.clock_ahead = 0.0
        self.when_superseded = lambda error: None
        self.state = LeaseState(0, None, "", 0.0, 0.0)
        self.beats = 0
        self.reported: list[HostProcess] = []
        self.error: StoreError | None = None
        self.published = ""

    def look(self) -> LeaseState:
        if self.error is not None:
            raise self.error
        return self.state

    def take(self) -> bool:
        self.term = self.state.term + 1
        return True

    def keep(self, ahead: int | None = None) -> None:
        if self.error is not None:
            raise self.error
        self.beats += 1
        self.confirmed = self._now()

    def report(self, process: HostProcess) -> None:
        if self.error is not None:
            raise self.error
        self.reported.append(process)

    def read_published(self) -> str:
        return self.published

    def write_published(self, text: str) -> None:
        if self.error is not None:
            raise self.error
        self.published = text

    def listen(self, wake: Callable[[], object]) -> None:
        self.wake = wake

    def stop_listening(self) -> None:
        self.wake = lambda: None

    def give_up(self) -> None:
        self.term = 0


@each_row("takeover_after", [SHORTEST_LEASE, 4.0, 10.0, LONGEST_LEASE])
def test_an_idle_host_stays_fresh(takeover_after: float) -> None:
    """A beat is sent long before the last confirmed one is too old for a handler."""
    assert beat_seconds(takeover_after) <= min(1.0, (takeover_after - MARGIN) / 2)


def test_a_handler_may_begin_until_the_margin_before_the_end() -> None:
    """The time counts from when the last confirmed beat was sent; a host without any is not fresh."""
    now = [1000.0]
    lease = MemoryLease(lambda: now[0])
    is_fresh = freshness(lease, lambda: now[0])
    assert not is_fresh()
    lease.keep()
    # docs/standby.rst promises two seconds.
    now[0] += ME.takeover_after - 2.01
    assert is_fresh()
    now[0] += 0.01
    assert not is_fresh()


def started(monkeypatch: Any) -> tuple[Clock, MemoryLease, Heartbeat, list[Callable[[], object]]]:
    """A heartbeat, and the list of what it asks the writer for."""
    clock = Clock()
    lease = MemoryLease(clock.seconds)
    asked: list[Callable[[], object]] = []
    monkeypatch.setattr(heartbeat_module, "steady", clock.seconds)
    made = Heartbeat(clock, lease, asked.append)
    lease.keep()
    lease.beats = 0
    made.startService()
    return clock, lease, made, asked


def test_a_beat_is_asked_for_where_no_commit_came(monkeypatch: Any) -> None:
    """One at a time: a writer that hangs is not asked again, so its host loses the lease."""
    clock, lease, made, asked = started(monkeypatch)
    clock.pump([0.25] * 3)
    assert asked == []
    clock.pump([0.25] * 8)
    assert len(asked) == 1 and lease.beats == 0
    asked.pop()()
    assert lease.beats == 1
    clock.pump([0.25] * 3)
    assert asked == []
    clock.pump([0.25] * 2)
    assert len(asked) == 1
    made.stopService()
    clock.pump([0.25] * 20)
    assert len(asked) == 1


def test_a_commit_spares_a_beat(monkeypatch: Any) -> None:
    """Under load no beat is sent."""
    clock, lease, made, asked = started(monkeypatch)
    for _ in range(20):
        clock.advance(0.25)
        lease.confirmed = clock.seconds()
    assert asked == []
    made.stopService()


def test_a_beat_that_fails_is_reported_once_and_repeated(monkeypatch: Any) -> None:
    """Until the store answers again."""
    clock, lease, made, asked = started(monkeypatch)
    clock.callFromThread = lambda function, *words, **named: said.append(named["why"])  # type: ignore[attr-defined]
    said: list[str] = []
    lease.error = StoreError("away")
    for _ in range(3):
        clock.pump([0.25] * 5)
        asked.pop()()
    assert said == ["away"] and lease.beats == 0
    lease.error = None
    clock.pump([0.25] * 5)
    asked.pop()()
    assert lease.beats == 1
    made.stopService()


def test_a_clock_that_begins_to_differ_is_reported_once(monkeypatch: Any) -> None:
    """By more than five seconds from the database's, and again when it is right; the start reports how it was then."""
    clock, lease, made, asked = started(monkeypatch)
    clock.callFromThread = lambda function, *words, **named: said.append(named["line"])  # type: ignore[attr-defined]
    said: list[str] = []
    for ahead in (0.0, 4.9, -3600.0, -3601.0, 5.0, 0.0):
        lease.clock_ahead = ahead
        clock.pump([0.25] * 5)
        asked.pop()()
    assert "3600 s behind that of the database: set it right" in said[0]
    assert said[1:] == ["the clock is that of the database again"]
    made.stopService()


def test_a_start_is_kept_alive_for_a_limited_time(monkeypatch: Any) -> None:
    """A host that hangs while it starts loses the lease."""
    clock = Clock()
    lease = MemoryLease(clock.seconds)
    monkeypatch.setattr(heartbeat_module, "steady", clock.seconds)
    made = Heartbeat(clock, lease, lambda task: None)

    def wait(seconds: float) -> bool:
        clock.advance(seconds)
        return False

    monkeypatch.setattr(made._started, "wait", wait)
    made.keep_for_start()
    assert lease.beats == heartbeat_module.START_SECONDS - 1
