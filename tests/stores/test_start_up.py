"""What opening a store and reading its heads costs: nothing that grows with the number of records."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit import checkpoint
from agtphost.audit.chain import RecordSigner
from agtphost.audit.merkle import Growth, Tree
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.witness import WitnessFile
from agtphost.audit.writer import GroupWriter
from agtphost.stores import open_store
from agtphost.stores.connection import connect
from agtphost.stores.rows import CheckpointRow
from agtphost.stores.sqlite import _HEADS
from tests.audit.drafting import KEY
from tests.measuring import measured

RECORDS = int(os.environ.get("START_RECORDS", "40000"))
"""Of the larger store; 1,000,000 takes half a minute to make."""

FEW = 1_000
CHAINS = 4
WIDE = 900
"""Octets of a signed record, as they are."""


def filled(folder: Path, records: int) -> Path:
    """A store with so many records in a few chains, all in its tree, made without signing any."""
    folder.mkdir()
    path = folder / "records.sqlite3"
    store = open_store(f"sqlite:{path}", create=True)
    rows: Iterator[tuple[Any, ...]]
    growth = Growth(store.tile, 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        for chain in range(CHAINS):
            connection.execute("INSERT INTO chain (agent_id) VALUES (?)", (bytes([chain]) * 32 if chain else b"",))

        def made() -> Iterator[tuple[Any, ...]]:
            for number in range(1, records + 1):
                chain, seq = 1 + (number - 1) % CHAINS, 1 + (number - 1) // CHAINS
                signed = b"%0*d" % (WIDE, number)
                digest = sha256(signed).digest()
                growth.add(digest)
                previous = number - CHAINS if seq > 1 else 0
                yield number, chain, seq, digest, previous, 0, 0, number, 200, "QUERY", "/", b"", signed

        rows = made()
        connection.executemany(f"INSERT INTO record VALUES ({','.join('?' * 13)}, '', '', 1)", rows)
        connection.execute("COMMIT")
    store.begin()
    store.put_tiles(growth.changed_tiles())
    issued = checkpoint.issue("agtp.test", records, Tree(store.tile, records).root(), KEY)
    store.put_checkpoint(CheckpointRow(records, 0, issued.note))
    store.commit()
    WitnessFile(folder / "checkpoint.txt", [KEY.public]).saw(issued)
    store.close()
    return path


class Counted:
    """Opens connections that count the steps of SQLite's machine."""

    STRIDE = 100

    def __init__(self) -> None:
        self.steps = 0

    def __call__(self, uri: str) -> Any:
        connection = connect(uri)

        def step() -> int:
            self.steps += self.STRIDE
            return 0

        connection.set_progress_handler(step, self.STRIDE)  # type: ignore[attr-defined]
        return connection


def start(path: Path, opener: Any = connect) -> float:
    """Open the store as a host does, read what it reads, and compare with the witness. Seconds of this thread's CPU."""
    begun = time.thread_time()
    store = open_store(f"sqlite:{path}", create=False, opener=opener)
    witness = WitnessFile(path.parent / "checkpoint.txt", [KEY.public])
    tree = TreeKeeper(store, "agtp.test", KEY, [witness])
    writer = GroupWriter(store, RecordSigner(KEY), server_id="agtp.test", tree=tree)
    writer.load()
    writer.list_items()
    tree.check_witnesses()
    spent = time.thread_time() - begun
    assert writer._last_number and len(writer._heads) == CHAINS
    store.close()
    return spent


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("start")
    return filled(folder / "few", FEW), filled(folder / "many", RECORDS)


def steps_of(path: Path, run: Any) -> int:
    counted = Counted()
    run(path, counted)
    return counted.steps


@measured
def test_starting_costs_the_same_with_more_records(stores: tuple[Path, Path]) -> None:
    """Steps of SQLite's machine and CPU time: forty times the records cost no more than a few tree levels."""
    few, many = (steps_of(path, start) for path in stores)
    quick, slow = (min(start(path) for _ in range(3)) for path in stores)
    print(f"{FEW} records: {few} steps, {quick * 1000:.1f} ms; {RECORDS}: {many} steps, {slow * 1000:.1f} ms")
    assert many < few * 2 + 20_000
    assert slow < quick * 3 + 0.05


def test_the_control_walks_the_records(stores: tuple[Path, Path]) -> None:
    """The heads by the statement that walked the records, as it once was: the measure above sees it."""

    def walk(path: Path, opener: Any) -> None:
        with closing(opener(f"file:{path}?mode=ro")) as connection:
            connection.execute(
                "SELECT r.number FROM record r JOIN chain c ON r.chain = c.number "
                "WHERE r.seq = (SELECT max(seq) FROM record WHERE chain = r.chain)"
            ).fetchall()

    few, many = (steps_of(path, walk) for path in stores)
    assert many > 10 * few + 20_000


def test_each_head_is_one_search(stores: tuple[Path, Path]) -> None:
    """By the unique index, per chain; nothing scans the records."""
    with closing(sqlite3.connect(stores[0])) as connection:
        plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {_HEADS}"))
        assert "SCAN c" in plan and "SCAN r" not in plan and "SCAN record" not in plan, plan
        assert "SEARCH r USING INDEX sqlite_autoindex_record_1 (chain=? AND seq=?)" in plan
        newest = " ".join(
            row[3] for row in connection.execute("EXPLAIN QUERY PLAN SELECT coalesce(max(number), 0) FROM record")
        )
        assert "SEARCH record" in newest, newest
