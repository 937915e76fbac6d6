"""The statements of the writing side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agtphost.stores.postgres.connection import IDLE_SECONDS, READING_SECONDS, STATEMENT_SECONDS, unescape
from agtphost.stores.row_shapes import LARGEST
from agtphost.stores.rows import DamagedRow

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

PATH_BEGINS: Final = 64
"""Characters of a path that the index of records has."""

FEW: Final = 8
"""
The greatest number of rows that are inserted by a statement for each.

One with arrays costs the server and the client as much for one record as single statements for four to eight. Behind a
pooler, where nothing is prepared, single ones cost a little more from six on.
"""


def limit_transaction(seconds: int, idle: int) -> bytes:
    """Return statements that limit a transaction; a pooler loses what is set for a session."""
    return (
        f"SET LOCAL statement_timeout = {seconds * 1000}; SET LOCAL lock_timeout = {STATEMENT_SECONDS * 1000}; "
        f"SET LOCAL idle_in_transaction_session_timeout = {idle * 1000}; "
    ).encode()


BEGIN: Final = (
    b"BEGIN; "
    + limit_transaction(STATEMENT_SECONDS, IDLE_SECONDS)
    + b"SELECT last, issued_at, news, term, holder FROM store FOR UPDATE"
)


class Begun(NamedTuple):
    """The row of the store, as a transaction finds it that has locked it."""

    last: int
    issued_at: int
    news: int
    term: int
    holder: str


def read_begun(result: PGresult) -> Begun:
    """
    Return the row that :data:`BEGIN` found.

    :raises DamagedRow: the row is gone, or has values that no writer wrote.
    """
    if result.ntuples != 1:
        raise DamagedRow("store", "1", "is not there")
    values = [int(result.get_value(0, column) or b"-1") for column in range(4)]
    for name, value in zip(Begun._fields, values, strict=False):
        if not 0 <= value < LARGEST:
            raise DamagedRow("store", "1", f"{name} is {value}, which is out of range")
    last, issued_at, news, term = values
    return Begun(last, issued_at, news, term, unescape((result.get_value(0, 4) or b"").decode("utf-8", "replace")))


MOVE_STORE: Final = "UPDATE store SET last = ?, issued_at = ?, news = ?, beat = clock_timestamp()"
"""Writes the row of the store at the end of a transaction."""

MOVE_KNOWN: Final = f"""
    WITH moved AS ({MOVE_STORE} WHERE last = ? AND issued_at = ? AND news = ? AND term = ? AND holder = ? RETURNING 1)
    SELECT 1 / (SELECT count(*) FROM moved)
"""
"""Locks and writes the row of the store where it is as this host left it; fails by a division by zero elsewhere."""

COUNT_NEWS: Final = "UPDATE store SET news = news + 1"
"""Makes :data:`MOVE_KNOWN` fail with what was known until now."""

READ_ALL: Final = limit_transaction(READING_SECONDS, READING_SECONDS)

HEADS = """
    SELECT c.agent_id, r.chain, r.number, r.seq, r.audit_id, r.issued_at, r.signed
    FROM chain c CROSS JOIN LATERAL (SELECT * FROM record WHERE chain = c.number ORDER BY seq DESC LIMIT 1) r
"""
ITEMS = "SELECT kind, key, owner, version, expires_at, value FROM held"
STATES = "SELECT agent_id, status, since, reason, successor, deadline, org_domain FROM lifecycle"
FIND_RESERVATIONS = (
    "SELECT name, digest, reserved_at, result, owner, seal, record FROM reservation WHERE name = ANY(?::bytea[])"
)
FIND_USAGE = "SELECT owner, keys, octets, since, digest FROM keyed WHERE owner = ANY(?::bytea[])"


class RowInsert(NamedTuple):
    """An INSERT of any number of rows."""

    one: str
    """For one row: a parameter for each column."""

    many: str
    """For many rows: an array for each column."""

    def prepare(self, columns: Sequence[Sequence[Any]]) -> Sequence[tuple[str, Sequence[Any]]]:
        """
        Return statements with their parameters; they belong into one message.

        :param columns: the values of each column, of at least one row.
        """
        if len(columns[0]) <= FEW:
            return [(self.one, row) for row in zip(*columns, strict=True)]
        return [(self.many, [list(column) for column in columns])]


def insert_rows(table: str, columns: Mapping[str, str], tail: str = "") -> RowInsert:
    """
    Return an INSERT.

    :param columns: name and type of each.
    :param tail: what follows the rows.
    """
    begin = f"INSERT INTO {table} ({', '.join(columns)})"
    values, arrays = list_parameters(columns), list_parameters(columns, "[]")
    return RowInsert(f"{begin} VALUES ({values}) {tail}", f"{begin} SELECT * FROM unnest({arrays}) {tail}")


def list_parameters(columns: Mapping[str, str], dimension: str = "") -> str:
    """Return a parameter for each column, with its type."""
    return ", ".join(f"?::{kind}{dimension}" for kind in columns.values())


def replace_columns(columns: Iterable[str]) -> str:
    return "DO UPDATE SET " + ", ".join(f"{column} = excluded.{column}" for column in columns)


_RECORD: Final = {
    **dict.fromkeys(("number", "chain", "seq"), "bigint"),
    "audit_id": "bytea",
    "previous": "bigint",
    **dict.fromkeys(("kind", "format", "issued_at", "status"), "bigint"),
    **dict.fromkeys(("method", "path"), "text"),
    **dict.fromkeys(("caller", "signed"), "bytea"),
}
_INDEX: Final = {**dict.fromkeys(("session", "task"), "text"), "facet": "bigint"}
_INDEXED: Final = {**_RECORD, **_INDEX}
_ADD_RECORD: Final = f"""
    WITH added AS (
        INSERT INTO record ({", ".join(_RECORD)}) VALUES ({list_parameters(_RECORD)}) RETURNING number, path
    )
    INSERT INTO record_index (number, path, session, task, facet)
    SELECT number, substr(path, 1, {PATH_BEGINS}), {list_parameters(_INDEX)} FROM added
"""

_ADD_MANY: Final = f"""
    WITH given ({", ".join(_INDEXED)}) AS (SELECT * FROM unnest({list_parameters(_INDEXED, "[]")})),
    indexed AS (
        INSERT INTO record_index (number, session, task, path, facet)
        SELECT number, session, task, substr(path, 1, {PATH_BEGINS}), facet FROM given
    )
    INSERT INTO record ({", ".join(_RECORD)}) SELECT {", ".join(_RECORD)} FROM given
"""

ADD_RECORDS: Final = RowInsert(_ADD_RECORD, _ADD_MANY)
"""Records with their rows of the index."""

ADD_INDEX: Final = f"""
    INSERT INTO record_index (number, session, task, path, facet)
    SELECT number, given.session, given.task, substr(record.path, 1, {PATH_BEGINS}), given.facet
    FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[]) AS given (session, task, facet, number)
        JOIN record USING (number)
"""

PUT_ITEMS = insert_rows(
    "held",
    {"kind": "text", "key": "text", "owner": "bytea", "version": "bigint", "expires_at": "bigint", "value": "bytea"},
    f"ON CONFLICT (kind, key) {replace_columns(('owner', 'version', 'expires_at', 'value'))}",
)
PUT_RESERVATIONS = insert_rows(
    "reservation",
    {
        "name": "bytea",
        "digest": "bytea",
        "reserved_at": "bigint",
        "result": "bytea",
        "owner": "bytea",
        "seal": "bytea",
        "record": "bigint",
    },
    f"ON CONFLICT (name) {replace_columns(('digest', 'reserved_at', 'result', 'owner', 'seal', 'record'))}",
)
PUT_RESULTS = insert_rows(
    "reservation",
    {"name": "bytea", "digest": "bytea", "reserved_at": "bigint", "result": "bytea", "record": "bigint"},
    f"ON CONFLICT (name) {replace_columns(('result', 'record'))}",
)
PUT_KEYED = insert_rows(
    "keyed",
    {"owner": "bytea", "keys": "bigint", "octets": "bigint", "since": "bigint", "digest": "bytea"},
    f"ON CONFLICT (owner) {replace_columns(('keys', 'octets', 'since', 'digest'))}",
)
PUT_CHANGES = insert_rows(
    "state_change", {"number": "bigint", "record": "bigint", "kind": "text", "key": "text", "leaf": "bytea"}
)
PUT_TILES = insert_rows(
    "tile",
    {"level": "bigint", "number": "bigint", "hashes": "bytea"},
    # A tile only ever grows: a writer that knows less than the store must not cut it.
    "ON CONFLICT (level, number) DO UPDATE SET hashes = excluded.hashes "
    "WHERE length(excluded.hashes) > length(tile.hashes)",
)
