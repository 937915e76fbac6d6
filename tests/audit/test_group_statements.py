"""A host alone with SQLite runs four statements for a group of records, however many these are: leases add none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agtphost.audit import tree
from agtphost.audit.writer import Submission
from agtphost.stores import SQLiteStore
from tests.audit.drafting import draft, group_writer, sqlite_store

ROUNDS = 20


def count_statements(store: Any, size: int) -> list[str]:
    """Return the statements of some groups of this size, after one that makes the chain."""
    writer, seen = group_writer(store), list[str]()
    for number in range(ROUNDS + 1):
        if number == 1:
            store._connection.set_trace_callback(seen.append)
        writer.write([Submission(draft()) for _ in range(size)])
    store._connection.set_trace_callback(None)
    return seen


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A store without checkpoints, which come by time."""
    monkeypatch.setattr(tree, "SECONDS", 3600.0)
    return sqlite_store(tmp_path)


@pytest.mark.parametrize("size", [1, 8, 64])
def test_a_group_takes_four_statements(store: Any, size: int) -> None:
    """BEGIN, whether another process has written, the records, COMMIT."""
    assert len(count_statements(store, size)) <= 4 * ROUNDS


def test_control_one_statement_more_is_noticed(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a look at who holds the lease would be."""
    begin = SQLiteStore.begin

    def begin_and_look(self: Any) -> Any:
        begun = begin(self)
        self._connection.execute("PRAGMA application_id").fetchone()
        return begun

    monkeypatch.setattr(SQLiteStore, "begin", begin_and_look)
    assert len(count_statements(store, 8)) > 4 * ROUNDS
