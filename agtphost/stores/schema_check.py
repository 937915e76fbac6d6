"""
Whether a database has the tables, keys and indexes that the schema files make, and no triggers.

SQLite verifies what a schema says, and not whether it is ours. Without its UNIQUE a table has a row twice, and only one
of the two is compared with what was signed; a trigger changes rows whenever the host writes. So the schema of a
database is compared with that of an empty one that :mod:`.upgrade` makes by the same files. Comments and spaces don't
count.
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

_SCHEMA = """
SELECT type, name, tbl_name, sql FROM sqlite_schema
WHERE NOT (type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat2', 'sqlite_stat3', 'sqlite_stat4', 'moved'))
"""
"""
All but the tables of ANALYZE, which change how rows are found, and not which, and that of a store which was copied to
another place. A trigger may have any name.
"""

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


_Key = tuple[str, str]
"""Type and name: a trigger may have the name of a table."""


class _Entry(NamedTuple):
    table: str
    sql: str


def find_schema_changes(execute: Callable[..., Any]) -> Iterator[SchemaFinding]:
    """
    Compare the schema of a database with that of the schema files.

    :param execute: that of a connection to a database of the latest version.
    """
    expected, found = _read_expected(), _read(execute)
    added = {key: entry for key, entry in found.items() if key not in expected}
    for (kind, name), entry in sorted(expected.items(), key=_tables_first):
        row, is_table = f"{kind} {name}", kind == "table"
        other = found.get((kind, name))
        if other is None:
            instead = next((key for key in added if key[1] == name), None)
            if instead is None:
                yield SchemaFinding(row, "was deleted", is_table or not entry.sql, is_table)
            else:
                del added[instead]
                yield SchemaFinding(row, f"is a {instead[0]} now", True, is_table)
        elif other != entry:
            yield SchemaFinding(row, "was changed: its columns or keys differ from this version's", True, is_table)
    for (kind, name), entry in sorted(added.items()):
        decides = kind == "trigger" or (kind == "index" and "UNIQUE" in entry.sql.upper())
        yield SchemaFinding(f"{kind} {name}", f"was added, on table {entry.table}", decides, False)


def _tables_first(item: tuple[_Key, _Entry]) -> tuple[bool, str]:
    """Return the sort key of an entry: a lost table explains its lost indexes."""
    (kind, name), _ = item
    return kind != "table", name


@cache
def _read_expected() -> dict[_Key, _Entry]:
    """Return the schema of an empty database of this version."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        upgrade.bring_up(connection, ":memory:")
        return _read(connection.execute)


def _read(execute: Callable[..., Any]) -> dict[_Key, _Entry]:
    rows = execute(_SCHEMA).fetchall()
    return {(_text(kind), _text(name)): _Entry(_text(table), _normalize(sql)) for kind, name, table, sql in rows}


def _text(value: object) -> str:
    """Return a name as text that can be printed: a damaged schema may hold anything."""
    text = value if isinstance(value, str) else repr(value)
    return text if text.isprintable() else ascii(text)


def _normalize(sql: object) -> str:
    """Return a statement without comments, and with one space for each run of white space."""
    if not isinstance(sql, str):
        return "" if sql is None else repr(sql)
    return " ".join(_IGNORED.sub(lambda found: found.group(1) or " ", sql).split())
