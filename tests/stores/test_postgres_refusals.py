"""
What is answered where a PostgreSQL database is not as a store needs it, or fails while a host runs: with real servers.

Other bad input is in :mod:`tests.stores.test_postgres`, :mod:`tests.cluster.test_standby_host`,
:mod:`tests.config.test_cluster` and :mod:`tests.config.test_broken`.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.logger import capturedLogs, formatEvent, globalLogPublisher

from agtphost.audit.drafts import LedgerUnavailable
from agtphost.stores import StoreError
from agtphost.stores.lease import Holder
from agtphost.stores.postgres.connection import Address, dial
from agtphost.stores.settings import locate_url
from agtphost.vocabulary import database_url
from tests import postgres
from tests.audit.drafting import draft, group_writer, sealed
from tests.audit.test_ledger import running, soon
from tests.measuring import measured
from tests.protocols.authorities import issue
from tests.rows import each_row
from tests.stores.strict_server import CONNECTIONS, POOLER, StrictServer, pooler
from tests.stores.test_postgres import place_of
from tests.stores.test_postgres_failures import check
from tests.system.hosting import free_port

pytestmark = postgres.needed


@pytest.fixture(scope="module")
def strict() -> Iterator[StrictServer]:
    """Provide a second server."""
    with tempfile.TemporaryDirectory(prefix="agtp-pg-") as folder:
        made = StrictServer(Path(folder))
        yield made
        made.stop()


@pytest.fixture
def url(strict: StrictServer, tmp_path: Path) -> str:
    """Provide the URL of a new store, used by a role with no more rights than a store needs."""
    schema = strict.schema(tmp_path)
    place_of(strict.url(schema)).create("agtp.test")
    strict.run(
        f"GRANT USAGE ON SCHEMA {schema} TO plain",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO plain",
    )
    return strict.url(schema, user="plain")


def opened(url: str, holder: str = "test") -> Any:
    """Open a store for writing."""
    return place_of(url).open_store(create=False, holder=holder, server_id="agtp.test")


def refused(url: str, **options: Any) -> str:
    """Return why a store cannot be opened; it is looked at in each way that a host and its commands do."""
    place = locate_url(url, **options)
    uses: list[Callable[[], Any]] = [
        lambda: place.open_store(create=False, holder="test", server_id="agtp.test"),
        lambda: place.create("agtp.test"),
    ]
    said = set()
    for use in uses:
        with pytest.raises(StoreError) as caught:
            use()
        said.add(str(caught.value))
    (one,) = said
    return one


# Databases that cannot be a store


def test_full_page_writes_off_is_refused(strict: StrictServer, url: str) -> None:
    """``full_page_writes`` unsafe: refused, naming setting and value; the same store is used once it is on."""
    strict.reload("SET full_page_writes = off")
    try:
        assert "full_page_writes is off, and a crash would lose acknowledged records" in refused(url)
    finally:
        strict.reload("RESET full_page_writes")
    opened(url).close()


@each_row(
    ("function", "said"),
    [
        ("server_version_num", "it is PostgreSQL 13; use version 14 or later"),
        ("CockroachDB CCL v24.1.0", "it is 'CockroachDB CCL v24.1.0', which was never tested as a store"),
        ("PostgreSQL 11.2-YB-2.21.0.0-b0", "which was never tested as a store"),
    ],
)
def test_a_server_of_an_early_version_or_another_program_is_refused(
    strict: StrictServer, tmp_path: Path, function: str, said: str
) -> None:
    """Version 13, CockroachDB, YugabyteDB: a session whose server gives such an answer is refused by name."""
    schema = strict.schema(tmp_path / function)
    if function == "server_version_num":
        made = (
            f"{schema}.current_setting(name text) RETURNS text RETURN CASE name "
            "WHEN 'server_version_num' THEN '130014' ELSE pg_catalog.current_setting(name) END"
        )
    else:
        made = f"{schema}.version() RETURNS text RETURN '{function}'"
    strict.run(f"CREATE FUNCTION {made}")
    assert said in refused(strict.url(f"{schema},pg_catalog"))


def test_a_replica_is_refused_and_a_synchronous_one_is_demanded(strict: StrictServer, url: str) -> None:
    """
    A replica is no store; ``[store] require_synchronous_standby`` demands one, and its absence is reported.

    The control is the same store without the key: it is used.
    """
    own = place_of(url)
    assert "has no synchronous replica, so a failover can lose acknowledged records" in own.find_risks()[0]
    assert "has no synchronous replica" in refused(url, synchronous=True)
    with strict.replica() as replica:
        options = url.partition("options=")[2]
        assert "is a replica (pg_is_in_recovery)" in refused(
            f"postgresql://plain@/postgres?host={replica.sockets}&port=5433&options={options}"
        )
        strict.reload("SET synchronous_standby_names = '*'")
        watched = strict.url(url.partition("search_path%3D")[2])
        while place_of(watched).find_risks():
            time.sleep(0.01)
        for each in (url, watched):
            store: Any = locate_url(each, synchronous=True).open_store(create=False, holder="test")
            sealed(group_writer(store), draft())
            store.close()
    try:
        (risk,) = place_of(watched).find_risks()
        assert "waits for a synchronous replica, and none is connected" in risk
        assert "none is connected" in refused(watched, synchronous=True)
        assert own.find_risks() == [], "a role that may not see replicas has the setting alone"
    finally:
        strict.reload("RESET synchronous_standby_names")


def test_of_several_servers_the_one_that_takes_writes_is_read(strict: StrictServer, url: str) -> None:
    """A replica may lack the newest records, so it is read only where no other server is there."""
    options, other = url.partition("options=")[2], free_port()
    ports, own = f"{other},{strict.port}", "127.0.0.1"
    with strict.replica(listen_addresses=own, port=f"{other}") as replica:
        for place, is_replica in (
            (f"host={replica.sockets},{strict.sockets}", False),
            (f"host={replica.sockets},/nowhere", True),
            (f"hostaddr={own},{own}&sslmode=require", False),
        ):
            found = f"postgresql://plain@/postgres?{place}&port={ports}&options={options}"
            with closing(dial(Address(url=found), writer=False)) as session:
                assert session.execute("SELECT pg_is_in_recovery()").fetchone() == (is_replica,)


# The way to the database


@each_row(
    ("user", "database", "password", "said"),
    [
        ("secret", "postgres", "hunter3", "the password is wrong or missing; correct [store] password"),
        ("secret", "postgres", None, "it wants a password; give it in [store] password"),
        ("secret", "nothing", "hunter2", "the server has no database nothing; create it"),
        ("nobody", "postgres", None, "the server does not admit this user from here"),
    ],
)
def test_a_way_that_the_server_refuses_is_explained(
    strict: StrictServer, user: str, database: str, password: str | None, said: str
) -> None:
    """Wrong or missing password, missing database, unknown user: what to correct, and no word of the password."""
    text = refused(strict.remote(user=user, database=database, options="sslmode=require"), password=password)
    assert "cannot be reached: " + said in text
    assert "hunter" not in text


def test_a_right_password_is_taken_and_shown_nowhere(strict: StrictServer) -> None:
    """The control of the test before; no line of the server's process list, or of its log, has the password."""
    place = locate_url(strict.remote(user="secret", options="sslmode=require"), "hunter2")
    with pytest.raises(StoreError, match="has no store") as failed:
        place.open_reader()
    assert "hunter2" not in f"{failed.value!r}{place!r}{place.name}"
    assert b"hunter2" not in Path("/proc/self/cmdline").read_bytes() + strict.log.read_bytes()


@each_row(
    ("command", "rights", "said"),
    [
        ("create", None, "has no such schema, or the user no right on it; create it, grant the user CREATE and USAGE"),
        ("open", None, "has no store that this user may use"),
        ("create", "USAGE", "the user has no right"),
    ],
)
def test_a_user_without_rights_is_told_what_to_grant(
    strict: StrictServer, tmp_path: Path, command: str, rights: str | None, said: str
) -> None:
    """
    A schema on which the user has no right looks to it like none: the message names the right too.

    It said to create the schema, and to make an empty store, which an operator must not do whose store is there.
    """
    schema = strict.schema(tmp_path / f"{command}{rights}")
    strict.run(f"REVOKE ALL ON SCHEMA {schema} FROM plain", f"REVOKE ALL ON SCHEMA {schema} FROM public")
    if rights:
        strict.run(f"GRANT {rights} ON SCHEMA {schema} TO plain")
    place = place_of(strict.remote(options=f"sslmode=require&options=-csearch_path%3D{schema}"))
    with pytest.raises(StoreError) as caught:
        place.create("agtp.test") if command == "create" else place.open_reader()
    assert said in str(caught.value)


def test_the_certificate_of_the_server_is_verified(strict: StrictServer, tmp_path: Path) -> None:
    """TLS: a server without it, one of another name, an expired one, one of another authority are refused."""
    options = f"sslmode=verify-full&sslrootcert={strict.authority}"
    stranger = issue(name="stranger", authority=True)

    def answer() -> str:
        with pytest.raises(StoreError) as caught:
            place_of(strict.remote(options=options)).open_reader()
        return str(caught.value)

    assert "has no store" in answer(), "the control: a right certificate is taken"
    try:
        for changed, said in (
            ({"name": "db.example.com"}, "its certificate is for another name; correct the host in [store] url"),
            ({"expired": True}, "its certificate has expired or is not trusted; renew it, or name its authority"),
            ({"root": stranger}, "its certificate has expired or is not trusted; renew it, or name its authority"),
        ):
            strict.certify(**changed)  # type: ignore[arg-type]
            strict.reload()
            assert f"cannot be reached: {said}" in answer()
        with pytest.MonkeyPatch.context() as patch:
            # Where no way is written, the server of another machine has to prove its name by a public authority.
            patch.setattr(database_url, "on_this_machine", lambda url: False)
            options = ""
            assert "its certificate has expired or is not trusted; renew it, or name its authority" in answer()
        strict.reload("SET ssl = off")
        options = f"sslmode=verify-full&sslrootcert={strict.authority}"
        assert "cannot be reached: it has no TLS, which a database on another machine needs" in answer()
    finally:
        strict.certify()
        strict.reload("SET ssl = on")


# A database that fails while a host runs


@contextmanager
def logged() -> Iterator[list[str]]:
    """Collect the lines of the log about the store."""
    lines: list[str] = []

    def observe(event: Any) -> None:
        if event["log_level"].name == "error":
            lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        yield lines
    finally:
        globalLogPublisher.removeObserver(observe)


Outage = Callable[[StrictServer, str], Any]
"""Makes the database fail, until the context ends."""


@contextmanager
def no_right(strict: StrictServer, schema: str) -> Iterator[None]:
    """The role loses its right on a table."""
    strict.run(f"REVOKE INSERT ON {schema}.record FROM plain")
    yield
    strict.run(f"GRANT INSERT ON {schema}.record TO plain")


@contextmanager
def read_only(strict: StrictServer, schema: str) -> Iterator[None]:
    """Transactions of every session only read by default."""
    strict.reload("SET default_transaction_read_only = on")
    yield
    strict.reload("RESET default_transaction_read_only")


FILE = 1 << 20
"""Octets of the table's file when the disk is full: more than a file of the write-ahead log has, which still grows."""


@contextmanager
def disk_full(strict: StrictServer, schema: str) -> Iterator[None]:
    """The server's disk takes no more of the table of records."""
    strict.run(
        f"INSERT INTO {schema}.chain VALUES (99, '\\x99')",
        f"INSERT INTO {schema}.record SELECT 9000 + n, 99, n, '\\x', n, 0, 0, 0, 0, '', '', '', "
        f"decode(repeat('00', 1850), 'hex') FROM generate_series(1, {FILE // 8192 * 4}) AS n",
        f"DELETE FROM {schema}.record WHERE chain = 99",
        f"DELETE FROM {schema}.chain WHERE number = 99",
    )
    # A page more would be written in part, which is what a full disk looks like.
    (size,) = strict.run(f"SELECT pg_relation_size('{schema}.record')")[0]
    with strict.full_disk(size + 100):
        yield


@contextmanager
def no_connection(strict: StrictServer, schema: str) -> Iterator[None]:
    """The server has no connection left for a host whose own has ended."""
    import psycopg

    with ExitStack() as stack:
        strict.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'agtphost/%'")
        with pytest.raises(psycopg.OperationalError):
            for _ in range(CONNECTIONS):
                stack.enter_context(closing(psycopg.connect(strict.url(user="plain"))))
        yield


@pytest.mark.parametrize(
    ("outage", "state"),
    [(no_right, "42501"), (read_only, "25006"), (disk_full, "53100"), (no_connection, "53300")],
    ids=["right", "read only", "disk", "connections"],
)
@measured
@pytest_twisted.ensureDeferred
async def test_an_outage_is_503_within_a_second_and_is_over_unaided(
    strict: StrictServer, url: str, tmp_path: Path, outage: Outage, state: str
) -> None:
    """A missing right, read-only transactions, a full disk, no connection left: one line with the SQLSTATE."""
    acknowledged = []
    with logged() as lines:
        async with running(opened(url), probe_seconds=0.05) as ledger:
            acknowledged.append(await ledger.submit(draft()))
            with outage(strict, strict.schema(tmp_path)):
                began = time.monotonic()
                with pytest.raises(LedgerUnavailable, match=f"SQLSTATE {state}"):
                    await ledger.submit(draft())
                assert time.monotonic() - began < 1
                await deferLater(reactor, 0.2)  # type: ignore[arg-type]
                with pytest.raises(LedgerUnavailable):
                    await ledger.submit(draft())
                assert not ledger.healthy, "the database fails still"
            await soon(lambda: ledger.healthy)
            acknowledged.append(await ledger.submit(draft()))
    (line,) = (line for line in lines if "SQLSTATE" in line)
    assert "the store does not take records: " in line and f"(SQLSTATE {state})" in line
    check(url, [each.audit_id for each in acknowledged])


@each_row(
    ("statement", "said"),
    [
        ("UPDATE {}.store SET last = 1", "has 1 records, and this host has seen 2"),
        ("UPDATE {}.store SET last = 9, news = news + 1", "table store, row 1: last is 9, and the newest record is 2"),
        ("UPDATE {}.store SET last = 9223372036854775807", "table store, row 1: last is 9223372036854775807, which is"),
        ("UPDATE {}.store SET issued_at = 9223372036854775807", "row 1: issued_at is 9223372036854775807, which is"),
        ("ALTER TABLE {0}.store DROP CONSTRAINT store_last_check; UPDATE {0}.store SET last = -1", "last is -1, which"),
        (
            "ALTER TABLE {0}.store ALTER last DROP NOT NULL; UPDATE {0}.store SET last = NULL",
            "row 1: last is -1, which",
        ),
        (
            "ALTER TABLE {0}.store ALTER term DROP NOT NULL; UPDATE {0}.store SET term = NULL",
            "row 1: term is -1, which",
        ),
        ("DELETE FROM {}.store", "table store, row 1: is not there"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_a_row_of_the_store_that_is_edited_while_a_host_runs_is_named(
    strict: StrictServer, tmp_path: Path, statement: str, said: str
) -> None:
    """Negative, NULL, huge, smaller than the records, gone: the ledger is down, and the row is named."""
    schema = strict.schema(tmp_path / statement)
    made = strict.url(schema)
    place_of(made).create("agtp.test")
    async with running(opened(made), probe_seconds=0.05) as ledger:
        await ledger.submit(draft())
        await ledger.submit(draft())
        strict.run(*statement.format(schema).split("; "))
        with pytest.raises(LedgerUnavailable, match=re.escape(said)):
            await ledger.submit(draft())
        with pytest.raises(LedgerUnavailable):
            await ledger.submit(draft())
        assert not ledger.healthy


def test_a_host_that_may_end_no_session_takes_the_lease(strict: StrictServer, url: str) -> None:
    """The sessions of a host that froze within a message are not ended then, and the log says why."""
    function = "FUNCTION pg_terminate_backend(int, bigint)"
    strict.run(f"REVOKE EXECUTE ON {function} FROM public")
    try:
        with capturedLogs() as logged:
            store = opened(url)
            writer = group_writer(store)
            sealed(writer, draft())
            store.reopen()
            sealed(writer, draft())
            store.close()
        texts = [formatEvent(event) for event in logged]
        assert len(texts) == 2 and all("SQLSTATE 42501" in text for text in texts), texts
    finally:
        strict.run(f"GRANT EXECUTE ON {function} TO public")


# A connection pooler


@pytest.mark.skipif(POOLER is None, reason="no pgbouncer here: apt-get install pgbouncer")
@pytest.mark.parametrize("aware", [True, False], ids=["store", "control"])
def test_a_pooler_in_transaction_mode_works(strict: StrictServer, monkeypatch: pytest.MonkeyPatch, aware: bool) -> None:
    """
    Each transaction may have another session of the server: nothing is prepared, and nothing of a session relied on.
    A standby, which would hear nothing, says so and looks.

    The control prepares its statements, as without a pooler: a group fails in another session of the server.
    """
    import psycopg

    if not aware:
        monkeypatch.setattr("agtphost.stores.postgres.connection._note_pooler", lambda session, connection: None)
    with pooler(strict) as url:
        try:
            place_of(url).create("agtp.test")
            store = opened(url)
            writer = group_writer(store)
            acknowledged = []

            def write() -> None:
                for _ in range(3):
                    acknowledged.extend(each.audit_id for each in sealed(writer, draft(), draft()))
                    writer.tidy()
                    assert store.holds(bytes.fromhex(acknowledged[-1]))

            write()
            # The sessions of the server that were used up to now are taken by other clients.
            with psycopg.connect(url, prepare_threshold=None) as one:
                one.execute("SELECT 1")
                if not aware:
                    with pytest.raises(StoreError, match="SQLSTATE 26000"):
                        write()
                    return
                write()
                with psycopg.connect(url, prepare_threshold=None) as two:
                    two.execute("SELECT 1")
                    write()
            write()
            reader = store.reader()
            assert [reader.record(each).audit_id for each in acknowledged] == acknowledged  # type: ignore[union-attr]
            reader.close()
            other = place_of(url).lease(Holder(name="b", machine="m", directory="/b"), "agtp.test")
            with capturedLogs() as events:
                other.listen(lambda: pytest.fail("a session of the pooler cannot hear"))
                listener = other._listener
                listener._thread.join(60)
            assert not listener._thread.is_alive()
            (line,) = map(formatEvent, events)
            assert line.endswith(
                "is behind a pooler, where a standby cannot hear that the lease is given up; it looks every half second"
            )
            assert not other.take()
            store.close()
            assert other.take()
            other.give_up()
            check(url, acknowledged)
        finally:
            strict.run("DROP DATABASE pooled WITH (FORCE)")
