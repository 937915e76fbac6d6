"""Headers: names without case, order and spelling kept, repetition visible."""

from __future__ import annotations

import pytest

from agtphost.wire import Headers, grammar
from tests.rows import each_row

FIELDS = (("Agent-ID", "a"), ("X-One", "1"), ("agent-id", "b"))


def test_lookup_ignores_case_and_joins_repeated_fields() -> None:
    """RFC 9110 sections 5.1 and 5.3."""
    headers = Headers(FIELDS)
    assert headers.get("agent-id") == "a, b"
    assert headers.get("x-one") == "1"
    assert headers.get("x-two") is None
    assert "x-one" in headers
    assert "x-two" not in headers
    assert headers.repeated_names == {"agent-id"}


@each_row("first", ["repeated", "by_name", "get", "contains"])
def test_every_look_up_may_be_the_first(first: str) -> None:
    """The index is made once, by whichever look-up comes first, and says the same to all of them."""
    headers = Headers(FIELDS)
    looks = {
        "repeated": lambda: headers.repeated_names == {"agent-id"},
        "by_name": lambda: headers.by_name == {"agent-id": "a, b", "x-one": "1"},
        "get": lambda: headers.get("agent-id") == "a, b",
        "contains": lambda: "agent-id" in headers and "x-two" not in headers,
    }
    assert looks[first]()
    assert [name for name, look in looks.items() if not look()] == []


def test_order_and_spelling_are_kept() -> None:
    """AGTP-043: nothing is normalised on the way."""
    assert tuple(Headers(FIELDS)) == FIELDS
    assert len(Headers(FIELDS)) == 3
    assert len(Headers()) == 0


def test_equality_is_that_of_the_fields() -> None:
    """Two lists of the same fields are equal, whoever built them; other things are not."""
    parsed = grammar.parse_fields(["Agent-ID: a", "X-One:1", "agent-id: b"])
    assert parsed == Headers(FIELDS)
    assert parsed.repeated_names == {"agent-id"}
    assert hash(parsed) == hash(Headers(FIELDS))
    assert parsed != Headers(FIELDS[:2])
    assert parsed != FIELDS
    once = grammar.parse_fields(["Agent-ID: a"])
    assert once == Headers([("Agent-ID", "a")])
    assert once.repeated_names == frozenset()


def test_values_do_not_show_in_the_representation() -> None:
    """T-SE: an Authorization value never reaches a log by way of repr()."""
    assert "secret" not in repr(Headers([("Authorization", "Bearer secret")]))


def test_the_table_of_known_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-LM: peers that invent names fill a bounded table, which holds the protocol's own names anyway."""
    monkeypatch.setattr(grammar, "_known_names", dict(grammar._known_names))
    assert grammar.field_key("Attribution-Record") == "attribution-record"
    for number in range(2 * grammar.MAX_KNOWN_NAMES):
        assert grammar.field_key(f"X-{number}") == f"x-{number}"
    assert len(grammar._known_names) == grammar.MAX_KNOWN_NAMES
    assert grammar.field_key("X-Later") == "x-later"


def test_long_names_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of kilobytes is checked each time instead of being held for ever."""
    monkeypatch.setattr(grammar, "_known_names", {})
    assert grammar.field_key("N" * 4000) == "n" * 4000
    assert grammar.field_key("Short") == "short"
    assert list(grammar._known_names) == ["Short"]


def test_names_that_are_no_tokens_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused name stays refused."""
    monkeypatch.setattr(grammar, "_known_names", {})
    assert grammar.field_key("Bad Name") is None
    assert grammar.field_key("") is None
    assert grammar._known_names == {}
