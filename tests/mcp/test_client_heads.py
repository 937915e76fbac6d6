"""Which operations of a front's clients have a head in common, under which gates keep what they found."""

from __future__ import annotations

from typing import Any

from agtphost.http.clients import HttpClient
from agtphost.mcp.in_process import MOST_HEADS, InProcessLink

FIELDS = (("Agent-ID", "a" * 64),)


def link() -> InProcessLink:
    """Return a link that is asked for heads alone."""
    nothing: Any = None
    return InProcessLink(nothing, "/", nothing, nothing, nothing)


def client(number: int = 0, fields: tuple[tuple[str, str], ...] = FIELDS) -> HttpClient:
    """Return a client with a key of the operator's, at one of many addresses."""
    return HttpClient(key="client:c", address=f"192.0.2.{number}", fields=fields)


def test_a_clients_head_is_shared_from_its_second_operation_on() -> None:
    """By all that come from one address with the same fields, and by no others."""
    asked = link()
    first, second, third = (asked._find_common(client()) for _ in range(3))
    assert first is None and second is not None and third is second
    assert asked._find_common(client(1)) is None
    assert asked._find_common(client(1)) not in (None, second)
    other = client(0, (("Agent-ID", "b" * 64),))
    assert [asked._find_common(other), asked._find_common(other)][1] not in (None, second)


def test_of_clients_that_come_from_ever_other_addresses_nothing_is_learned() -> None:
    """Learning costs more than it saves, and what is remembered is bounded."""
    asked = link()
    for _ in range(3):
        assert [asked._find_common(client(number)) for number in range(MOST_HEADS + 1)] == [None] * (MOST_HEADS + 1)
    assert len(asked._heads) == MOST_HEADS


def test_a_head_with_a_providers_token_is_never_shared() -> None:
    """The token expires, and is not kept here."""
    asked, bearer = link(), client(0, (*FIELDS, ("Authorization", "Bearer x")))
    assert [asked._find_common(bearer) for _ in range(3)] == [None] * 3
    assert not asked._heads
