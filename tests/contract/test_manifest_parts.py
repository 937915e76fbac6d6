"""A manifest of thousands of endpoints in parts: how it is split, and put together again."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.contract.manifest_parts import PartError, merge_parts, next_part, part_token, split_items
from agtphost.identity.cached_encoding import encode_item
from tests.rows import each_row


def part(number: int, of: int, endpoints: list[Any], total: int = 3, **changes: Any) -> dict[str, Any]:
    """One part of a manifest."""
    about = {"number": number, "of": of, "endpoints": total, "next": None if number == of else f"t{number + 1}"}
    base = {"document_version": "1", "server": {"server_id": "a"}, "manifest_signature": "x"}
    return {**base, "endpoints": endpoints, "parts": about, **changes}


def test_items_are_grouped_by_their_octets_in_order() -> None:
    """A group has at most so many octets, one item alone may have more, and an empty list is one group."""
    items = [encode_item({"n": "x" * size}) for size in (10, 10, 100, 10, 10)]
    groups = list(split_items(items, most=60))
    assert [len(group) for group in groups] == [2, 1, 2]
    assert [each for group in groups for each in group] == items
    assert list(split_items([])) == [[]]


def test_merged_parts_are_the_whole() -> None:
    """All endpoints in their order, equal schemas as one object, and no signature that would not verify."""
    schemas = [{"path": f"/{n}", "input_schema": {"properties": {"a": {"type": "string"}}}} for n in range(3)]
    whole = merge_parts([part(1, 2, schemas[:2]), part(2, 2, schemas[2:])])
    assert [each["path"] for each in whole["endpoints"]] == ["/0", "/1", "/2"]
    assert "parts" not in whole and whole["manifest_signature"] is None
    first, last = (whole["endpoints"][n]["input_schema"]["properties"]["a"] for n in (0, 2))
    assert first is last
    plain = {"endpoints": [], "manifest_signature": "x"}
    assert merge_parts([plain]) is plain


@each_row(
    ("parts", "why"),
    [
        ([part(1, 2, [1, 2, 3])], "part 1 of 1 is missing"),
        ([part(1, 2, [1, 2]), part(1, 2, [3])], "part 2 was requested, but the server sent another one"),
        ([part(1, 2, [1, 2]), part(2, 2, [3], document_version="2")], "another version"),
        ([part(1, 2, [1, 2]), part(2, 2, [3], server={"server_id": "b"})], "another version"),
        ([part(1, 2, [1, 2]), {"endpoints": []}], "not part"),
        ([part(1, 2, [1, 2]), part(2, 2, [])], "have 2 endpoints, not 3"),
    ],
)
def test_parts_that_are_not_one_manifest_are_refused(parts: list[Any], why: str) -> None:
    """A reader never takes a part of the endpoints for all of them."""
    with pytest.raises(PartError, match=why):
        merge_parts(parts)


def test_tokens_end_with_the_content() -> None:
    """Each part has its own, and that of another content has another; a manifest without parts has none."""
    assert len({part_token(digest, number) for digest in ("a", "b") for number in (1, 2)}) == 4
    assert next_part(part(1, 2, []), 1, 10) == "t2" and next_part(part(2, 2, []), 2, 10) is None
    others: list[Any] = [{}, {"parts": 5}, {"parts": {"next": 5}}, [], None]
    for other in others:
        assert next_part(other, 1, 10) is None


@each_row(("number", "octets"), [(2, 10), (256, 10), (1, 600 << 20)])
def test_readers_stop_where_a_server_does_not(number: int, octets: int) -> None:
    """A server that repeats a part, or has parts without end, is left."""
    with pytest.raises(PartError):
        next_part(part(1 if number < 200 else number, 300, []), number, octets)
