"""
Numbered schema files: each takes the database from one version to the next.

``0001_records.sql`` makes version 1 of an empty file. A version applies whole
or not at all, and a database of a later version than this program knows is
left alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from agtphost.stores.connection import Connection
from agtphost.stores.rows import StoreError

APPLICATION = 0x41475450
"""``AGTP``: tells our files from any other SQLite database."""


def steps() -> list[Traversable]:
    """The schema files in the order of their numbers."""
    folder = files("agtphost.stores").joinpath("schema")
    return sorted((step for step in folder.iterdir() if step.name.endswith(".sql")), key=lambda step: step.name)


def latest() -> int:
    """The version that this program writes and reads."""
    return len(steps())


def statements(script: str) -> Iterator[str]:
    """The statements of a schema file, one by one, so that all run in one transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _number(connection: Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


_PARTS = """
SELECT entry.name || '.' || part.name FROM sqlite_schema AS entry JOIN pragma_table_info(entry.name) AS part
WHERE entry.type = 'table'
"""
"""The columns of all tables, by which the schemas of versions differ; version 5 has those of version 4."""


@cache
def _columns_of(version: int) -> frozenset[str]:
    """Return the columns that a database of a version has."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in steps()[:version]:
            for statement in statements(step.read_text(encoding="utf-8")):
                connection.execute(statement)
        return frozenset(name for (name,) in connection.execute(_PARTS))


def _require_own_number(connection: Connection, path: str, version: int) -> None:
    """
    Refuse a database that has the columns of a later version than its number says.

    A step that was applied already fails in the middle of a start, for a reason that says nothing of the number.

    :raises StoreError: with what to do.
    """
    found = {str(name) for (name,) in connection.execute(_PARTS)}
    later = next((each for each in range(latest(), version, -1) if _columns_of(each) <= found), version)
    if _columns_of(later) != _columns_of(version):
        raise StoreError(
            f"{path} says that its schema version is {version}, and has the tables of version {later}: its number was "
            f"changed. Restore it from a backup; or set the number back (PRAGMA user_version={later}) while no host "
            "runs, and have agtp audit verify look for other changes."
        )


def version_of(connection: Connection, path: str) -> int:
    """
    The schema version of a database; 0 for an empty one.

    :raises StoreError: for another program's database, one of a later version, or one whose number was lowered.
    """
    application, version = _number(connection, "application_id"), _number(connection, "user_version")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION and (tables or application or version):
        raise StoreError(f"{path} is a database of another program. Restore ours, or name another file in [store] url.")
    if version > latest():
        raise StoreError(
            f"{path} has schema version {version}; this program knows versions up to {latest()}. "
            "Run the program that wrote it, or a later one."
        )
    if version < latest() and tables:
        _require_own_number(connection, path, version)
    return version


def require_latest(connection: Connection, path: str) -> None:
    """
    Refuse to read a database of an earlier version.

    :raises StoreError: see :func:`version_of`; or it has to be brought up to date first.
    """
    if (version := version_of(connection, path)) != latest():
        raise StoreError(f"{path} has schema version {version}; start the host once to bring it up to date")


def bring_up(connection: Connection, path: str) -> None:
    """
    Apply the steps that a database lacks.

    :raises StoreError: see :func:`version_of`.
    """
    if version_of(connection, path) == latest():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection, path)
        for number, step in enumerate(steps()[version:], version + 1):
            for statement in statements(step.read_text(encoding="utf-8")):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
