"""Pages that went bad: which records are concerned, at start and in a walk over all."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.logger import capturedLogs

from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.tree import TreeKeeper
from agtphost.stores import DamagedRecord, Selection, StoreError, open_store
from agtphost.stores.connection import connect
from agtphost.stores.database_check import NEWEST, SPREAD, looked_at
from tests.audit.drafting import ALICE, BOB, KEY, draft, group_writer, sealed, sqlite_store

RECORDS = 60
SEED = 20_261_122


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two chains, closed, all of it in one file."""
    folder = tmp_path_factory.mktemp("whole")
    store = sqlite_store(folder)
    tree = TreeKeeper(store, "agtp.test", KEY)
    writer = group_writer(store, tree=tree)
    for number in range(RECORDS):
        sealed(writer, draft(ALICE if number % 2 else BOB, note="x" * 600))
    tree.catch_up()
    store.close()
    path = folder / "records.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
    return path


def leaf_pages(path: Path, table: str) -> list[int]:
    """The leaves of a table or index: those whose first octet says so, found by following the interior pages."""
    octets = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        size = int(connection.execute("PRAGMA page_size").fetchone()[0])
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    leaves, left = [], [int(root)]
    while left:
        page = left.pop()
        at = (page - 1) * size
        if octets[at] in (0x0D, 0x0A):
            leaves.append(page)
            continue
        cells = int.from_bytes(octets[at + 3 : at + 5])
        left.append(int.from_bytes(octets[at + 8 : at + 12]))
        for cell in range(cells):
            pointer = int.from_bytes(octets[at + 12 + 2 * cell : at + 14 + 2 * cell])
            left.append(int.from_bytes(octets[at + pointer : at + pointer + 4]))
    return sorted(leaves)


def broken(whole: Path, folder: Path, table: str, which: Callable[[list[int]], int]) -> Path:
    """A copy with one page of noise."""
    path = folder / "records.sqlite3"
    shutil.copy(whole, path)
    page = which(leaf_pages(path, table))
    noise = random.Random(SEED).randbytes(4096)
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(noise)
    return path


def middle(pages: list[int]) -> int:
    return pages[len(pages) // 2]


def walked(path: Path) -> tuple[list[str], list[str]]:
    """Audit-IDs that a walk over all records yields, and what it tells of the rest."""
    reader = open_store(f"sqlite:{path}", create=False).reader()
    told: list[str] = []
    found = [record.audit_id for record in reader.records(Selection(), damaged=lambda chain, why: told.append(why))]
    return found, told


def test_a_walk_names_the_records_of_a_bad_page_and_goes_on(whole: Path, tmp_path: Path) -> None:
    """Exactly those of the page, by chain and place; all others are read. Without a taker, it is an error."""
    everything, told = walked(whole)
    assert len(everything) == RECORDS and told == []
    path = broken(whole, tmp_path, "record", middle)
    found, told = walked(path)
    lost = [line for line in told if "cannot be read" in line and "cannot be linked" not in line]
    unlinked = [line for line in told if "cannot be linked" in line]
    assert lost and len(found) + len(lost) + len(unlinked) == RECORDS
    assert set(found) < set(everything)
    assert all(line.startswith("record ") and ("a1a1" in line or "b0b0" in line) for line in told), told
    reader = open_store(f"sqlite:{path}", create=False).reader()
    with pytest.raises(DamagedRecord, match="the database itself is damaged"):
        list(reader.records(Selection()))
    assert reader.faults()


def test_a_bad_page_of_the_index_is_told_by_chain(whole: Path, tmp_path: Path) -> None:
    """Where even the places cannot be listed: which chain, and from where on."""
    _, told = walked(broken(whole, tmp_path, "sqlite_autoindex_record_1", lambda pages: pages[0]))
    assert told and any("cannot be found" in line for line in told)


def test_a_start_looks_at_the_newest_and_at_some_others(whole: Path, tmp_path: Path) -> None:
    """A bad page is told as a range of records; nothing is told of a good store."""
    with closing(connect(f"file:{whole}?mode=ro")) as connection:
        assert looked_at(connection.execute) == []
    path = broken(whole, tmp_path, "record", middle)
    with closing(connect(f"file:{path}?mode=ro")) as connection:
        lines = looked_at(connection.execute)
    assert len(lines) == 1 and "of the store" in lines[0] and "cannot be read" in lines[0], lines
    with closing(sqlite3.connect(path)) as connection:
        (octets,) = connection.execute("SELECT signed FROM record WHERE number = 1").fetchone()
        connection.execute("UPDATE record SET signed = ? WHERE number = 1", (octets[:-1] + b"!",))
        connection.commit()
    with closing(connect(f"file:{path}?mode=ro")) as connection:
        first, _ = looked_at(connection.execute)
    assert first == f"record 1 of the store is not what was signed: 1 of chain {BOB}"


def test_it_reads_no_more_of_a_larger_store() -> None:
    """So many records by their numbers, and no statement that walks."""
    asked: list[str] = []

    class Found:
        def __init__(self, row: Any) -> None:
            self._row = row

        def fetchone(self) -> Any:
            return self._row

    good = (__import__("hashlib").sha256(b"x").digest(), b"x")

    def execute(statement: str, parameters: Any = ()) -> Found:
        asked.append(statement)
        return Found((10**9,) if "max(number)" in statement else good)

    assert looked_at(execute) == []
    assert len(asked) <= 1 + NEWEST + SPREAD and all("WHERE number = ?" in each for each in asked[1:])


@pytest_twisted.ensureDeferred
async def test_the_ledger_tells_of_it_at_start(whole: Path, tmp_path: Path) -> None:
    """Old evidence that is damaged is told, and new records are taken; a head that is gone is no start."""
    broken(whole, tmp_path, "record", middle)
    ledger = Ledger(
        sqlite_store(tmp_path),
        KEY,
        reactor,
        server_id="agtp.test",
        lifecycle=LifecycleTable(),  # type: ignore[arg-type]
    )
    with capturedLogs() as logged:
        ledger.start()
    try:
        said = [event["damage"] for event in logged if "damage" in event]
        assert len(said) == 1 and "of the store" in said[0]
        assert (await ledger.submit(draft(BOB))).audit_id
    finally:
        await ledger.stop()
    folder = tmp_path / "head"
    folder.mkdir()
    broken(whole, folder, "record", lambda pages: pages[-1])
    ledger = Ledger(
        sqlite_store(folder),
        KEY,
        reactor,
        server_id="agtp.test",
        lifecycle=LifecycleTable(),  # type: ignore[arg-type]
    )
    with capturedLogs() as logged, pytest.raises(StoreError, match="`agtp audit verify` lists the records"):
        ledger.start()
    told = [event["damage"] for event in logged if "damage" in event]
    assert told[0].startswith("the newest records of the store cannot be found") and "cannot be read" in told[1], told
