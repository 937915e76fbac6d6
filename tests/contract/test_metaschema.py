"""Where schemas of other people's break their dialects, in words, within bounds."""

from __future__ import annotations

from typing import Any

from agtphost.contract.metaschema import MOST, MOST_VALUES, foreign_faults
from tests.rows import each_row

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def pointers(schema: dict[str, Any]) -> list[str]:
    return sorted(fault.pointer for fault in foreign_faults(schema))


@each_row(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"type": ["string", "null"], "title": "A"}}},
        {"$schema": DRAFT_7, "type": "object", "items": [{"type": "string"}]},
        {"$schema": "https://example.com/of-another-world", "type": 7},
        {"type": "object", "x-unknown": 7, "properties": {"a": {"format": "no-such-format"}}},
    ],
)
def test_sound_ones_and_those_of_unknown_dialects_have_none(schema: dict[str, Any]) -> None:
    """Keywords that nobody knows break nothing, and what a dialect means that is not run here is not judged."""
    assert foreign_faults(schema) == []


def test_every_place_is_told_with_its_path() -> None:
    """By the dialect that the schema names, or 2020-12."""
    wrong = {"type": "objekt", "properties": {"a/b": {"minLength": "3"}, "c": {"title": 5}}}
    assert pointers(wrong) == ["/properties/a~1b/minLength", "/properties/c/title", "/type"]
    assert pointers({**wrong, "$schema": DRAFT_7}) == ["/properties/a~1b/minLength", "/properties/c/title", "/type"]
    assert all("breaks the dialect" in str(fault) for fault in foreign_faults(wrong))


def test_the_dialect_decides() -> None:
    """A list of items is one of draft 7, and none of 2020-12."""
    listed = {"items": [{"type": "string"}]}
    assert foreign_faults({**listed, "$schema": DRAFT_7}) == []
    assert pointers(listed) == ["/items"]


def test_a_large_one_has_its_first_fault_alone() -> None:
    """The metaschemas compare items by pairs, so that a long list would be compared all day."""
    small = {"required": [{} for _ in range(MOST_VALUES - 10)]}
    assert len(foreign_faults(small)) == MOST
    large = {"required": [{} for _ in range(40 * MOST_VALUES)]}
    (told,) = foreign_faults(large)
    assert told.pointer.startswith("/required")
    assert len(str(told)) < 400


def test_one_that_is_nested_too_deep_is_no_error_of_ours() -> None:
    """The rules tell of it where it is compiled."""
    deep: dict[str, Any] = {"type": 7}
    for _ in range(5_000):
        deep = {"not": deep}
    assert len(foreign_faults(deep)) <= 1
