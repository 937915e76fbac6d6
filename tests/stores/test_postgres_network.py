"""A network between a host and its PostgreSQL database that is cut, loses messages, or takes long."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from agtphost.audit.drafts import LedgerUnavailable
from agtphost.stores import StoreError
from agtphost.stores.postgres import connection, stall_guard
from tests import postgres
from tests.audit.drafting import draft
from tests.audit.test_ledger import running, soon
from tests.measuring import measured
from tests.programmes import length, seed_of_chance
from tests.stores.postgres_proxy import Network
from tests.stores.test_postgres import place_of
from tests.stores.test_postgres_failures import check, through

pytestmark = postgres.needed

LONGEST_WAIT = 5.0
"""Seconds that a statement may wait for the database."""

LONGEST_CALL = LONGEST_WAIT + connection.CONNECT_SECONDS
"""Seconds that a call may wait: for a COMMIT that is lost, and for the connection over which it is asked about."""


@pytest.fixture
def network() -> Iterator[Network]:
    """Provide a network in front of the server."""
    with tempfile.TemporaryDirectory(prefix="agtp-pg-") as own:
        made = Network(postgres.server().folder, Path(own), random.Random(seed_of_chance()))
        yield made
        made.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Provide the URL of a new store."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path))
    place_of(made).create("agtp.test")
    return made


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Provide how long each statement and each connection took, in whatever thread."""
    found: list[float] = []

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            began = time.monotonic()
            try:
                return work(*args, **named)
            finally:
                found.append(time.monotonic() - began)

        return run

    for name in ("execute", "command"):
        monkeypatch.setattr(connection.Session, name, timed(getattr(connection.Session, name)))
    monkeypatch.setattr(connection.psycopg, "connect", timed(connection.psycopg.connect))
    return found


def attempt(work: Callable[[], object]) -> bool:
    """Return whether the database did something."""
    try:
        work()
    except StoreError:
        return False
    return True


@pytest.mark.programme
@pytest.mark.parametrize("seconds", length((1, 4, 10), (1, 4, 6, 10, 60)))
@measured
@pytest_twisted.ensureDeferred
async def test_a_network_that_is_cut(url: str, network: Network, waits: list[float], seconds: float) -> None:
    """
    Cut for 1 s, nothing fails; for longer, no statement waits more than five seconds, and the host recovers unaided.

    Writing, reading and the beat of the lease wait in different threads.
    """
    acknowledged = []
    store: Any = place_of(through(url, network)).open_store(create=False, holder="test", server_id="agtp.test")
    async with running(store, probe_seconds=0.2) as ledger:
        first = await ledger.submit(draft())
        acknowledged.append(first.audit_id)
        reader = store.reader()
        assert reader.record(first.audit_id) is not None
        network.cut_off()
        threading.Timer(seconds, network.restore).start()
        began = time.monotonic()
        others = [deferToThread(attempt, work) for work in (lambda: reader.record(first.audit_id), store._lease.keep)]
        failed, longest = 0, 0.0
        while time.monotonic() - began < seconds:
            sent = time.monotonic()
            try:
                acknowledged.append((await ledger.submit(draft())).audit_id)
            except LedgerUnavailable:
                failed += 1
                longest = max(longest, time.monotonic() - sent)
                await deferLater(reactor, 0.2)  # type: ignore[arg-type]
        done = [await each for each in others]
        if seconds == 1:
            assert failed == 0 and done == [True, True]
        if seconds >= 6:
            assert done == [False, False]
        if seconds > LONGEST_CALL:
            assert failed > 0
        await soon(lambda: ledger.healthy)
        acknowledged.append((await ledger.submit(draft())).audit_id)
        assert attempt(lambda: reader.record(first.audit_id)) and attempt(store._lease.keep)
        reader.close()
    assert max(waits) < LONGEST_WAIT and longest < LONGEST_CALL, "a thread waited"
    check(url, acknowledged)


@pytest.mark.parametrize(("delay", "loss"), [(0.0, 0.3), (0.2, 0.0)], ids=["30 % lost", "200 ms"])
@measured
@pytest_twisted.ensureDeferred
async def test_a_network_that_is_bad(url: str, network: Network, waits: list[float], delay: float, loss: float) -> None:
    """With 30 % of messages lost, or 200 ms for each, everything works, later, and nothing is lost."""
    acknowledged = []
    store: Any = place_of(through(url, network)).open_store(create=False, holder="test", server_id="agtp.test")
    async with running(store, probe_seconds=0.2) as ledger:
        acknowledged.append((await ledger.submit(draft())).audit_id)
        network.delay, network.loss = delay, loss
        acknowledged.append((await ledger.submit(draft())).audit_id)
        reader = store.reader()
        assert reader.record(acknowledged[-1]) is not None
        reader.close()
        network.delay = network.loss = 0.0
    assert max(waits) < LONGEST_WAIT, "a thread waited"
    check(url, acknowledged)


@measured
def test_control_a_silent_network_is_waited_for_without_the_question(
    url: str, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: where a server counts as there, a read that may take a minute waits on."""
    monkeypatch.setattr(stall_guard, "answers", lambda peer: True)
    reader = place_of(through(url, network)).open_reader()
    network.cut_off()
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(attempt(lambda: reader.record("00" * 32))))
    thread.start()
    thread.join(LONGEST_WAIT)
    assert thread.is_alive()
    network.restore()
    thread.join(60)
    assert done == [True]
    reader.close()
