"""A host that stops hands over, one that is killed is replaced after its lease: nothing acknowledged is lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agtphost.host.start_failure import SUPERSEDED
from tests import postgres
from tests.cluster.hosts import (
    TAKEOVER_AFTER,
    Cluster,
    Journal,
    answers_after,
    check,
    cluster,
    describe,
    gone,
    load,
)
from tests.programmes import length
from tests.system.hosting import until

pytestmark = postgres.needed

KILLS, STOPS, RACES = length(2, 100), length(3, 100), length(2, 100)


def swap(group: Cluster, journal: Journal, how: signal.Signals, fault: str = "") -> float:
    """
    End the host that serves and start it again as a standby, under load; return the gap that callers saw.

    :param fault: of the host that is started again.
    """
    leader, standby = (group.hosts[name] for name in group.names)
    answers_after(journal, time.monotonic())
    group.require_alive(*group.names)
    term = group.term()
    ended = time.monotonic()
    leader.process.send_signal(how)
    status = gone(leader)
    assert status == (0 if how == signal.SIGTERM else -how)
    left = time.monotonic()
    answers_after(journal, left, 1)
    until(lambda: standby.port)
    gap = journal.longest_gap(ended - 0.5, time.monotonic())
    assert group.term() == term + 1
    group.names = (group.names[1], group.names[0])
    group.stand_by(group.names[1], fault=fault)
    return gap


def swap_often(folder: Path, how: signal.Signals, times: int, others: set[str]) -> list[float]:
    """
    End the host that serves so many times, under load; return the gaps.

    :param others: answers besides 200 that calls may end with.
    """
    with cluster(folder, "a", "b") as group:
        group.stand_by("b")
        with load(group.hosts["a"]) as journal:
            gaps = [swap(group, journal, how) for _ in range(times)]
        print(describe(f"gaps after {how.name}", gaps), dict(journal.others), len(journal.acknowledged), "acknowledged")
        check(group, journal)
        assert set(journal.others) <= others
    return gaps


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + 10 * KILLS)
def test_a_killed_host_is_replaced_after_its_lease(tmp_path: Path) -> None:
    """kill -9 under keyed load: the other host serves once the lease is over; no key runs twice."""
    gaps = swap_often(tmp_path, signal.SIGKILL, KILLS, {"409 idempotency-in-doubt"})
    assert min(gaps) > TAKEOVER_AFTER - 1.5


def test_control_a_host_that_takes_over_early_is_noticed(tmp_path: Path) -> None:
    """One that does not wait for the end of the lease ends a host that serves."""
    with cluster(tmp_path, "a", "b") as group:
        group.start("b", fault="early")
        assert gone(group.hosts["a"]) == SUPERSEDED
        with pytest.raises(AssertionError, match="ended by itself"):
            group.require_alive("a")


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + 10 * STOPS)
def test_a_host_that_stops_hands_over(tmp_path: Path) -> None:
    """SIGTERM under keyed load: every call ends with 200, and the other host serves within a second or two."""
    gaps = swap_often(tmp_path, signal.SIGTERM, STOPS, set())
    assert sorted(gaps)[len(gaps) // 2] < TAKEOVER_AFTER - 0.5, "the lease was waited for"


def test_control_a_lease_that_is_not_given_up_is_noticed(tmp_path: Path) -> None:
    """The gap is as long as after a kill."""
    with cluster(tmp_path, "a", "b") as group:
        assert group.hosts["a"].stop() == 0
        group.start("a", fault="clinging").wait()
        group.stand_by("b")
        with load(group.hosts["a"]) as journal:
            assert swap(group, journal, signal.SIGTERM) > TAKEOVER_AFTER - 0.5


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + 10 * RACES)
def test_of_two_standbys_one_takes_over(tmp_path: Path) -> None:
    """The other one stands by again, and the term grows by one."""
    with cluster(tmp_path, "a", "b", "c") as group:
        leader, waiting = "a", ["b", "c"]
        for name in waiting:
            group.stand_by(name)
        for _ in range(RACES):
            after, loser = race(group, leader, waiting)
            leader, waiting = after, [loser, leader]
            group.stand_by(waiting[1])


def race(group: Cluster, leader: str, waiting: Sequence[str]) -> tuple[str, str]:
    """Kill the host that serves, and return which of two others takes over, and which stands by."""
    term = group.term()
    group.hosts[leader].kill()
    until(lambda: any(group.hosts[name].port for name in waiting))
    (after,) = (name for name in waiting if group.hosts[name].port)
    (loser,) = (name for name in waiting if name != after)
    # It says so once it has seen the new term, and did not take it.
    until(lambda: f"{after} serves, with term {term + 1}" in group.hosts[loser].output)
    group.require_alive(*waiting)
    assert group.term() == term + 1
    return after, loser
