"""All rows of a PostgreSQL store, read at one moment or written in one transaction: :mod:`agtphost.stores.copying`."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import Final

from agtphost.stores.copying import PUBLISHED, WRITTEN_AT_ONCE, Row, StoreTables, WriteTable, select_all
from agtphost.stores.lease import LONGEST_LEASE, SILENT_SECONDS, Holder, read_holder, require_unmoved
from agtphost.stores.moves import StoreMove
from agtphost.stores.postgres.connection import STATEMENT_SECONDS, Address, Session, dial
from agtphost.stores.postgres.index_filling import fill_index
from agtphost.stores.postgres.processes import read_processes
from agtphost.stores.postgres.rows import INDEX_COLUMNS, RECORD_ROWS
from agtphost.stores.postgres.schema_files import BEGIN_CREATION, add_store, find_row, read_row, require_usable
from agtphost.stores.postgres.statements import PATH_BEGINS
from agtphost.stores.row_shapes import COLUMNS
from agtphost.stores.rows import StoreError
from agtphost.vocabulary import database_url

_RECORD: Final = COLUMNS["record"].split(", ")[:-INDEX_COLUMNS]
_PATH: Final = _RECORD.index("path")
_NUMBERS: Final = ("one", "value")
_INDEX: Final = ("number", "session", "task", "path", "facet")

_MARK: Final = "UPDATE store SET term = term + 1, holder = ?, beat = '9999-01-01T00:00:00Z'"
"""Keeps the lease from all hosts without an end, and ends that of a host which froze and did not give it up."""

_LIMIT: Final = b"BEGIN; SET LOCAL lock_timeout = %d" % (STATEMENT_SECONDS * 1000)


@contextmanager
def read_postgres(address: Address, resumed: StoreMove | None) -> Iterator[StoreTables]:
    """
    Read a PostgreSQL store, as it is at one moment; no host can write to it for as long.

    :param resumed: its mark, if it has one.
    :raises StoreError: it is missing, cannot be used, a host holds it, or it has another mark.
    """

    def mark(move: StoreMove) -> None:
        session.command(b"SET LOCAL synchronous_commit = on")
        session.execute(_MARK, (_holder_of(move),))
        if session.command(b"COMMIT").command_status != b"COMMIT":
            raise StoreError(f"{session.name}: the store could not be marked as copied; try again")

    with closing(dial(address, writer=False)) as session:
        _require_idle(session, resumed)
        fill_index(session)
        session.command(b"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM store FOR UPDATE NOWAIT")
        # A host may have started while the index was filled.
        _require_idle(session, resumed)
        yield StoreTables(partial(_read_table, session), mark)
        session.command(b"ROLLBACK")


def _holder_of(move: StoreMove) -> str:
    """Return column ``holder`` with a mark. Hosts of earlier versions take it for a host that serves."""
    where = "that has not reported its end" if move.is_arriving else f"in {database_url.name_of(move.target)}"
    name = f"the copy {where}"
    holder = Holder(
        name=name, machine=socket.gethostname(), directory=os.getcwd(), takeover_after=LONGEST_LEASE, move=move
    )
    return holder.to_text(move.at)


def find_postgres_move(address: Address) -> StoreMove | None:
    """
    Return the mark of a PostgreSQL store; None without one, or without a store.

    :raises StoreError: it cannot be reached.
    """
    with closing(dial(address, writer=False)) as session:
        row = find_row(session)
        holder = None if row is None else read_holder(row.holder)
        return None if holder is None else holder.move


def change_postgres_move(address: Address, seen: StoreMove, move: StoreMove | None) -> bool:
    """
    Replace the mark of a PostgreSQL store, or remove it; return whether it had the one that was seen.

    :raises StoreError: it cannot be reached, or has no store.
    """
    with closing(dial(address, writer=False)) as session:
        session.command(_LIMIT + b"; SET LOCAL synchronous_commit = on")
        read_row(session)
        session.command(b"SELECT 1 FROM store FOR UPDATE")
        holder = read_holder(read_row(session).holder)
        found = holder is not None and holder.move == seen
        if found and move is None:
            session.execute("UPDATE store SET holder = '', beat = clock_timestamp()")
        elif found and move is not None:
            session.execute("UPDATE store SET holder = ?", (_holder_of(move),))
        if session.command(b"COMMIT").command_status != b"COMMIT":
            raise StoreError(f"{session.name}: the mark of the store could not be changed; try again")
    return found


def await_creation(address: Address) -> bool:
    """
    Wait until no command makes a store in a database, and return whether it has one.

    :raises StoreError: it cannot be reached, or a command takes too long.
    """
    with closing(dial(address, writer=True)) as session:
        session.command(BEGIN_CREATION)
        return find_row(session) is not None


def _require_idle(session: Session, resumed: StoreMove | None) -> None:
    """
    Refuse a store that a host serves, or will serve when the copy has ended, and one that was copied.

    :raises StoreError: there is one, or the store cannot be used.
    """
    row = require_usable(session)
    require_unmoved(session.name, read_holder(row.holder), resumed)
    if row.serving is not None:
        raise StoreError(f"{session.name} is in use by {row.serving}; stop that host first")
    if alive := [each for each in read_processes(session) if each.is_alive]:
        hosts = ", ".join(f"{each.name} ({each.state}, at {each.place})" for each in alive)
        raise StoreError(
            f"{session.name} is in use by {hosts}; stop these hosts first. One that was killed counts for "
            f"{SILENT_SECONDS:.0f} s more"
        )


def _read_table(session: Session, table: str) -> Iterator[Row]:
    if table == PUBLISHED:
        return session.copy_out(f"SELECT {', '.join(_NUMBERS)} FROM {table}", _types(session, table, _NUMBERS))
    if table != "record":
        return session.copy_out(select_all(table), _types(session, table, COLUMNS[table].split(", ")))
    types = [*_types(session, table, _RECORD), *_types(session, "record_index", ("session", "task", "facet"))]
    return session.copy_out(f"{RECORD_ROWS} ORDER BY r.number", types)


@contextmanager
def write_postgres(address: Address, server_id: str, mark: StoreMove | None) -> Iterator[WriteTable]:
    """
    Make a store of the rows that are written; without an error it is there afterwards, and else nothing is changed.

    :param server_id: the host that the records are of.
    :param mark: keeps hosts from the new store until it is removed.
    :raises StoreError: there is a store with records already, or it cannot be made.
    """

    def write(table: str, rows: Iterable[Row]) -> None:
        if table != "record":
            _copy_in(session, table, _NUMBERS if table == PUBLISHED else COLUMNS[table].split(", "), rows)
            return
        found = iter(rows)
        while page := list(islice(found, WRITTEN_AT_ONCE)):
            _copy_in(session, table, _RECORD, (row[: len(_RECORD)] for row in page))
            indexed = (
                (row[0], session_id, task, row[_PATH][:PATH_BEGINS], facet) for *row, session_id, task, facet in page
            )
            _copy_in(session, "record_index", _INDEX, indexed)

    with closing(dial(address, writer=True)) as session:
        # Nothing waits for a copy, and one statement reads all records. A server that is away is noticed all the same.
        session.patience = math.inf
        session.command(BEGIN_CREATION)
        found = find_row(session)
        if found is None:
            add_store(session, server_id)
        elif found.server_id != server_id or found.last or found.holder or list(_read_table(session, PUBLISHED)):
            raise StoreError(
                f"{session.name} has a store already, of the host {found.server_id!r} with {found.last} records; name "
                "a database or schema without one. Nothing was changed"
            )
        yield write
        row = session.execute(
            "UPDATE store SET news = news + 1, holder = ?, (last, issued_at) = "
            "(SELECT coalesce(max(number), 0), coalesce(max(issued_at), 0) FROM record) "
            "WHERE last = 0 AND holder = '' RETURNING one",
            ("" if mark is None else _holder_of(mark),),
        ).fetchone()
        if row is None:
            raise StoreError(f"{session.name}: a host began to serve this store during the copy; nothing was changed")
        if session.command(b"COMMIT").command_status != b"COMMIT":
            raise StoreError(f"{session.name}: the store could not be made, and nothing was changed; try again")


def _copy_in(session: Session, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    session.copy_in(statement, _types(session, table, columns), rows)


def _types(session: Session, table: str, columns: Sequence[str]) -> list[str]:
    """Return the types of columns of a table."""
    rows = session.execute(
        "SELECT attname, typname::text FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid "
        "WHERE attrelid = to_regclass(?) AND attnum > 0",
        (table,),
    ).fetchall()
    types = dict(rows)
    return [types[name] for name in columns]
