"""
Read-only lookups of identifiers by their first characters, for commands and for shell completion.

They take some milliseconds and work while the host is running. Nothing is verified, so the results are not evidence.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

PATIENCE = 0.1
"""Seconds to wait for a lock."""

SCANNED = 200_000
"""Of the newest records: so many are looked at for the beginning of an Audit-ID."""

DEFINITIONS = "upstream-definition"
"""The kind of state item that has the definition of a tool (:mod:`agtphost.upstream.pins`)."""


class RecordPreview(NamedTuple):
    """The columns of one record that a command shows for an identifier."""

    audit_id: str
    method: str
    path: str
    status: int


def _open(store: Path) -> sqlite3.Connection:
    if not store.is_file():
        raise sqlite3.OperationalError("the store does not exist")
    return sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True, timeout=PATIENCE)


def records(store: Path, beginning: str, most: int) -> Sequence[RecordPreview]:
    """
    Return the newest records whose Audit-IDs begin with a prefix.

    :param beginning: hexadecimal digits; may be empty.
    :raises sqlite3.Error: the store cannot be read.
    """
    query = (
        "SELECT lower(hex(audit_id)), method, path, status FROM "
        "(SELECT * FROM record ORDER BY number DESC LIMIT ?) WHERE lower(hex(audit_id)) LIKE ? LIMIT ?"
    )
    if not all(digit in "0123456789abcdef" for digit in beginning):
        return []
    with closing(_open(store)) as database:
        return [RecordPreview(*row) for row in database.execute(query, (SCANNED, f"{beginning}%", most))]


def tools(store: Path) -> Iterator[str]:
    """Yield the MCP tools whose definitions are stored, by ``server.tool``."""
    with closing(_open(store)) as database:
        for (key,) in database.execute("SELECT key FROM held WHERE kind = ? ORDER BY key", (DEFINITIONS,)):
            protocol, server, name = [*str(key).split("\n", 2), "", ""][:3]
            if protocol == "mcp" and name:
                yield f"{server}.{name}"
