"""Rows of a PostgreSQL store as they are stored, and whether its tables are those that the schema files make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from zope.interface import implementer

from agtphost.stores.postgres.connection import Session
from agtphost.stores.postgres.index_filling import LAST_INDEXED
from agtphost.stores.postgres.statements import PATH_BEGINS
from agtphost.stores.row_shapes import COLUMNS, SHAPES
from agtphost.stores.rows import StateChangeRow
from agtphost.stores.schema_check import SchemaFinding
from agtphost.stores.table_interfaces import ITableRows
from agtphost.stores.table_rows import CHAIN, TableRows

STORE = "store"
"""The table with the row that every writer locks."""

RECORD_INDEX = "record_index"
"""The table by which records are found."""

_TABLES = (STORE, "probe", "published", RECORD_INDEX, *SHAPES)

_NAMED = re.compile(r"table (\w+), row (\d+):")
"""The beginning of a fault."""

_WRONG_INDEX = f"""
    SELECT i.number, r.number IS NOT NULL, i.path, substr(r.path, 1, {PATH_BEGINS})
    FROM record_index i LEFT JOIN record r ON r.number = i.number
    WHERE r.number IS NULL OR i.path <> substr(r.path, 1, {PATH_BEGINS}) ORDER BY i.number LIMIT 20
"""

_SHAPE = """
WITH plain AS MATERIALIZED (SELECT set_config('quote_all_identifiers', 'off', true)), ours AS (
    SELECT c.oid, c.relname, c.relrowsecurity, quote_ident(nspname) || '.' || quote_ident(relname) AS qualified
    FROM plain CROSS JOIN pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
    WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('store')) AND c.relkind = 'r'
        AND c.relname = ANY(?)
)
SELECT 'table ' || relname, string_agg(line, ', ' ORDER BY attnum) FROM (
    SELECT o.relname, a.attnum, a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
        || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END AS line
    FROM ours o JOIN pg_attribute a ON a.attrelid = o.oid WHERE a.attnum > 0 AND NOT a.attisdropped
) AS columns GROUP BY relname
UNION ALL
SELECT 'constraint ' || n.conname, o.relname || ': ' || pg_get_constraintdef(n.oid)
FROM ours o JOIN pg_constraint n ON n.conrelid = o.oid WHERE n.contype IN ('p', 'u', 'f', 'c')
UNION ALL
SELECT 'index ' || i.relname, o.relname || ': ' || replace(pg_get_indexdef(i.oid), ' ON ' || qualified, ' ON')
    || CASE WHEN x.indisvalid THEN '' ELSE ', which is not valid' END
FROM ours o JOIN pg_index x ON x.indrelid = o.oid JOIN pg_class i ON i.oid = x.indexrelid
UNION ALL
SELECT 'trigger ' || t.tgname, o.relname::text FROM ours o JOIN pg_trigger t ON t.tgrelid = o.oid
WHERE NOT t.tgisinternal
UNION ALL
SELECT 'rule ' || r.rulename, o.relname::text FROM ours o JOIN pg_rewrite r ON r.ev_class = o.oid
UNION ALL
SELECT 'row security', relname::text FROM ours WHERE relrowsecurity
ORDER BY 1
"""
"""
Tables, constraints, indexes, and all that changes what a statement does.

The first of its parts is for a role or database with ``quote_all_identifiers``, which puts names into quotation marks.
"""

_SUMS = """
    SELECT owner, count(*), sum(coalesce(length(result), 0))::bigint,
        min(CASE WHEN reserved_at > ? THEN reserved_at END), max((length(seal) > 0)::int)
    FROM reservation WHERE owner IS NOT NULL GROUP BY owner ORDER BY owner
"""


INDEX_COLUMNS = 3
"""Columns at the end of a row of ``record`` that are in the table ``record_index`` here."""

_RECORD = ", ".join(f"r.{column.name}" for column in SHAPES["record"][:-INDEX_COLUMNS])
RECORD_ROWS = (
    f"SELECT {_RECORD}, i.session, i.task, i.facet FROM record r LEFT JOIN record_index i ON i.number = r.number"
)

NEWEST = f"""
    WITH RECURSIVE named (chain) AS (
        SELECT min(chain) FROM record
        UNION ALL
        SELECT (SELECT min(chain) FROM record WHERE chain > named.chain) FROM named WHERE named.chain IS NOT NULL
    )
    SELECT newest.*, prior.audit_id, prior.seq
    FROM named CROSS JOIN LATERAL (
        {RECORD_ROWS} WHERE r.chain = named.chain ORDER BY r.seq DESC LIMIT 1
    ) newest
        LEFT JOIN record prior ON prior.number = newest.previous
    WHERE named.chain IS NOT NULL
"""
"""The newest record of each chain, and the place of the one before it: one search each, in the indexes."""


def describe_schema(execute: Callable[..., Any]) -> dict[str, str]:
    """Return tables, constraints and indexes of a store, with their definitions."""
    return dict(execute(_SHAPE, (list(_TABLES),)).fetchall())


@cache
def read_expected() -> dict[str, str]:
    """Return what :func:`describe_schema` finds in a new store."""
    text = files("agtphost.stores.postgres").joinpath("schema", "expected.txt").read_text(encoding="utf-8")
    return dict(line.split(" = ", 1) for line in text.splitlines())


def find_schema_changes(execute: Callable[..., Any]) -> Iterator[SchemaFinding]:
    """Compare the tables of a store with those of a new one."""
    found = describe_schema(execute)
    for name, definition in sorted(read_expected().items(), key=lambda item: not item[0].startswith("table ")):
        is_table = name.startswith("table ")
        other = found.pop(name, None)
        if other is None:
            yield SchemaFinding(name, "was deleted", is_table or name.startswith("constraint "), is_table)
        elif other != definition:
            yield SchemaFinding(name, f"was changed: it is {other}", True, is_table)
    for name, definition in found.items():
        decides = not name.startswith("index ") or "UNIQUE" in definition
        yield SchemaFinding(name, f"was added, on table {definition.partition(':')[0]}", decides, False)


def read_log(execute: Callable[..., Any], after: int, limit: int) -> list[StateChangeRow]:
    """Return entries of the log of state changes."""
    rows = execute(
        "SELECT number, record, kind, key, leaf FROM state_change WHERE number > ? ORDER BY number LIMIT ?",
        (after, limit),
    ).fetchall()
    return [StateChangeRow(*row) for row in rows]


def find_store_fault(execute: Callable[..., Any]) -> list[str]:
    """Compare the row of the store with the newest record; return a line if they differ."""
    last, newest = execute("SELECT (SELECT last FROM store), (SELECT coalesce(max(number), 0) FROM record)").fetchone()
    return [] if last == newest else [f"table store, row 1: last is {last}, and the newest record is {newest}"]


def find_index_faults(execute: Callable[..., Any]) -> list[str]:
    """
    Compare the part of the index of records that no record has signed; return a line for each of some wrong rows.

    Other columns are compared with the octets of their record, see :class:`agtphost.audit.record_check.RecordExaminer`.
    """
    found = []
    for number, is_there, path, signed in execute(_WRONG_INDEX).fetchall():
        why = f"path is {path!r}, and its record has {signed!r}" if is_there else "no record has this number"
        found.append(f"table {RECORD_INDEX}, row {number}: {why}")
    return found


@implementer(ITableRows)
class PostgresTableRows(TableRows):
    """
    Reads one database through one connection.

    The server compares an index with its table when it uses it, so no index is compared here.
    """

    record_source = RECORD_ROWS
    record_number = "r.number"

    def __init__(self, session: Session) -> None:
        super().__init__(session.execute)
        self._before: tuple[int, tuple[Any, Any] | None] = (0, None)

    def begin(self) -> None:
        self._execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def schema_changes(self) -> list[SchemaFinding]:
        return list(find_schema_changes(self._execute))

    def newest_records(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        for *row, audit_id, seq in self._rows("record", NEWEST):
            self._before = row[0], None if audit_id is None else (audit_id, seq)
            yield row[CHAIN], self._cut(row)

    def record_before(self, row: Sequence[Any]) -> tuple[Any, Any] | None:
        number, before = self._before
        return before if row[0] == number else super().record_before(row)

    def records(self, after: int | None, upto: int) -> Iterator[tuple[Any, ...]]:
        return map(self._cut, super().records(after, upto))

    def record(self, number: int) -> tuple[Any, ...] | None:
        row = super().record(number)
        return None if row is None else self._cut(row)

    def _cut(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """
        Return a row without the columns of the index, if it is one of the newest, which have no row there.

        A host of an earlier version wrote these. Any other record without a row was changed, and its columns are NULL.
        """
        if row[-1] is None and row[0] > self._last_indexed():
            return tuple(row[:-INDEX_COLUMNS])
        return tuple(row)

    def _last_indexed(self) -> int:
        number: int = self._execute(LAST_INDEXED).fetchone()[0]
        return number

    def name_fault(self, fault: str) -> tuple[str, str] | None:
        found = _NAMED.match(fault)
        return None if found is None else (found[1], found[2])

    def index_faults(self, table: str) -> list[tuple[str, str, str]]:
        return []

    def is_placed(self, number: int, chain: int, seq: int) -> bool:
        row = self._one("record", "SELECT number FROM record WHERE chain = ? AND seq = ?", (chain, seq))
        return row is not None and row[0] == number

    def reservations(self) -> Iterator[tuple[Any, ...]]:
        return self._rows("reservation", f"SELECT {COLUMNS['reservation']} FROM reservation ORDER BY reserved_at, name")

    def keyed_sums(self, live_after: int) -> Iterator[tuple[Any, ...]]:
        return self._rows("reservation", _SUMS, (live_after,))
