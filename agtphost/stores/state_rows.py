"""Rows of the host's state, and the records that sign it: read as they are, also where they are damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from agtphost.stores import database_check
from agtphost.stores.rows import ItemRow, RecordFormat, SignedRow, StateChangeRow, StateRow


def read_state(rows: Callable[[str], Sequence[Any]]) -> tuple[dict[str, StateRow], list[ItemRow]]:
    """Return every row of the tables ``lifecycle`` and ``held``; replace what is not UTF-8 in a text."""
    columns = "status", "since", "reason", "successor", "deadline", "org_domain"
    texts = ", ".join(f"CAST({column} AS BLOB)" for column in columns)
    agents = rows(f"SELECT agent_id, {texts} FROM lifecycle")
    states = {_hexadecimal(row[0]): StateRow(*map(_optional, row[1:])) for row in agents}
    items = rows(
        "SELECT CAST(kind AS BLOB), CAST(key AS BLOB), owner, version, expires_at, value FROM held ORDER BY kind, key"
    )
    return states, [ItemRow(_text(row[0]), _text(row[1]), *row[2:]) for row in items]


def read_state_changes(execute: Callable[..., Any], after: int, limit: int) -> list[StateChangeRow]:
    """Return entries of the log of state changes; octets that are not UTF-8 are escaped."""
    rows = execute(
        "SELECT number, record, CAST(kind AS BLOB), CAST(key AS BLOB), leaf FROM state_change "
        "WHERE number > ? ORDER BY number LIMIT ?",
        (after, limit),
    ).fetchall()
    return [StateChangeRow(row[0], row[1], _text(row[2]), _text(row[3]), row[4]) for row in rows]


def _text(octets: Any) -> str:
    return octets.decode("utf-8", "backslashreplace") if isinstance(octets, bytes) else str(octets)


def _hexadecimal(octets: Any) -> str:
    return octets.hex() if isinstance(octets, bytes) else str(octets)


def _optional(octets: bytes | None) -> Any:
    return None if octets is None else _text(octets)


def read_signed(execute: Callable[..., Any], after: int, limit: int) -> list[SignedRow]:
    """Records by their numbers, unchecked; those on a page of the database that is damaged are left out."""
    try:
        statement = "SELECT number, format, signed FROM record WHERE number > ? ORDER BY number LIMIT ?"
        rows = execute(statement, (after, limit)).fetchall()
    except sqlite3.DatabaseError as error:
        if not database_check.is_malformed(error):
            raise
        rows = []
        for number in range(after + 1, after + 1 + limit * AROUND_DAMAGE):
            with suppress(sqlite3.DatabaseError):
                rows += execute("SELECT number, format, signed FROM record WHERE number = ?", (number,)).fetchall()
            if len(rows) == limit:
                break
    found = [row for row in rows if isinstance(row[0], int) and isinstance(row[2], bytes)]
    return [SignedRow(row[0], _FORMATS.get(row[1], str(row[1])), row[2]) for row in found]


AROUND_DAMAGE = 8
"""Pages of records that are looked for one by one behind a damaged place."""

_FORMATS = {int(each): each.label for each in RecordFormat}
