"""A message of which the server gets a part, from a host that froze or was cut off: the lock that it took is ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest

from agtphost.stores import StoreError
from agtphost.stores.postgres.lease import PostgresLease
from tests import postgres
from tests.audit.drafting import draft, group_writer, sealed
from tests.stores.postgres_proxy import Proxy
from tests.stores.test_postgres import place_of
from tests.stores.test_postgres_failures import check, is_commit, recovered, through
from tests.stores.test_postgres_failures import proxy as proxy
from tests.stores.test_postgres_lease import age, host, lease_of
from tests.stores.test_postgres_lease import url as url
from tests.system.hosting import until

pytestmark = postgres.needed

WAITS = (
    "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE relation = 'store'::regclass AND mode = "
    "'RowExclusiveLock' AND wait_event = 'ClientRead'"
)
"""Sessions that changed the row of the store, and wait for their client."""


def send_part(proxy: Proxy) -> None:
    """Forward a part of the next group, which has the lock from then on."""
    once = iter(["part"])
    proxy.cut = lambda octets: next(once, "") if is_commit(octets) else ""


def test_a_host_that_freezes_within_a_message_is_taken_over(url: str, proxy: Proxy) -> None:
    """No limit of time of PostgreSQL holds within a message, so who takes over ends the session that has the lock."""
    server, one, other = postgres.server(), lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take()
    store = place_of(through(url, proxy)).open_store(create=False, server_id="agtp.test", lease=one)
    writer = group_writer(store)
    (first,) = sealed(writer, draft())
    age(url, 11)
    send_part(proxy)
    ended: list[BaseException] = []

    def write() -> None:
        try:
            sealed(writer, draft())
        except StoreError as error:
            ended.append(error)

    frozen = threading.Thread(target=write)
    frozen.start()
    until(lambda: server.run(WAITS, url=url))
    assert other.take()
    frozen.join()
    assert len(ended) == 1
    check(url, [first.audit_id])
    store.close()
    other.give_up()


def test_a_host_that_was_cut_off_within_a_message_goes_on(url: str, proxy: Proxy) -> None:
    """The server does not notice that the connection is gone, so the host ends the session that has the lock."""
    writer = group_writer(place_of(through(url, proxy)).open_store(create=False, holder="a", server_id="agtp.test"))
    (first,) = sealed(writer, draft())
    send_part(proxy)
    store = writer._store
    with pytest.raises(StoreError):
        sealed(writer, draft(), draft())
    assert recovered(writer) < 10
    (second,) = sealed(writer, draft())
    check(url, [first.audit_id, second.audit_id])
    store.close()


@contextmanager
def sent_in_part(url: str, proxy: Proxy, lease: PostgresLease) -> Iterator[Callable[[], None]]:
    """Open a store, write a record, and yield what sends a part of the next one and waits until that has the lock."""
    store: Any = place_of(through(url, proxy)).open_store(create=False, server_id="agtp.test", lease=lease)
    writer = group_writer(store)
    sealed(writer, draft())

    def write() -> None:
        with suppress(StoreError):
            sealed(writer, draft())

    sending = threading.Thread(target=write)

    def send() -> None:
        send_part(proxy)
        sending.start()
        until(lambda: postgres.server().run(WAITS, url=url))

    yield send
    store._transactions.session.hang_up()
    sending.join()
    store.close()


def test_a_host_that_kept_its_lease_sends_the_rest_of_its_message(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby that froze after its look, at a lease that was over, ends nothing of a host that wrote since."""
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take()
    with sent_in_part(url, proxy, one) as send:
        age(url, 11)
        look = other._look

        def look_and_freeze() -> Any:
            seen = look()
            one.keep()
            send()
            return seen

        monkeypatch.setattr(other, "_look", look_and_freeze)
        assert not other.take()
        assert postgres.server().run(WAITS, url=url)
    other.give_up()


def test_a_host_that_lost_its_lease_ends_no_message_of_the_next_one(url: str, proxy: Proxy) -> None:
    """It connects again before it learns that another host has the store."""
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take()
    one._session, session = None, one._session
    assert session is not None
    age(url, 11)
    assert other.take()
    with sent_in_part(url, proxy, other) as send:
        send()
        one.end_partial(session)
        assert postgres.server().run(WAITS, url=url)
    session.close()


def test_sessions_that_got_their_whole_message_are_not_ended(url: str) -> None:
    """An administrator's transaction, and a statement that waits for it, hold a lock of the same table."""
    lease = lease_of(url, host("a"))
    assert lease.take()
    statement = "SELECT FROM store FOR UPDATE"
    with psycopg.connect(url) as idle, psycopg.connect(url) as active:
        idle.execute(statement)
        waiting = threading.Thread(target=active.execute, args=(statement,))
        waiting.start()
        until(lambda: postgres.server().run("SELECT 1 FROM pg_locks WHERE NOT granted"))
        assert lease._session is not None
        lease.end_partial(lease._session)
        idle.execute("SELECT 1")
        idle.rollback()
        waiting.join()
        active.execute("SELECT 1")
    lease.give_up()
