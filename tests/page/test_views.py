"""Every view, walked: what it leads to exists, what it asks for is labelled, and what it shows cannot deceive."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from agtphost.identity.keys import SigningKey
from agtphost.page.actions import ACTIONS
from agtphost.page.evidence import PATHS
from agtphost.page.live_feed import MOST_FEEDS
from agtphost.page.resource import EXPORT_PATH
from agtphost.page.views import VIEWS, find_view
from tests.page.browsing import Browser, Page, Site, served
from tests.system.hosting import until

HOSTILE = "\u202edelete\x1b[2J<script>alert(1)</script>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page"), eager=True) as site:
        host = site.host
        assert host.agtp("tools", "call", "files.list_files").returncode == 0
        words = ["task_id=t-1", "reason=ambiguous_instruction", f"context:={json.dumps({'question': HOSTILE})}"]
        host.agtp_json("call", "-", "ESCALATE", "/", *words)
        yield site


@pytest.fixture(scope="module")
def browser(site: Site) -> Browser:
    return site.browser()


def pages(browser: Browser) -> Iterator[tuple[str, Page]]:
    """Every view, and one of each single thing that they lead to."""
    seen: set[str] = set()
    waiting = [*VIEWS]
    while waiting:
        path = waiting.pop(0)
        kind = re.sub(r"[0-9a-f]{64}", "ID", urlsplit(path).path)
        if kind in seen:
            continue
        seen.add(kind)
        answer = browser.get(path)
        assert answer.status == 200, f"{path}: {answer.status} {answer.text[-500:]}"
        assert "This view does not know" not in answer.text, f"{path}: a link has a member that its view does not read"
        yield path, answer.page
        waiting += [link for link in answer.page.links if link.startswith("/") and not link.startswith("/evidence/")]


@pytest.fixture(scope="module")
def walked(browser: Browser) -> dict[str, Page]:
    return dict(pages(browser))


def test_the_walk_reaches_single_calls_and_agents(walked: dict[str, Page]) -> None:
    """The control: it is more than the navigation."""
    kinds = {re.sub(r"[0-9a-f]{64}", "ID", urlsplit(path).path) for path in walked}
    assert {*VIEWS, "/calls/ID", "/agents/ID"} <= kinds


def test_a_tool_says_what_its_caller_must_show(walked: dict[str, Page]) -> None:
    """In words: the name of the level, such as gateway, means nothing to a person."""
    tools = [page for path, page in walked.items() if path.startswith("/tools")]
    assert tools and all("a token or a client certificate" in " ".join(page.said) for page in tools)


def test_every_form_goes_where_something_is(walked: dict[str, Page]) -> None:
    """And every one that changes something carries the token of the session."""
    for path, page in walked.items():
        for form in page.forms:
            if form.method == "POST":
                assert form.action == "/leave" or form.action.removeprefix("/do/") in ACTIONS, path
                assert form.fields.get("csrf"), f"{form.action} on {path}"
                assert form.fields.get("back", "/") in walked or form.action == "/leave"
            else:
                assert form.action == EXPORT_PATH or find_view(form.action) is not None, path


def test_every_data_attribute_has_its_target(walked: dict[str, Page], browser: Browser) -> None:
    """Feeds, evidence and charts are where the script will look for them."""
    known = {
        *("data-verify", "data-verify-range", "data-verify-list", "data-live", "data-chart", "data-enter"),
        *("data-base", "data-from", "data-until", "data-refresh", "data-complete", "data-saved"),
        *("data-shown", "data-record", "data-label"),
    }
    found: set[str] = set()
    for path, page in walked.items():
        for name, value in page.data:
            assert name in known, f"{name} on {path}"
            found.add(name)
            if name == "data-verify":
                assert browser.get(f"{PATHS[0]}?audit_id={value}").status == 200
            elif name == "data-verify-range":
                assert browser.get(f"{PATHS[1]}?chain={value}&limit=5").status == 200
            elif name in ("data-verify-list", "data-complete"):
                assert browser.get(value).status == 200
            elif name == "data-live":
                assert value == "/live"
    assert found >= {"data-verify", "data-verify-range", "data-live", "data-chart"}


def test_every_field_has_a_label_and_no_id_stands_twice(walked: dict[str, Page]) -> None:
    """For those who hear the page."""
    for path, page in walked.items():
        assert len(page.ids) == len(set(page.ids)), path
        assert set(page.inputs) <= set(page.labelled), path


def test_every_view_is_whole(walked: dict[str, Page]) -> None:
    """One heading of the first rank, landmarks, a language, a way past the navigation; nothing inline."""
    for path, page in walked.items():
        names = [name for name, _ in page.tags]
        assert names.count("h1") == 1, path
        assert {"main", "nav", "header", "footer"} <= set(names), path
        assert page.links[0] == "#main", path
        assert not any(name == "style" or "style" in given or "onclick" in given for name, given in page.tags), path
        ranks = [int(name[1]) for name in names if re.fullmatch("h[1-6]", name)]
        assert all(after <= before + 1 for before, after in pairwise(ranks)), f"{path}: {ranks}"


def test_labels_are_the_words_of_the_field(walked: dict[str, Page]) -> None:
    """No view has a label that only this project's own usage explains."""
    coined = {
        "Here it",
        "Slowest of a hundred",
        "Days of its certificate",
        "What it claims to do",
        "Known by",
        "As they come",
        "Particulars",
        "Start anew",
        "Its records",
        "Can",
        "Leave",
    }
    for path, page in walked.items():
        assert not coined & set(page.said), path
    assert {"Check access", "Sign out", "p99 latency"} <= set(walked["/"].said)


def test_hostile_text_is_shown_written_out(browser: Browser) -> None:
    """Neither markup, nor a control character, nor a mark that turns text round reaches the browser."""
    text = browser.get("/inbox").text
    assert "\\u202e" in text and "\\u001b[2J" in text
    assert not {"\u202e", "\x1b"} & set(text)
    assert "<script>alert" not in text and "&lt;script&gt;" in text


def test_a_call_is_explained(site: Site, browser: Browser) -> None:
    """By its record, what belongs to it, and the gates; with commands to copy."""
    listed = browser.get("/calls?method=EXECUTE").page
    (link,) = [each for each in listed.links if re.fullmatch(r"/calls/[0-9a-f]{64}", each)][:1]
    text = browser.get(link).text
    for part in ("files.list_files", "agtp explain", "method policy", "data-verify", "Download the proof"):
        assert part in text, part


def test_calls_are_filtered(browser: Browser) -> None:
    """By each part that a record has."""
    assert "ESCALATE" in browser.get("/calls?method=ESCALATE").text
    assert "no record matches the filter" in browser.get("/calls?method=BOOK").text


def test_can_is_asked_by_a_form(site: Site, browser: Browser) -> None:
    """With a field for each member of the input, and the decision with its remedy."""
    form = browser.get("/can?method=ECHO&path=/text").page.form("/can")
    assert "in.text" in form.fields
    demo = json.loads((site.host.state / "agents/demo/document.json").read_text())["agent_id"]
    answer = browser.get(f"/can?method=ECHO&path=/text&agent={demo}&in.text=hello")
    decision = answer.text.partition("<h2>Decision</h2>")[2]
    assert ">demo</a>" in decision and "ECHO /text" in decision, "the decision names its agent and its call"
    assert "yes" in answer.page.said
    refused = browser.get("/can?method=ECHO&path=/text")
    assert "anonymous" in refused.page.said


def test_every_look_is_on_record_with_the_key(site: Site, browser: Browser) -> None:
    """Whose it was is signed."""
    browser.get("/agents")
    page = browser.get("/calls?method=QUERY&path=/page").page
    (link,) = [each for each in page.links if re.fullmatch(r"/calls/[0-9a-f]{64}", each)][:1]
    text = browser.get(link).text
    key = SigningKey.load(site.host.state / "registrar.key").public.fingerprint
    assert f"at admin, as key:{key}" in text


# Changing things


def test_an_agent_is_stopped_and_started_again(site: Site, browser: Browser) -> None:
    """With a reason, which is in the signed event; the agent's next call is refused."""
    demo = json.loads((site.host.state / "agents/demo/document.json").read_text())["agent_id"]
    path = f"/agents/{demo}"
    form = browser.get(path).page.form("/do/lifecycle")
    assert browser.send(form, ("do", "deactivate")).status == 400, "no reason was given"
    stopped = browser.send(form, ("do", "deactivate"), reason="looks odd")
    assert stopped.status == 200 and "suspended" in stopped.text and "looks odd" in stopped.text
    assert site.host.agtp("tools", "call", "files.list_files").returncode == 1
    assert ">admin<" in stopped.text.partition(">History<")[2].partition("</table>")[0], "who did it"
    again = browser.send(stopped.page.form("/do/lifecycle"), ("do", "reinstate"), reason="was not")
    assert again.status == 200
    assert site.host.agtp("tools", "call", "files.list_files").returncode == 0


def test_what_is_final_takes_the_name(site: Site, browser: Browser) -> None:
    """A click alone revokes nothing."""
    demo = json.loads((site.host.state / "agents/demo/document.json").read_text())["agent_id"]
    form = browser.get(f"/agents/{demo}").page.form("/do/lifecycle")
    answer = browser.send(form, ("do", "revoke"), reason="really", typed="another")
    assert answer.status == 400 and "type the agent" in answer.text
    assert site.host.agtp("tools", "call", "files.list_files").returncode == 0


# The feed


class Following:
    """One open feed."""

    def __init__(self, browser: Browser) -> None:
        context = ssl.create_default_context(cafile=browser.trust)
        self.connection = HTTPSConnection("127.0.0.1", browser.port, timeout=20, context=context)
        self.connection.request("GET", "/live", headers={"Cookie": browser.cookie})
        self.response = self.connection.getresponse()

    def event(self) -> str:
        """The next one, without the line that ends it."""
        lines = []
        while line := self.response.readline().decode():
            if line == "\n":
                break
            lines.append(line.rstrip("\n"))
        return "\n".join(lines)

    def close(self) -> None:
        self.connection.close()


def test_the_feed_tells_of_calls_and_is_on_record_itself(site: Site, browser: Browser) -> None:
    """Its opening and its closing are, and not each of its lines."""
    following = Following(browser)
    assert following.response.status == 200
    assert following.response.headers["Content-Type"] == "text/event-stream"
    site.host.agtp("tools", "call", "files.list_files")
    for _ in range(50):
        event = following.event()
        if "list_files" in event:
            break
    row = json.loads(event.removeprefix("data: "))
    assert len(row["cells"]) == 6 and row["state"] == "200"
    assert browser.get(row["href"]).status == 200
    following.close()
    until(lambda: _moments(browser) == ["closed", "opened"])


def _moments(browser: Browser) -> list[str]:
    page = browser.get("/calls?method=QUERY&path=/page/feed").page
    links = [each for each in page.links if re.fullmatch(r"/calls/[0-9a-f]{64}", each)]
    texts = [browser.get(link).text for link in links[:2]]
    moments = ("opened", "closed")
    return [each for text in texts for each in moments if f'"page_feed": "{each}"' in text]


def test_there_are_sixteen_viewers_at_most(browser: Browser) -> None:
    """One more is told so; once one has left there is room."""
    feeds = [Following(browser) for _ in range(MOST_FEEDS)]
    assert {feed.response.status for feed in feeds} == {200}
    assert Following(browser).response.status == 503
    feeds[0].close()

    def room() -> bool:
        one = Following(browser)
        feeds.append(one)
        return one.response.status == 200

    until(room)
    for feed in feeds:
        feed.close()


def test_the_feed_is_for_those_who_entered(site: Site) -> None:
    """401 for strangers."""
    assert site.stranger().get("/live").status == 401


def test_past_calls_are_filtered_by_the_filter_language(browser: Browser) -> None:
    """The view of calls takes a text of the language; a fault is shown with its cure, and the text stays."""
    found = browser.get("/calls?filter=tool%3Afiles.list_files+caller%3Ademo&status=2xx")
    assert (
        found.status == 200 and "files.list_files" in found.text and "no record matches the filter." not in found.text
    )
    none = browser.get("/calls?filter=tool%3Afiles.none").text
    assert "no record matches the filter." in none
    for query, said in (
        ("status=abc", "a class such as 4xx"),
        ("filter=" + "x" * 9_000, "2000"),
        ("caller_id=%22", "caller"),
    ):
        wrong = browser.get(f"/calls?{query}")
        assert wrong.status == 422 and said in wrong.text, query
    assert 'value="agnet:demo"' in browser.get("/calls?filter=agnet%3Ademo").text
