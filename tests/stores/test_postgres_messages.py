"""Which messages a transaction of the PostgreSQL store takes, and what becomes of statements that wait for the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from psycopg import connect

from agtphost.stores import StoreError
from agtphost.stores.postgres import statements
from agtphost.stores.postgres.pipeline import MOST_PREPARED, Pipeline
from agtphost.stores.postgres.statements import FEW, PUT_ITEMS
from agtphost.stores.rows import FACET, ConflictError, ItemRow, ReservationRow
from agtphost.testing.stores import row
from tests import postgres
from tests.audit.drafting import draft, group_writer, sealed
from tests.stores.test_postgres import change, opened
from tests.stores.test_postgres import url as url

pytestmark = postgres.needed

CHAIN = "ab" * 32


def reservation(name: bytes) -> ReservationRow:
    return ReservationRow(name * 32, b"d" * 32, 1, None)


def noted(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return a list that gets the first word of each statement of each message to the server."""
    said: list[list[str]] = []

    def note(name: str, *texts: str) -> Callable[..., Any]:
        said.append([text.split()[0] for text in texts])
        return kept[name]

    session = store._transactions.session
    kept: dict[str, Callable[..., Any]] = {
        name: getattr(session, name) for name in ("command", "execute", "run_together")
    }
    monkeypatch.setattr(session, "command", lambda octets: note("command", octets.decode())(octets))
    monkeypatch.setattr(session, "execute", lambda text, values=(): note("execute", text)(text, values))
    monkeypatch.setattr(session, "run_together", lambda many: note("run_together", *(each for each, _ in many))(many))
    return said


def test_a_group_of_plain_records_takes_one_round_trip(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One message: the row of the store, which is the lock; records with their index; COMMIT."""
    with closing(opened(url)) as store:
        writer = group_writer(store)
        sealed(writer, draft())
        said = noted(store, monkeypatch)
        for many in (1, 64):
            said.clear()
            sealed(writer, *(draft() for _ in range(many)))
            assert said == [["BEGIN", "WITH", "WITH", "COMMIT"]]


def test_a_transaction_reads_what_it_wrote(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows wait for the next message, so a read sends them first; a rollback forgets them."""
    with closing(opened(url)) as store:
        said = noted(store, monkeypatch)
        store.begin()
        number = store.chain_number(CHAIN)
        store.append([row(1, number, 1, 0)])
        said.clear()
        store.put_reservations([reservation(b"n")])
        assert not said
        assert set(store.reservations([b"n" * 32])) == {b"n" * 32}
        assert said == [["WITH", "INSERT"], ["SELECT"]]
        store.put_reservations([reservation(b"m")])
        store.rollback()
        store.begin()
        store.commit()
        assert store.reservations([b"n" * 32, b"m" * 32]) == {}
        assert store.last_number() == 0


@pytest.mark.parametrize("end", ["rollback", "reopen"])
def test_nothing_of_a_transaction_outlives_its_end(url: str, end: str) -> None:
    """What waits to be sent is forgotten, and no later read or transaction sends it."""
    with closing(opened(url)) as store:
        sealed(group_writer(store), draft())
        assert not store.begin()
        store.put_reservations([reservation(b"n")])
        getattr(store, end)()
        assert not store._transactions.is_open
        assert store.begin() == (end == "reopen")
        store.commit()
        assert store.reservations([b"n" * 32]) == {}
        assert not store._transactions.is_open


@pytest.mark.parametrize("reads", [True, False], ids=["reads", "writes"])
def test_a_transaction_meets_what_another_program_wrote(url: str, reads: bool) -> None:
    """It fails at its first read, or at its end where it has none; the next one reads everything."""
    with closing(opened(url)) as store:
        sealed(group_writer(store), draft())
        assert not store.begin()
        store.put_reservations([reservation(b"n")])
        change(url, statements.COUNT_NEWS)
        with pytest.raises(ConflictError):
            store.last_state_change() if reads else store.commit()
        assert store._transactions.is_open == reads
        store.rollback()
        assert store.begin()
        assert store.reservations([b"n" * 32]) == {}
        store.rollback()


def test_a_transaction_finds_its_own_record(url: str) -> None:
    """The question is part of the transaction, although nothing of it was sent before."""
    with closing(opened(url)) as store:
        sealed(group_writer(store), draft())
        store.begin()
        assert not store.holds(bytes(32))
        store.put_reservations([reservation(b"n")])
        store.rollback()
        assert store.reservations([b"n" * 32]) == {}
        assert not store.begin()
        store.rollback()


def test_upkeep_that_fails_leaves_no_transaction_open(url: str) -> None:
    """The next group is written as if nothing had happened."""
    with closing(opened(url)) as store:
        writer = group_writer(store)
        sealed(writer, draft())
        with pytest.raises(StoreError, match="SQLSTATE 22012"), store._own_transaction():
            store._execute("SELECT 1 / 0")
        assert not store._transactions.is_open
        sealed(writer, draft())


def test_a_record_that_is_not_there_has_the_store_read_again(url: str) -> None:
    """The answer changes the row of the store, so that a late message fails; what the host knew of it is over."""
    with closing(opened(url)) as store:
        sealed(group_writer(store), draft())
        assert not store.holds(bytes(32))
        assert store.begin()
        store.rollback()


def test_a_statement_that_fails_commits_nothing_of_its_message(url: str) -> None:
    """The error is that of the statement, not of the COMMIT behind it; and the session goes on."""
    with closing(opened(url)) as store:
        store.begin()
        number = store.chain_number(CHAIN)
        store.put_reservations([reservation(b"n")])
        store.append([row(1, number, 1, 0)])
        store.append([row(1, number, 2, 1)])
        store.put_reservations([reservation(b"m")])
        with pytest.raises(StoreError, match="SQLSTATE 23505"):
            store.commit()
        store.rollback()
        store.begin()
        assert (store.last_number(), store.reservations([b"n" * 32, b"m" * 32])) == (0, {})
        store.append([row(1, store.chain_number(CHAIN), 1, 0)])
        store.commit()
        assert store.last_number() == 1


def test_statements_of_many_shapes_are_not_all_prepared(url: str) -> None:
    """Each is prepared once for its types, up to a bound; the answers are the same beyond it."""
    with closing(opened(url)) as store:
        for number in range(MOST_PREPARED + 5):
            text = f"SELECT ?::bigint + {number}"
            for _ in range(2):
                result = store._transactions.session.run_together([("SELECT 1", ()), (text, (1,))])
                assert result.get_value(0, 0) == b"%d" % (number + 1)
        (prepared,) = store._transactions.session.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE starts_with(name, 'agtphost')"
        ).fetchone()
        assert prepared == MOST_PREPARED


def test_numbers_of_any_size_take_one_prepared_statement(url: str) -> None:
    """Otherwise each column's growth would prepare it anew, up to the bound."""
    with closing(opened(url)) as store:
        session = store._transactions.session
        for number in (7, 1 << 20, 1 << 40):
            result = session.run_together([("SELECT ?::bigint AS sent", (number,))])
            assert result.get_value(0, 0) == b"%d" % number
        (prepared,) = session.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1::bigint AS sent'"
        ).fetchone()
        assert prepared == 1


@pytest.mark.parametrize("many", [1, FEW, FEW + 1])
def test_rows_are_the_same_however_many_are_inserted(url: str, many: int) -> None:
    """A few go as one statement each, more as arrays; NULL, NUL and a path beyond the index are stored alike."""
    items = [ItemRow("k\0", str(number), b"", 1, number or None, b"v") for number in range(many)]
    claims = [reservation(b"%c" % (65 + number)) for number in range(many)]
    arrays = ["unnest" in statement for statement, _ in PUT_ITEMS.prepare(tuple(zip(*items, strict=True)))]
    assert arrays == ([True] if many > FEW else [False] * many)
    with closing(opened(url)) as store:
        store.begin()
        chain = store.chain_number(CHAIN)
        records = [row(chain, 1 + at, 1 + at, at)._replace(path="/p" * 40, task="t\0") for at in range(many)]
        store.append(records)
        store.put_held(items)
        store.put_reservations(claims)
        store.commit()
        assert set(store.list_items()) == set(items)
        assert sorted(store.reservations([each.name for each in claims]).values()) == claims
        with store.tables() as tables:
            found = list(tables.records(None, many))
        assert [each[:FACET] for each in found] == [each[:FACET] for each in records]
        assert postgres.server().run("SELECT DISTINCT path FROM record_index", url=url) == [("/p" * 32,)]
        # Those that are there are replaced.
        store.begin()
        store.put_held([each._replace(version=2) for each in items])
        store.commit()
        assert {each.version for each in store.list_items()} == {2}


def test_a_session_that_prepares_nothing_uses_nothing_prepared(url: str) -> None:
    """Once a pooler has lost what was prepared, the same session goes on with statements as text."""
    with closing(opened(url)) as store:
        message = [("SELECT ?::bigint", (7,))]
        store._transactions.session.run_together(message)
        store._transactions.session.command(b"DEALLOCATE ALL")
        with pytest.raises(StoreError, match="SQLSTATE 26000"):
            store._transactions.session.run_together(message)
        assert store._transactions.session.run_together(message).get_value(0, 0) == b"7"


def wait_for_another_thread(url: str, act: str = "SELECT pg_advisory_unlock(7)") -> int:
    """
    Send a message that is answered when another thread of this process has run a statement.

    :param act: the statement.
    :return: how often the thread ran it.
    """
    with closing(opened(url)) as store, closing(connect(url, autocommit=True)) as other:
        other.execute("SELECT pg_advisory_lock(7)")
        answered = threading.Event()
        acted = 0

        def run() -> None:
            nonlocal acted
            while not answered.wait(0.005):
                if other.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                    other.execute(act)
                    acted += 1

        thread = threading.Thread(target=run)
        store._transactions.session.command(b"SET statement_timeout = 2000")
        thread.start()
        try:
            store._transactions.session.run_together(
                [("SELECT ?::bigint", (7,)), ("SELECT pg_advisory_lock(?::bigint)", (7,))]
            )
        finally:
            answered.set()
            thread.join()
        return acted


def test_the_servers_reason_to_end_the_connection_is_reported(url: str) -> None:
    """As with a single statement: the state 57P01, and not only that the connection ended."""
    with pytest.raises(StoreError, match="SQLSTATE 57P01"):
        wait_for_another_thread(url, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted")


def test_other_threads_run_while_a_message_is_waited_for(url: str) -> None:
    """Otherwise the reactor would stand still for as long as the database takes to commit."""
    assert wait_for_another_thread(url) >= 1


def test_control_libpq_alone_stops_every_thread(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: psycopg keeps Python's lock while libpq waits for a result."""

    def receive(self: Pipeline, number: int) -> list[Any]:
        results = [(self._line.get_result(), self._line.get_result())[0] for _ in range(number)]
        self._line.get_result()
        self._line.exit_pipeline_mode()
        return results

    monkeypatch.setattr(Pipeline, "_receive", receive)
    with pytest.raises(StoreError, match="SQLSTATE 57014"):
        wait_for_another_thread(url)
