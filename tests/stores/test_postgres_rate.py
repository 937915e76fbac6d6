"""A2: what a commit to PostgreSQL costs the host, beside one to SQLite, and how many records a second both take."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import postgres
from tests.audit.drafting import draft, group_writer, sealed, sqlite_store
from tests.measuring import measured
from tests.programmes import length
from tests.stores.test_postgres import place_of

pytestmark = postgres.needed

GROUPS = (1, 8, 64)
ROUNDS, COMMITS = length((5, 10), (20, 50))
MORE_SECONDS = length(600e-6, 200e-6)
"""Of this process, for a commit, besides those of SQLite; the suite runs beside other work."""

SLOWEST = 0.55
"""Records a second, relative to SQLite; of a quiet machine."""


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[Sequence[Any]]:
    """Provide a writer to a file, and one to a database."""
    server = postgres.server()
    place = place_of(server.url(server.schema(tmp_path)))
    place.create("agtp.test")
    stores = sqlite_store(tmp_path), place.open_store(create=False, holder="test", server_id="agtp.test")
    yield [group_writer(store) for store in stores]
    for store in stores:
        store.close()


def costs(writer: Any, group: int) -> tuple[float, float]:
    """Return the seconds that a commit takes: of this process, and by the clock."""
    drafts = [[draft() for _ in range(group)] for _ in range(COMMITS)]
    spent, began = time.process_time(), time.monotonic()
    for each in drafts:
        sealed(writer, *each)
    return (time.process_time() - spent) / COMMITS, (time.monotonic() - began) / COMMITS


def compare(writers: Sequence[Any], group: int) -> tuple[float, float]:
    """Return the further seconds of this process for a commit to PostgreSQL, and the rate relative to SQLite."""
    rounds = [[costs(writer, group) for writer in writers] for _ in range(ROUNDS)]
    (file, _), (database, _) = (min(each) for each in zip(*rounds, strict=True))
    rates = sorted(file[1] / database[1] for file, database in rounds)
    found = database - file, rates[len(rates) // 2]
    print(f"groups of {group}: {found[0] * 1e6:.0f} us more a commit, {found[1]:.2f} of the rate")
    return found


@pytest.mark.programme
@measured
@pytest.mark.parametrize("group", GROUPS)
def test_a_commit_costs_little_more_than_one_to_a_file(writers: Sequence[Any], group: int) -> None:
    """Rates are compared with ``--programmes`` alone: on a busy machine, they are those of its disk."""
    more, rate = compare(writers, group)
    assert more <= MORE_SECONDS
    assert length(True, rate >= SLOWEST)


@pytest.mark.release
def test_control_a_round_trip_for_each_row_costs_more(writers: Sequence[Any]) -> None:
    """The control: a group of 64 whose records are inserted one by one, each with an answer of the server."""
    store = writers[1]._store
    append = store.append
    store.append = lambda records: [(append([record]), store.last_number()) for record in records]
    more, _ = compare(writers, 64)
    assert more > 3 * MORE_SECONDS
