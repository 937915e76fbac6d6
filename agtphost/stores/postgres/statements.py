"""The statements of the writing side. Many rows are one statement, with an array for each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from agtphost.stores.postgres.connection import IDLE_SECONDS, READING_SECONDS, STATEMENT_SECONDS


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


def insert_many(table: str, columns: Mapping[str, str], tail: str = "") -> str:
    """Return an INSERT of many rows: one array for each column, with its type."""
    arrays = ", ".join(f"?::{kind}[]" for kind in columns.values())
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({arrays}) {tail}"


def replace_columns(columns: Iterable[str]) -> str:
    return "DO UPDATE SET " + ", ".join(f"{column} = excluded.{column}" for column in columns)


ADD_RECORDS = insert_many(
    "record",
    {
        **dict.fromkeys(("number", "chain", "seq"), "bigint"),
        "audit_id": "bytea",
        "previous": "bigint",
        **dict.fromkeys(("kind", "format"), "int"),
        "issued_at": "bigint",
        "status": "int",
        **dict.fromkeys(("method", "path"), "text"),
        **dict.fromkeys(("caller", "signed"), "bytea"),
        **dict.fromkeys(("session", "task"), "text"),
        "facet": "bigint",
    },
)
SET_INDEXES: Final = (
    "UPDATE record SET session = found.session, task = found.task, facet = found.facet "
    "FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[]) AS found (session, task, facet, number) "
    "WHERE record.number = found.number"
)
PUT_ITEMS = insert_many(
    "held",
    {"kind": "text", "key": "text", "owner": "bytea", "version": "bigint", "expires_at": "bigint", "value": "bytea"},
    f"ON CONFLICT (kind, key) {replace_columns(('owner', 'version', 'expires_at', 'value'))}",
)
PUT_RESERVATIONS = insert_many(
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
PUT_RESULTS = insert_many(
    "reservation",
    {"name": "bytea", "digest": "bytea", "reserved_at": "bigint", "result": "bytea", "record": "bigint"},
    f"ON CONFLICT (name) {replace_columns(('result', 'record'))}",
)
PUT_KEYED = insert_many(
    "keyed",
    {"owner": "bytea", "keys": "bigint", "octets": "bigint", "since": "bigint", "digest": "bytea"},
    f"ON CONFLICT (owner) {replace_columns(('keys', 'octets', 'since', 'digest'))}",
)
PUT_CHANGES = insert_many(
    "state_change", {"number": "bigint", "record": "bigint", "kind": "text", "key": "text", "leaf": "bytea"}
)
PUT_TILES = insert_many(
    "tile",
    {"level": "bigint", "number": "bigint", "hashes": "bytea"},
    # A tile only ever grows: a writer that knows less than the store must not cut it.
    "ON CONFLICT (level, number) DO UPDATE SET hashes = excluded.hashes "
    "WHERE length(excluded.hashes) > length(tile.hashes)",
)
