"""A13: real hosts with one store are upgraded one after the other, with nothing lost and no longer gap than A7's."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from agtphost.stores import StoreError
from tests import postgres
from tests.cluster.hosts import TAKEOVER_AFTER, answers_after, check, cluster, describe, gone, load
from tests.programmes import length
from tests.stores.test_postgres import place_of
from tests.stores.test_postgres_upgrade import NEXT, NOW, later_program
from tests.system.hosting import until

pytestmark = postgres.needed

ROUNDS = length(1, 10)

LONGEST_GAP = 3.0
"""Seconds on a quiet machine, besides those of running calls: A7."""


MORE = "CREATE TABLE more (note text);\n"
"""A step of a later version, which says of no earlier program that it can use the tables."""


def upgrade_hosts(folder: Path) -> float:
    """Upgrade two hosts under load, the one that stands by first; return the gap that callers saw."""
    folder.mkdir(exist_ok=True)
    step = folder / f"{NEXT:04}.sql"
    step.write_text(f"-- readable_from: {NOW}\n{MORE}")
    later = {"fault": "later", "environ": {"TEST_SCHEMA_FILE": str(step)}}
    with cluster(folder, "a", "b") as group:
        leader = group.hosts["a"].wait()
        group.stand_by("b")
        with load(leader) as journal:
            answers_after(journal, 0)
            assert group.hosts["b"].stop() == 0
            # The later program, before the store is upgraded.
            assert gone(group.start("b", **later)) == 1
            refusal = f"schema version {NOW}; this program needs version {NEXT}. Run `agtp store upgrade`"
            until(lambda: refusal in group.hosts["b"].output)
            with later_program(folder / "program", step.read_text()):
                assert place_of(group.url).upgrade() == (NOW, NEXT)
            standby = group.stand_by("b", **later)
            answers_after(journal, time.monotonic())
            ended = time.monotonic()
            leader.process.send_signal(signal.SIGTERM)
            assert gone(leader) == 0
            standby.wait()
            answers_after(journal, time.monotonic())
            gap = journal.longest_gap(ended - 0.5, time.monotonic())
            group.stand_by("a")
        check(group, journal)
        assert not journal.others
    return gap


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_hosts_are_upgraded_one_after_the_other(tmp_path: Path) -> None:
    """
    The store under the running host of this version, the standby, a hand-over: all calls get 200.

    The later version's tables are those that this program can use, so it can stand by afterwards, and there is a way
    back.
    """
    gaps = [upgrade_hosts(tmp_path / str(number)) for number in range(ROUNDS)]
    print(describe("gaps at the hand-over of an upgrade", gaps))
    assert sorted(gaps)[len(gaps) // 2] < TAKEOVER_AFTER - 0.5, "the lease was waited for"


def test_a_standby_that_is_too_old_is_refused(tmp_path: Path) -> None:
    """While a host serves that could not use the upgraded store, nothing is changed; later, it cannot stand by."""
    step = tmp_path / f"{NEXT:04}.sql"
    step.write_text(MORE)
    later = {"TEST_SCHEMA_FILE": str(step)}
    with cluster(tmp_path, "a", "b") as group:
        with later_program(tmp_path, MORE):
            with pytest.raises(StoreError, match=r"a \(.*\) does now; stop that host first. Nothing was changed"):
                place_of(group.url).upgrade()
            assert group.hosts["a"].stop() == 0
            assert place_of(group.url).upgrade() == (NOW, NEXT)
        group.start("a", fault="later", environ=later).wait()
        assert gone(group.start("b")) == 1
        why = f"which programs of version {NEXT} and later can use; this program has version {NOW}"
        until(lambda: why in group.hosts["b"].output)
        group.require_alive("a")
        assert group.term() == 2
