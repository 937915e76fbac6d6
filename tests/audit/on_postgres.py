"""
The tests of this directory on a PostgreSQL store (A1): what opens a file there opens a schema of the test's server.

A store has one writer at a time, by its lease. Tests with two writers share it, as if both were of the host that has
it: what one of them wrote, the other one has to notice by the row of the store alone.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from agtphost.stores.lease import Holder
from agtphost.stores.postgres.lease import PostgresLease
from agtphost.stores.settings import locate_url
from tests import postgres

FILE = "records.sqlite3"

APART = {
    "test_an_older_copy_is_refused": "copies a file",
    "test_a_full_database_is_503_and_comes_back": "limits the pages of a file; see test_postgres_refusals",
    "test_the_log_is_folded_in_when_nothing_comes": "looks at the size of a file",
    "test_the_key_itself_is_not_stored": "looks through the octets of a file",
    "test_a_hundred_thousand_records_a_minute": "its store is made once for the module, before a test chooses one",
    "test_what_an_older_copy_of_the_tables_says_is_refused": "copies a file",
}
"""Tests about what a file alone has, with the reason."""

SHORT = frozenset(
    {
        "test_two_writers_make_one_log",
        "test_gates_and_held_items_hear_of_it",
        "test_a_start_is_refused_with_a_row_that_nobody_signed",
        "test_a_database_that_lost_its_end_is_refused",
        "test_an_older_copy_that_went_on_is_refused",
    }
)
"""Tests of the ordinary suite; ``--programmes`` runs all."""


class SharedLease(PostgresLease):
    """A lease that several stores of one process have; the last one gives it up."""

    users = 0

    def give_up(self) -> None:
        self.users -= 1
        if self.users == 0:
            super().give_up()


class Opener:
    """Opens PostgreSQL stores by directories; made new for each test."""

    def __init__(self) -> None:
        self._leases: dict[Path, SharedLease] = {}
        self._server = postgres.server()

    def url(self, folder: Path) -> str:
        """Return the URL of the store of a directory."""
        return self._server.url(self._server.schema(folder))

    def open(self, folder: Path) -> Any:
        """Open the store of a directory, which is made where there is none."""
        place: Any = locate_url(self.url(folder))
        lease = self._leases.get(folder)
        if lease is None:
            place.create("agtp.test")
            me = Holder(name="test", machine="m", directory=str(folder))
            lease = self._leases[folder] = SharedLease(place._address(), me, "agtp.test")
        store = place.open_store(create=False, server_id="agtp.test", lease=lease)
        lease.users += 1
        store.path = folder / FILE
        store._connection = _Database(self.url(folder))
        return store

    def close(self) -> None:
        """End every session: a test of files leaves that to the collector of garbage."""
        self._server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND usename IS NOT NULL AND backend_type = 'client backend'"
        )

    def substitute(self, module: ModuleType, replace: Any) -> None:
        """Have a module of tests open stores here; ``replace`` sets attributes until the end of the test."""
        replace(module, "sqlite_store", self.open)
        if hasattr(module, "sqlite3"):
            replace(module, "sqlite3", _Databases(self))


class _Databases:
    """What tests use of :mod:`sqlite3`."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener

    Connection = sqlite3.Connection

    def connect(self, path: Any, **options: Any) -> Any:
        """Connect to the store of a directory."""
        assert Path(path).name == FILE, "a file that is no store"
        return _Database(self._opener.url(Path(path).parent))


class _Database:
    """A connection in the shape of one to a file."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: Any = None

    @property
    def _connection(self) -> Any:
        import psycopg

        if self._opened is None:
            self._opened = psycopg.connect(self._url, autocommit=True)
        return self._opened

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement in the words of SQLite."""
        text = re.sub(r"x'([0-9a-f]*)'", r"'\\x\1'::bytea", statement.replace("AS BLOB", "AS bytea"))
        return self._connection.execute(text.replace("?", "%b").encode(), values)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each of several rows."""
        for row in rows:
            self.execute(statement, row)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> _Database:
        return self

    def __exit__(self, *error: object) -> None:
        # What another writer does counts its transactions; an edit by hand that does not is found at the next start.
        self.execute("UPDATE store SET news = news + 1")
