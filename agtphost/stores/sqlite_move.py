"""
The mark of a SQLite store that was copied to another place: see :mod:`agtphost.stores.moves`.

The file then has another application id, which every version of this program refuses to serve, and a table with one row
that says where the store went. A store without the mark has no such table.
"""

from __future__ import annotations

from agtphost.stores.connection import Connection
from agtphost.stores.moves import StoreMove, StoreMoved
from agtphost.stores.upgrade import APPLICATION, MOVED

TABLE = "moved"

_CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    one INTEGER PRIMARY KEY CHECK (one = 1), -- there is one row
    target TEXT NOT NULL,               -- URL of the copy
    at TEXT NOT NULL,                   -- RFC 3339
    complete INTEGER NOT NULL           -- 1 once the copy is there
) STRICT
"""


def read_move(connection: Connection) -> StoreMove | None:
    """Return the mark of a store; None without one."""
    if int(connection.execute("PRAGMA application_id").fetchone()[0]) != MOVED:
        return None
    tables = connection.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", (TABLE,))
    row = connection.execute(f"SELECT target, at, complete FROM {TABLE}").fetchone() if tables.fetchone()[0] else None
    target, at, complete = row or ("a place that the file does not name", "a day that it does not name", 1)
    return StoreMove(target=str(target), at=str(at), complete=bool(complete))


def require_unmoved(connection: Connection, path: str, resumed: StoreMove | None = None) -> None:
    """
    Refuse a store that was copied to another place; then a transaction that was begun ends, too.

    :param resumed: the mark of a copy that is made again.
    :raises StoreMoved: it has another mark.
    """
    if (move := read_move(connection)) is not None and move != resumed:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise StoreMoved(move.explain(path))


def put_move(connection: Connection, move: StoreMove | None) -> None:
    """Write the mark of a store, or remove it, within a transaction."""
    if move is None:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        return
    connection.execute(_CREATE)
    row = (move.target, move.at, int(move.complete))
    connection.execute(f"INSERT OR REPLACE INTO {TABLE} (one, target, at, complete) VALUES (1, ?, ?, ?)", row)
    connection.execute(f"PRAGMA application_id={MOVED}")
