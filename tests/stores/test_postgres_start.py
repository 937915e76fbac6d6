"""A4: what a start and a takeover read of a large PostgreSQL store."""

from __future__ import annotations

import gc
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit import recovery
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.state import StateTable
from agtphost.stores.postgres import connection, statements
from agtphost.stores.postgres.rows import NEWEST
from agtphost.vocabulary.allocator import pause_collector
from tests import postgres
from tests.measuring import measured
from tests.programmes import length
from tests.stores.large_store import MANY, make_store, writer_of
from tests.stores.test_postgres import place_of

pytestmark = postgres.needed

RECORDS, CHAINS, ITEMS = length((6_000, 300, 1_000), (1_000_000, 10_000, 100_000))
SECONDS = 3.0
"""Of this process, for the whole store."""


@pytest.fixture(scope="module")
def large() -> Iterator[str]:
    """Provide the URL of a large store, in a server of its own where it is truly large."""
    with tempfile.TemporaryDirectory(prefix="agtp-pg-") as folder:
        own = RECORDS > MANY
        server = postgres.Server(Path(folder)) if own else postgres.server()
        made = server.url(server.schema(Path(folder)))
        make_store(server, made, records=RECORDS, chains=CHAINS, items=ITEMS)
        server.run("ANALYZE record", url=made)
        yield made
        if own:
            server.stop()


def read(url: str) -> tuple[float, StateTable]:
    """Read a store as a host does at its start; return the seconds of this process, and the items."""
    store: Any = place_of(url).open_store(create=False, holder="fill", server_id="agtp.test")
    writer, tree = writer_of(store)
    held, lifecycle = StateTable(), LifecycleTable()
    gc.collect()
    began = time.process_time()
    with pause_collector():
        states, items = recovery.read(store, writer, tree)
        lifecycle.replace(states)
        held.replace(items)
    seconds = time.process_time() - began
    store.close()
    return seconds, held


@pytest.mark.programme
@measured
def test_a_large_store_is_read_in_three_seconds(large: str) -> None:
    """A4: 1 M records, 10,000 chains, 100,000 items: read, compared with what was signed, and in memory."""
    seconds, held = read(large)
    print(f"{RECORDS} records, {CHAINS} chains, {ITEMS} items: {seconds:.2f} s of CPU")
    assert sum(len(items) for items in held.snapshot().values()) == ITEMS
    assert seconds < SECONDS


def test_a_start_asks_no_more_of_more_chains(large: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A4: no statement for each chain, record or item, so a start costs few round trips."""
    asked: Counter[str] = Counter()
    execute = connection.Session.execute

    def counted(self: Any, statement: str, parameters: Any = ()) -> Any:
        asked[statement] += 1
        return execute(self, statement, parameters)

    monkeypatch.setattr(connection.Session, "execute", counted)
    read(large)
    # These look at some records at random, as many in any store.
    samples = asked.pop("SELECT audit_id, signed FROM record WHERE number = ?")
    assert samples <= 1_000
    assert max(asked.values()) < 30 and sum(asked.values()) < 80, asked.most_common(5)


def plan(url: str, statement: str) -> list[str]:
    """Return which scans the server makes for a statement."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as session:
        session.execute("SET jit = off")
        lines = session.execute(f"EXPLAIN {statement}").fetchall()  # type: ignore[arg-type]
    return [found[0] for (line,) in lines if (found := re.search(r"(Index|Index Only|Seq) Scan .*on record\w*", line))]


@pytest.mark.parametrize("statement", [statements.HEADS, NEWEST], ids=["heads", "newest records"])
def test_the_heads_are_found_by_an_index(large: str, statement: str) -> None:
    """A4: the newest record of each chain is searched by (chain, seq); no scan goes through the records."""
    scans = plan(large, statement)
    assert scans and not [scan for scan in scans if scan.startswith("Seq")], scans
    assert any("record_place" in scan for scan in scans)


def test_control_heads_by_a_scan(large: str) -> None:
    """The control of the test before: heads by the largest ``seq`` of each chain go through every record."""
    scanned = "SELECT chain, max(seq), max(length(signed)) FROM record GROUP BY chain"
    assert plan(large, scanned)[0].startswith("Seq")
