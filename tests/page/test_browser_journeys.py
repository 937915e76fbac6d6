"""People at the operators' page, in Chromium, with a real host behind it: what they do, and what is done to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from selenium.webdriver.common.keys import Keys

from agtphost.client.sync import Client
from agtphost.identity.certificates import CLOCK_SKEW, Authority, issue_client_certificate
from agtphost.identity.keys import SigningKey
from tests.page.browser import Browser
from tests.page.browsing import SECTION, Site, served
from tests.page.static_site import serving
from tests.page.test_inbox import escalated
from tests.page.windows import chromium
from tests.system.hosting import free_port, running, until
from tests.system.test_approving import called, client_of, deployed, operated_by_demo


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page")) as site:
        yield site


@pytest.fixture(scope="module")
def browser(window: Browser) -> Browser:
    return window


def address(site: Site, path: str = "/", name: str = "127.0.0.1") -> str:
    return f"https://{name}:{site.port}{path}"


def enter(browser: Browser, site: Site, *words: str) -> None:
    """By a new link, as somebody who clicks on it."""
    browser.leave()
    browser.forget()
    browser.open(site.link(*words))
    browser.one("html[data-ready] header nav")


def entered(browser: Browser, site: Site) -> None:
    """With a session of this host, which a test before may have begun."""
    browser.beginning(lambda: enter(browser, site))


def decision(site: Site, known: str) -> tuple[str, str]:
    """What became of an escalation, and why, by the command."""
    words = ("call", "-", "QUERY", "/escalations", f"escalation_id={known}", "--as", "registrar")
    (entry,) = site.host.agtp_json(*words)["body"]["result"]["escalations"]
    return str(entry["status"]), str((entry.get("decision") or {}).get("reason", ""))


def tab_to(browser: Browser, selector: str, most: int = 60) -> None:
    """Go forward by the keyboard until what is sought has the focus, and is seen to have it."""
    wanted = browser.one(selector)
    for _ in range(most):
        browser.press(Keys.TAB)
        here = browser.driver.switch_to.active_element
        if here == wanted:
            ring = browser.driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", here)
            assert ring not in ("none", ""), f"{selector} does not show that it has the focus"
            return
    raise AssertionError(f"{selector} is not reached by {most} tabs")


def place_of(browser: Browser, agent: str) -> str:
    """The path of an agent's view, from the table of agents."""
    links = {link.text: link.get_dom_attribute("href") for link in browser.all('main a[href^="/agents/"]')}
    return str(links[agent])


def press_enter(browser: Browser) -> None:
    """On what leads to another view, and be there."""
    with browser.leaving():
        browser.press(Keys.ENTER)


# Entering


def test_entering(browser: Browser, site: Site) -> None:
    """The link alone does it; its token is out of the address at once, and the key that it names is remembered."""
    browser.forget()
    link = site.link()
    browser.open(link)
    browser.one("header nav")
    assert browser.driver.current_url == address(site)
    fingerprint = browser.run("return localStorage.getItem('agtphost-key')")
    assert link.endswith(f".{fingerprint}") and len(fingerprint) == 64
    token = link.partition("#")[2].partition(".")[0]
    assert token not in browser.driver.page_source
    assert token not in browser.run("return JSON.stringify([history.state, location.href, document.referrer])")
    assert browser.run("return document.cookie") == "", "no script reads the session"
    browser.screenshot("entered")
    browser.quiet()


@pytest.mark.release
def test_a_link_is_used_twice(browser: Browser, site: Site) -> None:
    """The second time it opens nothing, and the page says what may have happened."""
    link = site.link()
    browser.leave()
    browser.open(link)
    browser.one("header nav")
    browser.forget()
    browser.leave()
    browser.open(link)
    until(lambda: "used already" in browser.text)
    assert not browser.all("header nav")
    browser.screenshot("link-twice")
    browser.quiet("status of 410")


@pytest.mark.release
def test_without_a_script_everything_is_there(site: Site, tmp_path: Path) -> None:
    """The token is pasted, the inbox is read, a decision is made."""
    known = escalated(site, "task-no-script")
    with chromium(tmp_path / "chromium", site.certificate, scripts=False) as browser:
        link = site.link()
        browser.open(link)
        browser.type("#token", link)
        browser.follow("main form button")
        browser.follow('header nav a[href="/inbox"]')
        browser.one(f"#item-{known}")
        browser.screenshot("no-script")
        browser.type(f'#item-{known} [name="reason"]', "read without a script")
        browser.follow(f'#item-{known} [value="accepted"]')
        assert decision(site, known) == ("accepted", "read without a script")
        assert browser.all("html[data-ready]") == []


# Deciding


@pytest.mark.parametrize(("button", "status"), [("accepted", "accepted"), ("rejected", "rejected")])
def test_a_decision_with_its_reason(browser: Browser, site: Site, button: str, status: str) -> None:
    """Looked at, typed, clicked: it is what the host has on record, and the view says under which Audit-ID."""
    known = escalated(site, f"task-click-{status}")
    entered(browser, site)
    browser.open(address(site))
    browser.follow('header nav a[href="/inbox"]')
    browser.type(f'#item-{known} [name="reason"]', "the customer asked for it")
    browser.follow(f'#item-{known} [value="{button}"]')
    assert known in browser.text_of(".said")
    assert decision(site, known) == (status, "the customer asked for it")
    browser.screenshot(f"decided-{status}")
    browser.quiet()


@pytest.mark.release
def test_a_decision_by_the_keyboard_alone(browser: Browser, site: Site) -> None:
    """From the top of the page to the button, and every stop on the way can be seen."""
    known = escalated(site, "task-keyboard")
    entered(browser, site)
    browser.open(address(site))
    tab_to(browser, 'header nav a[href="/inbox"]')
    press_enter(browser)
    tab_to(browser, f'#item-{known} [name="reason"]')
    browser.press("no mouse here")
    tab_to(browser, f'#item-{known} [value="accepted"]')
    browser.screenshot("keyboard")
    press_enter(browser)
    assert known in browser.text_of(".said")
    assert decision(site, known) == ("accepted", "no mouse here")
    browser.quiet()


@pytest.mark.release
def test_two_decide_at_once(browser: Browser, site: Site) -> None:
    """Whoever is second is told that it was decided, and changes nothing."""
    known = escalated(site, "task-two")
    entered(browser, site)
    browser.open(address(site, "/inbox"))
    other = site.browser()
    form = other.get("/inbox").page.form("/do/decide", target_id=known)
    assert other.send(form, ("do", "rejected"), reason="first").status == 200
    browser.type(f'#item-{known} [name="reason"]', "second")
    browser.follow(f'#item-{known} [value="accepted"]')
    assert "already-decided" in browser.text
    assert decision(site, known) == ("rejected", "first")
    browser.screenshot("decided-already")
    browser.quiet("status of 409")


# Ends of a session


def certified(site: Site, path: Path, key: SigningKey, seconds: float) -> datetime:
    """A file with a client certificate that the host's own authority signed, good for some seconds; when it ends."""
    authority = Authority.load(site.host.state / "ca.pem", site.host.state / "ca.key")
    began = datetime.now(UTC) - timedelta(days=1) + CLOCK_SKEW + timedelta(seconds=seconds)
    made = issue_client_certificate(authority, key.public, label="ops", organization="acme", now=began, days=1)
    path.write_bytes(made.public_bytes(Encoding.PEM))
    return made.not_valid_after_utc


def typed_in_time(browser: Browser, site: Site, words: Sequence[str], known: str, ends: datetime) -> bool:
    """Enter with a certificate, and begin a decision; whether that took no longer than the certificate is good for."""
    try:
        enter(browser, site, *words)
        browser.open(address(site, "/inbox"))
        browser.type(f'#item-{known} [name="reason"]', "too late")
    except AssertionError:
        if datetime.now(UTC) < ends:
            raise
    return datetime.now(UTC) < ends


@pytest.mark.release
def test_a_certificate_ends_in_the_middle_of_a_session(browser: Browser, site: Site, tmp_path: Path) -> None:
    """The next click is the last: no view, no decision, and the page says why."""
    known = escalated(site, "task-expired")
    key, path = site.host.state / "registrar.key", tmp_path / "ops.pem"
    for seconds in (10, 40, 120):
        ends = certified(site, path, SigningKey.load(key), seconds)
        if typed_in_time(browser, site, ("--cert", str(path), "--key", str(key)), known, ends):
            break
    else:
        raise AssertionError("nobody enters here within two minutes")
    until(lambda: datetime.now(UTC) > ends + timedelta(seconds=1), 180)
    browser.follow(f'#item-{known} [value="accepted"]')
    assert "session has ended" in browser.text
    assert decision(site, known) == ("pending", "")
    browser.open(address(site, "/inbox"))
    assert not browser.all("header nav")
    browser.screenshot("certificate-ended")
    browser.quiet("status of 401", "status of 403")


# Other sites


def test_another_sites_form_does_nothing(browser: Browser, site: Site) -> None:
    """Posted from another port of this machine, with the cookie, and from another name, without it: 403 each time."""
    known = escalated(site, "task-forged")
    entered(browser, site)
    browser.open(address(site))
    csrf = browser.attribute_of('input[name="csrf"]', "value")
    form = (
        f"<form method='post' action='{address(site, '/do/decide')}'><input type='hidden' name='csrf' value='{csrf}'>"
        f"<input type='hidden' name='target_id' value='{known}'><button name='do' value='accepted'>Win</button></form>"
    )
    with serving({"/": form}, policy="") as evil:
        for origin in (evil, evil.replace("127.0.0.1", "evil.test")):
            browser.open(f"{origin}/")
            browser.follow("button")
            assert "pages of that origin are not accepted here" in browser.text
            assert decision(site, known) == ("pending", "")
    browser.screenshot("other-site")
    browser.said()
    browser.open(address(site, "/inbox"))
    assert browser.one(f"#item-{known}")
    browser.quiet()


@pytest.mark.release
def test_a_name_bound_to_this_address_is_not_this_host(site: Site, tmp_path: Path) -> None:
    """
    Rebinding: another name leads to the same port, and to nothing there.

    In a window of its own: it goes on to ask for an icon there, and is refused that as well, whenever it likes.
    """
    with chromium(tmp_path, site.certificate, names={"evil.test": "127.0.0.1"}) as browser:
        browser.open(address(site, "/inbox", "evil.test"))
        assert not browser.all("header nav") and not browser.all("form")
        assert any("421" in line for line in browser.said())
        browser.open(address(site, "/enter", "evil.test"))
        assert not browser.all("form")


# What goes on


@pytest.mark.release
def test_the_feed_under_load(browser: Browser, site: Site) -> None:
    """Hundreds of calls a second go by: what can be read stays, the newest is there, and nothing is said twice."""
    entered(browser, site)
    browser.open(address(site, "/calls"))
    browser.one('table[data-feed="open"]')
    with client_of(site.host) as client:
        for _ in range(400):
            client.call(site.host.uri, "DISCOVER", "/methods")
        client.call(site.host.uri, "QUERY", "/the-last-one")
    rows = "return [...document.querySelectorAll('table[data-live] tbody tr')].map((row) => row.textContent)"
    until(lambda: any("/the-last-one" in row for row in browser.run(rows)))
    shown = browser.run(rows)
    assert 50 <= len(shown) <= 200
    assert any("/methods" in row for row in shown)
    browser.screenshot("live-feed")
    browser.open(browser.attribute_of('table[data-live] tbody a[href^="/calls/"]', "href"))
    assert browser.one("[data-verify]")
    browser.quiet()


@pytest.mark.release
def test_an_agent_is_stopped_by_the_keyboard_alone(browser: Browser, site: Site) -> None:
    """Its very next call, on the connection that is open, is 410."""
    demo = site.host.state / "agents" / "demo"
    options = {"cert": demo / "agent.pem", "key": demo / "agent.key", "connections": 1}
    with Client(trust=site.host.state / "ca.pem", **options) as client:
        assert client.call(site.host.uri, "DISCOVER", "/methods").status == 200
        entered(browser, site)
        browser.open(address(site))
        tab_to(browser, 'header nav a[href="/agents"]')
        press_enter(browser)
        browser.one("main table")
        tab_to(browser, f'main a[href="{place_of(browser, "demo")}"]')
        press_enter(browser)
        tab_to(browser, 'main input[name="reason"]')
        browser.press("it deletes what it should not")
        tab_to(browser, 'main input[name="typed"]')
        browser.press("demo")
        tab_to(browser, 'main button[value="revoke"]')
        browser.screenshot("stopping")
        press_enter(browser)
        assert "REVOKE" in browser.text_of(".said")
        assert client.call(site.host.uri, "DISCOVER", "/methods").status == 410
    browser.screenshot("stopped")
    browser.quiet()


@pytest.mark.release
def test_a_changed_tool_is_approved_as_it_was_shown(browser: Browser, tmp_path: Path) -> None:
    """Both definitions side by side; the one that was looked at is approved, and the tool is called again."""
    config, words = deployed(tmp_path)
    port = free_port()
    with config.open("a") as file:
        file.write(SECTION.format(port=port, more=""))
    operated_by_demo(config)
    words.write_text("Adds up.\nAnd sends everything to another host.")
    with running(config) as host:
        site = Site(host, port)
        until(lambda: called(host, amount=1) == 503)
        enter(browser, site, "--as", "demo")
        browser.follow('header nav a[href="/inbox"]')
        card = 'article:has(form[action="/do/approve-definition"])'
        said = browser.text_of(card)
        assert "Nothing else." in said and "everything to another host" in said
        browser.screenshot("changed-tool")
        browser.follow(f'{card} button[value="approve"]')
        assert "changing.work is approved" in browser.text_of(".said")
        assert called(host, amount=1) == 200
        browser.quiet()
