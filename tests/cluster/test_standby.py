"""Waiting for a lease: when it is taken, when not, and what is reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from agtphost.cluster.standby import CHECK_SECONDS, POLL_SECONDS, CannotTakeOver, NameInUse, Sighting, Standby
from agtphost.host import standby as standby_module
from agtphost.host.host_loader import LoadedHost, load_host
from agtphost.host.standby import StandbyHost
from agtphost.stores.lease import Holder, LeaseState
from agtphost.stores.rows import StoreError
from agtphost.stores.settings import locate_store
from tests.cluster.test_heartbeat import ME, OTHER, MemoryLease
from tests.host.hosts import configured

HELD = LeaseState(7, OTHER, "", 0.5, 100.0)
FREE = LeaseState(7, None, "", 0.5, 100.0)


class Waiting:
    """A host that waits, with a lease and a check that a test changes."""

    def __init__(self, state: LeaseState = HELD, check: Callable[[], object] = lambda: None) -> None:
        self.clock = Clock()
        self.lease = MemoryLease(self.clock.seconds)
        self.lease.state = state
        self.said: list[str] = []
        self.standby = Standby(
            self.clock,
            self.lease,
            check,
            lambda look: succeed(look()),
            lambda seen: self.said.append(seen.describe()),
        )
        self.ended: list[Any] = []
        Deferred.fromCoroutine(self.standby.wait()).addBoth(self.ended.append)

    def poll(self, times: int = 1) -> None:
        self.clock.pump([POLL_SECONDS] * times)


def test_a_lease_that_is_given_up_or_over_is_taken() -> None:
    """At the next look, and not before; the change of the term is this host's own."""
    for after in (FREE, HELD._replace(age=10.1)):
        host = Waiting()
        host.poll(10)
        assert host.ended == [] and host.said == ["standby, b serves"]
        host.lease.state = after
        host.poll()
        assert host.ended == [True] and host.lease.term == 8


def test_a_lease_that_is_given_up_is_taken_when_that_is_heard() -> None:
    """Between two looks immediately; what is heard during a look leads to another one."""
    host = Waiting()
    host.clock.callFromThread = lambda work: work()  # type: ignore[attr-defined]
    host.lease.state = FREE
    assert host.ended == []
    host.lease.wake()
    assert host.ended == [True] and host.lease.term == 8
    looks: list[Deferred[Sighting]] = []
    lease = MemoryLease(host.clock.seconds)
    standby = Standby(host.clock, lease, lambda: None, lambda look: looks.append(Deferred()) or looks[-1], print)
    Deferred.fromCoroutine(standby.wait())
    lease.wake()
    looks[0].callback(Sighting())
    assert len(looks) == 2 and host.clock.getDelayedCalls() == []


def test_a_lease_of_this_host_is_taken_immediately() -> None:
    """It was killed and started again."""
    assert Waiting(HELD._replace(holder=ME)).ended == [True]


def test_a_host_that_may_not_take_over_says_why() -> None:
    """Also where no host serves; it is checked again before the lease is taken."""
    fault = "another key"

    def check() -> None:
        if fault:
            raise StoreError(fault)

    host = Waiting(check=check)
    assert host.said == ["standby, b serves; this host does not take over: another key"]
    host.lease.state = FREE
    host.poll(5)
    assert host.ended == []
    assert host.said[1:] == ["standby, no host serves; this host does not take over: another key"]
    fault = ""
    host.poll()
    assert host.ended == [True]


def test_a_probe_gets_the_reason_without_what_is_the_operators() -> None:
    """Paths, and the address of the database, are in the log alone."""

    def refuse() -> None:
        raise CannotTakeOver("another key in /etc/key", "another key")

    host = Waiting(check=refuse)
    assert (host.standby.last.fault, host.standby.last.summary) == ("another key in /etc/key", "another key")
    host.lease.error = StoreError("db.example.com is away")
    host.poll()
    assert host.standby.last.summary == "the store cannot be reached"


def test_a_standby_is_not_ready_before_it_has_seen_the_lease() -> None:
    """A program that replaces hosts one after the other would stop the one that serves: a fault makes it wait."""
    first: Deferred[Sighting] = Deferred()
    standby = Standby(Clock(), MemoryLease(lambda: 0.0), lambda: None, lambda look: first, lambda seen: None)
    Deferred.fromCoroutine(standby.wait())
    assert standby.last.fault and standby.last.summary


def test_a_store_that_became_older_is_not_taken() -> None:
    """Fewer records, or an earlier term, than this host has seen: until the newer store is back."""
    for older in (FREE._replace(last=8), FREE._replace(term=6, last=9)):
        host = Waiting(HELD._replace(last=9))
        host.lease.state = older
        host.poll(3)
        assert host.ended == []
        assert (
            f"the store had term 7 with 9 records, and now it has term {older.term} with {older.last}" in host.said[-1]
        )
        assert host.standby.last.summary == "the store is older than it was"
        host.lease.state = FREE._replace(last=9)
        host.poll()
        assert host.ended == [True]


def test_a_clock_that_differs_is_part_of_a_sighting() -> None:
    """The log of a standby names it."""
    host = Waiting()
    assert host.standby.last.clock == ""
    host.lease.clock_ahead = 3600.0
    host.poll()
    assert "3600 s ahead of" in host.standby.last.clock and len(host.said) == 2


def test_a_check_is_made_now_and_then_and_before_the_lease_is_taken() -> None:
    """What the host that serves changed in between counts."""
    checks: list[float] = []
    host = Waiting(check=lambda: checks.append(1))
    host.poll(10)
    assert len(checks) == 1 and CHECK_SECONDS > 10 * POLL_SECONDS
    host.lease.state = FREE
    host.poll()
    assert len(checks) == 2 and host.ended == [True]


def test_a_store_that_is_away_is_waited_for() -> None:
    """It is reported, and so is its return."""
    host = Waiting()
    host.lease.error = StoreError("away")
    host.poll(3)
    host.lease.error = None
    host.poll(3)
    assert host.ended == []
    assert host.said == [
        "standby, b serves",
        "standby, which host serves is unknown: away",
        "standby, b serves",
    ]


def test_a_living_host_with_this_hosts_name_ends_the_wait() -> None:
    """One that does not write any more is waited for as any other."""
    namesake = Holder(name="a", machine="n", directory="/state", takeover_after=10)
    dead = Waiting(HELD._replace(holder=namesake))
    dead.poll(5)
    assert dead.ended == []
    dead.lease.state = HELD._replace(holder=namesake, age=11)
    dead.poll()
    assert dead.ended == [True]
    living = Waiting(HELD._replace(holder=namesake))
    living.lease.state = HELD._replace(holder=namesake, beat=101.0)
    living.poll()
    (failure,) = living.ended
    with pytest.raises(NameInUse, match=r"\[cluster\] name is 'a', and another host with that name, at n:/state"):
        failure.raiseException()


def test_a_wait_that_is_stopped_ends_without_the_lease() -> None:
    """Between two looks immediately; a look that is under way ends first, and may have taken the lease."""
    host = Waiting()
    host.standby.stop()
    assert host.ended == [False]
    assert host.clock.getDelayedCalls() == []
    looks: list[Deferred[Sighting]] = []
    standby = Standby(Clock(), host.lease, lambda: None, lambda look: looks.append(Deferred()) or looks[-1], print)
    ended: list[Any] = []
    Deferred.fromCoroutine(standby.wait()).addBoth(ended.append)
    standby.stop()
    assert ended == []
    looks[0].callback(Sighting(taken=True))
    assert ended == [True]


def test_files_that_change_while_they_are_read_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A takeover serves none of them in part; any error of theirs is a refusal, as the host has the lease already."""
    loaded, lease = load_host(configured(tmp_path)), MemoryLease(Clock().seconds)
    locate_store(loaded.config.store).open_store(create=True).close()
    host = StandbyHost(loaded, reactor, {}, lease, lambda loaded, serves: [])
    endpoint = host.loaded.config.folder / "endpoints" / "text.toml"
    steps = iter(["/one"])
    monkeypatch.setattr(standby_module, "ATTEMPTS", 2)

    def read(*given: Any) -> LoadedHost:
        loaded = load_host(*given)
        if (path := next(steps, "")) == "away":
            raise OSError("input/output error")
        if path:
            endpoint.write_text(f'{endpoint.read_text().partition("path = ")[0]}path = "{path}"\n{rest}')
        return loaded

    rest = endpoint.read_text().partition("path = ")[2].partition("\n")[2]
    monkeypatch.setattr(standby_module, "load_host", read)
    endpoint.write_text(endpoint.read_text().replace('path = "/text"', 'path = "/zero"'))
    host.loaded = host.find_changed_files().loaded
    assert "/one" in {each.path for each in host.loaded.endpoints}
    before = host.loaded
    for more in (["/two", "/three", "/four", "/five"], ["away", "away"]):
        steps = iter(more)
        endpoint.write_text(endpoint.read_text() + "# changed\n")
        with capturedLogs() as logged:
            found = host.find_changed_files().loaded
        assert found == replace(before, untaken=found.untaken)
        assert found.untaken is not None and found.untaken.kinds == {"endpoints"}
        assert "this host serves what it read before" in (formatEvent(logged[-1]) or "")
