"""What a view costs the host with many records behind it: 20,000 in the suite, 1,000,000 with ``--programmes``."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import HOST_CHAIN, Draft
from agtphost.audit.writer import GroupWriter, Submission
from agtphost.identity.keys import SigningKey, fastest_signer
from agtphost.page.views import VIEWS
from agtphost.stores import open_store
from tests.audit.drafting import payload
from tests.page.browsing import Browser, Site, served
from tests.programmes import length

pytestmark = pytest.mark.programme

RECORDS, LOOKS = length((20_000, 20), (1_000_000, 60))
GROUP = 500
BOUND = length(10.0, 0.05)
"""Seconds at the 95th percentile: measured on a machine that does nothing else."""

CPU = length(0.1, 0.05)
"""Seconds of the host's own processor for one look, on average: what others do on the machine changes it little."""


def filled(config: Path) -> None:
    """Records of the sample agent's calls, of refusals and of the host's own chain, signed by the host's key."""
    state = config.parent / "state"
    caller, agent = (
        json.loads((state / path / "document.json").read_text())["agent_id"]
        for path in ("agents/demo", "hosted/librarian")
    )
    store = open_store(f"sqlite:{state / 'agtphost.sqlite3'}", create=True)
    writer = GroupWriter(
        store, RecordSigner(fastest_signer(SigningKey.load(state / "signing.key"))), server_id="localhost"
    )
    writer.load()
    for begin in range(0, RECORDS, GROUP):
        writer.write([Submission(draft_of(number, caller, agent)) for number in range(begin, begin + GROUP)])
    store.close()


def draft_of(number: int, caller: str, agent: str) -> Draft:
    refused = number % 10 == 0
    chain = HOST_CHAIN if refused else agent
    said = {"server_id": "localhost", "caller_id": caller, "task_id": f"task-{number % 1_000}"}
    if refused:
        said["reason"] = "scope-insufficient"
    status = 403 if refused else 200
    return Draft(chain=chain, payload=payload(chain, status=status, path=f"/orders/{number % 50}", **said))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page"), prepare=filled) as site:
        yield site


@pytest.fixture(scope="module")
def browser(site: Site) -> Browser:
    return site.browser()


def spent(site: Site) -> float:
    """Seconds of the host's processor so far."""
    fields = Path(f"/proc/{site.host.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    "path",
    [*VIEWS, "/calls?reason=scope-insufficient", "/calls?task_id=task-777", "/calls?method=NEVER"],
)
def test_a_view_is_drawn_in_time(
    path: str, site: Site, browser: Browser, record_property: pytest.RecordProperty
) -> None:
    """On one connection, so that no handshake counts; the newest record is on it, where records are."""
    context = ssl.create_default_context(cafile=str(site.trust))
    connection = HTTPSConnection("127.0.0.1", site.port, timeout=60, context=context)
    took, before = [], spent(site)
    for _ in range(LOOKS):
        begun = time.perf_counter()
        connection.request("GET", path, headers={"Cookie": browser.cookie})
        response = connection.getresponse()
        body = response.read()
        took.append(time.perf_counter() - begun)
        assert response.status == 200, body[:500]
    cpu = (spent(site) - before) / LOOKS
    connection.close()
    p95 = sorted(took)[int(LOOKS * 0.95)]
    record_property("p95_ms", round(p95 * 1000, 2))
    record_property("cpu_ms", round(cpu * 1000, 2))
    print(f"{path}: p95 {p95 * 1000:.1f} ms, {cpu * 1000:.1f} ms of processor, {len(body)} octets, {RECORDS} records")
    assert p95 <= BOUND
    assert cpu <= CPU


def test_there_are_as_many_records(browser: Browser) -> None:
    """The control: the views had all of them to look through."""
    shown = browser.get("/").page.said
    counted = int(shown[shown.index("Records") + 1])
    assert counted >= RECORDS
