"""Rows of a database as they are stored, for who compares them with what was signed: nothing is believed here."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from zope.interface import implementer

from agtphost.stores import database_check
from agtphost.stores.row_shapes import COLUMNS, SHAPES, row_name
from agtphost.stores.rows import DamagedRow
from agtphost.stores.schema_check import SchemaFinding, find_schema_changes
from agtphost.stores.table_interfaces import ITableRows
from agtphost.vocabulary.foreign_errors import explain

PAGE = 500
"""Rows of one read."""

_FIRST = -(2**63)

CHAIN, SEQ, AUDIT_ID, PREVIOUS = 1, 2, 3, 4
"""Columns of a row of ``record``."""

_SUMS = """
    SELECT owner, count(*), sum(coalesce(length(result), 0)), min(CASE WHEN reserved_at > ? THEN reserved_at END),
        max(length(seal) > 0)
    FROM reservation WHERE owner IS NOT NULL GROUP BY owner ORDER BY owner
"""

_CHAINS_OF_RECORDS = """
    WITH RECURSIVE named (chain) AS (
        SELECT min(chain) FROM record
        UNION ALL
        SELECT (SELECT min(chain) FROM record WHERE chain > named.chain) FROM named WHERE named.chain IS NOT NULL
    )
    SELECT chain FROM named WHERE chain IS NOT NULL
"""
"""The chains that records name, by the index over (chain, seq): one search per chain."""

_NEWEST = """
    SELECT {columns} FROM record WHERE chain = ? ORDER BY seq DESC LIMIT 1
"""

_PLACED = "SELECT number FROM record INDEXED BY sqlite_autoindex_record_1 WHERE chain = ? AND seq = ?"

_LACKS_ROW = re.compile(r"row ([0-9]+) missing from index (\w+)")
_WRONG_INDEX = re.compile(r"(?:wrong # of entries in|non-unique entry in) index (\w+)")
_SQL_TYPES = {int: "'integer'", str: "'text'", bytes: "'blob'"}
_WRONG_VALUE = re.compile(r"\S+ value in (\w+)\.(\w+)")
"""What ``PRAGMA integrity_check`` says of tables and indexes."""


@implementer(ITableRows)
class TableRows:
    """
    Reads one database through one connection.

    :param execute: that of the connection.
    """

    record_source: ClassVar[str] = f"SELECT {COLUMNS['record']} FROM record"
    record_number: ClassVar[str] = "number"

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute
        self._named: Counter[tuple[str, str]] = Counter()

    def _rows(self, table: str, statement: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """
        Run a statement and yield its rows.

        :raises DamagedRow: a page of the database is damaged.
        """
        try:
            yield from self._execute(statement, parameters)
        except sqlite3.DatabaseError as error:
            if not database_check.is_malformed(error):
                raise
            raise DamagedRow(table, "(unknown)", f"the table cannot be read: {explain(error)}") from error

    def _one(self, table: str, statement: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        return next(iter(list(self._rows(table, statement, parameters))), None)

    def begin(self) -> None:
        self._execute("BEGIN")

    def end(self) -> None:
        self._execute("ROLLBACK")

    def schema_changes(self) -> list[SchemaFinding]:
        return list(find_schema_changes(self._execute))

    def name_fault(self, fault: str) -> tuple[str, str] | None:
        if found := _LACKS_ROW.fullmatch(fault):
            table = self._table_of(found[2])
            name = "" if table is None else self._row_name(table, int(found[1])) or f"(row {found[1]})"
            return None if table is None else (table, name)
        if found := _WRONG_INDEX.fullmatch(fault):
            table = self._table_of(found[1])
            return None if table is None else (table, f"(index {found[1]})")
        found = _WRONG_VALUE.fullmatch(fault)
        if found is None or found[1] not in SHAPES:
            return None
        return found[1], self._wrong_row(found[1], found[2]) or "(unknown)"

    def _table_of(self, index: str) -> str | None:
        row = self._one(
            "sqlite_schema", "SELECT tbl_name FROM sqlite_schema WHERE type = 'index' AND name = ?", (index,)
        )
        return str(row[0]) if row is not None and row[0] in SHAPES else None

    def _row_name(self, table: str, place: int) -> str:
        """Return the name of a row by its place in the table, from 1: SQLite counts rows, and not their numbers."""
        order = ", ".join(column.name for column in SHAPES[table] if column.key) if table == "held" else "rowid"
        statement = f"SELECT {COLUMNS[table]} FROM {table} NOT INDEXED ORDER BY {order} LIMIT 1 OFFSET ?"
        try:
            rows = self._execute(statement, (place - 1,)).fetchall()
        except sqlite3.DatabaseError:
            return ""
        return row_name(table, rows[0]) if rows else ""

    def _wrong_row(self, table: str, column: str) -> str:
        """Return the name of the next row whose column has another type; SQLite has a line for each of them."""
        shape = next((each for each in SHAPES[table] if each.name == column), None)
        if shape is None:
            return ""
        wanted = ", ".join((_SQL_TYPES[shape.kind], *(("'null'",) if shape.nullable else ())))
        at = self._named[table, column]
        self._named[table, column] += 1
        others = f"typeof({column}) NOT IN ({wanted})"
        statement = f"SELECT {COLUMNS[table]} FROM {table} NOT INDEXED WHERE {others} LIMIT 1 OFFSET ?"
        row = self._one(table, statement, (at,))
        return "" if row is None else row_name(table, row)

    def index_faults(self, table: str) -> list[tuple[str, str, str]]:
        found = []
        for (fault,) in self._rows(table, f"PRAGMA integrity_check({table})"):
            if fault != "ok":
                found.append((*(self.name_fault(fault) or (table, "(unknown)")), fault))
        return found

    def is_placed(self, number: int, chain: int, seq: int) -> bool:
        row = self._one("record", _PLACED, (chain, seq))
        return row is not None and row[0] == number

    def last_number(self) -> int:
        row = self._one("record", "SELECT coalesce(max(number), 0) FROM record")
        return 0 if row is None else int(row[0])

    def newest_size(self) -> int:
        row = self._one("checkpoint", "SELECT coalesce(max(size), 0) FROM checkpoint")
        return 0 if row is None else int(row[0])

    def chains(self) -> Iterator[tuple[Any, ...]]:
        return self._rows("chain", f"SELECT {COLUMNS['chain']} FROM chain ORDER BY number")

    def newest_records(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        newest = _NEWEST.format(columns=COLUMNS["record"])
        for (chain,) in self._rows("record", _CHAINS_OF_RECORDS):
            row = self._one("record", newest, (chain,))
            assert row is not None
            yield chain, row

    def record_before(self, row: Sequence[Any]) -> tuple[Any, Any] | None:
        found = self.record(row[PREVIOUS])
        return None if found is None else (found[AUDIT_ID], found[SEQ])

    def records(self, after: int | None, upto: int) -> Iterator[tuple[Any, ...]]:
        at = _FIRST if after is None else after
        comparison = ">=" if after is None else ">"
        while True:
            statement = (
                f"{self.record_source} WHERE {self.record_number} {comparison} ? AND {self.record_number} <= ? "
                f"ORDER BY {self.record_number} LIMIT {PAGE}"
            )
            rows = list(self._rows("record", statement, (at, upto)))
            yield from rows
            if len(rows) < PAGE:
                return
            at, comparison = rows[-1][0], ">"

    def record(self, number: int) -> tuple[Any, ...] | None:
        return self._one("record", f"{self.record_source} WHERE {self.record_number} = ?", (number,))

    def facets(self, after: int | None) -> Iterator[tuple[Any, ...]]:
        return self._pages("facet", "number", after)

    def facet(self, number: int) -> tuple[Any, ...] | None:
        return self._one("facet", f"SELECT {COLUMNS['facet']} FROM facet WHERE number = ?", (number,))

    def blocks(self, table: str) -> Iterator[tuple[Any, ...]]:
        return self._rows(table, f"SELECT number FROM {table} ORDER BY number")

    def block(self, table: str, number: int) -> tuple[Any, ...] | None:
        return self._one(table, f"SELECT {COLUMNS[table]} FROM {table} WHERE number = ?", (number,))

    def checkpoints(self, after: int | None) -> Iterator[tuple[Any, ...]]:
        return self._pages("checkpoint", "size", after)

    def _pages(self, table: str, key: str, after: int | None) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table in the order of a key that is a number, in short reads."""
        at, comparison = (_FIRST, ">=") if after is None else (after, ">")
        while True:
            statement = f"SELECT {COLUMNS[table]} FROM {table} WHERE {key} {comparison} ? ORDER BY {key} LIMIT {PAGE}"
            rows = list(self._rows(table, statement, (at,)))
            yield from rows
            if len(rows) < PAGE:
                return
            at, comparison = rows[-1][0], ">"

    def tile(self, level: int, number: int) -> tuple[Any, int]:
        row = self._one(
            "tile",
            "SELECT (SELECT hashes FROM tile WHERE level = ? AND number = ?), "
            "(SELECT coalesce(max(size), 0) FROM checkpoint)",
            (level, number),
        )
        assert row is not None
        return row[0], row[1]

    def tile_places(self) -> Iterator[tuple[Any, ...]]:
        return self._rows("tile", "SELECT level, number FROM tile")

    def reservations(self) -> Iterator[tuple[Any, ...]]:
        return self._rows("reservation", f"SELECT {COLUMNS['reservation']} FROM reservation ORDER BY rowid")

    def keyed_rows(self) -> Iterator[tuple[Any, ...]]:
        return self._rows("keyed", f"SELECT {COLUMNS['keyed']} FROM keyed ORDER BY owner")

    def keyed_sums(self, live_after: int) -> Iterator[tuple[Any, ...]]:
        return self._rows("reservation", _SUMS, (live_after,))
