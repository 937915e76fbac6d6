"""
Any text in any field of any view: no failure of the host, no markup, and no text that changes what stands beside it.

Hypothesis prints what falsified a rule, and how to repeat it; the suite draws the same examples in every run.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agtphost.audit.filters import FIELDS
from agtphost.page.call_filters import SINGLE_FIELDS
from agtphost.vocabulary.escaping import UNSAFE_CATEGORIES
from tests.page.page_in_memory import PageInMemory

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><b title='",
    "\u202eevil\u2066\u200f\u061c",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 status:4xx",
    "&lt;b&gt; &amp;",
    "\x00\x1b[2J\x7f",
    "\u0300" * 40,
    'text:"',
    "from:2026-11-27 until:2026-11-26",
    "status:4xx status:5xx",
    "-" + "9" * 400 + "d",
)

WORDS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.sampled_from(HOSTILE),
    st.sampled_from(["-1h", "-15m", "2026-11-27", "2026-11-27T10:00Z", "now", "4xx", "demo", "none", "all", "host"]),
)
TERMS = st.builds(
    lambda field, value, mark: f"{field}:{mark}{value}{mark}",
    st.sampled_from([*FIELDS, "nothing"]),
    WORDS,
    st.sampled_from(["", '"']),
)
FILTERS = st.lists(st.one_of(TERMS, WORDS), max_size=4).map(" ".join)
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "filter": st.one_of(FILTERS, WORDS, st.just("x" * 10_000)),
        **{name: WORDS for name, _ in SINGLE_FIELDS},
        **dict.fromkeys(("from", "until", "before", "reads", "other"), WORDS),
    },
)
RANGES = st.fixed_dictionaries({}, optional={"from": WORDS, "until": WORDS, "refresh": WORDS})
LISTS = ("/agents", "/tools", "/sessions", "/contracts", "/inbox", "/evidence", "/config")
QUESTIONS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("agent", "method", "path", "scope", "input", "assurance", "more"), WORDS)
)
ITEMS = st.fixed_dictionaries({}, optional={"name": WORDS, "more": WORDS, "state": WORDS, "upstream": WORDS})


@pytest.fixture(scope="module")
def page() -> PageInMemory:
    made = PageInMemory()
    demo = made.host.agent("demo")
    made.host.endpoint("QUERY", "/orders", lambda context: {"orders": []})
    made.open()
    for number in range(3):
        made.host.call("QUERY", "/orders", caller=demo)
        made.host.call("QUERY", f"/nothing-{number}", caller=demo)
    return made


class Markup(HTMLParser):
    """Finds text in other scripts that nothing isolates, and elements that no view has."""

    VOID = frozenset({"meta", "link", "input", "img", "br"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[tuple[str, dict[str, str | None]]] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()
        if self.stack:
            self.wrong.append(f"not closed: {self.stack}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe") and given.get("src") != "/static/page.js":
            self.wrong.append(f"<{tag}>")
        self.wrong += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        if tag == "input" and is_reordering(given.get("value") or "") and given.get("dir") != "auto":
            self.wrong.append(f"input {given.get('name')} has no dir")
        if tag not in self.VOID:
            self.stack.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID and self.stack.pop()[0] != tag:
            self.wrong.append(f"</{tag}> out of place")

    def handle_data(self, data: str) -> None:
        isolated = any(tag in ("bdi", "pre", "title", "option") or "dir" in given for tag, given in self.stack)
        if is_reordering(data) and not isolated:
            self.wrong.append(f"not isolated: {data!r} in {[tag for tag, _ in self.stack]}")


def is_reordering(text: str) -> bool:
    """Return whether a text has characters that are written from right to left."""
    return any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)


def faults_of(status: int, body: str) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    if status >= 500:
        yield f"{status}: {body[-300:]}"
    unsafe = {c for c in set(body) if c not in "\n\t" and unicodedata.category(c) in UNSAFE_CATEGORIES}
    if unsafe:
        yield f"characters that are obeyed: {sorted(map(ascii, unsafe))}"
    yield from Markup(body).wrong


def look(page: PageInMemory, path: str, query: dict[str, str]) -> None:
    """Hold that a view is drawn, whatever its query says."""
    status, body = page.get(path, query)
    wrong = list(faults_of(status, body))
    assert not wrong, (path, query, wrong)
    assert status != 422 or 'role="alert"' in body or 'class="refused"' in body, "a refusal says why"


@pytest.mark.release
@settings(max_examples=80)
@given(query=CALLS)
@example(query={"filter": HOSTILE[3]})
@example(query={"filter": HOSTILE[4]})
@example(query={"filter": "x" * 10_000})
@example(query={"filter": "from:-1h", "from": "-2h"})
@example(query={"method": HOSTILE[0]})
def test_no_filter_of_calls_breaks_the_view(page: PageInMemory, query: dict[str, str]) -> None:
    """Each field takes any text, and refuses what it cannot use with the parser's message."""
    look(page, "/calls", query)


@settings(max_examples=30)
@given(query=RANGES)
def test_no_range_of_time_breaks_the_overview(page: PageInMemory, query: dict[str, str]) -> None:
    """So do the ends of the range."""
    look(page, "/", query)


@settings(max_examples=25)
@given(
    path=st.sampled_from(["/agents", "/tools", "/sessions", "/contracts", "/inbox", "/evidence", "/config"]),
    query=ITEMS,
)
def test_no_filter_of_a_list_breaks_its_view(page: PageInMemory, path: str, query: dict[str, str]) -> None:
    """So do the lists of everything else."""
    look(page, path, query)


@settings(max_examples=25)
@given(
    query=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("agent", "method", "path", "scope", "input", "assurance", "more"), WORDS)
    )
)
def test_no_question_breaks_the_check_of_access(page: PageInMemory, query: dict[str, str]) -> None:
    """And the form of a hypothetical call."""
    look(page, "/can", query)


@settings(max_examples=25)
@given(words=st.text(st.characters(exclude_categories=["Cs"]), max_size=40), task=WORDS)
@example(words="\u05e9\u05dc\u05d5\u05dd", task="t")
@example(words="<script>", task="t")
def test_nothing_that_is_recorded_breaks_a_view(page: PageInMemory, words: str, task: str) -> None:
    """What a stranger calls is shown as text, in the list and by itself."""
    headers = {"Task-ID": task} if task.isascii() and task.isprintable() and task.strip() else {}
    answer = page.host.call("QUERY", "/" + quote(words, safe=""), headers=headers)
    look(page, "/calls", {"filter": "from:-1h", "reads": "all"})
    if answer.headers.get("audit-id"):
        look(page, f"/calls/{answer.headers.get('audit-id')}", {})


def test_the_check_notices_what_it_looks_for() -> None:
    """The control: each kind of fault is one."""
    for body, part in (
        ("<p>\u05e9</p>", "not isolated"),
        ("<p>\u202e</p>", "obeyed"),
        ("<p><b></p>", "out of place"),
        ("<p onclick='x'></p>", "onclick"),
        ("<script>x</script>", "<script>"),
        ("<input name='x' value='\u05e9'>", "no dir"),
    ):
        assert any(part in each for each in faults_of(200, body)), body
    assert not list(faults_of(200, "<p><bdi>\u05e9</bdi></p>"))
