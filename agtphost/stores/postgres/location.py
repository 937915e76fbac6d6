"""What is asked of a PostgreSQL store before it is opened. Importing this module does not import psycopg."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agtphost import extras
from agtphost.stores.lease import Holder, ProcessSighting, compare_clocks, describe_clock, read_holder
from agtphost.stores.location import StoreLocation
from agtphost.stores.rows import StoreError
from agtphost.vocabulary import database_url

if TYPE_CHECKING:
    from agtphost.stores.copying import ReadTable, WriteTable
    from agtphost.stores.interfaces import IChainStore, ILease, IRecordReader
    from agtphost.stores.postgres.connection import Address
    from agtphost.stores.postgres.lease import PostgresLease
    from agtphost.stores.postgres.schema_files import StoreRow
    from agtphost.stores.prefix_lookup import RecordPreview

STRONG = "verify-full"
"""The ``sslmode`` that compares the server's certificate with its name."""


class PostgresLocation(StoreLocation):
    """
    A store in a PostgreSQL database.

    :param url: ``postgresql://...``, without a password.
    :param password: of the role; None where it needs none.
    :param synchronous: whether a database without a synchronous replica is refused for writing.
    """

    backup_hint = "use the database's own tools, such as pg_dump or pg_basebackup with an archive of its log"

    def __init__(self, url: str, password: str | None = None, *, synchronous: bool = False) -> None:
        super().__init__(database_url.name_of(url))
        self._url = url
        self._password = password
        self._synchronous = synchronous

    def warnings(self) -> Iterator[str]:
        mode = database_url.sslmode(self._url)
        if mode and mode != STRONG and not database_url.on_this_machine(self._url):
            yield (
                f"[store] url has sslmode={mode}, so another server can pose as the database {self.name}: remove it, "
                f"or write sslmode={STRONG} and sslrootcert=FILE with the authority of the server's certificate"
            )

    def find_risks(self) -> Sequence[str]:
        from agtphost.stores.postgres.connection import dial
        from agtphost.stores.postgres.replication import find_replica_fault

        with closing(dial(self._address(), writer=False)) as session:
            fault = find_replica_fault(session.execute)
            before = time.time()
            (theirs,) = session.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
            clock = describe_clock(compare_clocks(before, theirs, time.time()))
        return [line for line in (f"{self.name} {fault}" if fault else "", clock) if line]

    def lease(self, me: Holder, server_id: str) -> PostgresLease:
        from agtphost.stores.postgres.lease import PostgresLease

        return PostgresLease(self._address(me.name), me, server_id)

    def open_store(
        self, *, create: bool, holder: str = "", server_id: str = "", lease: ILease | None = None
    ) -> IChainStore:
        from agtphost.stores.postgres.lease import PostgresLease
        from agtphost.stores.postgres.writing import PostgresStore

        if lease is None:
            machine = socket.gethostname()
            lease = self.lease(Holder(name=machine, machine=machine, directory=holder), server_id)
        assert isinstance(lease, PostgresLease)
        return PostgresStore(self._address(lease.me.name), lease, server_id)

    def open_reader(self, *, lenient: bool = False) -> IRecordReader:
        from agtphost.stores.postgres.reading import open_postgres_reader

        return open_postgres_reader(self._address())

    def rehearse(self, *, create: bool, folder: Path, server_id: str = "") -> IChainStore:
        from agtphost.stores.postgres.dry_run_store import RehearsedPostgresStore

        return RehearsedPostgresStore(self._address(), server_id)

    def find_records(self, beginning: str, most: int) -> Sequence[RecordPreview]:
        from agtphost.stores.postgres.reading import find_records

        return find_records(self._address(), beginning, most)

    def create(self, server_id: str) -> None:
        from agtphost.stores.postgres.schema_files import create_store

        create_store(self._address(), server_id)

    def read_tables(self) -> AbstractContextManager[ReadTable]:
        from agtphost.stores.postgres.copying import read_postgres

        return read_postgres(self._address())

    def write_tables(self, server_id: str) -> AbstractContextManager[WriteTable]:
        from agtphost.stores.postgres.copying import write_postgres

        return write_postgres(self._address(), server_id)

    def upgrade(self) -> tuple[int, int]:
        from agtphost.stores.postgres.schema_files import upgrade_store

        return upgrade_store(self._address())

    def processes(self) -> Sequence[ProcessSighting]:
        from agtphost.stores.postgres.connection import dial
        from agtphost.stores.postgres.processes import read_processes

        with closing(dial(self._address(), writer=False)) as session:
            return read_processes(session)

    def describe(self) -> Mapping[str, Any]:
        from agtphost.stores.postgres.schema_files import read_state

        row, unindexed = read_state(self._address())
        return {
            "server_id": row.server_id,
            "schema": row.schema,
            **_describe_holder(row),
            "term": row.term,
            "seconds_since_write": round(row.age, 1),
            **({"records_without_index": unindexed} if unindexed else {}),
        }

    def _address(self, name: str = "") -> Address:
        """
        Return how the database is reached.

        :param name: of the host, by which the database shows its connections; empty for that of the machine.
        """
        if not extras.is_installed("psycopg"):
            raise StoreError(extras.missing("psycopg"))
        from agtphost.stores.postgres.connection import Address

        return Address(
            url=self._url,
            password=self._password,
            application=f"agtphost/{name or socket.gethostname()}",
            synchronous=self._synchronous,
        )


def _describe_holder(row: StoreRow) -> Mapping[str, Any]:
    """Return which host serves, and which one had the lease last, if it did not give it up."""
    serving, holder = row.serving, read_holder(row.holder)
    if holder is None:
        return {"serving": None, "holder": None}
    return {
        "serving": None if serving is None else serving.name or serving.place,
        "holder": holder.place,
        "since": holder.since or None,
        "takeover_after": holder.takeover_after,
    }
