"""Views of an operator's work in Chromium: a tool that is tried, and a host that restarts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.page.browser import Browser
from tests.page.browsing import Site, served
from tests.page.test_browser_journeys import address, enter
from tests.page.test_inbox import escalated
from tests.system.hosting import Host, until


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    operators = ("registrar", "agents/demo/agent")
    with served(tmp_path_factory.mktemp("page"), operators=operators, eager=True) as site:
        yield site
        site.host.stop()  # It is another one than before the tests.


@pytest.fixture
def browser(window: Browser, site: Site) -> Browser:
    window.beginning(lambda: enter(window, site))
    return window


@pytest.mark.release
def test_a_tool_is_tried_by_keyboard_and_mouse(browser: Browser, site: Site) -> None:
    """The form of its schema is filled in, the box is ticked, and the answer is shown with its record."""
    browser.open(address(site, "/tools/mcp.files.search_text"))
    browser.type('[name="text.query"]', "e")
    browser.click("#try-confirmed")
    browser.follow('form[action="/do/try-tool"] button')
    assert "Judged with the rights of" in browser.text
    browser.screenshot("operating-trial")
    browser.quiet()


def enter_beside(browser: Browser, site: Site, *words: str) -> None:
    """Enter in another window of the same profile, which is closed afterwards."""
    here, before = browser.driver.current_window_handle, set(browser.driver.window_handles)
    browser.driver.execute_script("window.open(arguments[0])", site.link(*words))
    until(lambda: len(set(browser.driver.window_handles) - before) == 1)
    (other,) = set(browser.driver.window_handles) - before
    browser.driver.switch_to.window(other)
    browser.one("html[data-ready] header nav")
    browser.driver.close()
    browser.driver.switch_to.window(here)


def test_a_view_says_that_its_host_restarts_and_goes_on(browser: Browser, site: Site) -> None:
    """What was typed stays; after entering in another window the view goes on, with forms of the new session."""
    known = escalated(site, "task-restart", "Is it still there?")
    browser.open(address(site, "/inbox"))
    browser.type(f'#item-{known} [name="reason"]', "typed before the restart")
    assert site.host.stop() == 0
    browser.run("window.dispatchEvent(new Event('offline'))")
    until(lambda: "The host does not answer" in browser.text)
    assert re.search(r"was loaded at \d\d:\d\d:\d\d UTC\.", browser.text), "times of the page have a zone"
    browser.screenshot("operating-restart-lost")
    site.host = Host(site.host.config).wait()
    until(lambda: "The host was restarted, which ended your session" in browser.text)
    browser.screenshot("operating-restart-ended")
    enter_beside(browser, site)
    until(lambda: "What you typed is still here" in browser.text)
    browser.follow(f'#item-{known} [value="accepted"]')
    assert f"{known} is accepted" in browser.text
    assert "typed before the restart" in browser.text
    browser.said()


LOSE_ONE_VIEW = """
const send = XMLHttpRequest.prototype.send;
XMLHttpRequest.prototype.send = function () {
  XMLHttpRequest.prototype.send = send;
  this.dispatchEvent(new Event("error"));
};
"""
"""Makes the next request of the page for a view fail, as where the host goes away again after it has answered."""


def test_a_view_says_that_its_session_has_ended_where_the_host_answers(browser: Browser, site: Site) -> None:
    """As after a restart or a takeover between two looks of the page; what was typed stays until the person is back."""
    enter(browser, site)
    browser.open(address(site, "/agents"))
    browser.type('[name="name"]', "typed before the end")
    assert site.host.agtp("page", "--end-sessions").returncode == 0
    browser.run("window.dispatchEvent(new Event('online'))")
    until(lambda: "Your session has ended. Sign in again" in browser.text)
    browser.run(LOSE_ONE_VIEW)
    enter_beside(browser, site)
    until(lambda: "What you typed is still here" in browser.text)
    assert browser.run("return document.querySelector('[name=name]').value") == "typed before the end"
    browser.said()


HURRY = """
const [later, clear, ask] = [window.setTimeout, window.clearTimeout, window.fetch];
Object.assign(window, {waits: [], pending: new Set(), questions: 0, hurried: true});
window.setTimeout = (act, wait, ...given) => {
  waits.push(wait);
  const timer = later(() => { pending.delete(timer); act(...given); }, hurried ? wait / 1000 : wait);
  pending.add(timer);
  return timer;
};
window.clearTimeout = (timer) => { pending.delete(timer); clear(timer); };
window.fetch = (...given) => { questions += 1; return ask(...given); };
"""
"""Lets each wait of the view take a thousandth of its time, and notes it."""

SHOW = """
Object.defineProperty(document, "visibilityState", {get: () => arguments[0], configurable: true});
document.dispatchEvent(new Event("visibilitychange"));
"""


def test_a_view_whose_session_has_ended_asks_more_and_more_rarely(browser: Browser, site: Site) -> None:
    """Never while it is hidden, and immediately when it is shown or the person has entered in another window."""
    enter(browser, site)
    browser.open(address(site, "/agents"))
    browser.type('[name="name"]', "typed before the end")
    assert site.host.agtp("page", "--end-sessions").returncode == 0
    browser.driver.execute_script(HURRY)
    browser.run("window.dispatchEvent(new Event('online'))")
    until(lambda: browser.run("return waits.filter((wait) => wait === 60000).length > 1"))
    waits = browser.run("return waits")
    assert waits[waits.index(1500) :][:8] == [1500, 3000, 6000, 12000, 24000, 48000, 60000, 60000]
    browser.driver.execute_script(SHOW, "hidden")
    until(lambda: browser.run("return pending.size === 0"))
    asked = browser.run("return questions")
    browser.driver.execute_script(SHOW, "hidden")
    assert browser.run("return [pending.size, questions]") == [0, asked]
    browser.driver.execute_script(SHOW, "visible")
    until(lambda: browser.run("return questions") > asked)
    until(lambda: browser.run("return waits.at(-1) === 60000"))
    planned = browser.run("hurried = false; return waits.length")
    until(lambda: browser.run("return waits.length") > planned)
    enter_beside(browser, site)
    until(lambda: "What you typed is still here" in browser.text, 30)
    browser.said()


def test_a_view_of_one_person_does_not_go_on_as_anothers(browser: Browser, site: Site) -> None:
    """Who enters in the same browser after a restart decided by the other's open view, under the other's name."""
    enter(browser, site)
    known = escalated(site, "task-other", "Whose decision is it?")
    browser.open(address(site, "/inbox"))
    browser.type(f'#item-{known} [name="reason"]', "typed by the first")
    assert site.host.stop() == 0
    browser.run("window.dispatchEvent(new Event('offline'))")
    until(lambda: "The host does not answer" in browser.text)
    site.host = Host(site.host.config).wait()
    until(lambda: "which ended your session" in browser.text)
    enter_beside(browser, site, "--as", "demo")
    until(lambda: "this browser is signed in as administrator-" in browser.text)
    browser.follow(f'#item-{known} [value="accepted"]')
    assert "The form does not belong to this session." in browser.text
    browser.open(address(site, "/inbox"))
    browser.one(f'#item-{known} [value="accepted"]')
    browser.said()


def test_an_overview_of_one_person_is_not_refreshed_as_anothers(browser: Browser, site: Site) -> None:
    """Who enters in the same browser gave the open view other data under the name of the first."""
    with browser.refreshing():
        enter(browser, site)
        enter_beside(browser, site, "--as", "demo")
        until(lambda: "this browser is signed in as administrator-" in browser.text_of(".refresh").lower())
    assert not browser.all("[data-refreshed]")
    browser.said()


@pytest.mark.release
def test_a_view_without_typed_text_is_loaded_again(browser: Browser, site: Site) -> None:
    """Once the connection is back, as nothing is lost by it."""
    enter(browser, site)
    browser.open(address(site, "/sessions"))
    loaded = browser.run("return performance.timeOrigin")
    offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.driver.execute_cdp_cmd("Network.enable", {})
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    until(lambda: "The host does not answer" in browser.text)
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {**offline, "offline": False})
    until(lambda: browser.run("return performance.timeOrigin") != loaded)
    assert "does not answer" not in browser.text
    browser.said()
