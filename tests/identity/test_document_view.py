"""The page of an Identity Document: what a person has to see, and nothing that runs (AGTP-155)."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agtphost.identity.document_view import page
from tests.identity.samples import document
from tests.rows import each_row


class Reader(HTMLParser):
    """What a browser would see of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.shown = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.shown += data


def read(**changes: Any) -> Reader:
    """The page of the sample document."""
    reader = Reader()
    reader.feed(page(document(**changes)))
    return reader


def test_everything_a_person_needs_is_there() -> None:
    """AGTP-155: label, domain, tier, state, description, principal, activation, score and scopes."""
    shown = read(org_domain="acme.tld").shown
    for part in ("desk", "acme.tld", "Tier 1", "active", "Answers questions about rooms.", "Jürgen & Søn",
                 "2026-05-01T09:00:00Z", "0.94", "documents", "booking"):  # fmt: skip
        assert part in shown, part


def test_the_tiers_look_different() -> None:
    """AGTP-155: the tier stands before everything else, and no two tiers have one look; an unknown one is told."""
    looks = []
    for tier in (1, 2, 3, None):
        reader = read(trust_tier=tier)
        looks.append(next(found["class"] for tag, found in reader.tags if tag == "div"))
        assert reader.shown.index("Tier" if tier else "Trust tier") < reader.shown.index("What it does")
    assert len(set(looks)) == 4


def test_a_warning_is_shown() -> None:
    """AGTP-147: the warning and its explanation."""
    shown = read(trust_warning="verification-incomplete", trust_explanation="Nobody looked.").shown
    assert "verification-incomplete" in shown and "Nobody looked." in shown


HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\"' &lt; \u202egnp.exe\u200b"


@each_row("member", ["name", "description", "principal", "org_domain", "status", "trust_warning", "issuer", "owner_id"])
def test_nothing_in_a_document_becomes_markup(member: str) -> None:
    """Text of others is text: no tag, no attribute and no hidden mark comes of it."""
    reader = read(**{member: HOSTILE})
    plain = {tag for tag, _ in read(trust_warning="x").tags}
    assert {tag for tag, _ in reader.tags} <= plain
    assert "script" not in plain
    assert not any(name.startswith("on") or name in ("src", "href") for _, found in reader.tags for name in found)
    assert "\u202e" not in reader.shown and "\u200b" not in reader.shown


@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=4))
def test_any_text_is_rendered(text: str, listed: list[str]) -> None:
    """No document breaks the page: its tags are always those of the sample."""
    reader = read(name=text, description=text, capabilities=listed, scopes_accepted=listed)
    assert {tag for tag, _ in reader.tags} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "p", "div", "strong", "br", "span", "h2", "dl", "dt",
        "dd", "code",
    }  # fmt: skip


def test_a_page_forbids_what_it_does_not_need() -> None:
    """The page's own policy allows neither scripts nor any fetch."""
    policies = [found.get("content") or "" for tag, found in read().tags if tag == "meta"]
    assert any("default-src 'none'" in policy for policy in policies)
