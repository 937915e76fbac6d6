"""
How long a record takes from its time of issue to the table in Chromium, while others come.

In the suite 200 records a second for two seconds, or as many as a busy machine makes; with ``--programmes`` 1,000 a
second for twenty, on one that does nothing else.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.bench.load import Tally, client_context, run
from tests.bench.measurement import agtp_request
from tests.page.browser import Browser
from tests.page.browsing import Site, served
from tests.page.test_browser_journeys import address, enter
from tests.programmes import length
from tests.system.hosting import Host, until

pytestmark = pytest.mark.programme

RATE, SECONDS = length((200, 2.0), (1_000, 20.0))
LEAST = length(1.0, 900.0)
"""Records a second that have to come: fewer would prove nothing."""

BOUND = length(5_000.0, 250.0)
"""Milliseconds at the 95th percentile; in the suite only what no busy machine explains."""

NOTICED = """
const body = document.querySelector("table[data-live] tbody");
window.lags = [];
new MutationObserver((changes) => {
  const now = Date.now();
  for (const change of changes)
    for (const row of change.addedNodes)
      if (row.cells.length > 1) window.lags.push(now - Date.parse(row.cells[0].textContent));
}).observe(body, { childList: true });
return true;
"""
"""The clock of the browser is that of the host: both run on one machine."""


AFTER_A_FRAME = """
const done = arguments[arguments.length - 1];
requestAnimationFrame(() => requestAnimationFrame(() => { window.lags.length = 0; done(); }));
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page")) as site:
        yield site


@pytest.fixture(scope="module")
def browser(window: Browser) -> Browser:
    return window


def paced(octets: bytes, rate: float) -> Callable[[], bytes]:
    """Requests that are handed out so many a second, whoever asks for the next."""
    begun, count, never = time.monotonic(), 0, threading.Event()

    def request() -> bytes:
        nonlocal count
        count += 1
        never.wait(max(begun + count / rate - time.monotonic(), 0.0))
        return octets

    return request


def load(host: Host, rate: float, seconds: float) -> Tally:
    demo = host.state / "agents" / "demo"
    context = client_context(host.state / "ca.pem", demo / "agent.pem", demo / "agent.key")
    octets = agtp_request(json.loads((demo / "document.json").read_text())["agent_id"])
    return run(
        ("127.0.0.1", host.port), context, paced(octets, rate), connections=8, seconds=seconds, good=b"AGTP/1.0 200"
    )


def watching(browser: Browser, site: Site) -> None:
    """At the feed, with a clock at its table."""
    enter(browser, site)
    browser.open(address(site, "/calls"))
    browser.one('table[data-feed="open"]')
    assert browser.driver.execute_script(NOTICED)


def lags(browser: Browser) -> list[float]:
    return [float(each) for each in browser.driver.execute_script("return window.lags")]


@pytest.mark.release
def test_a_record_is_in_the_table_in_time(browser: Browser, site: Site, record_property: pytest.RecordProperty) -> None:
    """From the time in the record itself, which is before its commit, to the row in the document."""
    watching(browser, site)
    tally = load(site.host, RATE, SECONDS)
    assert tally.bad == 0, tally.example
    until(lambda: lags(browser))
    found = sorted(lags(browser))
    p50, p95 = (found[int(len(found) * share)] for share in (0.5, 0.95))
    record_property("records_per_second", round(tally.rate))
    record_property("p95_ms", p95)
    print(f"{tally.rate:.0f} records/s, {len(found)} rows: p50 {p50:.0f} ms, p95 {p95:.0f} ms")
    assert tally.rate >= LEAST
    assert min(found) >= 0
    assert p95 <= BOUND


@pytest.mark.release
def test_control_rows_that_are_late_are_noticed(browser: Browser, site: Site) -> None:
    """What stands in a paused feed is as late as the pause was long."""
    watching(browser, site)
    browser.one("table[data-live]")
    browser.click("button[aria-pressed]")
    # What was about to be shown when it was paused is shown in the next frame: the feed's own opening, at most.
    browser.driver.execute_async_script(AFTER_A_FRAME)
    load(site.host, 100.0, 1.0)
    assert lags(browser) == []
    browser.click("button[aria-pressed]")
    until(lambda: lags(browser))
    assert max(lags(browser)) > 500
