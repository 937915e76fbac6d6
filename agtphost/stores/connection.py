"""
How the database is opened: the settings that durability rests on.

``synchronous=FULL`` is what makes a commit survive a power cut in WAL mode;
each connection has to ask for it itself (security section 1).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from agtphost.stores.rows import StoreError
from agtphost.vocabulary.foreign_errors import explain

BUSY_MILLISECONDS = 5000
"""How long a writer waits for another one before it gives up."""

CHECKPOINT_PAGES = 3072
"""12 MiB: a log longer than that is folded into the database by the commit that finds it so."""

LOG_OCTETS = 64 * 1024 * 1024
"""A log that grew beyond this behind a slow reader is cut back."""

CACHE_KIBIBYTES = 4 * 1024
"""Pages in memory: two indexes are in random order and would be read again and again."""

STATEMENTS = 192
"""Compiled statements kept: inserts are compiled once for each number of rows."""

WRITER_SETTINGS = (
    f"PRAGMA busy_timeout={BUSY_MILLISECONDS}",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA cell_size_check=ON",
    # The undo journal of a statement with many rows would otherwise be a temporary file for every commit.
    "PRAGMA temp_store=MEMORY",
    f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}",
    f"PRAGMA journal_size_limit={LOG_OCTETS}",
    f"PRAGMA cache_size=-{CACHE_KIBIBYTES}",
)

READER_SETTINGS = (
    f"PRAGMA busy_timeout={BUSY_MILLISECONDS}",
    "PRAGMA query_only=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA cell_size_check=ON",
)


class Connection(Protocol):
    """The little that is used of a database connection, so that another driver can stand in."""

    @property
    def in_transaction(self) -> bool:
        """Whether BEGIN was executed and neither COMMIT nor ROLLBACK since."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Any:
        """Run one statement; the result has ``fetchone`` and ``fetchall``."""

    def close(self) -> None:
        """Close the connection."""


Connect = Callable[[str], Connection]
"""Opens a database by its SQLite URI, in autocommit mode and otherwise with SQLite's defaults."""


def connect(uri: str) -> Connection:
    """Open a database with the standard library's driver."""
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS
    )
    connection.text_factory = read_text
    return connection


class Undecodable(bytes):
    """A TEXT value that is not UTF-8. Because no column has this type, checks of types find it."""


def read_text(octets: bytes) -> str | Undecodable:
    """
    Decode a TEXT value; return :class:`Undecodable` where it is not UTF-8, for which the driver would fail the whole
    read.
    """
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return Undecodable(octets)


def uri_of(path: str, mode: str) -> str:
    """Return the SQLite URI of a file; ``mode`` is ``rw`` or ``ro``."""
    return f"file:{quote(path)}?mode={mode}"


def open_writer(opener: Connect, path: str) -> Connection:
    """
    Open a connection that commits durably.

    :raises StoreError: if the file system or the driver does not let it.
    """
    connection = opener(uri_of(path, "rw"))
    try:
        for setting in WRITER_SETTINGS:
            connection.execute(setting).fetchall()
        journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if journal != "wal":
            raise StoreError(f"{path}: SQLite cannot keep a write-ahead log there ({journal})")
    except BaseException:
        connection.close()
        raise
    return connection


def explain_failure(path: str, error: BaseException) -> str:
    """Return why a database file cannot be used; SQLite calls a directory an error of the disk."""
    return "it is a directory; name a file" if Path(path).is_dir() else explain(error)


def open_reader(opener: Connect, path: str) -> Connection:
    """Open a connection that can only read."""
    connection = opener(uri_of(path, "ro"))
    try:
        for setting in READER_SETTINGS:
            connection.execute(setting).fetchall()
    except BaseException:
        connection.close()
        raise
    return connection
