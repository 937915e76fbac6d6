"""The table ``process``: which hosts run on a store, whether they serve or stand by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from agtphost.stores.lease import HostProcess, ProcessSighting, read_settings
from agtphost.stores.postgres.connection import DatabaseError, Session
from agtphost.stores.postgres.schema_files import latest

REPORT: Final = (
    "INSERT INTO process (id, name, place, version, schema, state, settings, started, beat) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, clock_timestamp(), clock_timestamp()) "
    "ON CONFLICT (id) DO UPDATE SET state = excluded.state, settings = excluded.settings, beat = excluded.beat"
)
FORGET_EARLIER: Final = (
    "DELETE FROM process WHERE (place = ? AND id <> ?) OR beat < clock_timestamp() - interval '1 day'"
)
FORGET: Final = "DELETE FROM process WHERE id = ?"
READ: Final = (
    "SELECT name, place, version, schema, state, settings, "
    "to_char(started AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), "
    "extract(epoch FROM clock_timestamp() - beat)::float8 FROM process ORDER BY name, place, started"
)


def write_process(session: Session, limits: bytes, process: HostProcess, *, first: bool) -> None:
    """
    Write the row of a process. A crash of the database may lose it, so nothing waits for the disk.

    :param limits: statements that limit the transaction.
    :param first: whether to remove rows that earlier processes of the same host left behind.
    """
    session.command(b"BEGIN; " + limits + b"SET LOCAL synchronous_commit = off")
    try:
        if first:
            session.execute(FORGET_EARLIER, (process.place, process.id))
        settings = json.dumps(dict(process.settings), sort_keys=True)
        values = (process.id, process.name, process.place, process.version, latest(), process.state, settings)
        session.execute(REPORT, values)
    except BaseException:
        with suppress(DatabaseError):
            session.command(b"ROLLBACK")
        raise
    session.command(b"COMMIT")


def read_processes(session: Session) -> Sequence[ProcessSighting]:
    """Return the processes of a store; none where its tables are of a version without them."""
    if session.execute("SELECT to_regclass('process')").fetchone()[0] is None:
        return ()
    return [
        ProcessSighting(
            name=name,
            place=place,
            version=version,
            schema=schema,
            state=state,
            settings=read_settings(settings),
            started=started,
            age=age,
        )
        for name, place, version, schema, state, settings, started, age in session.execute(READ).fetchall()
    ]
