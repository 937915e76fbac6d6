"""
Whether a database has the tables, keys and indexes that the schema files make, and no triggers.

SQLite verifies what a schema says, and not whether it is ours. Without its UNIQUE a table has a row twice, and only one
of the two is compared with what was signed; a trigger changes rows whenever the host writes. So the schema of a
database is compared with that of an empty one to which the same files were applied. Comments and spaces don't count.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple

from agtphost.stores import upgrade

TABLE = "sqlite_schema"
"""What the findings name as their table."""

_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite^_stat%' ESCAPE '^'"
"""All but the tables of ANALYZE, which change how rows are found, and not which."""

_IGNORED = re.compile(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\])|--[^\n]*|/\*.*?\*/|\s+", re.DOTALL)


class SchemaFinding(NamedTuple):
    """A table, index, view or trigger that is not what the schema files make."""

    row: str
    """Type and name, such as ``trigger t``."""

    explanation: str
    decides: bool
    """Whether what the host reads and writes may differ: else an index or a table that it does not use was added."""

    lacks_table: bool
    """Whether a table cannot be read as the host reads it."""


class _Entry(NamedTuple):
    type: str
    table: str
    sql: str


def find_schema_changes(execute: Callable[..., Any]) -> Iterator[SchemaFinding]:
    """
    Compare the schema of a database with that of the schema files.

    :param execute: that of a connection to a database of the latest version.
    """
    expected, found = _expected(), _read(execute)
    for name, entry in sorted(expected.items()):
        row, is_table = f"{entry.type} {name}", entry.type == "table"
        other = found.get(name)
        if other is None:
            yield SchemaFinding(row, "was deleted", is_table or not entry.sql, is_table)
        elif other.type != entry.type:
            yield SchemaFinding(row, f"is a {other.type} now", True, is_table)
        elif other != entry:
            yield SchemaFinding(row, "was changed: its columns or keys are others", True, is_table)
    for name, entry in sorted(found.items()):
        if name not in expected:
            decides = entry.type == "trigger" or (entry.type == "index" and "UNIQUE" in entry.sql.upper())
            yield SchemaFinding(f"{entry.type} {name}", f"was added, on table {entry.table}", decides, False)


@cache
def _expected() -> dict[str, _Entry]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        upgrade.bring_up(connection, ":memory:")
        return _read(connection.execute)


def _read(execute: Callable[..., Any]) -> dict[str, _Entry]:
    rows = execute(_SCHEMA).fetchall()
    return {_text(name): _Entry(_text(kind), _text(table), _normalize(sql)) for kind, name, table, sql in rows}


def _text(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if text.isprintable() else ascii(text)


def _normalize(sql: object) -> str:
    """Return a statement without comments, and with one space for each run of white space."""
    if not isinstance(sql, str):
        return "" if sql is None else repr(sql)
    return " ".join(_IGNORED.sub(lambda found: found.group(1) or " ", sql).split())
