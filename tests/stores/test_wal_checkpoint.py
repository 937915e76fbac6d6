"""The log is folded in beside the commits: bounded, without a commit that pays for it, and nothing lost."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from agtphost.stores import wal_checkpoint
from agtphost.stores.connection import connect
from agtphost.stores.rows import ItemRow
from agtphost.stores.sqlite import SQLiteStore
from agtphost.stores.wal_checkpoint import FOLD_OCTETS, LITTLE, WalCheckpointer
from tests.audit.drafting import ALICE, draft, group_writer, sealed, sqlite_store

MOST = 12 * 1024 * 1024


def await_thread(store: SQLiteStore) -> None:
    """Let the thread end: on a busy machine it comes late, and then a long log is no fault."""
    thread = store._folding._thread
    if thread is not None:
        thread.join()


def longest_log(folder: Path, groups: int = 60) -> int:
    """Write some 15 MiB without SQLite's own folding; how long the log became."""
    store = sqlite_store(folder)
    store._connection.execute("PRAGMA wal_autocheckpoint=0").fetchall()
    writer = group_writer(store)
    longest = 0
    for _ in range(groups):
        sealed(writer, *[draft(path="/" + "x" * 3000) for _ in range(60)])
        await_thread(store)
        longest = max(longest, (folder / "records.sqlite3-wal").stat().st_size)
    store.close()
    with sqlite3.connect(folder / "records.sqlite3") as connection:
        assert connection.execute("SELECT count(*) FROM record").fetchone()[0] == groups * 60
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    return longest


def test_the_log_stays_short_without_sqlites_own_folding(tmp_path: Path) -> None:
    """A thread copies it; what is left begins anew (P15). Every record is there."""
    assert longest_log(tmp_path) < MOST


def test_many_short_commits_count_as_well(tmp_path: Path) -> None:
    """Each writes five pages for one record, and no commit has to copy the log: the thread does before."""
    store = sqlite_store(tmp_path)
    store._connection.execute("PRAGMA wal_autocheckpoint=0").fetchall()
    # Durability is the disk's matter; what the log has is not.
    store._connection.execute("PRAGMA synchronous=OFF").fetchall()
    writer = group_writer(store)
    longest = 0
    for _ in range(2_000):
        sealed(writer, draft())
        await_thread(store)
        longest = max(longest, (tmp_path / "records.sqlite3-wal").stat().st_size)
    store.close()
    assert longest < MOST


def test_a_log_that_the_thread_has_copied_is_left_by_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was committed in the meantime, so the log begins anew without a commit that waits for the disk."""
    monkeypatch.setattr(wal_checkpoint, "FOLD_OCTETS", FOLD_OCTETS // 2)
    begun = []
    begin = WalCheckpointer._begin
    monkeypatch.setattr(WalCheckpointer, "_begin", lambda self: (begun.append(self), begin(self)))
    store = sqlite_store(tmp_path)
    statements: list[str] = []
    store._connection.set_trace_callback(statements.append)  # type: ignore[attr-defined]
    writer = group_writer(store)
    for _ in range(600):
        sealed(writer, draft())
        await_thread(store)
    store._connection.set_trace_callback(None)  # type: ignore[attr-defined]
    store.close()
    assert len(begun) >= 3 and len(statements) > 600
    assert not [each for each in statements if "wal_checkpoint" in each]


def test_state_items_count_as_well(tmp_path: Path) -> None:
    """A record of 300 octets may come with a megabyte of items."""
    store = sqlite_store(tmp_path)
    store._connection.execute("PRAGMA wal_autocheckpoint=0").fetchall()
    longest = 0
    for number in range(24):
        store.begin()
        for key in range(10):
            store.put_held((ItemRow("kept", f"{number}-{key}", bytes(32), 1, None, b"x" * 100_000),))
        store.commit()
        await_thread(store)
        longest = max(longest, (tmp_path / "records.sqlite3-wal").stat().st_size)
    assert len(store.list_items()) == 240
    store.close()
    assert longest < MOST


def test_what_is_folded_in_while_nothing_comes_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Much is copied by the thread, little at once; either way all of it is in the database then."""
    begun = []
    begin = WalCheckpointer._begin
    monkeypatch.setattr(WalCheckpointer, "_begin", lambda self: (begun.append(self), begin(self)))
    store = sqlite_store(tmp_path)
    for octets, threads in ((1_000, 0), (2 * LITTLE, 1), (1_000, 1)):
        store.begin()
        store.put_held((ItemRow("kept", "one", bytes(32), 1, None, b"x" * octets),))
        store.commit()
        store.tidy()
        store._folding.stop()
        assert len(begun) == threads
        with closing(sqlite3.connect(f"file:{store.path}?immutable=1", uri=True)) as without_log:
            assert without_log.execute("SELECT length(value) FROM held").fetchall() == [(octets,)]
    store.close()


@pytest.mark.release
def test_control_without_the_thread_the_log_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement above notices a log that nobody folds in."""
    monkeypatch.setattr(WalCheckpointer, "note_commit", lambda *given: None)
    assert longest_log(tmp_path) > MOST


def test_a_fold_that_fails_costs_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No second connection, no thread: the log stays, the records are written."""
    opened = []

    def refused(opener: object, path: str) -> None:
        opened.append(path)
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(wal_checkpoint, "FOLD_OCTETS", 1)
    store = sqlite_store(tmp_path)
    monkeypatch.setattr(wal_checkpoint, "open_writer", refused)
    writer = group_writer(store)
    for _ in range(20):
        sealed(writer, draft())
    assert opened
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (_ for _ in ()).throw(RuntimeError("no thread")))
    for _ in range(5):
        sealed(writer, draft())
    monkeypatch.undo()
    store.close()
    assert len(sqlite_store(tmp_path).reader().walk(ALICE, None, 99)) == 25


def test_closing_waits_for_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is still folding does not outlive the store."""
    go, folded = threading.Event(), []

    def slow(opener: object, path: str) -> sqlite3.Connection:
        go.wait(5)
        folded.append(path)
        return sqlite3.connect(path, check_same_thread=False)

    sqlite_store(tmp_path).close()
    monkeypatch.setattr(wal_checkpoint, "open_writer", slow)
    fold = WalCheckpointer(connect, str(tmp_path / "records.sqlite3"))
    connection = sqlite3.connect(tmp_path / "records.sqlite3")
    fold.note_commit(FOLD_OCTETS, connection)
    fold.note_commit(FOLD_OCTETS, connection)
    assert folded == []
    threading.Timer(0.05, go.set).start()
    fold.stop()
    assert len(folded) == 1
    connection.close()


def test_much_that_was_committed_while_it_was_folded_in_is_left_to_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once more and not again: the commit that finds the thread through copies what is little by then."""
    begun, folds = [], []
    monkeypatch.setattr(WalCheckpointer, "_fold", lambda self: begun.append(self))

    class Watched:
        def execute(self, statement: str) -> Watched:
            folds.append(statement)
            return self

        def fetchall(self) -> list[object]:
            return []

    kept, connection = WalCheckpointer(connect, str(tmp_path / "none")), Watched()
    for octets, threads, copied in ((FOLD_OCTETS, 1, 0), (2 * LITTLE, 2, 0), (2 * LITTLE, 2, 1), (FOLD_OCTETS, 3, 1)):
        kept.note_commit(octets, connection)  # type: ignore[arg-type]
        if kept._thread is not None:
            kept._thread.join()
        assert (len(begun), len(folds)) == (threads, copied)
    for _ in range(2):
        kept.note_commit(1, connection)  # type: ignore[arg-type]
    assert len(begun) == 3 and len(folds) == 2
