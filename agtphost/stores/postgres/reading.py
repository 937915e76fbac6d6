"""The reading side in PostgreSQL: a few connections, whose errors are the store's own."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from zope.interface import implementer

from agtphost.stores.interfaces import IRecordReader
from agtphost.stores.known_facets import KnownFacets
from agtphost.stores.postgres.connection import (
    READING_SECONDS,
    STALL_SECONDS,
    Address,
    DatabaseError,
    Session,
    dial,
)
from agtphost.stores.postgres.rows import PostgresTableRows, find_index_faults, find_store_fault, read_log
from agtphost.stores.postgres.schema_files import require_usable
from agtphost.stores.postgres.stall_guard import ALIVE_AFTER
from agtphost.stores.prefix_lookup import SCANNED, RecordPreview
from agtphost.stores.rows import ItemRow, RecordFormat, SignedRow, StateChangeRow, StateRow
from agtphost.stores.sql_reader import SqlRecordReader
from agtphost.stores.table_interfaces import ITableSource

_T = TypeVar("_T")

MOST = 4
"""Connections of one reader; further reads wait for one."""

FIND = "SELECT number FROM record WHERE substr(audit_id, 1, 8) = substr(?::bytea, 1, 8) AND audit_id = ?::bytea"

INDEXED = (
    "(SELECT i.number, i.session, i.task, i.facet, p.path, p.method, p.caller "
    "FROM record_index i LEFT JOIN record p ON p.number = i.number)"
)
"""Where a search finds records; the server leaves the join out where it is not used."""

LOST = ("08", "57P")
"""Beginnings of SQLSTATEs with which a connection ends; one that the network lost has none."""

_FORMATS = {int(each): each.label for each in RecordFormat}


def open_postgres_reader(address: Address) -> PostgresReader:
    """
    Read a store without writing to it.

    :raises agtphost.stores.rows.StoreError: there is none, or this program cannot use it.
    """
    session = dial(address, writer=False)
    try:
        require_usable(session)
    except BaseException:
        session.close()
        raise
    return PostgresReader(address, session)


def find_records(address: Address, beginning: str, most: int) -> list[RecordPreview]:
    """Return the newest records whose Audit-IDs begin so, unverified."""
    with closing(dial(address, writer=False)) as session:
        require_usable(session)
        rows = session.execute(
            "SELECT encode(audit_id, 'hex'), method, path, status FROM (SELECT * FROM record ORDER BY number DESC "
            "LIMIT ?) AS newest WHERE starts_with(encode(audit_id, 'hex'), ?) LIMIT ?",
            (SCANNED, beginning, most),
        )
        return [RecordPreview(*row) for row in rows.fetchall()]


def read_signed(execute: Callable[..., Any], after: int, limit: int) -> list[SignedRow]:
    """Return the octets of records by their numbers, unchecked."""
    rows = execute(
        "SELECT number, format, signed FROM record WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
    ).fetchall()
    return [SignedRow(number, _FORMATS.get(form, str(form)), signed) for number, form, signed in rows]


@implementer(IRecordReader, ITableSource)
class PostgresReader(SqlRecordReader):
    """
    Blocking reads, from any thread: each takes a connection that no other read is using.

    :param session: a connection that is open already; None opens them when they are needed.
    """

    find = FIND
    among = "= ANY(?::bigint[])"
    indexed = INDEXED

    def __init__(self, address: Address, session: Session | None = None) -> None:
        self._address = address
        self._idle: list[Session] = [] if session is None else [session]
        self._free = threading.BoundedSemaphore(MOST)
        self._closed = False
        self.known_facets = KnownFacets()
        if session is not None:
            session.patience = READING_SECONDS + STALL_SECONDS

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with self._free:
            session = self._take()
            try:
                yield session
            except BaseException:
                session.close()
                raise
            if self._closed:
                session.close()
            else:
                self._idle.append(session)

    def _take(self) -> Session:
        """Return an idle connection, or a new one."""
        while self._idle:
            session = self._idle.pop()
            if session.usable:
                return session
            session.close()
        session = dial(self._address, writer=False)
        session.patience = READING_SECONDS + STALL_SECONDS
        return session

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        rows: list[Any] = self._read(lambda execute: execute(statement, parameters).fetchall())
        return rows

    def _read(self, read: Callable[[Callable[..., Any]], _T]) -> _T:
        try:
            with self._session() as session:
                return read(session.execute)
        except DatabaseError as error:
            if error.waited >= ALIVE_AFTER or (error.sqlstate and not error.sqlstate.startswith(LOST)):
                raise
        # The server ended an idle connection, and perhaps all of them.
        while self._idle:
            self._idle.pop().close()
        with self._session() as session:
            return read(session.execute)

    def to_list(self, numbers: Sequence[int]) -> object:
        """Return numbers as an array."""
        return list(numbers)

    @contextmanager
    def moment(self) -> Iterator[PostgresReader]:
        """Yield a reader of one connection with one read transaction, so that all its answers fit together."""
        session = dial(self._address, writer=False)
        view = _Moment(self._address, session)
        try:
            session.command(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield view
        finally:
            session.close()

    def stored_state(self) -> tuple[dict[str, StateRow], list[ItemRow]]:
        """Return every row of the tables ``lifecycle`` and ``held``, for the check of their digest."""
        states = self._rows("SELECT agent_id, status, since, reason, successor, deadline, org_domain FROM lifecycle")
        items = self._rows("SELECT kind, key, owner, version, expires_at, value FROM held ORDER BY kind, key")
        return {row[0].hex(): StateRow(*row[1:]) for row in states}, [ItemRow(*row) for row in items]

    def state_changes(self, after: int, limit: int) -> list[StateChangeRow]:
        """Entries of the log of what records changed in these."""
        return self._read(lambda execute: read_log(execute, after, limit))

    def signed_after(self, after: int, limit: int) -> list[SignedRow]:
        """Octets of records by their numbers, unchecked."""
        return self._read(lambda execute: read_signed(execute, after, limit))

    def faults(self) -> list[str]:
        """
        Compare the row of the store, and the index, with the records.

        Files and the database's indexes are checked by its own tools.
        """
        with self._session() as session:
            # The index is compared by reading every record, which takes as long as the store is large.
            before, session.patience = session.patience, math.inf
            try:
                return [*find_store_fault(session.execute), *find_index_faults(session.execute)]
            finally:
                session.patience = before

    @contextmanager
    def tables(self) -> Iterator[PostgresTableRows]:
        """Yield a source of rows as stored; see :class:`agtphost.stores.table_interfaces.ITableSource`."""
        with self._session() as session:
            require_usable(session)
            yield PostgresTableRows(session)

    def close(self) -> None:
        """Let go of every connection; one in use goes when its read is over."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()


class _Moment(PostgresReader):
    """Reads through one connection, which has a transaction open."""

    def __init__(self, address: Address, session: Session) -> None:
        super().__init__(address, session)
        self._only = session

    @contextmanager
    def _session(self) -> Iterator[Session]:
        yield self._only
