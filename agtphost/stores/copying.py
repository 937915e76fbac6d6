"""
All rows of a store, read as of one moment or written in one transaction.

A store moves from one kind of database to another by them.

The tables have the same names and columns everywhere: :data:`agtphost.stores.row_shapes.COLUMNS`. Tiles of the tree are
not read; the writer of a store makes them anew from the records.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from agtphost.stores import upgrade
from agtphost.stores.connection import Connection, connect, open_reader, open_writer
from agtphost.stores.moves import StoreMove
from agtphost.stores.row_shapes import COLUMNS, SHAPES
from agtphost.stores.rows import StoreError
from agtphost.stores.sqlite_move import put_move, read_move, require_unmoved
from agtphost.vocabulary.foreign_errors import explain

TABLES = ("chain", "facet", "record", "lifecycle", "reservation", "keyed", "held", "state_change", "checkpoint")
"""The tables that are copied, so that each row comes after those that it refers to."""

PUBLISHED = "published"
"""
The table with the numbers of what hosts published, where the store has them (``StoreLocation.has_numbers``).

Its columns are 1 and a text.
"""

WRITTEN_AT_ONCE = 500
"""Rows of one call of the database driver."""

Row = tuple[Any, ...]

ReadTable = Callable[[str], Iterator[Row]]
"""Yields the rows of a table in the order of their keys, with the columns of COLUMNS."""

WriteTable = Callable[[str, Iterable[Row]], None]
"""Appends rows to a table."""


class StoreTables:
    """
    The tables of a store that is read, and its mark.

    :param read: reads a table.
    :param mark: commits the mark.
    """

    def __init__(self, read: ReadTable, mark: Callable[[StoreMove], object]) -> None:
        self._read = read
        self._mark = mark

    def __call__(self, table: str) -> Iterator[Row]:
        return self._read(table)

    def mark(self, move: StoreMove) -> None:
        """
        Mark the store as copied to another place, durably; no table can be read afterwards.

        :raises StoreError: the store was not opened for this, or cannot be written.
        """
        self._mark(move)


KEEP = "; or copy with --keep-serving, which leaves it as it is"
"""What to do where a store cannot be marked."""


def select_all(table: str) -> str:
    """Return the statement that reads a table in the order of its keys."""
    keys = ", ".join(column.name for column in SHAPES[table] if column.key)
    return f"SELECT {COLUMNS[table]} FROM {table} ORDER BY {keys}"


@contextmanager
def read_sqlite(path: Path, *, moves: bool = False, resumed: StoreMove | None = None) -> Iterator[StoreTables]:
    """
    Read a SQLite store, as it is at one moment.

    :param moves: whether it can be marked at the end: then nothing else writes to it for as long.
    :param resumed: its mark, if it has one.
    :raises StoreError: it is missing, not a store, of an earlier or later version, or has another mark.
    """
    if not path.is_file():
        raise StoreError(f"{path} does not exist; name the file of a store")
    with closing(_open_source(path, moves)) as connection:
        try:
            upgrade.require_latest(connection, str(path))
            connection.execute("BEGIN IMMEDIATE" if moves else "BEGIN")
            require_unmoved(connection, str(path), resumed)
            yield StoreTables(
                lambda table: iter(connection.execute(select_all(table))), partial(_mark, connection, path)
            )
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path} cannot be read as a store; `agtp audit verify` names what is damaged") from error


def _open_source(path: Path, moves: bool) -> Connection:
    try:
        return open_writer(connect, str(path)) if moves else open_reader(connect, str(path))
    except sqlite3.OperationalError as error:
        raise StoreError(f"{path} cannot be opened: {explain(error)}{KEEP if moves else ''}") from error


def _mark(connection: Connection, path: Path, move: StoreMove | None) -> None:
    """Write or remove the mark of a store, and end the transaction."""
    try:
        put_move(connection, move)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be marked: {explain(error)}") from error


def find_sqlite_move(path: Path) -> StoreMove | None:
    """
    Return the mark of a SQLite store; None without one, or without a store.

    :raises StoreError: the file cannot be read.
    """
    if not path.is_file():
        return None
    try:
        with closing(open_reader(connect, str(path))) as connection:
            return read_move(connection)
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} cannot be read as a store; `agtp audit verify` names what is damaged") from error


def change_sqlite_move(path: Path, seen: StoreMove, move: StoreMove | None) -> bool:
    """
    Replace the mark of a SQLite store, or remove it; return whether it had the one that was seen.

    :raises StoreError: the file cannot be written.
    """
    with closing(_open_source(path, True)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            found = read_move(connection) == seen
            if found:
                _mark(connection, path, move)
            if seen.is_arriving:
                _empty_log(connection)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path} cannot be marked: {explain(error)}") from error
    return found


def upgrade_moved(path: Path) -> tuple[int, int]:
    """
    Bring a store that was copied to another place to the version of this program, as no host does; its mark stays.

    :return: the version before, and the one now.
    :raises StoreError: it is of a later version, or cannot be written.
    """
    with closing(_open_source(path, True)) as connection:
        try:
            before = upgrade.version_of(connection, str(path))
            upgrade.bring_up(connection, str(path))
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path} cannot be upgraded: {explain(error)}") from error
    return before, upgrade.latest()


@contextmanager
def write_sqlite(path: Path, mark: StoreMove | None) -> Iterator[WriteTable]:
    """
    Make a SQLite store of the rows that are written; without an error it is there afterwards, and else it is not.

    :param mark: keeps hosts from the new store until it is removed.
    :raises StoreError: there is a file already, or it cannot be made.
    """
    if path.exists():
        raise StoreError(f"{path} exists; name a file that does not, or move that one away")
    making = path.with_name(f"{path.name}.copying")
    try:
        _remove(making)
        os.close(os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(open_writer(connect, str(making))) as connection:
            upgrade.bring_up(connection, str(making))
            connection.execute("BEGIN IMMEDIATE")
            yield lambda table, rows: _insert(connection, table, iter(rows))
            if mark is not None:
                put_move(connection, mark)
            connection.execute("COMMIT")
            # The file is renamed without its log.
            _empty_log(connection)
        _publish(making, path)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path} cannot be written: {explain(error)}") from error
    finally:
        _remove(making)


def _empty_log(connection: Connection) -> None:
    """Let the file of a new store have everything, without a log."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()


def _insert(connection: Any, table: str, rows: Iterator[Row]) -> None:
    places = ", ".join("?" * len(SHAPES[table]))
    statement = f"INSERT INTO {table} ({COLUMNS[table]}) VALUES ({places})"
    while some := list(islice(rows, WRITTEN_AT_ONCE)):
        connection.executemany(statement, some)


def _publish(making: Path, path: Path) -> None:
    """Give a complete file its name, durably; a file that has come there in the meantime is not replaced."""
    _sync(making)
    os.link(making, path)
    _sync(path.parent)


def _remove(making: Path) -> None:
    """Remove a file and its log: SQLite would read the log of a command that was killed into the next file."""
    for end in ("", "-wal", "-shm"):
        making.with_name(f"{making.name}{end}").unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
