"""``agtp store copy`` and its old store: whatever happens, hosts can serve one of both at most."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agtphost.cli.failures import WrongInput
from agtphost.cli.store_copy import copy_store
from agtphost.cli.store_move import holds_copy, reopen_store
from agtphost.host.start_failure import SUPERSEDED
from agtphost.stores import Search, StoreError, upgrade
from agtphost.stores.copying import StoreTables
from agtphost.stores.lease import Superseded
from agtphost.stores.location import StoreLocation
from agtphost.stores.moves import StoreMove, StoreMoved
from agtphost.stores.settings import locate_url
from tests import forking, postgres
from tests.cluster.hosts import cluster, gone
from tests.programmes import length
from tests.stores.test_postgres_lease import host, lease_of
from tests.stores.test_postgres_upgrade import ADDS, NEXT, NOW, later_program
from tests.system.hosting import Host, agtp, running, until
from tests.system.test_store_copy import set_url, stopped, url_of, work, worked

__all__ = ["stopped", "worked"]

pytestmark = postgres.needed

INTERRUPTED = Path(__file__).with_name("interrupted_copy.py")

WAYS = ("to a database", "from a database", "between databases")
MOVE = StoreMove(target="postgresql://agtp@db.example.com/agtp", at="2027-01-31T00:00:00Z", complete=True)
MOVED = f"was copied to {MOVE.target} on {MOVE.at}, and is not served any more"


def urls(way: str, config: Path, file: Path, folder: Path) -> tuple[str, str]:
    """Return the URL of a store with the records of a host, and one without a store."""
    source, target = f"sqlite:{file}", url_of(folder / "target")
    if way != WAYS[0]:
        database = url_of(folder / "source")
        copied = agtp("store", "copy", source, database, cwd=config.parent)
        assert copied.returncode == 0, copied.stderr
        source = database
    return source, f"sqlite:{folder / 'target.sqlite3'}" if way == WAYS[1] else target


def is_served(place: StoreLocation) -> bool:
    """Return whether a host could serve a store."""
    try:
        place.open_store(create=False, holder="/another").close()
    except StoreError:
        return False
    return True


def remove(place: StoreLocation, url: str) -> None:
    """Remove a store."""
    for file in place.files():
        file.unlink()
    if place.file is None:
        server = postgres.server()
        (schema,) = server.run("SELECT current_schema()", url=url)[0]
        server.run(f"DROP SCHEMA {schema} CASCADE", f"CREATE SCHEMA {schema}")


def start_copy(how: str, config: Path, source: str, target: str) -> subprocess.Popen[Any]:
    """Start a copy by a command that is killed, or waits, as ``interrupted_copy.py`` says."""
    words = [sys.executable, str(INTERRUPTED), how, "store", "copy", source, target]
    return forking.start(words, cwd=config.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def mark(place: StoreLocation) -> None:
    """Mark a store as a copy does, while nothing keeps hosts from it."""
    with place.read_tables(moves=True) as read:
        read.mark(MOVE)


@pytest.mark.programme
@pytest.mark.parametrize("way", WAYS)
def test_a_copy_that_is_killed_at_any_step_leaves_at_most_one_store_that_is_served(
    stopped: tuple[Path, Path], tmp_path: Path, way: str
) -> None:
    """And the same command completes the copy, or ``agtp store reopen`` gives the old store back to its hosts."""
    config, file = stopped
    source, target = urls(way, config, file, tmp_path)
    old, new = locate_url(source), locate_url(target)
    outcomes = set()
    for number in itertools.count():
        killed = start_copy(str(number), config, source, target)
        _, errors = killed.communicate()
        if killed.returncode == 0:
            break
        assert killed.returncode == -signal.SIGKILL, errors
        served = is_served(old), is_served(new)
        outcomes.add(served)
        assert served != (True, True), number
        if length(served == (False, True), False):
            break
        if new.await_creation():
            with pytest.raises(Exception, match="is there, and a host may serve it"):
                reopen_store(old, None, force=False)
            copied = agtp("store", "copy", source, target, "--json", cwd=config.parent)
            assert copied.returncode == 0 and json.loads(copied.stdout)["was_there"], copied.stderr
            move = old.find_move()
            assert move is not None and move.complete
            remove(new, target)
            with pytest.raises(WrongInput, match="was there and is not there now"):
                reopen_store(old, None, force=False)
        move = old.find_move()
        if move is not None:
            reopen_store(old, None, force=move.complete)
        assert is_served(old), number
    assert outcomes == {(True, False), (False, False), (False, True)}
    assert (is_served(old), is_served(new)) == (False, True) and holds_copy(new, old)


@pytest.mark.parametrize("way", WAYS)
def test_a_host_that_is_started_again_and_again_serves_the_copy_alone(
    stopped: tuple[Path, Path], tmp_path: Path, way: str
) -> None:
    """As by a supervisor, during the copy and afterwards; it says where the store is, and so do the commands."""
    config, file = stopped
    source, target = urls(way, config, file, tmp_path)
    set_url(config, source)
    gate = tmp_path / "gate"
    copy = start_copy(f"wait {gate}", config, source, target)
    until(Path(f"{gate}.waits").exists)
    during = Host(config)
    assert gone(during) == 1
    assert re.search("another host, pid|waited too long", during.output), during.output
    gate.touch()
    _, errors = copy.communicate()
    assert copy.returncode == 0, errors
    after = Host(config)
    assert gone(after) == 1
    assert f"was copied to {locate_url(target).url} on" in after.output, after.output
    checked = agtp("check", cwd=config.parent)
    assert checked.returncode == 2 and f"was copied to {locate_url(target).url} on" in checked.stderr
    shown = json.loads(agtp("store", "status", "--json", cwd=config.parent).stdout)
    assert (shown["moved_to"], shown["copy_complete"]) == (locate_url(target).url, True)
    assert re.search("^copied to +(sqlite|postgresql):", agtp("status", cwd=config.parent).stdout, re.MULTILINE)
    if way != WAYS[0]:
        assert "so no host serves it" in agtp("cluster", "status", cwd=config.parent).stderr
    verified = agtp("audit", "verify", cwd=config.parent)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    again = agtp("store", "copy", source, url_of(tmp_path / "second"), cwd=config.parent)
    assert again.returncode == 2 and "was copied to" in again.stderr
    set_url(config, target)
    work(config)
    refused = agtp("store", "reopen", source, cwd=config.parent)
    assert refused.returncode == 2 and "is there, and a host may serve it" in refused.stderr


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_that_fails_leaves_the_old_store_to_its_hosts(
    stopped: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Also where it fails after the mark, as by a file or a host that has come to the target in the meantime."""
    config, file = stopped
    source, target = urls(way, config, file, tmp_path)
    old, new = locate_url(source), locate_url(target)
    if new.file is None:
        new.create("localhost")
    marked = StoreTables.mark

    def mark_and_take(self: StoreTables, move: StoreMove) -> None:
        marked(self, move)
        assert not is_served(old)
        if new.file is not None:
            new.file.write_bytes(b"of another")
        else:
            postgres.server().run("UPDATE store SET holder = 'another:/host'", url=target)

    monkeypatch.setattr(StoreTables, "mark", mark_and_take)
    with pytest.raises(StoreError, match=r"exists|began to serve"):
        copy_store(old, new, "localhost", config.parent / "state")
    assert is_served(old) == (new.file is None)
    if new.file is not None:
        # What this file is cannot be found out, so it may be the copy.
        new.file.unlink()
        assert agtp("store", "reopen", source, cwd=config.parent).returncode == 0
        assert is_served(old)


def test_a_copy_that_keeps_the_old_store_serving(stopped: tuple[Path, Path], tmp_path: Path) -> None:
    """The old store is as before; it can be kept even where it cannot be written."""
    config, file = stopped
    source = f"sqlite:{file}"
    before = file.read_bytes()
    copied = agtp("store", "copy", source, url_of(tmp_path), "--keep-serving", cwd=config.parent)
    assert copied.returncode == 0, copied.stderr
    assert file.read_bytes() == before and is_served(locate_url(source))
    refused = agtp("store", "reopen", cwd=config.parent)
    assert refused.returncode == 2 and "is not marked as copied" in refused.stderr


def test_the_mark_is_removed_by_force(stopped: tuple[Path, Path]) -> None:
    """A copy that cannot be looked at may be there."""
    config, file = stopped
    place = locate_url(f"sqlite:{file}")
    mark(place)
    refused = agtp("store", "reopen", cwd=config.parent)
    assert refused.returncode == 2 and "is not known" in refused.stderr and "add --force" in refused.stderr
    reopened = agtp("store", "reopen", "--force", "--json", cwd=config.parent)
    assert reopened.returncode == 0 and json.loads(reopened.stdout)["moved_to"] == MOVE.target
    with running(config) as host:
        verified = host.agtp("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_file_of_an_earlier_version_is_upgraded_and_stays_marked(
    stopped: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No host upgrades it at its start, and it must still be read."""
    config, file = stopped
    place = locate_url(f"sqlite:{file}")
    words = ("store", "upgrade", f"sqlite:{file}", "--config", str(config))
    assert "the host brings it up to date when it starts" in agtp(*words).stdout
    mark(place)
    shown = agtp(*words)
    assert shown.returncode == 0 and f"has schema version {upgrade.latest()} already" in shown.stdout, shown.stderr
    now, step = upgrade.latest(), tmp_path / f"{upgrade.latest() + 1:04}_more.sql"
    step.write_text("CREATE TABLE more (note TEXT NOT NULL) STRICT;\n")
    made = [*upgrade.steps(), step]
    monkeypatch.setattr(upgrade, "steps", lambda: made)
    with pytest.raises(StoreError, match=f"has schema version {now}; run `agtp store upgrade sqlite:{file}`"):
        place.open_reader()
    assert place.upgrade() == (now, now + 1)
    with closing(place.open_reader()) as reader:
        assert reader.latest(None, 1, Search()).records
    assert place.find_move() == MOVE and not is_served(place)
    assert place.change_move(MOVE, None) and is_served(place)


def test_a_database_of_an_earlier_version_is_upgraded_and_stays_marked(tmp_path: Path) -> None:
    """A later program reads no earlier version, and no host of either serves it."""
    place = locate_url(url_of(tmp_path))
    place.create("agtp.test")
    mark(place)
    with later_program(tmp_path / "steps", ADDS):
        assert place.upgrade() == (NOW, NEXT)
        assert place.find_move() == MOVE and not is_served(place)


def test_a_copy_without_records_counts_as_the_copy(stopped: tuple[Path, Path], tmp_path: Path) -> None:
    """An empty store has no newest record by which its copy is known, and the copy may have got some since."""
    config, _ = stopped
    source, file = url_of(tmp_path), tmp_path / "target.sqlite3"
    old, new = locate_url(source), locate_url(f"sqlite:{file}")
    old.create("localhost")
    copy_store(old, new, "localhost", config.parent / "state")
    with pytest.raises(WrongInput, match="is there, and a host may serve it"):
        reopen_store(old, None, force=False)
    move = old.find_move()
    assert move is not None and old.change_move(move, replace(move, complete=False))
    copied = agtp("store", "copy", source, f"sqlite:{file}", "--json", cwd=config.parent)
    assert copied.returncode == 0 and json.loads(copied.stdout)["was_there"], copied.stderr
    assert old.find_move() == move
    file.unlink()
    reopen_store(old, None, force=True)
    assert is_served(old)


def test_a_store_whose_copy_was_copied_on_is_not_given_back(stopped: tuple[Path, Path], tmp_path: Path) -> None:
    """The first copy can be removed then; the second one is served, and the first store must not be."""
    config, file = stopped
    stores = [f"sqlite:{file}", f"sqlite:{tmp_path / 'second.sqlite3'}", f"sqlite:{tmp_path / 'third.sqlite3'}"]
    for source, target in itertools.pairwise(stores):
        copied = agtp("store", "copy", source, target, cwd=config.parent)
        assert copied.returncode == 0, copied.stderr
    assert [is_served(locate_url(each)) for each in stores] == [False, False, True]
    refused = agtp("store", "reopen", stores[0], cwd=config.parent)
    assert refused.returncode == 2 and "is there, and a host may serve it" in refused.stderr
    assert "remove it and add --force" in refused.stderr
    remove(locate_url(stores[1]), stores[1])
    refused = agtp("store", "reopen", stores[0], cwd=config.parent)
    assert refused.returncode == 2 and "was there and is not there now" in refused.stderr
    assert "nor a copy of it, and none will, add --force" in refused.stderr
    assert [is_served(locate_url(each)) for each in stores[::2]] == [False, True]


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_is_served_only_after_its_end_is_reported(
    stopped: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """So a mark that is not complete proves that no host has served the copy, and that nobody has copied it on."""
    config, file = stopped
    source, target = urls(way, config, file, tmp_path)
    old, new = locate_url(source), locate_url(target)
    change = type(old).change_move

    def die(self: StoreLocation, seen: StoreMove, move: StoreMove | None) -> bool:
        if self is old:
            raise KeyboardInterrupt
        return change(self, seen, move)

    with monkeypatch.context() as patch:
        patch.setattr(type(old), "change_move", die)
        with pytest.raises(KeyboardInterrupt):
            copy_store(old, new, "localhost", config.parent / "state")
    assert (is_served(old), is_served(new)) == (False, False) and holds_copy(new, old)
    onward = agtp("store", "copy", target, f"sqlite:{tmp_path / 'third.sqlite3'}", cwd=config.parent)
    assert onward.returncode == 2 and "has not reported its end. Run `agtp store copy` again" in onward.stderr
    refused = agtp("store", "reopen", target, cwd=config.parent)
    assert refused.returncode == 2 and "--force" in refused.stderr and not is_served(new)
    shown = agtp("store", "status", cwd=config.parent)
    assert shown.returncode == 0
    again = agtp("store", "copy", source, target, "--json", cwd=config.parent)
    assert again.returncode == 0 and json.loads(again.stdout)["was_there"], again.stderr
    assert (is_served(old), is_served(new)) == (False, True)
    move = old.find_move()
    assert move is not None and move.complete and new.find_move() is None


def test_a_file_that_is_marked_under_a_host_takes_no_more_records(stopped: tuple[Path, Path]) -> None:
    """Although no lock showed that the host has it; the next transaction finds the mark."""
    _, file = stopped
    place = locate_url(f"sqlite:{file}")
    with closing(place.open_store(create=False)) as store:
        store.begin()
        store.rollback()
        mark(place)
        for _ in range(2):
            with pytest.raises(StoreMoved, match=MOVED):
                store.begin()
    with pytest.raises(StoreMoved, match=MOVED):
        place.open_store(create=False)


def test_a_host_whose_lease_ended_while_it_was_frozen_cannot_commit_to_a_store_that_was_copied(tmp_path: Path) -> None:
    """Its lease counts as over, so the store is copied; awake, it is refused like one that was superseded."""
    url = url_of(tmp_path)
    place = locate_url(url)
    place.create("agtp.test")
    frozen = lease_of(url, host("a"))
    assert frozen.take()
    postgres.server().run("UPDATE store SET beat = clock_timestamp() - interval '1 hour'", url=url)
    mark(place)
    ended: list[Superseded] = []
    frozen.when_superseded = ended.append
    with pytest.raises(Superseded, match=f"was copied to {MOVE.target}"):
        frozen.keep()
    assert ended
    for again in (frozen, lease_of(url, host("a")), lease_of(url, host("b"))):
        with pytest.raises(StoreMoved, match=MOVED):
            again.take()
        again.give_up()


def test_hosts_end_when_their_store_is_marked(tmp_path: Path) -> None:
    """As where they were frozen during the copy: the one that served, and the one that stands by."""
    with cluster(tmp_path, "a", "b") as group:
        standby = group.stand_by("b")
        postgres.server().run("UPDATE store SET holder = ''", "DELETE FROM process", url=group.url)
        mark(locate_url(group.url))
        assert gone(group.hosts["a"]) == SUPERSEDED
        assert gone(standby) == 1
        assert MOVED in standby.output
