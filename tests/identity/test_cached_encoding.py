"""Documents with long arrays that keep their texts: the octets are those that are written without them."""

from __future__ import annotations

from typing import Any

from agtphost.identity.cached_encoding import (
    EncodedItemCache,
    ItemWriter,
    UnescapedText,
    canonical_pieces,
    encode_array,
    encode_item,
    text_pieces,
)
from agtphost.identity.canonical import canonical
from agtphost.vocabulary import jsontext
from tests.rows import each_row

ITEMS: tuple[Any, ...] = ({"b": 1.0, "a": ["é", '"', "\u2028", "\x7f\n"]}, {"z": None, "a": -0.0}, "text", 7, [], {})


@each_row("number", range(len(ITEMS) + 1))
def test_the_octets_are_the_same(number: int) -> None:
    """Of none, one and several items, between members of every kind."""
    items = list(ITEMS[:number])
    plain = {"z": 1, "array": items, "token": "aGV5-_", "empty": None, "B": {"y": [1], "x": "é"}}
    document = {**plain, "array": encode_array(map(encode_item, items)), "token": UnescapedText("aGV5-_")}
    assert document == plain
    assert b"".join(canonical_pieces(document)) == canonical(plain) == canonical(document)
    assert b"".join(text_pieces(document)) == jsontext.encode(plain) == jsontext.encode(document)


def test_parts_that_items_have_in_common_are_written_once() -> None:
    """The octets are those of plain items, whatever the names; and the piece of a long part is one object."""
    parts = {"a": {"text": "x" * 600, "n": 1.0}, "é\U0001f600": {"z": True}, "\ufb33": {}, 'q"': {"a": [None]}}
    items: list[dict[str, Any]] = [
        {"path": "/one", "schema": {"type": "object", "parts": parts, "b": [1]}, "other": {"parts": {}}},
        {"schema": {"parts": dict(reversed(parts.items()))}, "B": 1, "a": -0.0},
        {"schema": {"parts": []}, "other": None},
        {"path": "/none"},
    ]
    writer = ItemWriter([("schema", "parts"), ("other", "parts")])
    made = [writer.item(each) for each in items]
    for value, each in zip(items, made, strict=True):
        assert b"".join(each.canonical_form) == canonical(value)
        assert b"".join(each.text) == jsontext.encode(value)
        assert each.octets == len(jsontext.encode(value))
    long = [next(piece for piece in each.text if len(piece) > 600) for each in made[:2]]
    assert long[0] is long[1]


def test_only_what_is_another_is_made_anew() -> None:
    """And what nobody asks for any more is made again when it returns."""
    made: list[str] = []

    def make(source: list[str]) -> dict[str, str]:
        made.append(source[1])
        return {"is": source[1]}

    keeper = EncodedItemCache[list[str]](lambda source: source[0], make)
    one, two, other = ["1", "one"], ["2", "two"], ["1", "other"]
    assert keeper([one, two]) == [{"is": "one"}, {"is": "two"}]
    assert b"".join(keeper([two, one]).text_pieces()) == b'[{"is":"two"},{"is":"one"}]'
    assert keeper([other]) == [{"is": "other"}]
    assert b"".join(keeper([other, two]).canonical_pieces()) == b'[{"is":"other"},{"is":"two"}]'
    assert made == ["one", "two", "other", "two"]
