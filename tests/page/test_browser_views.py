"""
Every view in Chromium: by axe-core in both colour schemes, and by the boxes of its cells at the widths of a telephone,
a tablet and a desk; and whatever it points at is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlencode, urlsplit

import pytest

from tests.page.browser import Browser, shown
from tests.page.browsing import Site, served
from tests.page.layout_check import WIDTHS, at_each_width, faults_of_layout
from tests.page.many_calls import APPROVAL, call_much
from tests.page.test_browser_journeys import address, enter
from tests.page.test_inbox import escalated
from tests.programmes import length

MARKS = {
    "data-verify",
    "data-verify-range",
    "data-limit",
    "data-verify-list",
    "data-live",
    "data-base",
    "data-from",
    "data-until",
    "data-refresh",
    "data-complete",
    "data-saved",
    "data-shown",
    "data-record",
    "data-label",
    "data-chart",
    "data-enter",
    # Of what the script itself has to say.
    "data-refreshed",
    "data-ready",
    "data-result",
    "data-feed",
    "data-what",
    "data-state",
}
"""Attributes that the script knows: any other would be an enhancement that never happens."""

AIMS = """
const found = {links: [], actions: [], lives: [], marks: [], ids: [], aims: []};
for (const one of document.querySelectorAll('*')) {
  for (const name of one.getAttributeNames()) if (name.startsWith('data-')) found.marks.push(name);
  if (one.id) found.ids.push(one.id);
  if (one.localName === 'a') found.links.push(one.getAttribute('href'));
  if (one.localName === 'form') found.actions.push([one.method, one.getAttribute('action')]);
  if (one.dataset.live !== undefined) found.lives.push(one.dataset.live);
  for (const name of ['for', 'aria-labelledby', 'aria-describedby']) {
    if (one.hasAttribute(name)) found.aims.push(...one.getAttribute(name).split(/\\s+/));
  }
}
return found;
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """
    With something in every view, also of what an operator decides and grants.

    Calls are few: axe-core takes a hundredth of a second of processor time for each row.
    """
    with served(tmp_path_factory.mktemp("page"), append=APPROVAL, eager=True) as site:
        call_much(site, 2)
        for number in range(3):
            escalated(site, f"task-{number}", "Which of the two invoices is meant?")
        escalated(site, "task-other", "May the customer have a discount of 20 %?")
        for words in (
            ("tools", "call", "files.delete_note", "name=old"),
            ("agent", "grant", "demo", "files.*", "QUERY /library/{isbn}", "--for", "7d"),
            # A word that is wider than a window takes the room of all other columns.
            ("agent", "deactivate", "demo", "--reason", "W" * 200),
            ("agent", "reinstate", "demo"),
        ):
            site.host.agtp(*words)
        yield site


@pytest.fixture
def browser(window: Browser, site: Site) -> Browser:
    window.beginning(lambda: enter(window, site))
    return window


def views(browser: Browser, site: Site) -> list[str]:
    """The views of the navigation, and one of each that a table leads to."""
    browser.open(address(site))
    paths = paths_of(browser, "header nav a")
    for home in ("/calls", "/agents"):
        if home in paths:
            browser.open(address(site, home))
            browser.one("main a.id, main td a, main tbody th a")
            paths.append(paths_of(browser, f'main a[href^="{home}/"]')[0])
    return paths


@pytest.fixture(scope="module")
def paths(window: Browser, site: Site) -> list[str]:
    """Where the views are, of one moment."""
    window.beginning(lambda: enter(window, site))
    return views(window, site)


def full_paths(site: Site) -> list[str]:
    """Views of one thing, and views with all that a query adds to them."""
    document = json.loads((site.host.state / "agents/demo/document.json").read_text())
    agent = str(document["agent_id"])
    return [
        *("/inbox?show=decided", "/agents?range=-1h", f"/agents/{agent}", "/tools/mcp.files.search_text"),
        *(f"/can?agent={agent}&what=tool+files.read_file", "/config?compare=yes"),
        f"/contracts?{'x' * 64}=1&{'status_' * 9}=2",
    ]


def paths_of(browser: Browser, selector: str) -> list[str]:
    """Where links lead to, of one moment: rows of a feed come and go."""
    found = browser.asked(lambda: [str(link.get_attribute("href")) for link in browser.all(selector)])
    return [urlsplit(link).path for link in found]


def test_there_are_views(paths: list[str]) -> None:
    """As many as are looked at below."""
    assert len(paths) >= 10


NARROWEST = 320
"""In CSS pixels: a desk's window at four times its size."""

SCHEMES = {"dark": (NARROWEST,), "light": WIDTHS}
"""Widths in each scheme; axe-core looks at the last of them."""

DARK = length(3, 100)
"""Views that are looked at in the dark scheme too. Colours are defined once for all views, and axe-core is dear."""


@pytest.mark.programme
def test_nobody_is_kept_out_by_a_view(browser: Browser, site: Site, paths: list[str]) -> None:
    """
    No serious finding of axe-core, no word is broken, nothing is too wide, a quiet console.

    In each scheme, and down to the narrowest window, in which words may be broken.
    """
    wrong = []
    full = full_paths(site)
    # A view that has more with a query is looked at with it.
    plain = [path for path in paths if path not in {"/agents", "/can", "/config", "/contracts", *full}]
    assert len(plain) + 4 <= len(paths)
    for path in (*plain, *full):

        def show(path: str = path) -> None:
            browser.open(address(site, path))
            browser.one("html[data-ready]")

        home = urlsplit(path).path
        name = home.strip("/").split("/")[0] or "now"
        # Colours of a scheme before may last: each scheme is that of a view from its beginning.
        looked_at = [*plain, *full].index(path)
        for scheme, widths in SCHEMES.items():
            if scheme == "dark" and looked_at >= DARK:
                continue
            browser.scheme(scheme)
            for width in at_each_width(browser, show, widths):
                found = list(browser.said())
                if width == NARROWEST:
                    found += [f"{browser.overflow()} pixels too wide"] * (browser.overflow() > 0)
                else:
                    found += faults_of_layout(browser)
                if width == widths[-1]:
                    browser.screenshot(f"view-{name}{'-one' if home.count('/') > 1 else ''}-{scheme}-{width}")
                    found += browser.findings()
                wrong += [f"{path} {scheme} at {width}: {each}" for each in found]
    browser.wide(1280)
    assert not wrong, shown(wrong)


ROW_HEIGHTS = """
const rows = Array.from(document.querySelectorAll('tr[data-record]'));
const line = parseFloat(getComputedStyle(rows[0]).lineHeight);
return rows.map((row) => row.getBoundingClientRect().height / line);
"""


def test_a_call_takes_few_lines_in_a_narrow_window(browser: Browser, site: Site) -> None:
    """A list of calls can be read in a narrow window: a cell that says nothing takes no room, others share lines."""
    browser.open(address(site, "/calls"))
    browser.one("html[data-ready]")
    for width, most in ((768, 3.0), (390, 5.0)):
        browser.wide(width)
        lines = browser.run(ROW_HEIGHTS)
        assert len(lines) > 5
        assert sum(lines) / len(lines) <= most, (width, lines)
    browser.wide(1280)


def test_an_empty_cell_that_differs_is_seen_in_a_narrow_window(browser: Browser, site: Site) -> None:
    """The control of the rule that hides cells: a signed reason where the view shows none is not hidden."""
    browser.open(address(site, "/calls?filter=status:200"))
    browser.wide(390)
    browser.one("tr[data-record] td.blank")
    script = """
    const cell = document.querySelector('tr[data-record] td.blank');
    const before = cell.getBoundingClientRect().height;
    cell.querySelector('[data-shown]').classList.add('differs');
    return [before, cell.getBoundingClientRect().height];
    """
    before, after = browser.run(script)
    assert before == 0 and after > 0
    browser.wide(1280)


def test_a_broken_word_is_noticed(browser: Browser, site: Site) -> None:
    """The control: a narrow cell, and one that is too wide."""
    browser.open(address(site))
    browser.run("""
    const put = (tag, text, width) => {
      const made = document.createElement(tag);
      made.textContent = text;
      made.style.width = width;
      made.style.maxWidth = 'none';
      made.style.overflowWrap = 'anywhere';
      document.querySelector('main').append(made);
    };
    put('p', 'refused', '2em');
    put('p', 'x', '9000px');
    """)
    found = faults_of_layout(browser)
    assert any("broken: refused" in each for each in found) and any("too wide" in each for each in found), found


@pytest.mark.parametrize(
    ("what", "named"), [("tool files.nothing", "files.nothing"), ("QUERY /library/{isbn}", "{isbn}")]
)
def test_check_access_shows_an_alert_for_what_it_cannot_answer(
    browser: Browser, site: Site, what: str, named: str
) -> None:
    """It is announced, names the thing, can be seen as a whole at each width, and is gone with the next question."""
    asked = "/can?" + urlencode({"agent": "demo", "what": what})

    def show() -> None:
        browser.open(address(site, asked))
        browser.one("html[data-ready]")

    wrong = []
    for width in at_each_width(browser, show, WIDTHS):
        alert = browser.one('main [role="alert"]')
        assert alert.is_displayed() and named in alert.text, (width, alert.text)
        right = alert.rect["x"] + alert.rect["width"]
        assert alert.rect["height"] > 0 and 0 <= alert.rect["x"] < right <= width, (width, alert.rect)
        wrong += [f"at {width}: {each}" for each in faults_of_layout(browser)]
    assert not [*wrong, *browser.findings()], shown(wrong)
    browser.wide(1280)
    browser.open(address(site, "/can?agent=demo&what=tool+files.read_file"))
    browser.one("html[data-ready]")
    assert not browser.all('main [role="alert"]') and "Decision" in browser.text


STATUSES = """
const found = [];
for (const link of arguments[0]) found.push((await fetch(link, {redirect: 'manual'})).status);
return found;
"""


def lost(browser: Browser, site: Site, path: str, answered: set[str]) -> list[str]:
    """
    What a view points at and nobody answers.

    :param answered: links that are known to be answered; those of this view are added.
    """
    browser.open(address(site, path))
    browser.one("html[data-ready]")
    found = browser.run(AIMS)
    wrong = [f"{path}: {mark} is nothing that the script knows" for mark in sorted(set(found["marks"]) - MARKS)]
    wrong += [f"{path}: two elements are {one}" for one in set(found["ids"]) if found["ids"].count(one) > 1]
    wrong += [f"{path}: nothing is {one}" for one in found["aims"] if one not in found["ids"]]
    here = [link for link in found["links"] if not str(link).startswith("#")]
    wrong += [
        f"{path}: #{link[1:]} is not there"
        for link in found["links"]
        if link[:1] == "#" and link[1:] not in found["ids"]
    ]
    wrong += [f"{path}: {link} leads elsewhere" for link in here if not str(link).startswith("/")]
    looks = {
        *(link for link in here if str(link).startswith("/")),
        *(action for method, action in found["actions"] if method == "get"),
    }
    new = sorted(looks - answered)[:40]
    statuses = dict(zip(new, browser.run(STATUSES, new), strict=True))
    wrong += [f"{path}: {link} is not there" for link, status in statuses.items() if status == 404]
    answered |= {link for link, status in statuses.items() if status != 404}
    for action in sorted({action for method, action in found["actions"] if method == "post"} - {"/leave"}):
        # With the session's own token, and nothing else: understood as a form of that name, and refused as one.
        script = """
        const csrf = document.querySelector('input[name=csrf]').value;
        return (await fetch(arguments[0], {method: 'POST', body: new URLSearchParams({csrf})})).status;
        """
        if browser.run(script, action) in (404, 405):
            wrong.append(f"{path}: the form {action} is sent nowhere")
    for live in found["lives"]:
        script = """
        const answer = await fetch(arguments[0]);
        await answer.body.cancel();
        return [answer.status, answer.headers.get('content-type')];
        """
        status, kind = browser.run(script, live)
        if status != 200 or not str(kind).startswith("text/event-stream"):
            wrong.append(f"{path}: the feed {live} answers {status} {kind}")
    return wrong


def test_whatever_a_view_points_at_is_there(browser: Browser, site: Site, paths: list[str]) -> None:
    """Links, forms, feeds, labels and marks of every view."""
    answered: set[str] = set()
    wrong = [each for path in paths for each in lost(browser, site, path, answered)]
    assert len(answered) >= 10
    assert not wrong, shown(wrong)
    browser.said()


@pytest.mark.release
def test_what_is_not_there_is_noticed(browser: Browser, site: Site) -> None:
    """The control: the same walk over a view into which such things were put."""
    browser.open(address(site))
    script = """
    const put = (name, attributes) => {
      const made = document.createElement(name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      document.querySelector('main').append(made);
    };
    put('div', {'data-verifies': 'x'});
    put('a', {href: '/a-view-of-nobody'});
    put('a', {href: 'https://elsewhere.example/'});
    put('form', {method: 'post', action: '/do/no-such-thing'});
    put('label', {for: 'nobody'});
    """
    planted = f"document.addEventListener('DOMContentLoaded', () => {{{script}}})"
    added = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": planted})
    try:
        found = lost(browser, site, "/", set())
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    browser.said()
    for word in ("data-verifies", "/a-view-of-nobody", "elsewhere.example", "/do/no-such-thing", "nobody"):
        assert any(word in each for each in found), (word, found)
