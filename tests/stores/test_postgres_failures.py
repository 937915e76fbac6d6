"""A PostgreSQL store whose sessions are killed, whose answers are lost, and whose server stops: nothing is lost."""

from __future__ import annotations

import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.logger import capturedLogs, formatEvent

from agtphost.audit.drafts import LedgerUnavailable
from agtphost.audit.verify import verify_records
from agtphost.audit.writer import GroupWriter
from agtphost.stores import Selection, StoreError
from agtphost.stores.rows import CheckpointRow, ConflictError
from tests import postgres
from tests.audit.drafting import KEYS, draft, group_writer, sealed
from tests.audit.test_ledger import running, soon
from tests.programmes import length, seed_of_chance
from tests.stores.postgres_proxy import Proxy
from tests.stores.test_postgres import place_of
from tests.system.hosting import until

pytestmark = postgres.needed

KILLS, CUTS, STOPS = length(12, 200), length(8, 200), length(1, 20)

SLOW_COMMIT = """
CREATE FUNCTION {schema}.dawdle() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON {schema}.record DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION {schema}.dawdle()
"""
"""Has each COMMIT of a record take 0.3 s at the server."""

ENDS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'agtphost/%'"
"""Kills the sessions of every store."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Provide the URL of a new store."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path))
    place_of(made).create("agtp.test")
    return made


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Provide a proxy in front of the server."""
    with tempfile.TemporaryDirectory(prefix="agtp-pg-") as own:
        made = Proxy(postgres.server().folder, Path(own))
        yield made
        made.close()


def opened(url: str, kind: type[Any] | None = None) -> Any:
    """Open a store, of another class where one is given."""
    store: Any = place_of(url).open_store(create=False, holder="test", server_id="agtp.test")
    if kind is not None:
        store.__class__ = kind
    return store


def through(url: str, proxy: Proxy) -> str:
    """Return a URL that leads through a proxy."""
    return url.replace(f"host={postgres.server().folder}", f"host={proxy.folder}")


def recovered(writer: GroupWriter, seconds: float = 30.0) -> float:
    """Recover as the ledger does; return how many seconds that took."""
    began = time.monotonic()
    while True:
        try:
            writer.recover()
            return time.monotonic() - began
        except StoreError:
            assert time.monotonic() - began < seconds
            time.sleep(0.05)


def check(url: str, acknowledged: list[str]) -> None:
    """Assert that every acknowledged record is there once, and that chains and numbers have neither fork nor gap."""
    reader = place_of(url).open_reader()
    found = [record.audit_id for record in reader.records(Selection())]
    assert verify_records(reader.records(Selection()), KEYS).ok
    assert len(found) == len(set(found)) == len(list(reader.every_audit_id()))
    assert [each for each in acknowledged if each not in set(found)] == [], "acknowledged, and not stored"
    assert list(reader.faults()) == []
    reader.close()


def killed(url: str, times: int) -> list[str]:
    """Write groups while the sessions are killed, and return what was acknowledged."""
    chance = random.Random(seed_of_chance())
    writer = group_writer(opened(url))
    acknowledged: list[str] = []
    for _ in range(times):
        killer = threading.Timer(chance.uniform(0, 0.03), lambda: postgres.server().run(ENDS))
        killer.start()
        while killer.is_alive():
            try:
                acknowledged += [each.audit_id for each in sealed(writer, draft(), draft())]
            except StoreError:
                recovered(writer)
        killer.join()
    # The last kill may show now.
    for _ in range(2):
        try:
            acknowledged += [each.audit_id for each in sealed(writer, draft())]
            break
        except StoreError:
            recovered(writer)
    writer._store.close()
    return acknowledged


@pytest.mark.programme
def test_killed_sessions_lose_nothing(url: str) -> None:
    """Whenever the server ends a session, what was acknowledged is stored, once."""
    acknowledged = killed(url, KILLS)
    assert len(acknowledged) > 2 * KILLS
    check(url, acknowledged)


def test_control_an_answer_before_the_commit_loses_records(url: str) -> None:
    """The control: a store that acknowledges first and commits with the next group loses some."""
    from agtphost.stores.postgres import statements
    from agtphost.stores.postgres.transactions import Transactions

    class Early(Transactions):
        def commit(self) -> None:
            known = self._known
            assert known is not None
            moved = self.last, self.issued_at, known.news + 1
            self.execute(statements.MOVE_STORE, moved)
            self._known = statements.Begun(*moved, known.term, known.holder)
            self.committed = self.last

        def _lock(self) -> statements.Begun:
            if self.session.in_transaction:
                self.session.command(b"COMMIT")
            return super()._lock()

    store = opened(url)
    store._transactions.__class__ = Early
    writer = group_writer(store)
    acknowledged = [each.audit_id for _ in range(3) for each in sealed(writer, draft())]
    postgres.server().run(ENDS)
    with pytest.raises(StoreError, match="restored to an earlier state"):
        sealed(writer, draft())
    with pytest.raises(AssertionError, match="acknowledged, and not stored"):
        check(url, acknowledged)


def is_commit(octets: bytes) -> bool:
    """Return whether a client commits records: a prepared statement, which changes the store's row, goes with it."""
    return b"COMMIT" in octets and b"agtphost_" in octets


@pytest.mark.programme
def test_a_lost_answer_to_commit_is_found_out(url: str, proxy: Proxy) -> None:
    """Where the connection ends within COMMIT, the writer learns that the group is stored, and acknowledges it once."""
    hows = [("drop", "answered")[number % 2] for number in range(CUTS)]
    writer = group_writer(opened(through(url, proxy)))
    acknowledged: list[str] = []
    for number, how in enumerate(hows):
        acknowledged += [each.audit_id for each in sealed(writer, draft())]
        once = iter([how])
        proxy.cut = lambda octets, once=once: next(once, "") if is_commit(octets) else ""  # type: ignore[misc]
        acknowledged += [each.audit_id for each in sealed(writer, draft(), draft())]
        assert proxy.cuts == number + 1
    assert len(acknowledged) == 3 * CUTS
    writer._store.close()  # type: ignore[attr-defined]
    check(url, acknowledged)


def test_a_lost_answer_without_a_record_has_the_store_read_again(url: str, proxy: Proxy) -> None:
    """No record tells whether the transaction of a checkpoint is stored, so nothing in memory counts any more."""
    store = opened(through(url, proxy))
    sealed(group_writer(store), draft())
    once = iter(["answered"])
    proxy.cut = lambda octets: next(once, "") if is_commit(octets) else ""
    assert not store.begin()
    store.put_checkpoint(CheckpointRow(1, 0, "note", 0))
    with pytest.raises(StoreError):
        store.commit()
    store.rollback()
    assert store.begin()
    assert store.checkpoint().note == "note"
    store.rollback()
    store.close()


@pytest.mark.parametrize("control", [False, True], ids=["", "control"])
def test_a_commit_that_arrives_late_is_refused(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, control: bool
) -> None:
    """
    The network keeps the message of a group; the host learns that the record is not there, and it stays away.

    The control only asks, and the record comes after the host has answered that it is not stored.
    """
    if control:
        monkeypatch.setattr("agtphost.stores.postgres.transactions.Transactions.exclude_late", lambda each: None)
    writer = group_writer(opened(through(url, proxy)))
    (first,) = sealed(writer, draft())
    once = iter(["late"])
    proxy.cut = lambda octets: next(once, "") if is_commit(octets) else ""
    reader = place_of(url).open_reader()
    # A message whose connection ends within a moment is sent again; this one counts as having taken longer.
    monkeypatch.setattr("agtphost.stores.postgres.connection.ALIVE_AFTER", -1.0)
    with pytest.raises(StoreError):
        sealed(writer, draft())
    assert proxy.cuts == 1
    proxy.release.set()
    if control:
        until(lambda: len(list(reader.every_audit_id())) == 2)
    else:
        assert proxy.refused.acquire(timeout=60)
        assert [each.hex() for each in reader.every_audit_id()] == [first.audit_id]
        writer.recover()
        sealed(writer, draft())
        check(url, [first.audit_id])
    reader.close()
    writer._store.close()  # type: ignore[attr-defined]


def test_a_group_that_is_sent_again_is_stored_once(url: str, proxy: Proxy) -> None:
    """The connection ends as the message is sent: a new one sends it again, and the old message comes too late."""
    writer = group_writer(opened(through(url, proxy)))
    (first,) = sealed(writer, draft())
    once = iter(["late"])
    proxy.cut = lambda octets: next(once, "") if is_commit(octets) else ""
    (second,) = sealed(writer, draft())
    assert proxy.cuts == 1
    proxy.release.set()
    assert proxy.refused.acquire(timeout=60)
    writer._store.close()  # type: ignore[attr-defined]
    check(url, [first.audit_id, second.audit_id])


WAITS = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'agtphost/%'"


@contextmanager
def absent_replica() -> Iterator[None]:
    """Let each COMMIT at the server wait for a synchronous replica that does not exist."""
    server = postgres.server()
    server.run("ALTER SYSTEM SET synchronous_standby_names = 'absent'", "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        server.run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


def begin_wait(pool: ThreadPoolExecutor, work: Callable[[], Any]) -> Future[Any]:
    """Repeat a function in a thread, until it waits for a replica: a server takes a moment to know its setting."""

    def begin() -> Future[Any]:
        begun = pool.submit(work)
        until(lambda: begun.done() or postgres.server().run(WAITS))
        return begun

    while (begun := begin()).done():
        pass
    return begun


def test_a_commit_that_no_longer_waits_for_its_replica_is_not_acknowledged(url: str) -> None:
    """
    ``pg_cancel_backend`` ends the wait: the server says COMMIT and warns that the replica may lack it.

    A failover would lose the record. So the store is asked again, which waits for the replica, too.
    """
    server = postgres.server()
    writer = group_writer(opened(url))
    with ThreadPoolExecutor() as pool:
        with absent_replica():
            begun = begin_wait(pool, lambda: sealed(writer, draft()))
            ((first,),) = server.run(WAITS)
            server.run(f"SELECT pg_cancel_backend({first})")
            until(lambda: begun.done() or server.run(f"{WAITS} AND pid <> {first}"))
            assert not begun.done(), "acknowledged, and on one machine alone"
        (one,) = begun.result()
    writer._store.close()  # type: ignore[attr-defined]
    check(url, [one.audit_id])


def slow_commit(url: str, tmp_path: Path) -> None:
    server = postgres.server()
    schema = server.schema(tmp_path)
    for statement in SLOW_COMMIT.format(schema=schema).split(";\nCREATE"):
        server.run(statement if statement.startswith("\nCREATE") else f"CREATE{statement}")


def test_a_commit_that_still_runs_is_waited_for(url: str, proxy: Proxy, tmp_path: Path) -> None:
    """The connection is gone and the server still carries COMMIT out: the question waits for it, under the lock."""
    slow_commit(url, tmp_path)
    writer = group_writer(opened(through(url, proxy)))
    once = iter(["drop"])
    proxy.cut = lambda octets: next(once, "") if is_commit(octets) else ""
    (one,) = sealed(writer, draft())
    writer._store.close()  # type: ignore[attr-defined]
    check(url, [one.audit_id])


def test_control_a_question_without_the_lock_is_answered_wrong(url: str, proxy: Proxy, tmp_path: Path) -> None:
    """The control: a plain SELECT says that the group is not stored, and a moment later it is."""
    from agtphost.stores.postgres.reading import FIND
    from agtphost.stores.postgres.writing import PostgresStore

    class Hasty(PostgresStore):
        def holds(self, audit_id: bytes) -> bool:
            return self._execute(FIND, (audit_id, audit_id)).fetchone() is not None

    slow_commit(url, tmp_path)
    writer = group_writer(opened(through(url, proxy), Hasty))
    once = iter(["drop"])
    proxy.cut = lambda octets: next(once, "") if is_commit(octets) else ""
    with pytest.raises(StoreError):
        sealed(writer, draft())
    recovered(writer)
    reader = place_of(url).open_reader()
    assert len(list(reader.records(Selection()))) == 1, "refused, and stored all the same"
    reader.close()
    writer._store.close()  # type: ignore[attr-defined]


@pytest.mark.programme
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_a_stopped_server_loses_nothing(url: str, how: signal.Signals) -> None:
    """The writer recovers unaided when the server is back, and continues where the last acknowledged record is."""
    server = postgres.server()
    writer = group_writer(opened(url))
    acknowledged: list[str] = []
    for _ in range(STOPS):
        acknowledged += [each.audit_id for each in sealed(writer, draft())]
        server.stop(how)
        with pytest.raises(StoreError):
            sealed(writer, draft())
        server.start()
        assert recovered(writer) < 5
        acknowledged += [each.audit_id for each in sealed(writer, draft())]
    writer._store.close()  # type: ignore[attr-defined]
    check(url, acknowledged)


def test_a_server_that_does_not_answer_is_given_up(url: str, proxy: Proxy) -> None:
    """A connection that is there and silent ends after the time that a statement may take, and a little more."""
    store = opened(through(url, proxy))
    writer = group_writer(store)
    sealed(writer, draft())
    assert store._transactions.session.patience == 7
    store._transactions.session.patience = 0.3
    once = iter(["silence"])
    proxy.cut = lambda octets: next(once, "") if octets.startswith(b"Q") and b"FOR UPDATE" in octets else ""
    writer._store._transactions.forget()  # type: ignore[attr-defined]
    began = time.monotonic()
    sealed(writer, draft())
    assert proxy.cuts == 1 and time.monotonic() - began > 0.3
    store.close()


def fail_with(url: str, tmp_path: Path, state: str) -> Callable[[], None]:
    """Have each INSERT of a record fail with an SQLSTATE; return what ends that."""
    server = postgres.server()
    schema = server.schema(tmp_path)
    server.run(
        f"CREATE FUNCTION {schema}.fail() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'no luck' USING ERRCODE = '{state}'; END $$",
        f"CREATE TRIGGER fail BEFORE INSERT ON {schema}.record FOR EACH ROW EXECUTE FUNCTION {schema}.fail()",
    )
    return lambda: server.run(f"DROP TRIGGER fail ON {schema}.record") and None


@pytest.mark.parametrize("state", ["53100", "53300", "42501", "25006", "57014"])
@pytest_twisted.ensureDeferred
async def test_a_database_that_takes_nothing_is_503_and_comes_back(url: str, tmp_path: Path, state: str) -> None:
    """A full disk, too few connections, a missing right: unhealthy, the SQLSTATE is named, and it recovers unaided."""
    async with running(opened(url), probe_seconds=0.05) as ledger:
        await ledger.submit(draft())
        end = fail_with(url, tmp_path, state)
        with pytest.raises(LedgerUnavailable, match=f"SQLSTATE {state}"):
            await ledger.submit(draft())
        with pytest.raises(LedgerUnavailable):
            await ledger.submit(draft())
        end()
        await soon(lambda: ledger.healthy)
        await ledger.submit(draft())


@pytest_twisted.ensureDeferred
async def test_what_follows_a_failure_is_reported_too(url: str, tmp_path: Path) -> None:
    """A database that is away at first may come back without the newest records: the log says each, once."""
    with capturedLogs() as events:
        async with running(opened(url), probe_seconds=0.05) as ledger:
            await ledger.submit(draft())
            end = fail_with(url, tmp_path, "57P01")
            with pytest.raises(LedgerUnavailable):
                await ledger.submit(draft())
            postgres.server().run("UPDATE store SET last = 0", url=url)

            def lines() -> list[str]:
                return [line for line in map(formatEvent, events) if "the store does not take records" in line]

            await soon(lambda: len(lines()) > 1)
            end()
            postgres.server().run("UPDATE store SET last = 1", url=url)
            await soon(lambda: ledger.healthy)
    first, second = lines()
    assert "57P01" in first and "has 0 records, and this host has seen 1: the database was restored" in second


@pytest_twisted.ensureDeferred
async def test_a_conflict_is_repeated(url: str, tmp_path: Path) -> None:
    """A serialization failure or deadlock concerns no caller: the same group is written again."""
    server, schema = postgres.server(), postgres.server().schema(tmp_path)
    server.run(f"CREATE SEQUENCE {schema}.attempt")
    async with running(opened(url)) as ledger:
        await ledger.submit(draft())
        server.run(
            f"CREATE FUNCTION {schema}.once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF nextval('{schema}.attempt') = 1 THEN RAISE EXCEPTION 'met' USING ERRCODE = '40P01'; END IF; "
            "RETURN NEW; END $$",
            f"CREATE TRIGGER once BEFORE INSERT ON {schema}.record FOR EACH ROW EXECUTE FUNCTION {schema}.once()",
        )
        again = await ledger.submit(draft())
        assert ledger.healthy
    check(url, [again.audit_id])
    assert issubclass(ConflictError, StoreError)


def test_readers_and_idle_hosts_connect_again(url: str) -> None:
    """After the server ended every session, a read succeeds, and an idle host says again that it is there."""
    store = opened(url)
    writer = group_writer(store)
    (one,) = sealed(writer, draft())
    reader = store.reader()
    assert reader.record(one.audit_id) is not None
    server = postgres.server()
    server.run(ENDS)
    assert reader.record(one.audit_id) is not None
    with pytest.raises(StoreError):
        writer.tidy()
    server.run("UPDATE store SET beat = now() - interval '1 hour'", url=url)
    writer.tidy()
    assert server.run("SELECT beat > now() - interval '1 minute' FROM store", url=url) == [(True,)]
    reader.close()
    store.close()


@pytest_twisted.ensureDeferred
async def test_a_session_that_ended_while_idle_fails_no_call(url: str) -> None:
    """A server that was restarted between two calls: the next call finds a new connection."""
    async with running(opened(url)) as ledger:
        one = await ledger.submit(draft())
        postgres.server().run(ENDS)
        await deferLater(reactor, 0.1)  # type: ignore[arg-type]
        two = await ledger.submit(draft())
        assert ledger.healthy
    check(url, [one.audit_id, two.audit_id])
