"""The index of records in PostgreSQL: tables of its own, which a host of an earlier version leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit.record_check import Finding
from agtphost.audit.table_check import Expected, check_tables
from agtphost.stores import Search, StoreError
from agtphost.stores.postgres import index_filling, reading, schema_files
from agtphost.stores.settings import locate_url
from agtphost.testing.store_drafts import ALICE, KEYS, draft, write_drafts
from tests import postgres
from tests.rows import each_row
from tests.stores.test_postgres import change
from tests.stores.test_record_index import fill

pytestmark = postgres.needed

INDEX = "SELECT number, session, task, path, facet FROM record_index ORDER BY number"
FACETS = "SELECT * FROM facet ORDER BY number"
WITHOUT = (
    "DROP TABLE record_index, record_block, record_hash, facet, published",
    "UPDATE store SET schema = 2, readable_from = 1",
)
"""Statements that make a store what version 2 made."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Provide the URL of a new store."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path))
    locate_url(made).create("agtp.test")
    return made


@pytest.fixture
def store(url: str) -> Iterator[Any]:
    """Provide a store with records of several kinds."""
    made = opened(url)
    fill(made)
    yield made
    made.close()


def opened(url: str) -> Any:
    return locate_url(url).open_store(create=False, holder="test", server_id="agtp.test")


def read_index(store: Any) -> list[list[tuple[Any, ...]]]:
    return [store._execute(statement).fetchall() for statement in (INDEX, FACETS)]


def find(store: Any) -> list[Finding]:
    """Return what the check of the tables finds."""
    with store.tables() as rows:
        return list(check_tables(rows, Expected(keys=KEYS, now=2_000)))


def test_a_store_is_indexed_by_its_upgrade_page_by_page(store: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host of the earlier version waits for one page at most; an upgrade that was killed goes on when repeated."""
    before = read_index(store)
    store.close()
    change(url, *WITHOUT)
    with pytest.raises(Exception, match="Run `agtp store upgrade`"):
        opened(url)
    monkeypatch.setattr(index_filling, "_READ", index_filling._READ.replace("LIMIT 1000", "LIMIT 2"))
    pages: list[int] = []
    fill_page = index_filling.fill_page

    def fill_two(execute: Any) -> int:
        if len(pages) == 1:
            raise KeyboardInterrupt
        pages.append(fill_page(execute))
        return pages[-1]

    monkeypatch.setattr(index_filling, "fill_page", fill_two)
    with pytest.raises(KeyboardInterrupt):
        locate_url(url).upgrade()
    monkeypatch.setattr(index_filling, "fill_page", fill_page)
    latest = schema_files.latest()
    assert pages == [2] and locate_url(url).upgrade() == (latest, latest)
    again = opened(url)
    assert read_index(again) == before
    assert not find(again)
    with again.tables() as rows:
        assert not rows.schema_changes()
    again.close()


def test_records_of_an_earlier_program_are_indexed_by_the_next_host(store: Any, url: str) -> None:
    """
    Until then nothing calls them damaged, and lists without a condition have them.

    The statement stands for the program of 0.2.0, which writes the same rows into ``record`` and none into the index.
    """
    before = read_index(store)
    store.close()
    change(url, "DELETE FROM record_index WHERE number > 2")
    reader: Any = locate_url(url).open_reader()
    with reader.tables() as rows:
        assert not list(check_tables(rows, Expected(keys=KEYS, now=2_000)))
    assert len(reader.latest(None, 9, Search()).records) == len(before[0])
    assert not reader.latest(None, 9, Search(status=200, chain="")).records
    again = opened(url)
    assert read_index(again) == before and not find(again)
    assert len(reader.latest(None, 9, Search(chain="")).records) == 2
    write_drafts(again, draft(ALICE, task_id="new"))
    assert len(reader.latest(None, 9, Search(task_id="new")).records) == 1
    reader.close()
    again.close()


def test_a_record_that_cannot_be_read_stops_no_host(store: Any, url: str) -> None:
    """Such a record stays without a facet, and the check of the tables names it."""
    store.close()
    change(url, "DELETE FROM record_index", "UPDATE record SET signed = decode('00', 'hex') WHERE number = 2")
    again = opened(url)
    named = {(found.table, found.row) for found in find(again)}
    assert ("record", "2") in named and ("record", "1") not in named
    assert len(again.reader().latest(None, 9, Search(task_id="t")).records) == 1
    again.close()


@each_row(
    ("statement", "table", "row", "explanation"),
    [
        ("UPDATE record_index SET task = 'x' WHERE number = 1", "record", "1", "task is 'x', and 't' was signed"),
        ("UPDATE record_index SET facet = 77 WHERE number = 2", "facet", "77", "which is not there"),
        ("DELETE FROM record_index WHERE number = 1", "record", "1", "session is NULL, and must be text"),
        ("DELETE FROM facet WHERE number = 2", "facet", "2", "which is not there"),
    ],
)
def test_a_wrong_index_is_named(tmp_path: Path, statement: str, table: str, row: str, explanation: str) -> None:
    """What a search would be misled by is a finding; a row that is lacking among others is one, too."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path / statement))
    locate_url(made).create("agtp.test")
    store = opened(made)
    fill(store)
    assert not find(store)
    change(made, statement)
    found = find(store)
    assert any((each.table, each.row) == (table, row) and explanation in each.explanation for each in found), found
    store.close()


@each_row(
    ("statement", "row", "explanation"),
    [
        ("UPDATE record_index SET path = '/x' WHERE number = 1", "1", "path is '/x', and its record has '/'"),
        ("INSERT INTO record_index VALUES (99, '', '', '/', 1)", "99", "no record has this number"),
    ],
)
def test_what_no_record_has_signed_is_compared_too(tmp_path: Path, statement: str, row: str, explanation: str) -> None:
    """A path by which a record is not found, and a row without a record, which would be counted."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path / statement))
    locate_url(made).create("agtp.test")
    store = opened(made)
    fill(store)
    reader = store.reader()
    assert reader.faults() == []
    change(made, statement)
    assert reader.faults() == [f"table record_index, row {row}: {explanation}"]
    with reader.tables() as rows:
        assert rows.name_fault(reader.faults()[0]) == ("record_index", row)
    reader.close()
    store.close()


def test_counts_by_facet_read_the_index_alone(store: Any) -> None:
    """The server leaves the table of records out, which is twenty times as large."""
    reader: Any = store.reader()
    statement = f"SELECT r.facet, count(*) FROM {reader.indexed} r WHERE r.facet = ANY(?) GROUP BY r.facet"
    plan = "\n".join(row[0] for row in reader._rows(f"EXPLAIN {statement}", ([1, 2],)))
    assert "record_index" in plan and " record p" not in plan
    reader.close()


def test_a_comparison_of_the_whole_index_may_take_long(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads every record; another statement of a reader that takes so long has stalled."""
    server = postgres.server()
    schema = server.schema(tmp_path)
    server.run(
        f"CREATE FUNCTION {schema}.substr(text, int, int) RETURNS text VOLATILE LANGUAGE sql "
        "AS 'SELECT pg_catalog.substr($1, $2, $3) FROM pg_sleep(1)'",
        f"DELETE FROM {schema}.record_index WHERE number > 1",
    )
    monkeypatch.setattr(reading, "READING_SECONDS", 0)
    monkeypatch.setattr(reading, "STALL_SECONDS", 0.5)
    reader = locate_url(server.url(f"{schema},pg_catalog")).open_reader()
    assert list(reader.faults()) == []
    with pytest.raises(StoreError, match="closed the connection"):
        reader._rows("SELECT pg_sleep(2)::text")
    reader.close()
