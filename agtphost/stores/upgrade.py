"""
The schema of a store: one file makes that of the first release, and numbered steps change it.

The files in ``schema`` begin with the version that they lead to. A version applies whole or not at all. A database of a
later version than this program knows is left alone, and so is one of a development version before the first release.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from agtphost.stores.connection import Connection
from agtphost.stores.record_indexing import index_records
from agtphost.stores.rows import StoreError

INDEXED = 11
"""The version whose rules the index of records follows; the records that are there are indexed when it is reached."""

APPLICATION = 0x41475450
"""``AGTP``: tells our files from any other SQLite database."""

MOVED = 0x4147544D
"""``AGTM``: a store that was copied to another place, see :mod:`agtphost.stores.sqlite_move`. It can be read."""


def steps() -> list[Traversable]:
    """Return the schema files in the order of their numbers; the first one makes an empty database a store."""
    folder = files("agtphost.stores").joinpath("schema")
    return sorted((step for step in folder.iterdir() if step.name.endswith(".sql")), key=lambda step: step.name)


def number_of(step: Traversable) -> int:
    """Return the version that a schema file leads to."""
    return int(step.name.partition("_")[0])


def first() -> int:
    """Return the version of the first release: no earlier one is read."""
    return number_of(steps()[0])


def latest() -> int:
    """Return the version that this program writes and reads."""
    return number_of(steps()[-1])


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a schema file one by one, so that all can run in one transaction."""
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
"""The columns of all tables, by which the schemas of versions differ."""


@cache
def _columns_of(version: int) -> frozenset[str]:
    """Return the columns that a database of a version has."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in steps():
            if number_of(step) > version:
                break
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
    numbers = [number for number in map(number_of, reversed(steps())) if number > version]
    later = next((each for each in numbers if _columns_of(each) <= found), version)
    if _columns_of(later) != _columns_of(version):
        raise StoreError(
            f"{path} says that its schema version is {version}, and has the tables of version {later}: its number was "
            f"changed. Restore it from a backup; or set the number back (PRAGMA user_version={later}) while no host "
            "runs, and have agtp audit verify look for other changes."
        )


def version_of(connection: Connection, path: str) -> int:
    """
    Return the schema version of a database; 0 for an empty one.

    :raises StoreError: for another program's database, one of a later version or of a development version, or one whose
        number was lowered.
    """
    application, version = _number(connection, "application_id"), _number(connection, "user_version")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application not in (APPLICATION, MOVED) and (tables or application or version):
        raise StoreError(f"{path} is a database of another program. Restore ours, or name another file in [store] url.")
    if version > latest():
        raise StoreError(
            f"{path} has schema version {version}; this program knows versions up to {latest()}. "
            "Run the program that wrote it, or a later one."
        )
    if 0 < version < first():
        raise StoreError(
            f"{path} has schema version {version}, of a development version before release 0.2.0; this program reads "
            f"stores from version {first()} on. Keep its records with `agtp audit export` of the program that wrote "
            "it. Then set a production host up again by `agtp init DIR --production --again`, which puts this file "
            "aside; for a development host, move its state directory away, and it makes a new one. If a "
            "released version wrote it, its number was changed: restore it from a backup."
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
        is_moved = _number(connection, "application_id") == MOVED
        cure = f"run `agtp store upgrade sqlite:{path}`" if is_moved else "start the host once to bring it up to date"
        raise StoreError(f"{path} has schema version {version}; {cure}")


def _update_indexes(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    for row in rows:
        connection.execute("UPDATE record SET session = ?, task = ?, facet = ? WHERE number = ?", row)


def bring_up(connection: Connection, path: str) -> None:
    """
    Apply the steps that a database lacks; one that is marked as copied to another place stays so.

    :raises StoreError: see :func:`version_of`.
    """
    if version_of(connection, path) == latest():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection, path)
        for step in steps():
            if number_of(step) <= version:
                continue
            for statement in statements(step.read_text(encoding="utf-8")):
                connection.execute(statement)
            if number_of(step) == INDEXED:
                index_records(connection.execute, partial(_update_indexes, connection))
            connection.execute(f"PRAGMA user_version={number_of(step)}")
        if not version:
            connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
