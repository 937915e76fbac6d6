"""Copies of databases that somebody writes to meanwhile."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agtphost.stores import StoreError, open_store, snapshot
from agtphost.stores.rows import RecordRow


def row(number: int) -> RecordRow:
    """A record of 8 KiB; nobody reads what is in it."""
    audit_id = number.to_bytes(32)
    return RecordRow(number, 1, number, audit_id, number - 1, 0, 0, number, 200, "QUERY", "/", b"", b"x" * 8192)


def count(file: Path) -> int:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as opened:
        return int(opened.execute("SELECT count(*) FROM record").fetchone()[0])


def test_a_copy_is_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits between two steps succeed, are not in the copy, and do not begin it anew; it stands alone."""
    monkeypatch.setattr(snapshot, "PAGES", 16)
    store = open_store(f"sqlite:{tmp_path / 'a'}", create=True)
    store.begin()
    store.chain_number("")
    store.append([row(number) for number in range(1, 51)])
    store.commit()
    steps: list[tuple[int, int]] = []

    def write(done: int, pages: int) -> None:
        steps.append((done, pages))
        store.begin()
        store.append([row(50 + len(steps))])
        store.commit()

    version = snapshot.take(tmp_path / "a", tmp_path / "b", write)
    store.close()
    assert version > 0 and len(steps) > 3
    assert [done for done, _ in steps] == sorted(done for done, _ in steps), "never anew"
    assert count(tmp_path / "b") == 50 and count(tmp_path / "a") == 50 + len(steps)
    assert sorted(file.name for file in tmp_path.glob("b*")) == ["b"]
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, b"", b"no database", b"SQLite format 3\0" + b"\0" * 100])
def test_what_is_no_store_is_not_copied(tmp_path: Path, content: bytes | None) -> None:
    """It is told which file it is."""
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    with pytest.raises(StoreError, match=str(tmp_path / "a")):
        snapshot.take(tmp_path / "a", tmp_path / "b")
