"""Blocks of facets and times: searches and counts have the same results with them, and a wrong one is named."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit.drafts import Draft, Sealed
from agtphost.audit.table_check import Expected, check_tables
from agtphost.iagtp import IChainStore, IRecordReader
from agtphost.stores import block_writer, open_store, record_blocks
from agtphost.stores.block_writer import make_block
from agtphost.stores.facet_rows import FacetNumbers
from agtphost.stores.record_blocks import MOST_SUMS, RecordBlocks, pack, unpack
from agtphost.stores.record_hashes import ABSENT, hash_text
from agtphost.stores.record_search import CountedBy, Search
from agtphost.stores.rows import NO_FACET, DamagedRow
from agtphost.stores.settings import locate_url
from agtphost.testing.store_drafts import ALICE, BOB, KEYS, draft, row, write_drafts
from agtphost.testing.store_searches import SearchCases
from tests import postgres
from tests.rows import each_row
from tests.small_blocks import set_block

SMALL = 4
"""Records of a block in these tests."""


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have blocks of a few records, so that small stores have many, with sums and without."""
    set_block(monkeypatch, SMALL, 2)


def open_at(folder: Path, database: str) -> Any:
    if database == "sqlite":
        return open_store(f"sqlite:{folder / 'records.sqlite3'}", create=True)
    server = postgres.server()
    place = locate_url(server.url(server.schema(folder)))
    place.create("agtp.test")
    return place.open_store(create=False, holder="test", server_id="agtp.test")


class BlockCases(SearchCases):
    """Every requirement of searches, where all records but the newest are in blocks."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        make_small(monkeypatch)
        made = open_at(tmp_path, self.database)
        yield made
        if (last := made.last_number()) < 1_000:
            assert made._execute("SELECT count(*) FROM record_block").fetchone()[0] == last // SMALL
        with made.tables() as rows:
            assert not [each for each in check_tables(rows, Expected(keys=None, now=2_000)) if "block" in each.table]
        made.close()

    database: str
    test_a_search_for_text_ends = None
    """It reads no block."""

    @staticmethod
    def written(store: IChainStore, *drafts: Draft, seconds: float = 1_000.0) -> list[Sealed]:
        found = write_drafts(store, *drafts, seconds=seconds)
        while store.index_blocks():
            pass
        return found


class TestSQLiteBlocks(BlockCases):
    database = "sqlite"


@postgres.needed
class TestPostgresBlocks(BlockCases):
    database = "postgresql"


def hide_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have lookups find no block, so that they read the records."""
    monkeypatch.setattr("agtphost.stores.record_blocks._BEGINNINGS", "SELECT number, began FROM record_block LIMIT 0")
    monkeypatch.setattr("agtphost.stores.record_hashes._EXTENT", "SELECT 0, -1")


def results(reader: IRecordReader, search: Search, last: int) -> list[Any]:
    summary = reader.summarize(last, search)
    counts = [reader.count(by, None, search) for by in CountedBy]
    assert summary.is_complete and not [each for each in counts if each.before is not None]
    page = reader.latest(None, 7, search)
    numbers = [number for number, _ in page.records]
    return [summary, [dict(each.counts) for each in counts], numbers, page.before if len(numbers) == 7 else None]


@pytest.mark.release
@postgres.needed
def test_results_with_and_without_blocks_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Any combination of conditions and times finds, counts and sums up the same records, on both databases."""
    make_small(monkeypatch)
    monkeypatch.setattr("agtphost.stores.record_look.LOOK_SECONDS", 60.0)
    searches = [
        Search(**conditions, **times)
        for conditions in (
            {},
            {"reads": False},
            {"status": 403},
            {"tool": "files.read"},
            {"tool": "files.none"},
            {"path": "/orders"},
            {"path": "/" + "x" * 80, "status": 200},
            {"session_id": "s1"},
            {"task_id": "t2", "status_class": 4},
            {"caller": ALICE},
            {"method": "MADEUP1"},
        )
        for times in ({}, {"since": 7_205_000}, {"since": 7_201_000, "until": 21_610_001})
    ]
    for database in ("sqlite", "postgresql"):
        store = open_at(tmp_path, database)
        for number in range(43):
            refused = {"status": 403, "reason": "scope-missing"} if number % 3 == 0 else {}
            tool = {"mcp_server": "files", "mcp_tool": "read"} if number % 5 == 0 else {}
            write_drafts(
                store,
                draft(
                    ALICE if number % 2 else "",
                    method="EXECUTE" if tool else "MADEUP1" if number % 7 == 0 else "QUERY",
                    path=("/", "/orders", "/" + "x" * 80)[number % 3],
                    session_id=f"s{number % 3}",
                    task_id=f"t{number % 4}",
                    caller_id=(ALICE, BOB, "")[number % 3],
                    **({"identity_assurance": "header"} if number % 4 == 0 else {}),
                    **({"extra": tool} if tool else {}),
                    **refused,
                ),
                seconds=number // 4 * 1_800 + number,
            )
        store.index_blocks()
        reader = store.reader()
        some = [results(reader, search, 80_000_000) for search in searches]
        new = [reader.new_facets(since) for since in (0, 7_200_000, 70_000_000)]
        with monkeypatch.context() as patched:
            hide_blocks(patched)
            for search, found in zip(searches, some, strict=True):
                assert results(reader, search, 80_000_000) == found, (database, search)
            assert [reader.new_facets(since) for since in (0, 7_200_000, 70_000_000)] == new
        # What finds nothing anywhere would prove nothing.
        assert sum(1 for found in some if found[1][0]) > 20 and new[1][0] and new[1][1]
        store.close()


@each_row(
    ("statement", "row", "explanation"),
    [
        ("UPDATE record_block SET began = 5 WHERE number = 1", "1", "began is 5"),
        ("UPDATE record_block SET sums = x'0100000009000000' WHERE number = 0", "0", "sums is not that of facets"),
        ("UPDATE record_block SET sums = x'' WHERE number = 0", "0", "sums is not that of facets"),
        ("UPDATE record_block SET facets = x'00' WHERE number = 1", "1", "has not the length of a block"),
        ("UPDATE record_block SET {facet} WHERE number = 1", "1", "facets has 9 for record 6, which has signed"),
        ("UPDATE record_block SET {time} WHERE number = 0", "0", "for record 2, which has signed another"),
        ("DELETE FROM record_block WHERE number = 0", "0", "is not there, and block 1 is"),
        ("UPDATE record_block SET number = 7 WHERE number = 1", "1", "is not there, and block 7 is"),
        ("INSERT INTO record_block SELECT 2, began, sums, facets, times FROM record_block WHERE number = 1", "2",
         "for record 9"),
        ("INSERT INTO record_block SELECT 3, began, sums, facets, times FROM record_block WHERE number = 1", "3",
         "the block before it is not there"),
        ("INSERT INTO record_block VALUES (2, 1008000, {early})", "2",
         "for record 10, which is not there"),
    ],
)  # fmt: skip
def test_a_wrong_block_is_named(
    tmp_path_factory: pytest.TempPathFactory, statement: str, row: str, explanation: str
) -> None:
    """`agtp audit verify` names each block that is not what its records have signed, and nothing else."""
    with pytest.MonkeyPatch.context() as patched:
        make_small(patched)
        store = open_at(tmp_path_factory.mktemp("store"), "sqlite")
        for number in range(9):
            refused = {"status": 403, "reason": "scope-missing"} if number == 5 else {}
            write_drafts(store, draft(ALICE, **refused), seconds=1_000 + number)
        store.index_blocks()
        facet = f"facets = x'{pack('I', [1, 9, 1, 1]).hex()}', sums = x'{pack('I', [1, 3, 9, 1]).hex()}'"
        time = f"times = x'{pack('Q', [1_000_000, 1_000_999, 1_002_000, 1_003_000]).hex()}'"
        with store.tables() as rows:
            assert not list(check_tables(rows, Expected(keys=KEYS, now=2_000)))
            parts = pack("I", [1, 4]), pack("I", [1] * 4), pack("Q", [1_008_000] * 4)
            early = ", ".join(f"x'{part.hex()}'" for part in parts)
            store._execute(statement.format(facet=facet, time=time, early=early))
            found = list(check_tables(rows, Expected(keys=KEYS, now=2_000)))
        named = [(each.row, each.explanation) for each in found if each.table == "record_block"]
        assert len(named) == len(found) and any(each == row and explanation in why for each, why in named), found
        store.close()


def test_a_look_refuses_blocks_that_are_not_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that lacks a block would be too small: it is an error that names the block."""
    make_small(monkeypatch)
    store = open_at(tmp_path, "sqlite")
    write_drafts(store, *(draft() for _ in range(9)))
    store.index_blocks()
    reader = store.reader()
    for statement, look in (
        ("UPDATE record_hash SET tasks = x'' WHERE number = 1", lambda: reader.latest(None, 9, Search(task_id="t"))),
        ("DELETE FROM record_hash WHERE number = 0", lambda: reader.latest(None, 9, Search(task_id="t"))),
        ("DELETE FROM record_block WHERE number = 0", lambda: reader.count(CountedBy.TOOL, None, Search())),
        ("UPDATE record_block SET number = 0, times = x''", lambda: reader.count(CountedBy.HOUR, None, Search())),
        ("UPDATE record_block SET sums = x'', facets = x''", lambda: reader.latest(None, 9, Search(status=200))),
    ):
        store._execute(statement)
        with pytest.raises(DamagedRow, match=statement.split()[1] if "UPDATE" in statement else statement.split()[2]):
            look()
    store.close()


def test_an_hour_of_many_blocks_is_counted_by_their_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the facets of 1,000,000 records took 31 ms with the interpreter held; their sums take 2 ms."""
    make_small(monkeypatch)
    monkeypatch.setattr("agtphost.stores.block_writer.MOST_SUMS", SMALL)
    store = open_at(tmp_path, "sqlite")
    write_drafts(store, *(draft() for _ in range(20 * SMALL)))
    while store.index_blocks():
        pass
    read = []
    of_block = RecordBlocks._read
    monkeypatch.setattr(RecordBlocks, "_read", lambda *given: read.append(given[1]) or of_block(*given))
    counted = store.reader().count(CountedBy.HOUR, None, Search())
    assert sum(counted.counts.values()) == 20 * SMALL and len({*read}) <= 3, read
    store.close()


def test_a_record_that_is_not_there_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing record, or one with values that no writer wrote, has the facet 0 and the time of the one before."""
    make_small(monkeypatch)
    block, hashes = make_block(2, [(10, 7, 500, "s", "", "/"), (11, "x", None, None, "", "/")])
    assert list(unpack("I", block.facets)) == [0, 7, 0, 0] and list(unpack("Q", block.times)) == [500] * 4
    assert list(unpack("I", block.sums)) == [7, 1] and block.began == 500
    assert list(unpack("I", hashes.sessions)) == [ABSENT, hash_text("s"), ABSENT, ABSENT]


def test_blocks_are_written_a_few_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that lacks many gets them in several transactions; one that lacks none is not locked."""
    make_small(monkeypatch)
    store = open_at(tmp_path, "sqlite")
    write_drafts(store, *(draft() for _ in range(SMALL * block_writer.WRITTEN_AT_ONCE + SMALL)))
    assert store.index_blocks() is True and store.index_blocks() is False
    statements: list[str] = []
    execute = store._execute
    store._execute = lambda statement, *given: statements.append(statement) or execute(statement, *given)
    assert store.index_blocks() is False and not [each for each in statements if "BEGIN" in each]
    reader = store.reader()
    assert RecordBlocks(reader._rows).end == store.last_number() + 1
    store.close()


def test_a_block_has_24_octets_a_record() -> None:
    """A block without sums is as large as its facets, its times and three hashes."""
    rows = [(number + 1, number + 1, number, "", "", "") for number in range(record_blocks.BLOCK)]
    block, hashes = make_block(0, rows)
    assert len(block.facets) + len(block.times) == 12 * record_blocks.BLOCK and not block.sums
    assert [len(column) for column in hashes[1:]] == [4 * record_blocks.BLOCK] * 3
    few = make_block(0, [(number, number % MOST_SUMS + 1, at, "", "", "") for number, _, at, *_ in rows])
    assert len(few.facets.sums) == 8 * MOST_SUMS


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=postgres.needed)])
def test_a_writer_reads_no_record_for_its_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """It remembers what it appended, but for what it rolled back: that is read, and the blocks are right."""
    make_small(monkeypatch)
    store = open_at(tmp_path, database)
    made: list[int] = []
    make = block_writer.make_block
    monkeypatch.setattr(block_writer, "make_block", lambda number, rows: made.append(number) or make(number, rows))
    write_drafts(store, *(draft(ALICE, status=200 + number) for number in range(6)))
    store.index_blocks()
    assert not made
    with monkeypatch.context() as patched:
        patched.setattr(store, "commit", lambda: store.no_such_method())
        with pytest.raises(AttributeError):
            write_drafts(store, *(draft(BOB, status=403) for _ in range(5)))
    write_drafts(store, *(draft(ALICE, status=404) for _ in range(7)))
    store.index_blocks()
    assert made == [1]
    with store.tables() as rows:
        assert not list(check_tables(rows, Expected(keys=KEYS, now=2_000)))
    assert RecordBlocks(store.reader()._rows).end == 13
    store.close()


def test_recent_records_have_no_gap() -> None:
    """Records after a gap begin anew, and what nobody asks for is dropped."""
    numbers = FacetNumbers(lambda *statement: pytest.fail(str(statement)))
    numbers._known[NO_FACET] = 7
    recent = numbers.recent

    def add(first: int, count: int) -> None:
        rows = [row(1, number, number, 0) for number in range(first, first + count)]
        numbers.number_records(tuple(zip(*rows, strict=True)))

    add(1, 4_000)
    add(5_000, 200)
    assert recent.take_block(0) is None
    add(1, 4_096)
    add(4_097, 1)
    found = recent.take_block(0)
    assert found is not None and list(unpack("I", found.facets.facets)) == [7] * 4_096 and recent.take_block(0) is None
    assert (recent.next, len(recent)) == (4_098, 1)
    for first in range(4_098, 60_000, 1_000):
        add(first, 1_000)
        assert len(recent) <= block_writer.MOST_RECENT + 1_000


def test_blocks_of_many_facets_are_counted_without_a_step_for_each_facet() -> None:
    """A hundred agents with forty tools have thousands of facets a block: adding each in Python takes seconds."""
    facets = pack("I", range(1, record_blocks.BLOCK + 1))
    blocks = [(number, 1) for number in range(3)]

    def rows(statement: str, *given: object) -> list[Any]:
        return blocks if statement == record_blocks._BEGINNINGS else [(number, b"", facets) for number, _ in blocks]

    looked, steps = RecordBlocks(rows), Counter[str]()
    sys.setprofile(lambda frame, event, argument: steps.update([event]))
    try:
        counted = looked.count(1, looked.end)
    finally:
        sys.setprofile(None)
    assert set(counted.values()) == {3} and len(counted) == record_blocks.BLOCK
    assert steps["c_call"] < record_blocks.BLOCK / 10
