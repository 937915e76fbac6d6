"""The reading side in SQLite: read-only, and also where pages of the file are damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from zope.interface import implementer

from agtphost.stores import database_check, upgrade
from agtphost.stores.connection import Connect, Connection, open_reader
from agtphost.stores.interfaces import IRecordReader
from agtphost.stores.known_facets import KnownFacets
from agtphost.stores.record_rows import RECORD
from agtphost.stores.rows import (
    DamagedRecord,
    ItemRow,
    SignedRow,
    StateChangeRow,
    StateRow,
)
from agtphost.stores.sql_reader import OnDamage, SqlRecordReader
from agtphost.stores.state_rows import read_signed, read_state, read_state_changes
from agtphost.stores.table_interfaces import ITableSource
from agtphost.stores.table_rows import TableRows
from agtphost.vocabulary.foreign_errors import explain

_T = TypeVar("_T")

_SPAN = 1 << 5
"""Runs of the index of Audit-IDs that one step of a search asks."""

FIND = f"""
    WITH RECURSIVE span (part) AS (
        SELECT max(number) >> 14 FROM record
        UNION ALL
        SELECT (SELECT max(number) >> 14 FROM record WHERE number < part << 14) FROM span WHERE part IS NOT NULL
    ), run (part) AS (VALUES {", ".join(f"({part})" for part in reversed(range(_SPAN)))})
    SELECT r.number FROM span CROSS JOIN run CROSS JOIN record r
    ON r.number >> 9 = span.part * {_SPAN} + run.part
    AND substr(r.audit_id, 1, 8) = (SELECT substr(?, 1, 8)) AND r.audit_id = ?
    LIMIT 1
"""
"""
The number of the record with an Audit-ID, which is given twice: see ``record_audit_id`` in the schema.

It goes from one span of runs that has records to the next: a damaged number far beyond the others costs one step, and
not a step for each span below it.
"""


@implementer(IRecordReader, ITableSource)
class RecordReader(SqlRecordReader):
    """
    Blocking reads, from any thread: each takes a connection that no other read is using.

    :param path: the database file.
    :param opener: what opens connections.
    """

    find = FIND
    among = "IN (SELECT value FROM json_each(?))"

    def __init__(self, path: str, opener: Connect) -> None:
        self._path = path
        self._opener = opener
        self._idle: list[Connection] = []
        self._closed = False
        self.known_facets = KnownFacets()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = open_reader(self._opener, self._path)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """
        Run a statement and return its rows.

        :raises DamagedRecord: a page of the database is damaged.
        """
        try:
            with self._connection() as connection:
                rows: list[Any] = connection.execute(statement, parameters).fetchall()
                return rows
        except sqlite3.DatabaseError as error:
            # A table that a search reads was deleted: the check of the schema says which.
            if not database_check.is_malformed(error) and "no such table" not in str(error):
                raise
            raise DamagedRecord(f"the database itself is damaged: {explain(error)}") from error

    def _read(self, read: Callable[[Callable[..., Any]], _T]) -> _T:
        """
        Call a function with the connection's ``execute``, and return its result.

        :raises DamagedRecord: a page of the database is damaged.
        """
        try:
            with self._connection() as connection:
                return read(connection.execute)
        except sqlite3.DatabaseError as error:
            if not database_check.is_malformed(error):
                raise
            raise DamagedRecord(f"the database itself is damaged: {explain(error)}") from error

    def to_list(self, numbers: Sequence[int]) -> object:
        """Return numbers as JSON, which SQLite reads as rows."""
        return f"[{','.join(map(str, numbers))}]"

    @contextmanager
    def moment(self) -> Iterator[RecordReader]:
        """Yield a reader of one connection with one read transaction, so that all its answers fit together."""
        view = RecordReader(self._path, self._opener)
        connection = open_reader(self._opener, self._path)
        view._idle.append(connection)
        try:
            connection.execute("BEGIN")
            yield view
        finally:
            view.close()

    def stored_state(self) -> tuple[dict[str, StateRow], list[ItemRow]]:
        """Return every row of both tables of state; octets that are not UTF-8 are escaped."""
        return read_state(self._rows)

    def state_changes(self, after: int, limit: int) -> list[StateChangeRow]:
        """Return entries of the log of changes to both tables of state."""
        with self._connection() as connection:
            return read_state_changes(connection.execute, after, limit)

    def signed_after(self, after: int, limit: int) -> list[SignedRow]:
        """Octets of records by their numbers, unchecked."""
        with self._connection() as connection:
            return read_signed(connection.execute, after, limit)

    def _salvage_page(
        self, chain: str, after: int, page: int, damaged: OnDamage, error: DamagedRecord
    ) -> tuple[list[Any], int]:
        """
        Return the readable rows of a page of records and the last place that was read; report the others to
        ``damaged``.
        """
        rows: list[Any] = []
        last = after
        try:
            with self._connection() as connection:
                places = list(database_check.one_by_one(connection.execute, chain, after, page))
        except sqlite3.DatabaseError:
            damaged(chain, f"the records after {after} of chain {chain!r} cannot be found: {error}")
            return rows, last
        for seq, found in places:
            last = seq
            if isinstance(found, str):
                damaged(chain, f"record {seq} of chain {chain!r} {found}")
                continue
            try:
                rows += self._rows(f"{RECORD} WHERE r.number = ?", (found,))
            except DamagedRecord:
                damaged(chain, f"record {seq} of chain {chain!r} cannot be linked: the one before it cannot be read")
        return rows, last

    def faults(self) -> list[str]:
        """Return the faults that SQLite itself finds in the file: a damaged index can hide a record from a walk."""
        try:
            return [text for (text,) in self._rows("PRAGMA integrity_check") if text != "ok"]
        except DamagedRecord as error:
            return [str(error)]

    @contextmanager
    def tables(self) -> Iterator[TableRows]:
        """Yield a source of rows as stored; see :class:`agtphost.stores.table_interfaces.ITableSource`."""
        with self._connection() as connection:
            upgrade.require_latest(connection, self._path)
            yield TableRows(connection.execute)

    def close(self) -> None:
        """Let go of every connection; one in use goes when its read is over."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
