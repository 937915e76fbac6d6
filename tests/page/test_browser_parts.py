"""The page's script and style on views without a host: every mark that views carry, and what the harness notices."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from itertools import count

import pytest
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)

from tests.page.browser import Browser
from tests.page.static_site import STATIC, serving
from tests.rows import each_row
from tests.system.hosting import until

OCTETS = 60 << 10
"""Gzipped, of everything that a browser loads beside a view."""

MINUTES = "".join(
    f"<tr><th scope='row'>12:{minute:02}</th><td>{minute * 3}</td><td>{minute % 4}</td><td>{minute % 7 + 0.5}</td></tr>"
    for minute in range(60)
)
CHART = (
    "<div class='wide' tabindex='0' role='region' aria-label='The last hour'><table data-chart=''>"
    "<caption>The last hour</caption><thead><tr><th scope='col'>Minute</th><th scope='col'>Calls</th>"
    "<th scope='col'>Refusals</th>"
    f"<th scope='col'>Slowest, ms</th></tr></thead><tbody>{MINUTES}</tbody></table></div>"
)
FEED = (
    "<table data-live='{}'><caption>Calls</caption><thead><tr><th scope='col'>Time</th><th scope='col'>Call</th></tr>"
    "</thead><tbody></tbody></table>"
)
FORM = """
<section><h2>Inbox</h2><article><h3>Approval 12</h3>
<dl><div><dt>Agent</dt><dd><a href="/" class="id">a1a1a1a1a1a1</a></dd></div>
<div><dt>State</dt><dd><span class="state state-pending">pending</span></dd></div></dl>
<pre tabindex="0"><code>{"path": "/srv/a-very-long-name-without-any-place-to-break-it-at-all-0123456789"}</code></pre>
<form method="post" action="/do/decide" aria-label="Decide about approval 12"><p><label for="reason">Reason</label>
<input id="reason" name="reason" type="text"></p><p class="buttons"><button name="do" value="accepted">Approve</button>
<button name="do" value="rejected">Reject</button></p></form></article>
<section class="refused"><h2>Servers</h2><p>403 operators-only: Servers are shown to operators.</p></section>
<p class="said" role="status">Done.</p><p class="empty">Nothing waits.</p>
<details><summary>More</summary><p>Text.</p></details></section>
"""
HOSTILE = "<img src=x onerror=alert(1)>\u202e</td><script>"


def event(number: int, **more: object) -> bytes:
    shown = {"cells": [f"12:00:{number}", f"{HOSTILE} {number}"], "href": "/calls/1", **more}
    return f"data: {json.dumps(shown)}\n\n".encode()


class Feeds:
    """What the feeds of this module send; each waits for the test where it has to."""

    def __init__(self) -> None:
        self.connections = count(1)
        self.over = threading.Event()
        self.seen = threading.Event()

    def flood(self) -> Iterator[bytes]:
        for number in range(5_000):
            yield event(number)
        yield b"event: skipped\ndata: 1234\n\n"
        yield event(5_000, href="//evil.example/", kind="refused")
        self.over.wait(120)

    def broken(self) -> Iterator[bytes]:
        """Ends after one event each time; the browser is asked to come back soon, once to a gap."""
        number = next(self.connections)
        yield b"retry: 50\n" + (b"event: gap\ndata: 1\n\n" if number == 2 else b"\n") + event(number)

    def wait_for_one(self) -> Iterator[bytes]:
        """Sends one event once the test has seen the empty table."""
        yield b"retry: 60000\n\n"
        self.seen.wait(60)
        yield event(1)
        self.over.wait(60)


@pytest.fixture(scope="module")
def feeds() -> Iterator[Feeds]:
    made = Feeds()
    yield made
    made.over.set()


@pytest.fixture(scope="module")
def site(feeds: Feeds) -> Iterator[str]:
    views = {
        "/": FORM + CHART,
        "/flood": FEED.format("/live/flood"),
        "/broken": FEED.format("/live/broken"),
        "/empty": FEED.format("/live/empty"),
        "/inline": "<script>document.title = 'let in'</script><p style='color: red'>Inline.</p>",
        "/elsewhere": "<img alt='' src='https://elsewhere.invalid/x.png'>",
        "/error": "<form data-enter='' method='post' action='/enter'><p>No field for the token.</p></form>",
        "/gone": "<img alt='' src='/static/gone.png'>",
        "/unlabelled": "<form><input name='reason'></form><p style=''>Text</p>",
    }
    events = {"/live/flood": feeds.flood, "/live/broken": feeds.broken, "/live/empty": feeds.wait_for_one}
    with serving(views, events) as address:
        yield address


@pytest.fixture(scope="module")
def browser(window: Browser) -> Browser:
    return window


def visit(browser: Browser, address: str) -> None:
    """A view, once its script has run, with an empty console before."""
    browser.leave()
    browser.said()
    browser.open(address)


@pytest.mark.release
@each_row(("width", "scheme"), [(320, "dark"), (1280, "light")])
def test_everything_that_views_are_made_of_can_be_read(browser: Browser, site: str, width: int, scheme: str) -> None:
    """
    Narrow and wide, light and dark: nothing beyond the window's edge, no finding of axe-core, a quiet console.

    Each width has one scheme, as a scheme changes colours, and no box.
    """
    browser.scheme(scheme)
    browser.wide(width)
    visit(browser, f"{site}/")
    browser.one("html[data-ready]")
    assert browser.overflow() <= 0
    assert browser.findings() == []
    browser.screenshot(f"parts-{width}-{scheme}")
    browser.quiet()


@pytest.mark.release
def test_the_chart_says_what_the_table_says(browser: Browser, site: str) -> None:
    """A bar for each minute, as tall as the number; the table stays, a key away."""
    browser.scheme("light")
    browser.wide(1280)
    visit(browser, f"{site}/")
    browser.one("svg.chart")
    tall = [float(bar.get_attribute("height") or 0) for bar in browser.all("svg.chart rect.calls")]
    assert len(tall) == 60 and tall == sorted(tall) and tall[59] == pytest.approx(tall[30] * 59 / 30)
    assert "Calls 177, Refusals 3" in str(browser.all("svg.chart rect.calls title")[59].get_attribute("textContent"))
    assert not browser.one("table[data-chart]").is_displayed()
    browser.run("document.querySelector('figure + details summary').click()")
    assert browser.one("table[data-chart]").is_displayed() and len(browser.all("table[data-chart] tbody tr")) == 60
    browser.quiet()


def test_a_flood_is_two_hundred_rows_and_a_number(browser: Browser, site: str) -> None:
    """Newest first, what was left out counted; foreign text stays text and leads nowhere else."""
    visit(browser, f"{site}/flood")
    until(lambda: f"{HOSTILE} 5000" in browser.run("return document.querySelector('tbody').textContent"))
    assert len(browser.all("tbody tr")) <= 200
    told = browser.run("return [...document.querySelectorAll('tr.skipped')].map((row) => row.textContent)")
    assert "skipped 1,234" in told
    assert browser.attribute_of("tr.refused", "class") == "refused"
    assert not browser.all("tr.refused a") and browser.all('tbody tr a[href="/calls/1"]')
    assert not browser.all("tbody img") and not browser.all("tbody script")
    browser.run("document.querySelector('button[aria-pressed]').click()")
    assert browser.attribute_of("button[aria-pressed]", "aria-pressed") == "true"
    browser.quiet()


def test_an_empty_feed_says_that_no_call_came(browser: Browser, site: str, feeds: Feeds) -> None:
    """An empty table alone does not tell whether the feed works; the sentence goes with the first row."""
    visit(browser, f"{site}/empty")
    browser.one('table[data-feed="open"]')
    said = "return document.querySelector('p.feed').textContent"
    assert browser.run(said) == "Live. No call was recorded since this view was loaded."
    feeds.seen.set()
    until(lambda: browser.run(said) == "Live")
    browser.quiet()


def test_a_feed_that_breaks_off_is_taken_up_again(browser: Browser, site: str) -> None:
    """The same rows go on, and the view says what it does."""
    visit(browser, f"{site}/broken")
    until(lambda: len(browser.all("tbody tr")) >= 3)
    assert "Calls may be missing here" in browser.text_of("tbody tr.skipped")
    assert browser.attribute_of("table[data-feed]", "data-feed") in ("again", "open")
    browser.quiet("ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")


@pytest.mark.release
@pytest.mark.parametrize("path", ["/inline", "/elsewhere", "/error", "/gone"])
def test_the_harness_notices(browser: Browser, site: str, path: str) -> None:
    """The control: an inline script or style, an image from elsewhere, an exception, a file that is not there."""
    visit(browser, f"{site}{path}#token")
    found: list[str] = []
    until(lambda: found.extend(browser.said()) or found)
    assert found
    assert browser.driver.title == "agtphost", "the inline script did not run"


def test_a_question_is_asked_again_where_the_view_is_replaced(browser: Browser, site: str) -> None:
    """Between finding an element and asking it: its own answer never comes, as the control shows."""
    visit(browser, f"{site}/")
    turned = []

    def question() -> str:
        heading = browser.one("h1")
        if not turned:
            turned.append(heading)
            browser.open(f"{site}/unlabelled")
        return heading.text

    assert browser.asked(question) == "A view"
    with pytest.raises(StaleElementReferenceException):
        browser.asked(lambda: turned[0].text, 0.1)


COVERED = """
const cover = document.createElement("div");
cover.setAttribute("class", "cover");
document.body.append(cover);
cover.style.cssText = "position: fixed; inset: 0; z-index: 9";
const field = document.querySelector("#reason");
field.hidden = true;
window.uncovered = () => setTimeout(() => { cover.remove(); field.hidden = false; }, 200);
"""


@pytest.mark.release
def test_what_cannot_be_reached_yet_is_waited_for(browser: Browser, site: str) -> None:
    """A button below something else, and a field that is not shown; the control is a cover that stays."""
    visit(browser, f"{site}/")
    browser.run(COVERED)
    with pytest.raises(ElementClickInterceptedException):
        browser.asked(browser.one("summary").click, 0.1)
    with pytest.raises(ElementNotInteractableException):
        browser.asked(lambda: browser.one("#reason").send_keys("early"), 0.1)
    browser.run("window.uncovered()")
    browser.click("summary")
    browser.type("#reason", "in time")
    assert browser.run("return document.querySelector('details').open")
    assert browser.attribute_of("#reason", "value") == "in time"


@pytest.mark.release
def test_who_leaves_reads_nothing_of_the_view_before(browser: Browser, site: str) -> None:
    """However late the next one comes: it does not come before it is waited for."""
    visit(browser, f"{site}/")
    with browser.leaving():
        browser.run("setTimeout(() => location.assign('/unlabelled'), 300)")
        assert "Inbox" in browser.text, "the control: it is still there"
    assert "Inbox" not in browser.text and browser.run("return document.readyState") == "complete"


@pytest.mark.release
def test_axe_notices(browser: Browser, site: str) -> None:
    """The control: a field that nobody could name."""
    visit(browser, f"{site}/unlabelled")
    assert any("label" in finding for finding in browser.findings())


def test_all_of_it_is_small() -> None:
    """What a browser loads once, gzipped."""
    assert sum(len(gzip.compress(file.read_bytes())) for file in STATIC.iterdir()) < OCTETS


def test_no_markup_is_made_of_text() -> None:
    """Nor code: what Trusted Types and the content policy would stop is not even there."""
    sources = {file.name: file.read_text() for file in STATIC.iterdir() if file.name.endswith(".js")}
    assert len(sources) > 5
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "import("):
        assert not [name for name, source in sources.items() if word in source], word
    assert "url(" not in (STATIC / "page.css").read_text() and "@import" not in (STATIC / "page.css").read_text()
