"""Tables that decide: a changed value, and a row that was deleted or added, is named with table and row."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs

from agtphost.audit import recovery
from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import ReservationKey
from agtphost.audit.keyed import owner_name
from agtphost.audit.merkle import ProofError, Tree
from agtphost.audit.table_check import Expected, check_tables
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.verify import Report, Verifier
from agtphost.audit.witness import WitnessFile
from agtphost.audit.writer import Claim, GroupWriter
from agtphost.cli.audit.verify import compare_tables, walk
from agtphost.stores import DamagedRecord, Search, Selection, StoreError, open_store
from agtphost.stores.connection import connect
from agtphost.stores.record_reader import RecordReader
from tests.audit.drafting import ALICE, BOB, KEY, KEYS, draft
from tests.audit.rich_store import CAROL, ONCE, RichStore, write_rich_store
from tests.audit.table_mutations import HARMLESS, Mutation, Mutator, Schema, unindex
from tests.programmes import length
from tests.rows import each_row
from tests.small_blocks import set_block

SEED = int(os.environ.get("TABLE_SEED", "20261123"))

MUTATIONS = length(60, 500)


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The store that is changed, with its witness file beside it; its blocks are small, so that it has some."""
    folder = tmp_path_factory.mktemp("rich")
    with pytest.MonkeyPatch.context() as patched:
        set_block(patched, 64, 8)
        write_rich_store(folder / "records.sqlite3", folder / "checkpoint.txt", KEY, groups=65)
        with closing(open_store(f"sqlite:{folder / 'records.sqlite3'}", create=False)) as store:
            store.index_blocks()
        yield folder / "records.sqlite3"


def verify_store(path: Path, witness: Path) -> Report:
    """What ``agtp audit verify`` finds in a store."""
    verifier = Verifier(KEYS)
    with closing(RecordReader(str(path), connect)) as reader:
        if walk(reader, verifier):
            compare_tables(reader, verifier, WitnessFile(witness, [KEY.public]).last(), signing=True)
    return verifier.finish()


def start_fault(path: Path, witness: Path) -> str:
    """What a start says of a store: the reason for which it refuses; empty where it serves."""
    try:
        store = open_store(f"sqlite:{path}", create=False)
    except StoreError as error:
        return str(error)
    try:
        tree = TreeKeeper(store, "agtp.test", KEY, [WitnessFile(witness, [KEY.public])])
        writer = GroupWriter(store, RecordSigner(KEY), server_id="agtp.test", tree=tree)
        recovery.read(store, writer, tree)
    except StoreError as error:
        return str(error)
    finally:
        store.close()
    return ""


def read_everywhere(path: Path, audit_id: str) -> None:
    """Read as INSPECT, exports, ``agtp status`` and proofs do: what is damaged is told so, and never a surprise."""
    with closing(RecordReader(str(path), connect)) as reader:
        for read in (
            lambda: reader.record(audit_id),
            lambda: reader.number_of(audit_id),
            lambda: [reader.walk(chain, None, 1000) for chain in (ALICE, BOB, "")],
            lambda: [reader.lifecycle(chain, 100) for chain in (ALICE, BOB)],
            lambda: reader.lifecycle_states(),
            lambda: reader.state_items("approval"),
            lambda: list(reader.records(Selection())),
            lambda: list(reader.records(Selection(since=1, until=2**60, caller=BOB))),
            lambda: reader.latest(None, 1000, Search()),
            lambda: reader.latest(None, 1000, Search(caller=ALICE, status=403, reason="scope-missing")),
            lambda: list(reader.every_audit_id()),
            lambda: reader.checkpoint(),
            lambda: Tree(reader.tile, 200).inclusion(7),
        ):
            try:
                read()
            except (DamagedRecord, ProofError):
                continue


def mutations(mutator: Mutator, chance: random.Random, copy: Path) -> Iterator[Mutation]:
    """Every table and column once, in one of the ways that SQLite lets a file have; then any, in any way."""
    places = sorted(mutator.schema.places())
    chance.shuffle(places)
    reached: set[tuple[str, str, str]] = set()
    for table, column, how in places:
        place = table, column, "" if column else how
        if place not in reached and (made := mutator.mutate(table, column, how, copy)) is not None:
            reached.add(place)
            yield made
    guarded = {(table, column, "" if column else how) for table, column, how in places}
    assert reached == guarded, guarded - reached
    while True:
        if (made := mutator.mutate(*chance.choice(places), copy)) is not None:
            yield made


def test_a_whole_store_verifies_and_starts(rich: Path) -> None:
    """The control: nothing is found in a store that nobody changed, and there is a row in each table."""
    report = verify_store(rich, rich.with_name("checkpoint.txt"))
    assert report.ok, report.faults[:5]
    assert report.records > 256
    schema = Schema(rich)
    assert [table for table, rows in schema.rows.items() if not rows] == ["probe"]
    assert {table for table, _ in HARMLESS} <= set(schema.columns)


@pytest.mark.release
@pytest.mark.programme
def test_each_change_of_a_table_is_named_with_table_and_row(rich: Path, tmp_path: Path) -> None:
    """A value flipped, exchanged, emptied or of another type, a row deleted or added: found, and no traceback."""
    print(f"TABLE_SEED={SEED}")
    chance = random.Random(SEED)
    mutator = Mutator(rich, chance)
    copy, witness = tmp_path / "records.sqlite3", rich.with_name("checkpoint.txt")
    with closing(RecordReader(str(rich), connect)) as reader:
        head = reader.head(ALICE)
    assert head is not None
    missed: list[tuple[Mutation, list[str]]] = []
    for mutation in islice(mutations(mutator, chance, copy), MUTATIONS):
        report = verify_store(copy, witness)
        if not any(mutation.is_named_by(fault.table, fault.row) for fault in report.faults):
            missed.append((mutation, [str(fault) for fault in report.faults[:4]]))
        read_everywhere(copy, head.audit_id)
        # A start that serves may issue a checkpoint, which the witness file sees.
        shutil.copy(witness, tmp_path / "checkpoint.txt")
        start_fault(copy, tmp_path / "checkpoint.txt")
    assert not missed, "\n".join(f"{mutation}\n    {found}" for mutation, found in missed)


FATAL, TOLD, UNSEEN = "refused", "told", "only by audit verify"

AT_START = (
    ("UPDATE record SET status = 500 WHERE number = (SELECT max(number) FROM record)", FATAL, "record"),
    ("UPDATE record SET seq = seq + 7 WHERE number = (SELECT max(number) FROM record)", FATAL, "record"),
    ("UPDATE record SET path = '/x' WHERE number = (SELECT max(number) FROM record) - 100", TOLD, "record"),
    ("UPDATE record SET path = '/x' WHERE number = 2", UNSEEN, ""),
    ("UPDATE record SET number = 2305843009213693952 WHERE number = 9", FATAL, "record"),
    ("DELETE FROM record WHERE number = (SELECT max(number) FROM record)", FATAL, ""),
    ("DELETE FROM chain WHERE number = 2", FATAL, "chain"),
    ("UPDATE chain SET agent_id = randomblob(32) WHERE number = 2", FATAL, "record"),
    ("UPDATE checkpoint SET note = replace(note, 'agtp.test', 'agtp.tesT') WHERE size > 280", FATAL, "checkpoint"),
    ("UPDATE checkpoint SET note = replace(note, 'agtp.test', 'agtp.tesT') WHERE size < 100", UNSEEN, ""),
    ("UPDATE tile SET hashes = randomblob(length(hashes)) WHERE level = 0 AND number = 1", FATAL, "checkpoint"),
    ("UPDATE tile SET hashes = randomblob(length(hashes)) WHERE level = 0 AND number = 0", UNSEEN, ""),
    ("UPDATE keyed SET keys = keys + 1", TOLD, "keyed"),
    ("UPDATE keyed SET since = since - 1", TOLD, "keyed"),
    ("DELETE FROM reservation WHERE result IS NULL", TOLD, "keyed"),
    ("UPDATE reservation SET result = randomblob(length(result)) WHERE record > 0", UNSEEN, ""),
    ("UPDATE reservation SET owner = NULL WHERE record > 0", TOLD, "keyed"),
    ("UPDATE reservation SET digest = randomblob(32)", UNSEEN, ""),
)
"""A change, what a start makes of it, and the table that it names; ``audit verify`` names every one."""


@pytest.mark.release
@each_row("statement, verdict, table", AT_START)
def test_what_a_start_notices_of_changed_tables(
    rich: Path, tmp_path: Path, statement: str, verdict: str, table: str
) -> None:
    """What the next record or checkpoint rests on refuses the start, what else is cheap is told, with table and row."""
    copy, witness = tmp_path / "records.sqlite3", tmp_path / "checkpoint.txt"
    shutil.copy(rich, copy)
    shutil.copy(rich.with_name("checkpoint.txt"), witness)
    with closing(sqlite3.connect(copy)) as database, database:
        assert database.execute(statement).rowcount > 0
    assert any(fault.table for fault in verify_store(copy, witness).faults)
    with capturedLogs() as logged:
        refused = start_fault(copy, witness)
    told = [str(event["finding"]) for event in logged if "finding" in event]
    assert (FATAL if refused else TOLD if told else UNSEEN) == verdict, (refused, told)
    assert not table or f"table {table}, row " in (refused or told[0])


UNINDEXED = (
    ("chain", "number = 2", "2"),
    ("lifecycle", "status = 'retired'", CAROL),
    ("reservation", "record > 0", ""),
    ("record", "number = (SELECT max(number) FROM record)", ""),
    # The newest record of a chain whose newest record is old.
    ("record", f"chain = (SELECT number FROM chain WHERE hex(agent_id) = '{ONCE.upper()}')", ""),
)


@each_row("table, condition, row", UNINDEXED)
def test_a_row_that_its_index_lacks_is_named_and_no_start_serves(
    rich: Path, tmp_path: Path, table: str, condition: str, row: str
) -> None:
    """A row that is not found by its key would be made again: a keyed request would run twice, and a chain fork."""
    copy, witness = tmp_path / "records.sqlite3", tmp_path / "checkpoint.txt"
    shutil.copy(rich, copy)
    shutil.copy(rich.with_name("checkpoint.txt"), witness)
    key = unindex(copy, table, condition)[0]
    named = row or (key.hex() if isinstance(key, bytes) else str(key))
    assert (table, named) in {(fault.table, fault.row) for fault in verify_store(copy, witness).faults}
    assert f"table {table}, row {named}: " in start_fault(copy, witness)


@pytest.mark.release
def test_every_line_of_a_checkpoint_is_the_hosts(rich: Path, tmp_path: Path) -> None:
    """A state line that was changed, removed or put under another name is named, in old checkpoints as in new ones."""
    copy, witness = tmp_path / "records.sqlite3", rich.with_name("checkpoint.txt")
    with closing(sqlite3.connect(rich)) as database:
        notes = database.execute("SELECT size, note FROM checkpoint").fetchall()
    assert len(notes) > 3
    for size, note in notes:
        *text, plain, state, end = note.split("\n")
        name, value = state.rsplit(" ", 1)
        at = random.Random(size).randrange(2, len(value) - 4)
        other = "A" if value[at] != "A" else "B"
        for line in (f"{name} {value[:at]}{other}{value[at + 1 :]}", f"{name}x {value}", f"{name} {value[:-4]}", None):
            changed = "\n".join([*text, plain, *([] if line is None else [line]), end])
            shutil.copy(rich, copy)
            with closing(sqlite3.connect(copy)) as database, database:
                database.execute("UPDATE checkpoint SET note = ? WHERE size = ?", (changed, size))
            faults = {(fault.table, fault.row) for fault in verify_store(copy, witness).faults}
            assert ("checkpoint", str(size)) in faults, (size, line)


_TWICE = (
    "ALTER TABLE {0} RENAME TO old; CREATE TABLE {0} AS SELECT * FROM old; INSERT INTO {0} SELECT * FROM old LIMIT 1"
)

_HIDDEN = (
    "PRAGMA writable_schema=ON; INSERT INTO sqlite_schema VALUES ('trigger', '{0}', 'record', 0, "
    "'CREATE TRIGGER {0} AFTER INSERT ON record BEGIN DELETE FROM lifecycle; END')"
)
"""A trigger with a name that SQLite keeps for itself, or that a table has: whoever edits the file can write any."""

SCHEMAS = (
    *((_HIDDEN.format(name), FATAL, f"trigger {name}") for name in ("sqlite_stat_x", "sqlite_stat1", "record")),
    *((_TWICE.format(table), FATAL, f"table {table}") for table in ("lifecycle", "held", "tile", "keyed", "record")),
    *((f"DROP TABLE {table}", FATAL, f"table {table}") for table in ("chain", "lifecycle", "held", "state_change")),
    ("DROP TABLE probe", FATAL, "table probe"),
    ("CREATE TRIGGER added AFTER INSERT ON record BEGIN DELETE FROM lifecycle; END", FATAL, "trigger added"),
    ("ALTER TABLE held RENAME TO old; CREATE VIEW held AS SELECT * FROM old", FATAL, "table held"),
    ("ALTER TABLE held DROP COLUMN version", FATAL, "table held"),
    ("CREATE UNIQUE INDEX added ON record (number, method)", FATAL, "index added"),
    ("DROP INDEX record_audit_id", TOLD, "index record_audit_id"),
    ("CREATE INDEX added ON record (method)", TOLD, "index added"),
    ("CREATE TABLE added (number)", TOLD, "table added"),
    ("ANALYZE", UNSEEN, ""),
)
"""Statements that change the schema, what a start makes of it, and what a finding names."""


@each_row("script, verdict, row", SCHEMAS)
def test_what_verification_and_a_start_notice_of_a_changed_schema(
    rich: Path, tmp_path: Path, script: str, verdict: str, row: str
) -> None:
    """A table without its keys has rows twice, and a trigger changes rows later: both are named, also without rows."""
    copy, witness = tmp_path / "records.sqlite3", tmp_path / "checkpoint.txt"
    shutil.copy(rich, copy)
    shutil.copy(rich.with_name("checkpoint.txt"), witness)
    with closing(sqlite3.connect(copy)) as database:
        database.executescript(script)
    named = [fault.row for fault in verify_store(copy, witness).faults if fault.table == "sqlite_schema"]
    assert named[:1] == [row] if row else not named
    with capturedLogs() as logged:
        refused = start_fault(copy, witness)
    told = [str(event["finding"]) for event in logged if "finding" in event]
    assert (FATAL if refused else TOLD if told else UNSEEN) == verdict, (refused, told)
    assert row in (refused or str(told))


def test_a_schema_that_sqlite_cannot_read_is_named(rich: Path, tmp_path: Path) -> None:
    """A table taken out of sqlite_schema leaves its indexes behind: a finding, and no start."""
    copy, witness = tmp_path / "records.sqlite3", rich.with_name("checkpoint.txt")
    shutil.copy(rich, copy)
    with closing(sqlite3.connect(copy, isolation_level=None)) as database:
        database.execute("PRAGMA writable_schema=ON")
        database.execute("DELETE FROM sqlite_schema WHERE name = 'lifecycle'")
    assert "sqlite_schema" in {fault.table for fault in verify_store(copy, witness).faults}
    assert "its schema is damaged, at " in start_fault(copy, witness)


def test_a_store_that_is_written_meanwhile_verifies(tmp_path: Path) -> None:
    """Records, keyed answers and checkpoints that come during the check are no findings."""
    path, witness = tmp_path / "records.sqlite3", tmp_path / "checkpoint.txt"
    write_rich_store(path, witness, KEY, groups=65)
    rich = RichStore(path, witness, KEY, "agtp.test")
    written = 0

    def meanwhile(rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        nonlocal written
        for number, row in enumerate(rows):
            if number % 40 == 0:
                rich.answer(ALICE, f"meanwhile-{number}", 30)
                rich.write(*(draft(BOB) for _ in range(40)))
                rich.checkpoint()
                written += 1
            yield row

    with closing(RecordReader(str(path), connect)) as reader, reader.tables() as rows:
        expected = Expected(keys=KEYS, now=int(time.time() * 1000), seen=WitnessFile(witness, [KEY.public]).last())
        assert list(check_tables(rows, expected, meanwhile)) == []
    assert written > 5
    rich.close()
    assert verify_store(path, witness).ok


def test_requests_from_before_the_version_are_taken_and_later_ones_need_their_seal(tmp_path: Path) -> None:
    """What an older version stored has no seal; a request that was claimed after a sealed one must have its own."""
    path, witness = tmp_path / "records.sqlite3", tmp_path / "checkpoint.txt"
    rich = RichStore(path, witness, KEY, "agtp.test")
    rich.write(draft(ALICE))
    now = int(time.time() * 1000)
    owner = owner_name(ReservationKey(agent_id=ALICE, key=""))
    with closing(sqlite3.connect(path)) as database, database:
        for number in range(3):
            row = bytes([number]) * 32, b"d" * 32, now - 5_000, b"200 text/plain\nok", owner
            database.execute(
                "INSERT INTO reservation (name, digest, reserved_at, result, owner) VALUES (?, ?, ?, ?, ?)", row
            )
        for each in (owner, b""):
            database.execute("INSERT INTO keyed (owner, keys, octets, since) VALUES (?, 3, 51, ?)", (each, now - 5_000))
    rich.checkpoint()
    assert verify_store(path, witness).ok
    rich.answer(BOB, "first", 20)
    rich.write(Claim(ReservationKey(agent_id=BOB, key="second"), b"d" * 32))
    rich.checkpoint()
    rich.close()
    assert verify_store(path, witness).ok
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "UPDATE reservation SET seal = X'', reserved_at = reserved_at + 1 WHERE record = 0 AND seal <> X''"
        )
    (fault,) = verify_store(path, witness).faults
    assert fault.table == "reservation" and "seal is empty" in fault.explanation


def test_a_number_beyond_all_costs_no_search_by_steps(rich: Path, tmp_path: Path) -> None:
    """A record whose number was damaged to a huge one does not make a search count down from it."""
    copy = tmp_path / "records.sqlite3"
    shutil.copy(rich, copy)
    with closing(sqlite3.connect(copy)) as database, database:
        database.execute("UPDATE record SET number = ? WHERE number = 9", (2**61,))
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return steps > 100

    def opener(uri: str) -> Any:
        connection = connect(uri)
        connection.set_progress_handler(count, 1000)  # type: ignore[attr-defined]
        return connection

    with closing(RecordReader(str(copy), opener)) as reader:
        assert reader.record("ab" * 32) is None and reader.number_of("ab" * 32) is None
