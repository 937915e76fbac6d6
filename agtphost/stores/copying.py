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
from itertools import islice
from pathlib import Path
from typing import Any

from agtphost.stores import upgrade
from agtphost.stores.connection import connect, open_reader, open_writer
from agtphost.stores.row_shapes import COLUMNS, SHAPES
from agtphost.stores.rows import StoreError
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


def select_all(table: str) -> str:
    """Return the statement that reads a table in the order of its keys."""
    keys = ", ".join(column.name for column in SHAPES[table] if column.key)
    return f"SELECT {COLUMNS[table]} FROM {table} ORDER BY {keys}"


@contextmanager
def read_sqlite(path: Path) -> Iterator[ReadTable]:
    """
    Read a SQLite store, as it is at one moment.

    :raises StoreError: it is missing, not a store, or of an earlier or later version.
    """
    if not path.is_file():
        raise StoreError(f"{path} does not exist; name the file of a store")
    with closing(open_reader(connect, str(path))) as connection:
        try:
            upgrade.require_latest(connection, str(path))
            connection.execute("BEGIN")
            yield lambda table: iter(connection.execute(select_all(table)))
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path} cannot be read as a store; `agtp audit verify` names what is damaged") from error


@contextmanager
def write_sqlite(path: Path) -> Iterator[WriteTable]:
    """
    Make a SQLite store of the rows that are written; without an error it is there afterwards, and else it is not.

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
            connection.execute("COMMIT")
            # The log goes into the file, which is renamed without it.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        _publish(making, path)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path} cannot be written: {explain(error)}") from error
    finally:
        _remove(making)


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
