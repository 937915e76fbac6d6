"""What is asked of a PostgreSQL store before it is opened. Importing this module does not import psycopg."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agtphost import extras
from agtphost.stores.lease import Holder, ProcessSighting, compare_clocks, describe_clock, read_holder
from agtphost.stores.location import StoreLocation
from agtphost.stores.moves import describe_move
from agtphost.stores.rows import StoreError
from agtphost.vocabulary import database_url

if TYPE_CHECKING:
    from agtphost.stores.copying import StoreTables, WriteTable
    from agtphost.stores.interfaces import IChainStore, ILease, IRecordReader
    from agtphost.stores.moves import StoreMove
    from agtphost.stores.postgres.connection import Address
    from agtphost.stores.postgres.lease import PostgresLease
    from agtphost.stores.postgres.schema_files import StoreRow
    from agtphost.stores.prefix_lookup import RecordPreview

STRONG = "verify-full"
"""The ``sslmode`` that compares the server's certificate with its name."""


OLDEST_LIBRARY: Final = 14
"""The earliest version of libpq that is used: earlier ones have no pipeline mode."""


def find_driver_fault() -> str:
    """Return why psycopg cannot be used, and what to do; empty if it can."""
    if not extras.is_installed("psycopg"):
        return extras.missing("psycopg")
    try:
        from psycopg import pq
    except ImportError:
        return f"psycopg finds no libpq here: {extras.remedy('psycopg')}, which brings one"
    return find_library_fault(pq.version())


def find_library_fault(version: int) -> str:
    """
    Return why a version of libpq cannot be used; empty if it can.

    :param version: as libpq says it: 150018 for 15.18.
    """
    if version >= OLDEST_LIBRARY * 10_000:
        return ""
    return (
        f"psycopg found libpq {version // 10_000}, and needs version {OLDEST_LIBRARY} or later: "
        f"{extras.remedy('psycopg')}, which brings one"
    )


class PostgresLocation(StoreLocation):
    """
    A store in a PostgreSQL database.

    :param url: ``postgresql://...``, without a password.
    :param password: of the role; None where it needs none.
    :param synchronous: whether a database without a synchronous replica is refused for writing.
    """

    backup_hint = "use the database's own tools, such as pg_dump or pg_basebackup with an archive of its log"

    has_numbers = True

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
        address = self._address()
        from agtphost.stores.postgres.connection import dial
        from agtphost.stores.postgres.replication import find_replica_fault

        with closing(dial(address, writer=False)) as session:
            fault = find_replica_fault(session.execute)
            before = time.time()
            (theirs,) = session.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
            clock = describe_clock(compare_clocks(before, theirs, time.time()))
        return [line for line in (f"{self.name} {fault}" if fault else "", clock, *self.find_takeover_risks()) if line]

    def find_takeover_risks(self) -> Sequence[str]:
        address = self._address()
        from agtphost.stores.postgres.connection import dial
        from agtphost.stores.postgres.schema_files import find_row
        from agtphost.stores.postgres.takeover_rights import find_right_faults

        with closing(dial(address, writer=False)) as session:
            faults = [] if find_row(session) is None else find_right_faults(session.execute)
        return [f"{self.name} {fault}" for fault in faults]

    def lease(self, me: Holder, server_id: str) -> PostgresLease:
        address = self._address(me.name)
        from agtphost.stores.postgres.lease import PostgresLease

        return PostgresLease(address, me, server_id)

    def open_store(
        self, *, create: bool, holder: str = "", server_id: str = "", lease: ILease | None = None
    ) -> IChainStore:
        if lease is None:
            machine = socket.gethostname()
            lease = self.lease(Holder(name=machine, machine=machine, directory=holder), server_id)
        address = self._address(lease.me.name)
        from agtphost.stores.postgres.lease import PostgresLease
        from agtphost.stores.postgres.writing import PostgresStore

        assert isinstance(lease, PostgresLease)
        return PostgresStore(address, lease, server_id)

    def open_reader(self, *, lenient: bool = False) -> IRecordReader:
        address = self._address()
        from agtphost.stores.postgres.reading import open_postgres_reader

        return open_postgres_reader(address)

    def rehearse(self, *, create: bool, folder: Path, server_id: str = "") -> IChainStore:
        address = self._address()
        from agtphost.stores.postgres.dry_run_store import RehearsedPostgresStore

        return RehearsedPostgresStore(address, server_id)

    def find_records(self, beginning: str, most: int) -> Sequence[RecordPreview]:
        address = self._address()
        from agtphost.stores.postgres.reading import find_records

        return find_records(address, beginning, most)

    def create(self, server_id: str) -> None:
        address = self._address()
        from agtphost.stores.postgres.schema_files import create_store

        create_store(address, server_id)

    @property
    def url(self) -> str:
        if database_url.has_password(self._url):
            raise StoreError(f"{self.name}: leave the password out of the URL; [store] password or PGPASSFILE has it")
        return self._url

    def find_move(self) -> StoreMove | None:
        address = self._address()
        from agtphost.stores.postgres.copying import find_postgres_move

        return find_postgres_move(address)

    def change_move(self, seen: StoreMove, move: StoreMove | None) -> bool:
        address = self._address()
        from agtphost.stores.postgres.copying import change_postgres_move

        return change_postgres_move(address, seen, move)

    def await_creation(self) -> bool:
        address = self._address()
        from agtphost.stores.postgres.copying import await_creation

        return await_creation(address)

    def read_tables(
        self, *, moves: bool = False, resumed: StoreMove | None = None
    ) -> AbstractContextManager[StoreTables]:
        address = self._address()
        from agtphost.stores.postgres.copying import read_postgres

        return read_postgres(address, resumed)

    def write_tables(self, server_id: str, mark: StoreMove | None = None) -> AbstractContextManager[WriteTable]:
        address = self._address()
        from agtphost.stores.postgres.copying import write_postgres

        return write_postgres(address, server_id, mark)

    def upgrade(self) -> tuple[int, int]:
        address = self._address()
        from agtphost.stores.postgres.schema_files import upgrade_store

        return upgrade_store(address)

    def identify(self) -> str:
        address = self._address()
        from agtphost.stores.postgres.connection import dial
        from agtphost.stores.postgres.schema_files import identify_store

        with closing(dial(address, writer=False)) as session:
            return identify_store(session)

    def processes(self) -> Sequence[ProcessSighting]:
        address = self._address()
        from agtphost.stores.postgres.connection import dial
        from agtphost.stores.postgres.processes import read_processes

        with closing(dial(address, writer=False)) as session:
            return read_processes(session)

    def describe(self) -> Mapping[str, Any]:
        address = self._address()
        from agtphost.stores.postgres.schema_files import read_state

        row, unindexed = read_state(address)
        holder = read_holder(row.holder)
        is_moved = holder is not None and holder.move is not None
        return {
            "server_id": row.server_id,
            "schema": row.schema,
            **_describe_holder(row),
            "term": row.term,
            **({} if is_moved else {"seconds_since_write": round(row.age, 1)}),
            **({"records_without_index": unindexed} if unindexed else {}),
        }

    def _address(self, name: str = "") -> Address:
        """
        Return how the database is reached.

        This comes before every import of a module that needs psycopg.

        :param name: of the host, by which the database shows its connections; empty for that of the machine.
        :raises StoreError: psycopg is missing, or what it needs.
        """
        if fault := find_driver_fault():
            raise StoreError(f"{self.name} cannot be used: {fault}")
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
    if holder is None or holder.move is not None:
        return {"serving": None, "holder": None, **describe_move(None if holder is None else holder.move)}
    return {
        "serving": None if serving is None else serving.name or serving.place,
        "holder": holder.place,
        "since": holder.since or None,
        "takeover_after": holder.takeover_after,
    }
