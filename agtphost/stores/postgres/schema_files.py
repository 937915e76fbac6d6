"""How a store is made in a PostgreSQL database, and whether this program can use one that is there."""

from __future__ import annotations

import re
from contextlib import closing
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from agtphost.stores.lease import SILENT_SECONDS, Holder, read_holder
from agtphost.stores.postgres.connection import STATEMENT_SECONDS, Address, DatabaseError, Session, dial
from agtphost.stores.postgres.index_filling import LAST_INDEXED, fill_index
from agtphost.stores.rows import StoreError

_READABLE: Final = re.compile(r"-- readable_from: (\d+)\n")
"""
The first line of a schema file that programs of an earlier version can use; the default is its own version.

A step that changes a table which an earlier version has is not for that version, even if it only adds a column:
programs compare the definitions of their tables at the start, and take one with another column for damaged.
"""


INDEXED: Final = 3
"""The first version with an index of records."""

BEGIN_CREATION: Final = (
    f"BEGIN; SET LOCAL lock_timeout = {STATEMENT_SECONDS * 1000}; SELECT pg_advisory_xact_lock({0x61677470686F7374})"
).encode()
"""
Begins a transaction that makes a store, when no other one does in this database.

Without the lock both would find no table and make it, and the later would fail with the name of an index.
"""

_RIGHTS: Final = {
    "store": "SELECT UPDATE",
    "chain": "SELECT INSERT",
    "facet": "SELECT INSERT",
    "record_block": "SELECT INSERT",
    "record_hash": "SELECT INSERT",
    "record": "SELECT INSERT",
    "record_index": "SELECT INSERT",
    "lifecycle": "SELECT INSERT UPDATE",
    "reservation": "SELECT INSERT UPDATE DELETE",
    "keyed": "SELECT INSERT UPDATE DELETE",
    "held": "SELECT INSERT UPDATE DELETE",
    "state_change": "SELECT INSERT DELETE",
    "tile": "SELECT INSERT UPDATE",
    "checkpoint": "SELECT INSERT UPDATE",
    "probe": "INSERT DELETE",
    "process": "SELECT INSERT UPDATE DELETE",
    "published": "SELECT INSERT UPDATE",
}
"""What a host does with each table."""


class StoreRow(NamedTuple):
    """The row of table ``store``."""

    schema: int
    readable_from: int
    server_id: str
    last: int
    """Number of the newest record."""

    term: int
    holder: str
    """The host that may write, as :mod:`agtphost.stores.lease` writes it; empty without one."""

    age: float
    """Seconds since the holder wrote last, by the database's clock."""

    @property
    def serving(self) -> Holder | None:
        """The host that has the lease; None where it was given up, is over, or keeps hosts away from a moved store."""
        holder = read_holder(self.holder)
        return None if holder is None or holder.move is not None or self.age > holder.takeover_after else holder


def steps() -> list[Traversable]:
    """Return the schema files in the order of their numbers."""
    folder = files("agtphost.stores.postgres").joinpath("schema")
    return sorted((step for step in folder.iterdir() if step.name.endswith(".sql")), key=lambda step: step.name)


def number_of(step: Traversable) -> int:
    """Return the version that a schema file leads to."""
    return int(step.name.partition(".")[0].partition("_")[0])


def latest() -> int:
    """Return the schema version that this program writes and reads."""
    return number_of(steps()[-1])


def readable_from(step: Traversable) -> int:
    """Return the earliest version whose programs can use the tables that a schema file leads to."""
    found = _READABLE.match(step.read_text(encoding="utf-8"))
    return int(found[1]) if found else number_of(step)


def upgrade_store(address: Address) -> tuple[int, int]:
    """
    Bring the tables of a store to the version of this program, in one transaction, and index its records then.

    A host of an earlier version goes on during that, and afterwards where the schema file says that it can. The records
    that it writes are indexed by the next host of this version, or when this is called again.

    :return: the version before, and the one now.
    :raises StoreError: there is no store, it is of a later version, or a host uses it that could not any more.
    """
    with closing(dial(address, writer=True)) as session:
        session.command(b"BEGIN; SET LOCAL lock_timeout = '30s'")
        read_row(session)
        session.execute("SELECT 1 FROM store FOR UPDATE")
        row = read_row(session)
        if row.schema > latest():
            raise StoreError(
                f"{session.name} has a store of schema version {row.schema}; this program has version {latest()}. "
                "Nothing was changed; use the later agtphost"
            )
        missing = [step for step in steps() if number_of(step) > row.schema]
        if missing:
            needed = readable_from(missing[-1])
            if needed > row.schema and row.serving is not None:
                raise StoreError(
                    f"{session.name}: programs of schema version {row.schema} cannot use version {latest()}, and "
                    f"{row.serving} does now; stop that host first. Nothing was changed"
                )
            _require_later_programs(session, needed)
            for step in missing:
                session.command(step.read_bytes())
            session.execute("UPDATE store SET schema = ?, readable_from = ?", (latest(), needed))
        if session.command(b"COMMIT").command_status != b"COMMIT":
            raise StoreError(f"{session.name}: the store could not be upgraded, and nothing was changed; try again")
        fill_index(session)
        return row.schema, latest()


def _require_later_programs(session: Session, needed: int) -> None:
    """
    Refuse an upgrade while a process lives that could not use the store any more, serving or standing by.

    Programs of version 1 do not say that they live.
    """
    if session.execute("SELECT to_regclass('process')").fetchone()[0] is None:
        return
    rows = session.execute(
        "SELECT name, state, schema FROM process WHERE schema < ? "
        "AND abs(extract(epoch FROM clock_timestamp() - beat)) <= ? ORDER BY name",
        (needed, SILENT_SECONDS),
    ).fetchall()
    if rows:
        hosts = ", ".join(f"{name} ({state}, version {schema})" for name, state, schema in rows)
        raise StoreError(
            f"{session.name}: the upgraded store needs programs of version {needed}, and these hosts run: {hosts}. "
            "Stop them first. Nothing was changed"
        )


def create_store(address: Address, server_id: str) -> None:
    """
    Make an empty store.

    :raises StoreError: there is one already, or the role may not make tables.
    """
    with closing(dial(address, writer=True)) as session:
        session.command(BEGIN_CREATION)
        if row := find_row(session):
            raise StoreError(f"{session.name} has a store already, of the host {row.server_id!r}; nothing was changed")
        add_store(session, server_id)
        if session.command(b"COMMIT").command_status != b"COMMIT":
            raise StoreError(f"{session.name}: the store could not be made, and nothing was changed; try again")


def add_store(session: Session, server_id: str) -> None:
    """Make the tables of an empty store, in the open transaction."""
    for step in steps():
        session.command(step.read_bytes())
    session.execute(
        "INSERT INTO store (one, schema, readable_from, server_id, last, issued_at, news, term, holder, beat) "
        "VALUES (1, ?, ?, ?, 0, 0, 0, 0, '', now())",
        (latest(), readable_from(steps()[-1]), server_id),
    )


def _has_store(session: Session) -> bool:
    return session.execute("SELECT to_regclass('store')").fetchone()[0] is not None


def read_state(address: Address) -> tuple[StoreRow, int]:
    """
    Read the row of a store, and how many of its newest records no search with conditions finds yet.

    :raises StoreError: the store is missing, or cannot be read.
    """
    with closing(dial(address, writer=False)) as session:
        row = read_row(session)
        return row, row.last - session.execute(LAST_INDEXED).fetchone()[0] if row.schema >= INDEXED else 0


def identify_store(session: Session) -> str:
    """Return a text that no other store has while its server runs; empty where the database has no store."""
    found: str | None = session.execute(
        "SELECT extract(epoch FROM pg_postmaster_start_time()) || ' ' || d.oid || ' ' || to_regclass('store')::oid "
        "FROM pg_database d WHERE d.datname = current_database()"
    ).fetchone()[0]
    return found or ""


def find_row(session: Session) -> StoreRow | None:
    """Return the row of the store; None where the database has no store."""
    if not _has_store(session):
        return None
    row = session.execute(
        "SELECT schema, readable_from, server_id, last, term, holder, "
        "extract(epoch FROM clock_timestamp() - beat)::float8 FROM store"
    ).fetchone()
    return None if row is None else StoreRow(*row)


def read_row(session: Session) -> StoreRow:
    """
    Read the row of the store.

    :raises StoreError: the store is missing.
    """
    row = find_row(session)
    if row is None:
        raise StoreError(
            f"{session.name} has no store that this user may use. Run `agtp store init` to make an empty one; if this "
            "host ran before, grant the user USAGE on the schema, or restore the database from its backup instead"
        )
    return row


def require_usable(session: Session, server_id: str = "") -> StoreRow:
    """
    Refuse a store that is another host's, or of a version that this program cannot use.

    :param server_id: of the host; empty to use any host's.
    :raises StoreError: with the command that helps.
    """
    row = read_row(session)
    if row.readable_from > latest():
        raise StoreError(
            f"{session.name} has a store of schema version {row.schema}, which programs of version {row.readable_from} "
            f"and later can use; this program has version {latest()}. Install a later agtphost"
        )
    if row.schema < latest():
        raise StoreError(
            f"{session.name} has a store of schema version {row.schema}; this program needs version {latest()}. Run "
            "`agtp store upgrade`"
        )
    if server_id and row.server_id != server_id:
        raise StoreError(
            f"{session.name} has the store of the host {row.server_id!r}, and [host] server_id is {server_id!r}; name "
            "this host's own database in [store] url, and see `agtp store status`"
        )
    return row


def require_rights(session: Session) -> None:
    """
    Refuse a role without a right that a host needs.

    Otherwise the first call that needs it would have run its handler when it is refused.

    :raises DatabaseError: naming the table and the right.
    """
    needed = [(table, right) for table, rights in _RIGHTS.items() for right in rights.split()]
    missing = session.execute(
        "SELECT name, needed FROM unnest(?::text[], ?::text[]) AS rights (name, needed) "
        "WHERE NOT has_table_privilege(to_regclass(name)::oid, needed) LIMIT 1",
        [list(column) for column in zip(*needed, strict=True)],
    ).fetchone()
    if missing is not None:
        table, right = missing
        text = f"the user has no right to {right} in the table {table}; grant it"
        raise DatabaseError(f"{session.name}: {text} (SQLSTATE 42501)", "42501", text)
