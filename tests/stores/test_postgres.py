"""The PostgreSQL store: the contract of every store, and what it alone has to show."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from zope.interface import implementer

from agtphost.audit.writer import GroupWriter
from agtphost.iagtp import IPluggableStore, IRecordReader
from agtphost.stores import StoreError
from agtphost.stores.postgres import schema_files
from agtphost.stores.postgres.location import PostgresLocation
from agtphost.stores.rows import ConflictError
from agtphost.stores.settings import locate_url
from agtphost.stores.table_interfaces import ITableSource
from agtphost.testing.stores import DurableStoreCases, row
from agtphost.vocabulary import database_url
from tests import postgres
from tests.audit.drafting import draft, group_writer, sealed
from tests.rows import each_row

pytestmark = postgres.needed


def place_of(url: str) -> PostgresLocation:
    """Return the location of a store in the test's server."""
    found = locate_url(url)
    assert isinstance(found, PostgresLocation)
    return found


@implementer(IPluggableStore)
class Database:
    """A store in a database in the shape of a plugin: ``agtp store init`` is part of its first opening."""

    def __init__(self, url: str, holder: str) -> None:
        self._place = place_of(url)
        self._holder = holder
        self._store: Any = None

    def open(self, create: bool) -> None:
        if create:
            self._place.create("agtp.test")
        self._store = self._place.open_store(create=create, holder=self._holder)

    def reader(self) -> IRecordReader:
        return self._place.open_reader()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class TestPostgresStore(DurableStoreCases):
    """The contract."""

    hosts = 0

    def make(self, folder: Path) -> IPluggableStore:
        server = postgres.server()
        self.hosts += 1
        return Database(server.url(server.schema(folder)), f"host {self.hosts}")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Provide the URL of a new store."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path))
    place_of(made).create("agtp.test")
    return made


def opened(url: str, holder: str = "test") -> Any:
    """Open a store for writing."""
    return place_of(url).open_store(create=False, holder=holder, server_id="agtp.test")


@pytest.fixture
def writer(url: str) -> Iterator[GroupWriter]:
    """Provide a writer of a store with two records."""
    store = opened(url)
    made = group_writer(store)
    sealed(made, draft(), draft())
    yield made
    store.close()


def change(url: str, *statements: str) -> None:
    """Change a store by hand."""
    postgres.server().run(*statements, url=url)


# The contract has teeth


def test_control_a_store_that_allows_forks_fails_the_contract(url: str) -> None:
    """A1: without UNIQUE (chain, previous) a chain forks, and the case of the contract notices it."""
    change(url, "ALTER TABLE record DROP CONSTRAINT record_successor")
    store = opened(url)
    with pytest.raises(pytest.fail.Exception):
        TestPostgresStore().test_a_chain_cannot_fork(store, row(1, 2, 2, 0))
    store.close()


# Which databases are refused


GOOD = (150004, False, "UTF8", "off", "on", "on", "on", "read committed")
VERSION = "PostgreSQL 15.4 (Debian) on x86_64-pc-linux-gnu"


@each_row(
    ("version", "changed", "said"),
    [
        (VERSION, {}, ""),
        (VERSION, {0: 139999}, "it is PostgreSQL 13; use version 14 or later"),
        (VERSION, {1: True}, "it is a replica (pg_is_in_recovery)"),
        (VERSION, {2: "SQL_ASCII"}, "its encoding is SQL_ASCII"),
        (VERSION, {3: "on"}, "default_transaction_read_only is on"),
        (VERSION, {4: "off"}, "fsync is off"),
        (VERSION, {5: "off"}, "full_page_writes is off"),
        (VERSION, {6: "off"}, "synchronous_commit is off"),
        (VERSION, {6: "local"}, "synchronous_commit is local"),
        (VERSION, {6: "remote_apply"}, ""),
        (VERSION, {7: "serializable"}, "default_transaction_isolation is serializable"),
        ("CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)", {}, "never tested as a store"),
        ("PostgreSQL 11.2-YB-2.21.0.0-b0 on x86_64-pc-linux-gnu", {}, "never tested as a store"),
        ("PostgreSQL 15.2-YB-2.25.0 (YugabyteDB)", {}, "never tested as a store"),
    ],
)
def test_an_unsafe_database_is_named(version: str, changed: dict[int, Any], said: str) -> None:
    """The setting or the program that would lose data is named with its value; a sound database is not refused."""
    from agtphost.stores.postgres.connection import find_fault

    found = find_fault(version, [changed.get(place, value) for place, value in enumerate(GOOD)])
    assert said in found if said else found == ""


@each_row(
    ("more", "said"),
    [
        ("-c synchronous_commit=off", "synchronous_commit is off, and a crash would lose acknowledged records"),
        ("-c synchronous_commit=local", "synchronous_commit is local"),
        ("-c default_transaction_read_only=on", "default_transaction_read_only is on"),
        ("-c default_transaction_isolation=serializable", "default_transaction_isolation is serializable, with which"),
    ],
)
def test_an_unsafe_setting_is_refused_at_connect(
    more: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real session with the setting is refused, by `agtp store init` and by a start; the control lets it in."""
    from agtphost.stores.postgres import connection

    server = postgres.server()
    schema = server.schema(tmp_path / more)
    place_of(server.url(schema)).create("agtp.test")
    unsafe = server.url(schema, more=more)
    for use in (lambda: place_of(unsafe).create("agtp.test"), lambda: opened(unsafe)):
        with pytest.raises(StoreError, match=re.escape(said)):
            use()
    assert server.run(f"SELECT term FROM {schema}.store") == [(0,)], "nothing was changed"
    if "synchronous" in more:
        with monkeypatch.context() as patch:
            patch.setattr(connection, "_check", lambda session: None)
            opened(unsafe).close()


def test_an_unsafe_setting_of_the_server_is_refused(url: str) -> None:
    """``fsync`` off in the server's own configuration."""
    server = postgres.server()
    server.stop()
    server.start(fsync="off")
    try:
        with pytest.raises(StoreError, match="fsync is off"):
            opened(url)
    finally:
        server.stop()
        server.start()
    opened(url).close()


def test_a_database_of_another_encoding_is_refused(tmp_path: Path) -> None:
    """Texts in SQL_ASCII are octets of an unknown meaning."""
    server = postgres.server()
    server.run("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(StoreError, match="encoding is SQL_ASCII; create the database with ENCODING 'UTF8'"):
        place_of(server.url().replace("/postgres?", "/ascii?")).create("agtp.test")


# Which stores are refused


@each_row(
    ("statement", "said"),
    [
        ("UPDATE store SET server_id = 'other.test'", "has the store of the host 'other.test'"),
        ("UPDATE store SET schema = 9, readable_from = 9", "which programs of version 9 and later can use"),
        ("UPDATE store SET schema = 0, readable_from = 0", "agtp store upgrade"),
        ("DELETE FROM store", "Run `agtp store init`"),
        ("DROP TABLE store", "Run `agtp store init`"),
    ],
)
def test_a_store_that_is_not_this_hosts_is_refused(tmp_path: Path, statement: str, said: str) -> None:
    """Another host's store, a later or an earlier schema, no store: each by name."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path / statement))
    place_of(made).create("agtp.test")
    change(made, statement)
    with pytest.raises(StoreError, match=re.escape(said)):
        opened(made)
    with pytest.raises(StoreError, match=re.escape(said)):
        place_of(made).rehearse(create=False, folder=tmp_path, server_id="agtp.test")


def test_a_later_schema_that_this_program_can_use_is_used(url: str) -> None:
    """A store that was upgraded while older hosts run says from which version on it can be used."""
    change(url, f"UPDATE store SET schema = {schema_files.latest() + 1}")
    store = opened(url)
    assert sealed(group_writer(store), draft())
    store.close()


@each_row(
    ("statement", "said"),
    [
        ("UPDATE store SET last = 7", "row 1: last is 7, and the newest record is 2"),
        ("UPDATE store SET last = 1", "row 1: last is 1, and the newest record is 2"),
        ("UPDATE store SET last = 9223372036854775807", "row 1: last is 9223372036854775807, which is out of range"),
        (
            "ALTER TABLE store DROP CONSTRAINT store_last_check; UPDATE store SET last = -1",
            "row 1: last is -1, which is out of range",
        ),
        (
            "ALTER TABLE store ALTER news DROP NOT NULL; UPDATE store SET news = NULL",
            "row 1: news is -1, which is out of range",
        ),
    ],
)
def test_a_row_of_the_store_that_was_edited_is_named_at_a_start(tmp_path: Path, statement: str, said: str) -> None:
    """Negative, NULL, huge, smaller than the records: a start refuses and names the row."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path / statement))
    place_of(made).create("agtp.test")
    store = opened(made)
    sealed(group_writer(store), draft(), draft())
    store.close()
    change(made, *statement.split("; "))
    store = opened(made)
    with pytest.raises(StoreError, match=re.escape(said)):
        group_writer(store)
    store.close()


def test_a_row_of_the_store_that_is_edited_while_a_host_runs_stops_it(url: str, writer: GroupWriter) -> None:
    """Nothing is acknowledged any more, and the row is named; once it is right again, the host goes on."""
    change(url, "UPDATE store SET last = 9, news = news + 1")
    with pytest.raises(StoreError, match="another program wrote to the store"):
        sealed(writer, draft())
    for _ in range(2):
        with pytest.raises(StoreError, match="row 1: last is 9, and the newest record is 2"):
            sealed(writer, draft())
    change(url, "UPDATE store SET last = 2")
    with pytest.raises(ConflictError, match="another program wrote to the store"):
        sealed(writer, draft())
    sealed(writer, draft())


def test_a_database_that_was_restored_to_an_earlier_day_is_noticed(url: str, writer: GroupWriter) -> None:
    """A running host acknowledges nothing on a store with fewer records than it has seen."""
    change(url, "DELETE FROM record WHERE number = 2", "UPDATE store SET last = 1")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"has 1 records, and this host has seen 2: .* `agtp audit accept-store`"):
            sealed(writer, draft())
        with pytest.raises(StoreError, match="accept-store"):
            writer.recover()


# Who holds it


def test_a_host_from_which_another_took_over_cannot_commit(url: str, writer: GroupWriter) -> None:
    """A host that did not write for a while, frozen or cut off, is fenced by the term when it wakes."""
    with pytest.raises(StoreError, match=r"is in use by another host, .*:test\), which wrote [0-9]+ s ago"):
        opened(url, "other")
    change(url, "UPDATE store SET beat = now() - interval '31 seconds'")
    other = opened(url, "other")
    with pytest.raises(StoreError, match=r"was taken over by .*:other\), with term 2; this host had term 1"):
        sealed(writer, draft())
    with pytest.raises(StoreError, match="was taken over"):
        writer.recover()
    sealed(group_writer(other), draft())
    other.close()
    assert place_of(url).describe()["holder"] is None


def test_a_host_that_is_idle_keeps_the_store(url: str, writer: GroupWriter) -> None:
    """Idle work says that the host is there."""
    change(url, "UPDATE store SET beat = now() - interval '31 seconds'")
    writer.tidy()
    with pytest.raises(StoreError, match="is in use by another host"):
        opened(url, "other")


def test_a_host_that_was_killed_takes_its_store_back(url: str) -> None:
    """The same machine and state directory need not wait: the directory's lock shows that the other process is gone."""
    opened(url)
    second = opened(url)
    assert sealed(group_writer(second), draft()), "it need not wait"
    second.close()


# What another writer did


def test_what_another_wrote_is_noticed_also_after_upkeep(url: str) -> None:
    """
    The first transaction after it fails, and the next one reads everything: ``begin`` is True once.

    It is so for one that reads, and for one that only writes; also where probe, forget or a question came between.
    """
    store = opened(url)
    writer = group_writer(store)
    sealed(writer, draft())
    (head,) = (row.audit_id for row in store.heads().values())
    for between in (store.probe, lambda: store.forget(2**40, ()), lambda: store.holds(head), store.tidy):
        for use in (store.last_state_change, store.commit):
            change(url, "UPDATE store SET news = news + 1")
            between()
            assert store.begin() is False
            with pytest.raises(ConflictError, match="another program wrote to the store"):
                use()
            store.rollback()
            assert store.begin() is True
            store.rollback()
            assert store.begin() is False
            store.rollback()
    store.close()


def test_a_begin_that_fails_does_not_hide_what_another_wrote(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sign is kept until a caller has got it."""
    from agtphost.stores.postgres import statements

    store = opened(url)
    with monkeypatch.context() as patch:
        patch.setattr(statements, "READ_ALL", b"SELECT 1 / 0")
        with pytest.raises(StoreError, match="SQLSTATE 22012"):
            store.begin()
    assert store.begin() is True
    store.close()


def test_prepared_statements_that_a_pooler_lost_are_given_up(url: str, writer: GroupWriter) -> None:
    """One group fails where a pooler gave the session to another server process; then nothing is prepared any more."""
    sealed(writer, draft())
    store: Any = writer._store
    store._transactions.session.command(b"DEALLOCATE ALL")
    with pytest.raises(StoreError, match="SQLSTATE 26000"):
        sealed(writer, draft())
    assert not store._transactions.session.prepares, "the writer connected again, and prepares once more"
    store._transactions.session.command(b"DEALLOCATE ALL")
    writer.load()
    sealed(writer, draft())


def test_the_signed_time_never_goes_back(url: str) -> None:
    """A host whose clock is an hour behind signs with the time of the newest record, which the row of the store has."""
    store = opened(url)
    sealed(group_writer(store, now=lambda: 9_000.0), draft())
    (late,) = sealed(group_writer(store, now=lambda: 5_400.0), draft())
    assert late.issued_at == "1970-01-01T02:30:00.000Z"
    store.close()
    assert postgres.server().run("SELECT issued_at FROM store", url=url) == [(9_000_000,)]


# The way to it


def test_no_message_has_the_password() -> None:
    """Neither an error of the connection nor what is printed of an address."""
    place = locate_url("postgresql://agtp@127.0.0.1:1/agtp?connect_timeout=1", "hunter2")
    with pytest.raises(StoreError, match="cannot be reached") as failed:
        place.open_reader()
    assert "hunter2" not in f"{failed.value!r}{place.name}{place._address()!r}"  # type: ignore[attr-defined]


def test_a_server_without_tls_is_refused_beyond_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no ``sslmode`` is written, a server elsewhere has to prove its name."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(8)
                client.sendall(b"N")
                client.recv(1)

        threading.Thread(target=answer, daemon=True).start()
        monkeypatch.setattr("agtphost.vocabulary.database_url.on_this_machine", lambda url: False)
        with pytest.raises(StoreError, match="it has no TLS"):
            place_of(f"postgresql://agtp@127.0.0.1:{listener.getsockname()[1]}/agtp").open_reader()


@each_row(
    ("text", "local", "name", "warned"),
    [
        ("postgresql://agtp@db.example.com/agtp", False, "postgresql://agtp@db.example.com/agtp", False),
        ("postgresql://agtp@db/agtp?sslmode=require", False, "postgresql://agtp@db/agtp", True),
        ("postgresql://agtp@db/agtp?sslmode=verify-full", False, "postgresql://agtp@db/agtp", False),
        ("postgresql://agtp@127.0.0.1:5432/agtp?sslmode=disable", True, "postgresql://agtp@127.0.0.1:5432/agtp", False),
        ("postgresql://agtp@[::1]:5432/agtp", True, "postgresql://agtp@[::1]:5432/agtp", False),
        ("postgresql:///agtp?host=/run/postgresql", True, "postgresql:///run/postgresql/agtp", False),
        ("postgresql://%2Frun%2Fpostgresql/agtp", True, "postgresql://%2Frun%2Fpostgresql/agtp", False),
        ("postgresql://localhost,db/agtp?sslmode=prefer", False, "postgresql://localhost,db/agtp", True),
        ("postgresql://db/agtp?hostaddr=127.0.0.1", True, "postgresql://db/agtp", False),
    ],
)
def test_a_way_that_others_can_pose_on_is_reported(text: str, local: bool, name: str, warned: bool) -> None:
    """An ``sslmode`` weaker than ``verify-full`` to another machine is a warning; a name has no options."""
    assert (database_url.on_this_machine(text), database_url.name_of(text)) == (local, name)
    assert bool(list(place_of(text).warnings())) is warned


# Its tables


def test_the_expected_tables_are_those_of_a_new_store(url: str) -> None:
    """``schema/expected.txt`` is what the schema files make."""
    from agtphost.stores.postgres.rows import describe_schema, read_expected

    store = opened(url)
    assert describe_schema(store._execute) == read_expected()
    store.close()


@pytest.mark.parametrize("more", ["", "-cquote_all_identifiers=on"], ids=["names", "all quoted"])
@pytest.mark.parametrize("name", ['"My Schema"', '"a""b"', '"x ON y USING z"'])
def test_a_schema_may_have_any_name(name: str, more: str) -> None:
    """Spaces and quotes in it are no change of the tables; nor are quotes that the server shows names in."""
    from agtphost.stores.postgres.rows import find_schema_changes

    server = postgres.server()
    server.run(f"DROP SCHEMA IF EXISTS {name} CASCADE", f"CREATE SCHEMA {name}")
    url = server.url(name.replace(" ", "\\ "), more=more)
    place_of(url).create("agtp.test")
    store = opened(url)
    assert list(find_schema_changes(store._execute)) == []
    store.close()
    with place_of(url).read_tables() as read:
        assert list(read("chain")) == []


@each_row(
    ("statement", "row_name", "decides"),
    [
        ("ALTER TABLE record DROP CONSTRAINT record_successor", "constraint record_successor", True),
        ("ALTER TABLE held ENABLE ROW LEVEL SECURITY", "row security", True),
        ("CREATE RULE hide AS ON DELETE TO held DO INSTEAD NOTHING", "rule hide", True),
        ("ALTER TABLE held ALTER value DROP NOT NULL", "table held", True),
        ("CREATE INDEX more ON record (caller)", "index more", False),
        ("DROP TABLE probe", "table probe", True),
    ],
)
def test_tables_of_another_schema_are_noticed(tmp_path: Path, statement: str, row_name: str, decides: bool) -> None:
    """What changes what a statement does is found at a start and by `agtp audit verify`."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path / statement))
    place_of(made).create("agtp.test")
    change(made, statement)
    reader = place_of(made).open_reader()
    with ITableSource(reader).tables() as rows:
        found = [change for change in rows.schema_changes() if change.row == row_name]
    assert found and found[0].decides is decides
    reader.close()


def test_every_column_has_a_comment() -> None:
    """The schema files explain themselves."""
    from agtphost.stores.postgres.schema_files import steps

    for step in steps():
        for line in step.read_text().splitlines():
            if re.match(r"    [a-z_]+ (integer|bigint|bytea|text|timestamptz)\b", line):
                assert " -- " in line, line
