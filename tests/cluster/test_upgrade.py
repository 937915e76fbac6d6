"""A13: real hosts with one store are upgraded one after the other, with nothing lost and no longer gap than A7's."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

import agtphost
from agtphost.stores import StoreError
from tests import postgres
from tests.cluster.hosts import TAKEOVER_AFTER, answers_after, check, cluster, describe, gone, load, make_traced
from tests.programmes import length
from tests.stores.test_postgres import place_of
from tests.stores.test_postgres_upgrade import NEXT, NOW, later_program
from tests.system.hosting import agtp, until

pytestmark = postgres.needed

ROUNDS = length(1, 10)
FULL = length(False, True)
"""Whether the standby is one of 0.2.0 at first, and the hosts go back to it in the end."""

LONGEST_GAP = 3.0
"""Seconds on a quiet machine, besides those of running calls: A7."""


MORE = "CREATE TABLE more (note text);\n"
"""A step of a later version, which says of no earlier program that it can use the tables."""

RELEASE = "3c713042"
"""The commit of 0.2.0, whose programs have version 1 of the tables."""

REPOSITORY = Path(agtphost.__file__).parents[1]


def has_release() -> bool:
    """Return whether this checkout has the commit of the release; a shallow clone lacks it."""
    found = subprocess.run(["git", "cat-file", "-e", RELEASE], cwd=REPOSITORY, capture_output=True)
    return found.returncode == 0


def unpack_release(folder: Path) -> Path:
    """Unpack the program of 0.2.0 into a directory, and return that."""
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", RELEASE, "agtphost", "twisted"], cwd=REPOSITORY, capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


OPERATOR = """[[operator]]
name = "admin"
key = "state/registrar.pem"
role = "administrator"
"""
"""A section that 0.2.0 does not know; the registrar is an administrator without it, too."""


def make_earlier(folder: Path, append: str) -> Path:
    """Make a configuration that both versions know."""
    config = make_traced(folder, append)
    text = config.read_text()
    assert OPERATOR in text
    config.write_text(text.replace(OPERATOR, ""))
    # Its endpoints name a provider, a key that 0.2.0 does not know.
    (config.parent / "endpoints" / "standard-methods.toml").unlink()
    return config


def upgrade_hosts(folder: Path, earlier: Path) -> float:
    """Upgrade two hosts of 0.2.0 under load, the one that stands by first; return the gap that callers saw."""
    folder.mkdir(exist_ok=True)
    with cluster(folder, "a", "b", program=earlier, make=make_earlier) as group:
        leader = group.hosts["a"]
        assert version(group.url) == 1
        if FULL:
            group.stand_by("b", program=earlier)
        with load(leader) as journal:
            answers_after(journal, 0)
            if FULL:
                assert group.hosts["b"].stop() == 0
            # This program, before the store is upgraded.
            assert gone(group.start("b")) == 1
            refusal = f"schema version 1; this program needs version {NOW}. Run `agtp store upgrade`"
            until(lambda: refusal in group.hosts["b"].output)
            assert place_of(group.url).upgrade() == (1, NOW)
            standby = group.stand_by("b")
            answers_after(journal, time.monotonic())
            described = place_of(group.url).describe()
            assert described["records_without_index"] > 0, "0.2.0 goes on"
            ended = time.monotonic()
            leader.process.send_signal(signal.SIGTERM)
            assert gone(leader) == 0
            standby.wait()
            answers_after(journal, time.monotonic())
            gap = journal.longest_gap(ended - 0.5, time.monotonic())
            group.stand_by("a")
        check(group, journal)
        assert not journal.others
        assert "records_without_index" not in place_of(group.url).describe()
        if FULL:
            # There is a way back: the store is one that 0.2.0 can use.
            group.hosts["a"].kill()
            group.stand_by("a", program=earlier)
            assert standby.stop() == 0
            group.hosts["a"].wait()
            assert group.hosts["a"].stop() == 0
        verified = agtp("audit", "verify", cwd=group.folder, environ=group.environ("a"))
        assert verified.returncode == 0, verified.stdout + verified.stderr
    return gap


def version(url: str) -> int:
    """Return the version of the tables of a store."""
    found: int = postgres.server().run("SELECT schema FROM store", url=url)[0][0]
    return found


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * ROUNDS)
@pytest.mark.skipif(not has_release(), reason="this checkout has no commit of 0.2.0")
def test_hosts_are_upgraded_one_after_the_other(tmp_path: Path) -> None:
    """
    The store under the running host of 0.2.0, the standby, a hand-over: all calls get 200.

    The real program of that release goes on with the upgraded tables, and can take over again afterwards.
    """
    earlier = unpack_release(tmp_path / "program")
    gaps = [upgrade_hosts(tmp_path / str(number), earlier) for number in range(ROUNDS)]
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
