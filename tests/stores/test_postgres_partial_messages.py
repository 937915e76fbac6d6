"""A message of which the server gets a part, from a host that froze or was cut off: the lock that it took is ended."""

from __future__ import annotations

import threading

import pytest

from agtphost.stores import StoreError
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
