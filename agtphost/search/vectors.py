"""
A cache of vectors in ``vectors.sqlite3`` of the state directory.

It is only a cache: an unreadable file is deleted, and so are vectors of another embedder.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from twisted.logger import Logger

log = Logger()

FILE = "vectors.sqlite3"

MOST = 200_000
"""Vectors that are kept; the oldest are evicted first."""

AT_ONCE = 500
"""Digests in one statement."""


class VectorStore:
    """
    Store of vectors by the SHA-256 of their text. It is called in threads, one at a time.

    :param path: path of the file; None: in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None

    def load(self, name: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the stored vectors of some texts by an embedder."""
        found: dict[bytes, bytes] = {}
        with self._lock, contextlib.suppress(sqlite3.Error, OSError):
            database = self._open()
            for start in range(0, len(digests), AT_ONCE):
                some = digests[start : start + AT_ONCE]
                marks = ", ".join("?" * len(some))
                query = f"SELECT digest, vector FROM vector WHERE embedder = ? AND digest IN ({marks})"
                found.update(database.execute(query, (name, *some)))
        return found

    def keep(self, name: str, vectors: Mapping[bytes, bytes]) -> None:
        """Store an embedder's vectors, and delete those of others."""
        with self._lock:
            try:
                with self._open() as database:
                    database.execute("DELETE FROM vector WHERE embedder != ?", (name,))
                    rows: Iterable[tuple[str, bytes, bytes]] = ((name, *each) for each in vectors.items())
                    database.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", rows)
                    most = "SELECT max(rowid) - ? FROM vector"
                    database.execute(f"DELETE FROM vector WHERE rowid <= ({most})", (MOST,))
            except (sqlite3.Error, OSError) as error:
                # After a restart they are computed again.
                log.warn("vectors of searches could not be kept: {why}", why=str(error))

    def forget(self) -> None:
        """Delete all vectors."""
        with self._lock, contextlib.suppress(sqlite3.Error, OSError), self._open() as database:
            database.execute("DELETE FROM vector")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            database, self._database = self._database, None
            if database is not None:
                database.close()

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            try:
                self._database = _open_database(self._path)
            except sqlite3.DatabaseError:
                if self._path is None:
                    raise
                log.warn("{file} cannot be read, and is created again", file=str(self._path))
                for suffix in ("", "-wal", "-shm", "-journal"):
                    self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
                self._database = _open_database(self._path)
        return self._database


def _open_database(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        # Descriptions can be guessed from their vectors, so only this user may read them.
        path.touch(mode=0o600)
    database = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False, timeout=5.0)
    try:
        # Vectors lost in a power failure are computed again.
        database.execute("PRAGMA synchronous = OFF")
        database.execute(
            "CREATE TABLE IF NOT EXISTS vector"
            " (embedder TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL, UNIQUE (digest, embedder))"
        )
        database.execute("SELECT count(*) FROM (SELECT embedder, digest, vector FROM vector LIMIT 1)").fetchone()
    except sqlite3.Error:
        database.close()
        raise
    return database


class NoVectors(VectorStore):
    """Store that keeps nothing: for texts of callers, which must not be stored."""

    def __init__(self) -> None:
        super().__init__(None)

    def load(self, name: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return {}

    def keep(self, name: str, vectors: Mapping[bytes, bytes]) -> None:
        """Do nothing, because texts of callers must not be stored."""
