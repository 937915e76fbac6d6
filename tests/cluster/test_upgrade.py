"""A13: real hosts with one store are upgraded one after the other, with nothing lost and no longer gap than A7's."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from agtphost.stores import StoreError
from tests import postgres
from tests.cluster.hosts import Cluster, answers_after, check, cluster, describe, gone, load
from tests.programmes import length
from tests.stores.test_postgres import place_of
from tests.stores.test_postgres_upgrade import later_program
from tests.system.hosting import agtp, until

pytestmark = postgres.needed

ROUNDS = length(1, 10)

LONGEST_GAP = 3.0
"""Seconds on a quiet machine, besides those of running calls: A7."""


MORE = "CREATE TABLE more (note text);\n"
"""A step of a later version, which says of no earlier program that it can use the tables."""


def upgraded(group: Cluster) -> tuple[int, int]:
    """Run the command of the later program; return the versions before and after."""
    done = agtp("store", "upgrade", "--json", cwd=group.folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return found["before"], found["schema"]


def make_earlier(group: Cluster) -> None:
    """Make the store one of version 1."""
    postgres.server().run("DROP TABLE process", "UPDATE store SET schema = 1, readable_from = 1", url=group.url)


def upgrade_hosts(folder: Path) -> float:
    """Upgrade two hosts under load, the one that stands by first; return the gap that callers saw."""
    with cluster(folder, "a", "b") as group:
        assert group.hosts["a"].stop() == 0
        make_earlier(group)
        leader = group.start("a", fault="earlier").wait()
        group.stand_by("b", fault="earlier")
        with load(leader) as journal:
            answers_after(journal, 0)
            assert group.hosts["b"].stop() == 0
            # The later program, before the store is upgraded.
            assert gone(group.start("b")) == 1
            refusal = "has a store of schema version 1; this program needs version 2. Run `agtp store upgrade`"
            until(lambda: refusal in group.hosts["b"].output)
            assert upgraded(group) == (1, 2)
            standby = group.stand_by("b")
            answers_after(journal, time.monotonic())
            ended = time.monotonic()
            leader.process.send_signal(signal.SIGTERM)
            assert gone(leader) == 0
            standby.wait()
            answers_after(journal, time.monotonic())
            gap = journal.longest_gap(ended - 0.5, time.monotonic())
            group.stand_by("a", fault="earlier")
        check(group, journal)
        assert not journal.others
    return gap


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_hosts_are_upgraded_one_after_the_other(tmp_path: Path) -> None:
    """
    The store under the running host of 0.2.0, the standby, a hand-over: all calls get 200.

    A host of 0.2.0 can stand by afterwards, too, so there is a way back.
    """
    gaps = [upgrade_hosts(tmp_path / str(number)) for number in range(ROUNDS)]
    print(describe("gaps at the hand-over of an upgrade", gaps))


def test_a_standby_that_is_too_old_is_refused(tmp_path: Path) -> None:
    """While a host serves that could not use the upgraded store, nothing is changed; later, it cannot stand by."""
    step = tmp_path / "0003.sql"
    step.write_text(MORE)
    later = {"TEST_SCHEMA_FILE": str(step)}
    with cluster(tmp_path, "a", "b") as group:
        with later_program(tmp_path, MORE):
            with pytest.raises(StoreError, match=r"a \(.*\) does now; stop that host first. Nothing was changed"):
                place_of(group.url).upgrade()
            assert group.hosts["a"].stop() == 0
            assert place_of(group.url).upgrade() == (2, 3)
        group.start("a", fault="later", environ=later).wait()
        assert gone(group.start("b")) == 1
        why = "schema version 3, which programs of version 3 and later can use; this program has version 2"
        until(lambda: why in group.hosts["b"].output)
        group.require_alive("a")
        assert group.term() == 2
