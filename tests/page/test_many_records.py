"""
What a view costs with many records behind it, from the question to the document; and what it shows then.

In the suite 20,000 records, with ``--programmes`` 1,000,000.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agtphost.host.services import HostServices
from agtphost.identity.encoding import encode
from agtphost.stores.connection import connect
from agtphost.stores.record_reader import RecordReader
from agtphost.stores.records import OffReactorRecords
from agtphost.testing import MemoryHost
from tests.measuring import measured
from tests.page.page_in_memory import SETTINGS, PageInMemory
from tests.stores.test_record_index import RECORDS, STEP, fill_directly

pytestmark = pytest.mark.programme

SHOWN = 2_000
"""Newest records that can be read; the others would count as damaged."""

CPU = 0.2
"""Seconds of a processor for a view."""


async def run_here(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Run a function of the reader at once: a thread would be counted as well, and waited for."""
    return function(*given, **named)


class FullPage(PageInMemory):
    """A page whose host reads another store's records, and whose clock is that of the newest of them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.reader = reader = RecordReader(str(path), connect)

        class Host(MemoryHost):
            def foundation(self, services: HostServices) -> HostServices:
                evidence = replace(services.evidence, records=OffReactorRecords(reader, run_here))
                return replace(services, evidence=evidence, seconds=lambda: RECORDS * STEP / 1_000)

        self.host = Host(SETTINGS)


def sign(path: Path) -> None:
    """Give the newest records octets that can be read, with their hash; a list reads no signature."""
    with closing(sqlite3.connect(path)) as connection:
        for number in range(RECORDS - SHOWN + 1, RECORDS + 1):
            payload = {
                "method": "EXECUTE",
                "path": "/",
                "status": 200,
                "agent_id": "",
                "issued_at": "1970-01-12T00:00:00Z",
            }
            payload |= {"caller_id": f"{number % 100:064x}", "extra": {"mcp_server": "server", "mcp_tool": "tool7"}}
            payload |= {"response_id": str(number), "filler": "x" * 500}
            parts = [json.dumps({"alg": "EdDSA"}), json.dumps(payload), "no signature of anybody"]
            octets = b".".join(encode(part.encode()) for part in parts)
            values = octets, sha256(octets).digest(), number
            connection.execute("UPDATE record SET signed = ?, audit_id = ? WHERE number = ?", values)
        connection.commit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullPage]:
    path = fill_directly(tmp_path_factory.mktemp("many"), RECORDS)
    sign(path)
    made = FullPage(path)
    for number in range(50):
        made.host.agent(f"agent-{number}")
    made.open()
    yield made
    made.reader.close()


VIEWS = (
    *("/", "/?from=-24h", "/?from=-30d", "/?from=-12h&until=-6h", "/calls", "/calls?from=-30d", "/agents?range=-30d"),
    *("/calls?filter=tool:server.tool7", "/calls?filter=tool:server.tool7+from:-9h+until:-8h", "/tools?range=-30d"),
    *("/calls?filter=status:4xx", "/calls?filter=session:s7", "/calls?filter=path:/", "/calls?reads=all", "/evidence"),
)


@pytest.mark.release
@measured
def test_a_view_costs_little_with_many_records(page: FullPage, record_property: Callable[[str, object], None]) -> None:
    """Every view takes at most 200 ms of a processor, its answer being drawn included."""
    page.get("/")  # The first view imports, and reads the facets.
    for path in VIEWS:
        begun, start = time.process_time(), time.perf_counter()
        status, body = page.get(path)
        spent, taken = time.process_time() - begun, time.perf_counter() - start
        record_property(path, round(spent * 1000))
        print(f"{path}: {spent * 1000:.0f} ms of a processor, {taken * 1000:.0f} ms, {len(body)} octets")
        assert status == 200 and spent <= CPU, (path, spent)


def test_all_records_of_a_range_are_counted(page: FullPage) -> None:
    """The control: the views looked at all of them."""
    status, body = page.get("/", {"from": "1970-01-01"})
    assert status == 200 and f"{RECORDS:,} calls" in body, body
