"""Calls in Chromium: what is verified is compared with what is shown, and ranges and filters are chosen by hand."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.page.browser import Browser
from tests.page.browsing import Site
from tests.page.many_calls import busy, call_much
from tests.page.test_browser_journeys import address, enter
from tests.rows import each_row
from tests.system.hosting import until

ALTER = """
const [selector, text] = arguments;
const cell = document.querySelector(selector);
(cell.querySelector('a') ?? cell).textContent = text;
"""
"""Changes what a cell shows, as a host would that shows something else than what it verifies."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with busy(tmp_path_factory.mktemp("page")) as site:
        yield site


@pytest.fixture
def browser(window: Browser, site: Site) -> Browser:
    window.beginning(lambda: enter(window, site))
    window.wide(1280)
    return window


def show(browser: Browser, site: Site, path: str) -> None:
    browser.open(address(site, path))
    browser.one("html[data-ready]")


def verify(browser: Browser, host: str) -> tuple[str, str]:
    """Click, and return the result with what was computed."""
    browser.click(f"{host} button.verify")
    result = browser.attribute_of(f"{host} .result[data-result]", "data-result")
    return result, browser.text_of(f"{host} .result")


def wrong_cells(browser: Browser) -> list[str]:
    """Return the members of cells that are marked, by what the browser draws."""
    script = """
    return Array.from(document.querySelectorAll('[data-shown].differs'), (cell) =>
      [cell.dataset.shown, getComputedStyle(cell).backgroundColor]);
    """
    return [member for member, colour in browser.run(script) if colour != "rgba(0, 0, 0, 0)"]


@pytest.mark.release
def test_what_is_listed_is_what_was_signed(browser: Browser, site: Site) -> None:
    """The control: nothing was altered."""
    show(browser, site, "/calls?filter=agent:demo")
    result, said = verify(browser, "[data-verify-list]")
    assert result == "ok" and "cells match what was signed" in said, said
    assert not wrong_cells(browser)
    browser.quiet()


@pytest.mark.release
@each_row(
    ("member", "text"),
    [
        ("status", "200"),
        ("called", "files.other_file"),
        ("issued_at", "2026-01-01T00:00:00.000Z"),
        ("reason", "-"),
        ("caller_id", "000000000000..."),
        ("agent_id", "other"),
    ],
)
def test_an_altered_cell_of_a_list_turns_red(browser: Browser, site: Site, member: str, text: str) -> None:
    """Although the record itself verifies, and that cell alone."""
    show(browser, site, "/calls?filter=agent:demo+reason:not-found")
    browser.run(ALTER, f'tr[data-record] [data-shown="{member}"]', text)
    result, said = verify(browser, "[data-verify-list]")
    assert result == "bad" and "signed was" in said, said
    assert wrong_cells(browser) == [member]
    assert text in browser.text_of(f'[data-shown="{member}"].differs') and "signed:" in browser.text_of(
        ".differs .signed"
    )


def test_a_caller_that_was_only_named_is_compared_with_its_note(browser: Browser, site: Site) -> None:
    """Where the note is taken away, or the name of the operator behind it is another, the cell turns red."""
    assert site.host.agtp("call", "-", "QUERY", "/named", "--no-cert").returncode == 1
    show(browser, site, "/calls?filter=caller:demo+path:/named")
    result, said = verify(browser, "[data-verify-list]")
    assert result == "ok" and not wrong_cells(browser), said
    assert browser.text_of('tr[data-record] [data-shown="caller_id"]') == "demo (unproven)"
    cell = """document.querySelector('tr[data-record] [data-shown="caller_id"] a').parentNode"""
    for note in ("", " (operator anna)", " (unproven) (operator anna)", " (unproven) for anna"):
        browser.run(f"{cell}.lastChild.textContent = arguments[0]", note)
        result, said = verify(browser, "[data-verify-list]")
        assert result == "bad" and wrong_cells(browser) == ["caller_id"], (note, said)


@pytest.fixture
def one_call(browser: Browser, site: Site) -> str:
    """The path of a call's view, in which nothing was altered: the control."""
    show(browser, site, "/calls?filter=agent:demo+reason:not-found")
    path = urlsplit(browser.attribute_of("tr[data-record] a.id", "href")).path
    show(browser, site, path)
    assert verify(browser, "[data-verify]")[0] == "ok" and not wrong_cells(browser)
    return path


@each_row("member", ["status", "reason", "called", "payload", "request_hash", "audit_id"])
def test_an_altered_cell_of_a_call_turns_red(browser: Browser, site: Site, one_call: str, member: str) -> None:
    """So does one of the view of one call."""
    show(browser, site, one_call)
    browser.run(ALTER, f'[data-shown="{member}"]', "altered")
    result, said = verify(browser, "[data-verify]")
    assert result == "bad" and wrong_cells(browser) == [member], said


def test_a_cell_that_cannot_be_compared_is_told(browser: Browser, site: Site) -> None:
    """A host that leaves the marks out, or the row of another record, does not verify."""
    show(browser, site, "/calls?filter=agent:demo")
    browser.run("document.querySelector('[data-shown=status]').removeAttribute('data-shown')")
    result, said = verify(browser, "[data-verify-list]")
    assert result == "bad" and "Status is missing on this page, so it cannot be compared" in said
    show(browser, site, "/calls?filter=agent:demo")
    browser.run("document.querySelector('tr[data-record]').dataset.record = '0'.repeat(64)")
    result, said = verify(browser, "[data-verify-list]")
    assert result == "bad" and "the host does not show it" in said


def query_of(browser: Browser) -> dict[str, list[str]]:
    return parse_qs(urlsplit(browser.driver.current_url).query)


@pytest.mark.release
@pytest.mark.parametrize("path", ["/calls?filter=agent:demo&from=-15m", "/?from=-15m"])
def test_a_range_is_selected_with_the_keyboard(browser: Browser, site: Site, path: str) -> None:
    """Arrow keys move, Shift extends, Enter shows the range; what is selected is said."""
    show(browser, site, path)
    browser.run("document.querySelector('svg.chart').focus()")
    browser.press(Keys.END)
    ActionChains(browser.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_LEFT).key_up(Keys.SHIFT).perform()
    said = browser.attribute_of("svg.chart", "aria-valuetext")
    assert "calls" in said and "refused" in said
    with browser.leaving():
        browser.press(Keys.ENTER)
    browser.one("html[data-ready]")
    found = query_of(browser)
    assert found["from"][0] < found["until"][0] and found["from"][0].endswith("Z")
    assert found.get("filter", []) == parse_qs(urlsplit(path).query).get("filter", [])
    assert not browser.all("[role=alert]")
    browser.quiet()


def test_a_range_is_selected_with_the_pointer(browser: Browser, site: Site) -> None:
    """By drawing over the bars."""
    show(browser, site, "/calls?from=-15m")
    chart = browser.one("svg.chart")
    middle = ActionChains(browser.driver).move_to_element_with_offset(chart, -100, 0)
    with browser.leaving():
        middle.click_and_hold().move_by_offset(200, 0).release().perform()
    browser.one("html[data-ready]")
    assert query_of(browser)["from"][0] < query_of(browser)["until"][0]


@pytest.mark.release
def test_a_filter_is_completed_by_name(browser: Browser, site: Site) -> None:
    """Fields, agents and tools; with the keyboard alone."""
    show(browser, site, "/calls")
    browser.type("#filter-filter", "too")
    browser.one("#filter-filter-options [role=option]")
    browser.press(Keys.ARROW_DOWN, Keys.ENTER)
    until(lambda: "list_files" in browser.text_of("#filter-filter-options"))
    browser.type("#filter-filter", "list")
    until(lambda: browser.texts_of("#filter-filter-options [role=option]") == ["tool:files.list_files"])
    assert browser.findings() == []
    browser.press(Keys.ARROW_DOWN, Keys.TAB)
    browser.type("#filter-filter", "agent:de")
    until(lambda: browser.texts_of("#filter-filter-options [role=option]") == ["agent:demo"])
    browser.press(Keys.ARROW_DOWN, Keys.ENTER)
    with browser.leaving():
        browser.press(Keys.ENTER)
    assert query_of(browser)["filter"][0].split() == ["tool:files.list_files", "agent:demo"]
    assert len(browser.all("tr[data-record]")) == 6
    browser.quiet()


@pytest.mark.release
def test_filters_are_saved_as_links(browser: Browser, site: Site) -> None:
    """By name in this browser, until they are removed."""
    show(browser, site, "/calls?filter=status:4xx&from=-1h&before=9999")
    browser.click(".saved summary")
    browser.type("#saved-name", "\u05e9\u05dc\u05d5\u05dd <b>")
    browser.press(Keys.ENTER)
    browser.one(".saved li a")
    show(browser, site, "/calls")
    browser.click(".saved summary")
    assert browser.texts_of(".saved li a bdi") == ["\u05e9\u05dc\u05d5\u05dd <b>"]
    browser.follow(".saved li a")
    assert query_of(browser) == {"filter": ["status:4xx"], "from": ["-1h"]}
    browser.click(".saved summary")
    browser.click(".saved li button")
    until(lambda: not browser.all(".saved li"))
    browser.quiet()


@pytest.mark.release
def test_the_overview_refreshes_itself(browser: Browser, site: Site) -> None:
    """After calls were recorded, with what is open left open; a session that has ended is told."""
    with browser.refreshing():
        show(browser, site, "/?from=-1h")
        before = browser.text_of("#status-line")
        browser.run("document.querySelector('figure + details').open = true")
        call_much(site, 1)
        browser.one("[data-refreshed]")
        until(lambda: browser.text_of("#status-line") != before)
        assert browser.run("return document.querySelector('figure + details').open") is True
        assert "UTC" in browser.text_of("#status-line time")
        assert browser.findings() == []
        browser.forget()
        call_much(site, 1)
        until(lambda: "session has ended" in browser.text_of(".refresh"))
    browser.quiet("status of 401")
