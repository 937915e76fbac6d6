"""The log is folded in beside the commits: bounded, without a commit that pays for it, and nothing lost."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from agtphost.stores import folding
from agtphost.stores.connection import connect
from agtphost.stores.folding import FOLD_OCTETS, LogFolding
from tests.audit.drafting import ALICE, draft, group_writer, sealed, sqlite_store

MOST = 12 * 1024 * 1024


def longest_log(folder: Path, groups: int = 60) -> int:
    """Write some 15 MiB without SQLite's own folding; how long the log became."""
    store = sqlite_store(folder)
    store._connection.execute("PRAGMA wal_autocheckpoint=0").fetchall()
    writer = group_writer(store)
    longest = 0
    for _ in range(groups):
        sealed(writer, *[draft(path="/" + "x" * 3000) for _ in range(60)])
        longest = max(longest, (folder / "records.sqlite3-wal").stat().st_size)
    store.close()
    with sqlite3.connect(folder / "records.sqlite3") as connection:
        assert connection.execute("SELECT count(*) FROM record").fetchone()[0] == groups * 60
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    return longest


def test_the_log_stays_short_without_sqlites_own_folding(tmp_path: Path) -> None:
    """A thread copies it; what is left begins anew (P15). Every record is there."""
    assert longest_log(tmp_path) < MOST


def test_control_without_the_thread_the_log_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement above notices a log that nobody folds in."""
    monkeypatch.setattr(LogFolding, "committed", lambda *given: None)
    assert longest_log(tmp_path) > MOST


def test_a_fold_that_fails_costs_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No second connection, no thread: the log stays, the records are written."""
    opened = []

    def refused(opener: object, path: str) -> None:
        opened.append(path)
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(folding, "FOLD_OCTETS", 1)
    store = sqlite_store(tmp_path)
    monkeypatch.setattr(folding, "open_writer", refused)
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
    monkeypatch.setattr(folding, "open_writer", slow)
    fold = LogFolding(connect, str(tmp_path / "records.sqlite3"))
    connection = sqlite3.connect(tmp_path / "records.sqlite3")
    fold.committed(FOLD_OCTETS, connection)
    fold.committed(FOLD_OCTETS, connection)
    assert folded == []
    threading.Timer(0.05, go.set).start()
    fold.stop()
    assert len(folded) == 1
    connection.close()
