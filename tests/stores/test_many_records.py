"""
What searches and counts cost PostgreSQL and the host; ``test_record_index.py`` has the same for SQLite.

In the suite 20,000 records, with ``--programmes`` 1,000,000.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.stores import Search
from agtphost.stores.record_search import CountedBy
from agtphost.stores.rows import Facet
from agtphost.stores.settings import locate_url
from tests import postgres
from tests.measuring import measured
from tests.programmes import length
from tests.stores.test_record_index import RECORDS, SEARCHES, STEP, TOOLS

pytestmark = [postgres.needed, pytest.mark.programme]

FACETS = TOOLS * 100

FILL = f"""
INSERT INTO record SELECT n, 1, n, decode(lpad(to_hex(n), 64, '0'), 'hex'), n - 1, 0, 0, n::bigint * {STEP}, 200,
    'EXECUTE', '/', '', convert_to(repeat('x', 1300), 'UTF8')
FROM generate_series(1, {RECORDS}) AS n
"""

FILL_INDEX = f"""
INSERT INTO record_index SELECT n, 's' || n % 1000, 't' || n, '/', 1 + n::bigint * 7919 % {FACETS}
FROM generate_series(1, {RECORDS}) AS n
"""


def open_store(place: Any) -> Any:
    return place.open_store(create=False, holder="test", server_id="agtp.test")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A store with many records of a hundred agents and forty tools, none of them signed."""
    server = postgres.server()
    url = server.url(server.schema(tmp_path_factory.mktemp("many")))
    place = locate_url(url)
    place.create("agtp.test")
    made: Any = open_store(place)
    made.begin()
    made.chain_number("")
    for number in range(FACETS):
        status = 403 if number % 50 == 0 else 200
        made._facets.find(Facet(b"", (number % 100).to_bytes(32), status, "EXECUTE", f"server.tool{number // 100}"))
    made._last = RECORDS
    made.commit()
    made.close()
    server.run(FILL, FILL_INDEX, "ANALYZE record", "ANALYZE record_index", url=url)
    made = open_store(place)
    made.begin()
    made.rollback()
    while made.index_blocks():
        pass
    yield made
    made.close()


def read_seconds(pid: int | str, *, with_ended: bool = False) -> float:
    """Return the processor's seconds of a process, and of its children that ended; 0 for one that is not there."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")


def measure_server(store: Any) -> float:
    """Return the processor's seconds of the database server: its main process with all others."""
    backend = store._execute("SELECT pg_backend_pid()").fetchone()[0]
    main = Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1]
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    return read_seconds(main, with_ended=True) + sum(map(read_seconds, children))


@pytest.mark.release
@measured
def test_a_search_costs_little_in_postgresql(store: Any, record_property: Callable[[str, object], None]) -> None:
    """Each search and each count takes at most 200 ms of processors, those of the database included."""
    reader = store.reader()
    reader.latest(None, 1, Search(status=403))  # The first one reads the facets.
    names = length(("an agent", "a session", "everything"), tuple(SEARCHES))
    for name in names:
        search = SEARCHES[name]
        runs: dict[str, Callable[[], Any]] = {"page": lambda search=search: reader.latest(None, 50, search)}
        for by in CountedBy:
            runs[f"by {by.value}"] = lambda search=search, by=by: reader.count(by, None, search)
        runs["summary"] = lambda search=search: reader.summarize(RECORDS * STEP, search)
        runs["new"] = lambda: reader.new_facets(RECORDS * STEP // 2)
        for what, run in runs.items():
            server, own, start = measure_server(store), time.process_time(), time.perf_counter()
            run()
            own, taken = time.process_time() - own, time.perf_counter() - start
            server = measure_server(store) - server
            print(f"{name}, {what}: {own * 1000:.0f} + {server * 1000:.0f} ms of processors, {taken * 1000:.0f} ms")
            record_property(f"{name}, {what}", round((own + server) * 1000))
            # The database's is counted in steps of 10 ms.
            assert own + server < 0.22, (name, what)
    reader.close()
