"""The index of records: stores of an earlier version get it, a wrong value is named, and searches use it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import HOST_CHAIN
from agtphost.audit.table_check import Expected, check_tables
from agtphost.audit.writer import GroupWriter, Submission
from agtphost.stores import DamagedRecord, Search, SQLiteStore, open_reader, open_store, upgrade
from agtphost.stores.connection import connect
from agtphost.stores.record_blocks import BLOCK
from agtphost.stores.record_index import digest_facet
from agtphost.stores.record_look import SearchStopped
from agtphost.stores.record_reader import RecordReader
from agtphost.stores.record_search import CountedBy
from agtphost.stores.rows import Facet
from agtphost.testing.store_drafts import ALICE, BOB, KEY, KEYS, draft, write_drafts
from tests.audit.drafting import transition
from tests.measuring import measured
from tests.programmes import length
from tests.rows import each_row

INDEX = "SELECT number, session, task, facet FROM record ORDER BY number"
FACETS = "SELECT * FROM facet ORDER BY number"

DOWNGRADE = (
    *(f"DROP TABLE {name}" for name in ("facet", "record_block", "record_hash")),
    *(f"ALTER TABLE record DROP COLUMN {name}" for name in ("session", "task", "facet")),
)
"""Statements that make a store what the version without facets made."""


def fill(store: Any) -> None:
    """Write records of several kinds: tools, refusals, events in both envelopes, and persons."""
    tool = {"mcp_server": "files", "mcp_tool": "read"}
    write_drafts(
        store,
        draft(ALICE, method="EXECUTE", path="/", extra=tool, session_id="s", task_id="t"),
        draft(ALICE, status=403, reason="scope-required", acting_principal_id="anna"),
        draft(HOST_CHAIN, caller_id="", operator={"name": "anna", "key": "ab" * 32}),
    )
    writer = GroupWriter(store, RecordSigner(KEY, "cose"), server_id="agtp.test")
    writer.load()
    writer.write([Submission(transition(None, "suspended", agent_id=BOB))])


def url(folder: Path) -> str:
    return f"sqlite:{folder / 'records.sqlite3'}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    made = open_store(url(tmp_path), create=True)
    fill(made)
    yield made
    made.close()


def read_index(store: Any) -> list[list[tuple[Any, ...]]]:
    return [[tuple(row) for row in store._execute(statement).fetchall()] for statement in (INDEX, FACETS)]


def test_a_store_of_the_earlier_version_is_indexed_at_start(store: SQLiteStore, tmp_path: Path) -> None:
    """The step computes from the signed octets what the writer would have written, and reading waits for it."""
    before = read_index(store)
    for statement in (*DOWNGRADE, "PRAGMA user_version=9"):
        store._execute(statement)
    store.close()
    with pytest.raises(Exception, match="start the host once to bring it up to date"):
        open_reader(url(tmp_path))
    again = open_store(url(tmp_path), create=False)
    assert read_index(again) == before
    with again.tables() as rows:
        assert not list(check_tables(rows, Expected(keys=KEYS, now=2_000))) and not rows.schema_changes()
    write_drafts(again, draft(ALICE, task_id="new"))
    assert len(again.reader().latest(None, 9, Search(task_id="new")).records) == 1
    again.close()


def test_a_record_that_cannot_be_read_stops_no_upgrade(store: SQLiteStore, tmp_path: Path) -> None:
    """Such a record stays without a facet, and the check of the tables names it."""
    for statement in (*DOWNGRADE, "PRAGMA user_version=9", "UPDATE record SET signed = x'00' WHERE number = 2"):
        store._execute(statement)
    store.close()
    again = open_store(url(tmp_path), create=False)
    with again.tables() as rows:
        named = {(found.table, found.row) for found in check_tables(rows, Expected(keys=KEYS, now=2_000))}
    assert ("record", "2") in named and ("record", "1") not in named
    assert len(again.reader().latest(None, 9, Search(task_id="t")).records) == 1
    again.close()


@each_row(
    ("statement", "table", "row", "explanation"),
    [
        ("UPDATE facet SET tool = 'files.write' WHERE number = 1", "facet", "1", "digest is not that"),
        ("UPDATE record SET task = 'x' WHERE number = 1", "record", "1", "task is 'x', and 't' was signed"),
        ("UPDATE record SET session = '' WHERE number = 1", "record", "1", "session is '', and 's' was signed"),
        ("UPDATE record SET facet = 1 WHERE number = 2", "record", "2", "facet is 1, whose status is '200', and '403'"),
        ("UPDATE record SET facet = 77 WHERE number = 2", "facet", "77", "which is not there"),
        ("DELETE FROM facet WHERE number = 2", "facet", "2", "which is not there"),
    ],
)
def test_a_wrong_index_is_named(
    tmp_path_factory: pytest.TempPathFactory, statement: str, table: str, row: str, explanation: str
) -> None:
    """What a search would be misled by is a finding with its table, its row, and both values."""
    made = open_store(url(tmp_path_factory.mktemp("store")), create=True)
    fill(made)
    with made.tables() as rows:
        assert not list(check_tables(rows, Expected(keys=KEYS, now=2_000)))
        made._execute(statement)
        found = list(check_tables(rows, Expected(keys=KEYS, now=2_000)))
    assert any((each.table, each.row) == (table, row) and explanation in each.explanation for each in found), found
    made.close()


def test_a_forged_facet_is_named(store: SQLiteStore) -> None:
    """A facet whose digest was made anew contradicts the records that name it."""
    row = store._execute("SELECT * FROM facet WHERE number = 1").fetchone()
    forged = Facet(*row[2:])._replace(tool="files.write")
    store._execute("UPDATE facet SET tool = ?, digest = ? WHERE number = 1", (forged.tool, digest_facet(forged)))
    with store.tables() as rows:
        found = [str(each) for each in check_tables(rows, Expected(keys=KEYS, now=2_000))]
    said = "table facet, row 1: 1 records that name it differ; record 1: facet is 1, whose tool"
    assert any(said in each for each in found), found


def test_a_deleted_table_of_hashes_is_damage(store: SQLiteStore) -> None:
    """A search that needs it says so, and the check of the schema names it."""
    store._execute("DROP TABLE record_hash")
    with pytest.raises(DamagedRecord, match="its tables are not those of a store"):
        store.reader().latest(None, 9, Search(task_id="t"))
    with store.tables() as rows:
        assert "table record_hash" in [found.row for found in rows.schema_changes()]


RECORDS = length(20_000, 1_000_000)
STEP = 3_000
"""Milliseconds from one record to the next."""

TOOLS = 40


def fill_directly(folder: Path, records: int) -> Path:
    """Make a store with so many records of a hundred agents and forty tools, without signing any."""
    path = folder / "records.sqlite3"
    made = open_store(f"sqlite:{path}", create=True)
    made.begin()
    made.chain_number("")
    made.commit()
    made.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for setting in ("synchronous=OFF", "journal_mode=MEMORY", "cache_size=-400000"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("BEGIN")
        for number in range(TOOLS * 100):
            status = 403 if number % 50 == 0 else 200
            facet = Facet(b"", (number % 100).to_bytes(32), status, "EXECUTE", f"server.tool{number // 100}")
            row = number + 1, digest_facet(facet), *facet
            connection.execute(f"INSERT INTO facet VALUES ({','.join('?' * 11)})", row)
        filler = b"x" * 1_300
        connection.executemany(
            "INSERT INTO record VALUES (?, 1, ?, ?, ?, 0, 0, ?, 200, 'EXECUTE', '/', x'', ?, ?, ?, ?)",
            (
                (n, n, n.to_bytes(32), n - 1, n * STEP, filler, f"s{n % 1000}", f"t{n}", 1 + n * 7919 % (TOOLS * 100))
                for n in range(1, records + 1)
            ),
        )
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
    with closing(open_store(f"sqlite:{path}", create=False)) as made:
        while made.index_blocks():
            pass
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_directly(tmp_path_factory.mktemp("large"), RECORDS)


HALF = RECORDS * STEP // 2
SEARCHES = {
    "a tool": Search(tool="server.tool7"),
    "a tool in an hour": Search(tool="server.tool7", since=HALF, until=HALF + 3_600_000),
    "an agent": Search(caller=(42).to_bytes(32).hex()),
    "an agent and a tool that it never called with success": Search(
        caller=(50).to_bytes(32).hex(), tool="server.tool7", status=200
    ),
    "a status": Search(status=403),
    "a session": Search(session_id="s7"),
    "a task of long ago": Search(task_id="t5"),
    "a task and another tool": Search(task_id="t5", tool="server.none"),
    "a range": Search(since=HALF),
    "everything": Search(),
}


@measured
@pytest.mark.programme
def test_a_search_costs_little_in_a_store_of_any_size(large: Path, record_property: pytest.RecordProperty) -> None:
    """Each search and each count takes at most 200 ms of a processor, and alone on a machine a second in all."""
    reader = RecordReader(str(large), connect)
    for name, search in SEARCHES.items():
        runs = {"page": lambda search=search: reader.latest(None, 50, search)}
        for by in CountedBy:
            runs[f"by {by.value}"] = lambda search=search, by=by: reader.count(by, None, search)
        runs["summary"] = lambda search=search: reader.summarize(RECORDS * STEP, search)
        for what, run in runs.items():
            spent, start = time.process_time(), time.perf_counter()
            if what == "page":
                # The octets are not signed, so each record counts as damaged: what is measured is to find it.
                found = run()
                assert found.damaged or name.startswith(("an agent and", "a task and")), name
            else:
                run()
            spent, taken = time.process_time() - spent, time.perf_counter() - start
            record_property(f"{name}, {what}", round(spent * 1000))
            print(f"{name}, {what}: {spent * 1000:.0f} ms of a processor, {taken * 1000:.0f} ms")
            assert spent < 0.2 and taken < length(30.0, 1.0), (name, what)
    reader.close()


def test_a_summary_says_how_far_it_came(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that ends early counts the newest slots, and says so; another of these slots alone has the same sums."""
    reader = RecordReader(str(large), connect)
    now = RECORDS * STEP + 1
    monkeypatch.setattr("agtphost.stores.record_look.LOOK_SECONDS", 0.0)
    part = reader.summarize(now, Search(tool="server.tool7"))
    assert not part.is_complete and len(part.slots) == 1 and part.since == part.slots[0].begin
    monkeypatch.setattr("agtphost.stores.record_look.LOOK_SECONDS", 60.0)
    again = reader.summarize(now, Search(tool="server.tool7", since=part.since))
    assert again.is_complete and again.facets == part.facets
    whole = reader.summarize(now, Search(tool="server.tool7"))
    assert whole.is_complete and sum(whole.facets.values()) == RECORDS // TOOLS
    assert sum(slot.records for slot in whole.slots) == RECORDS // TOOLS
    reader.close()


def test_counts_go_on_where_a_look_ended(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of looks that end after each window are those of one look."""
    reader = RecordReader(str(large), connect)
    whole = reader.count(CountedBy.HOUR, None, Search(tool="server.tool7"))
    monkeypatch.setattr("agtphost.stores.record_look.LOOK_SECONDS", 0.0)
    before: int | None = None
    parts: dict[str, int] = {}
    for _ in range(10_000):
        part = reader.count(CountedBy.HOUR, before, Search(tool="server.tool7"))
        parts |= {hour: parts.get(hour, 0) + number for hour, number in part.counts.items()}
        before = part.before
        if before is None:
            break
    if whole.before is None:
        assert parts == dict(whole.counts) and sum(parts.values()) == RECORDS // TOOLS
    reader.close()


def test_a_search_uses_the_indexes(large: Path) -> None:
    """No statement of a search walks through the records, but for a range of their numbers."""
    plans: list[str] = []

    class Explained:
        def __init__(self, uri: str) -> None:
            self._connection = connect(uri)

        in_transaction = False

        def execute(self, statement: str, parameters: Any = ()) -> Any:
            if "record" in statement:
                rows = self._connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
                plans.extend(str(row[3]) for row in rows)
            return self._connection.execute(statement, parameters)

        def close(self) -> None:
            self._connection.close()

    def scans() -> list[str]:
        # Of blocks each lookup reads all beginnings, one for 4,096 records.
        return [
            plan
            for plan in plans
            if plan.startswith("SCAN r") and not plan.startswith(("SCAN record_block", "SCAN record_hash"))
        ]

    reader = RecordReader(str(large), Explained)
    for name, search in SEARCHES.items():
        plans.clear()
        reader.latest(None, 50, search)
        assert not scans(), (name, plans)
        plans.clear()
        reader.count(CountedBy.TOOL, None, search)
        assert not scans(), plans
        plans.clear()
        reader.summarize(RECORDS * STEP, search)
        reader.new_facets(HALF)
        assert not scans(), plans
    reader.close()


def test_columns_decide_where_a_facet_does_not_alone(large: Path) -> None:
    """Of the records that an agent may have made, those alone are read whose caller only claimed an Agent-ID."""
    asked: set[int] = set()

    class Noting(RecordReader):
        def to_list(self, numbers: Sequence[int]) -> object:
            asked.update(number for number in numbers if number > TOOLS * 100)  # Others are those of facets.
            return super().to_list(numbers)

    reader = Noting(str(large), connect)
    found = reader.count(CountedBy.AGENT, None, Search(caller=(42).to_bytes(32).hex(), since=HALF))
    reader.close()
    assert found.counts and asked and {number % 100 for number in asked} == {0}


def test_a_count_reads_each_block_once(large: Path) -> None:
    """Where columns decide for some records, neither blocks nor columns are read again for each hour or facet."""
    asked: list[str] = []

    class Noting(RecordReader):
        def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
            asked.append(statement)
            return super()._rows(statement, parameters)

    reader = Noting(str(large), connect)
    blocks = (RECORDS - 1) // BLOCK
    agent = Search(caller=(42).to_bytes(32).hex())
    found = {}
    for by in (CountedBy.STATUS, CountedBy.HOUR):
        asked.clear()
        found[by] = sum(reader.count(by, None, agent).counts.values())
        of_facets = [each for each in asked if "facets" in each and "record_block" in each]
        of_columns = [each for each in asked if "r.caller = ?" in each and "GROUP" not in each]
        assert len(of_facets) <= blocks and len(of_columns) <= blocks, asked
    assert found[CountedBy.STATUS] == found[CountedBy.HOUR] == RECORDS // 100
    reader.close()


def test_a_search_ends_when_its_caller_leaves(large: Path) -> None:
    """The thread stops between two statements."""
    reader = RecordReader(str(large), connect)
    with pytest.raises(SearchStopped):
        reader.latest(None, 50, Search(tool="server.tool7"), stop=lambda: True)
    with pytest.raises(SearchStopped):
        reader.count(CountedBy.HOUR, None, Search(), stop=lambda: True)
    reader.close()


def test_the_number_of_the_version_is_that_of_the_step() -> None:
    """Records are indexed in the step that empties the table of facets."""
    step = next(each for each in upgrade.steps() if upgrade.number_of(each) == upgrade.INDEXED)
    assert "DELETE FROM facet" in step.read_text()
