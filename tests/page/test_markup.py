"""Tags are written as Twisted writes them, octet by octet, whatever stands in them."""

from __future__ import annotations

import random

import pytest
from twisted.internet.defer import Deferred
from twisted.web.template import Tag, flattenString, tags

from agtphost.page.markup import encode_html
from tests.programmes import seed_of_chance

SIGNS = (
    "a",
    "&",
    "<",
    ">",
    '"',
    "'",
    "/",
    "=",
    "`",
    "\n",
    "\u202e",
    "é",
    "𝄞",
    "&amp;",
    "</td>",
    "<script>",
    "]]>",
    "<!--",
)
NAMES = ("p", "td", "a", "input", "br", "script", "main", "option")


def flattened(tag: Tag) -> bytes:
    """By Twisted."""
    written: list[bytes] = []
    Deferred.fromCoroutine(_flattened(tag)).addCallback(written.append)
    return written[0]


async def _flattened(tag: Tag) -> bytes:
    octets: bytes = await flattenString(None, tag)
    return octets


def text(chance: random.Random) -> str:
    return "".join(chance.choice(SIGNS) for _ in range(chance.randrange(6)))


def tree(chance: random.Random, depth: int) -> Tag:
    """Any tag with anything in it."""
    made = Tag(chance.choice(NAMES))
    for name in ("href", "value", "data-x", "aria-label"):
        if chance.random() < 0.3:
            made = made(**{name: text(chance)})
    if made.tagName in ("input", "br"):
        return made
    for _ in range(chance.randrange(4) if depth else 0):
        kind = chance.randrange(3)
        made = made(
            text(chance) if kind == 0 else tree(chance, depth - 1) if kind == 1 else [text(chance), text(chance)]
        )
    return made


def test_it_is_what_twisted_writes() -> None:
    """Over random trees of hostile texts."""
    chance = random.Random(seed_of_chance())
    for _ in range(300):
        tag = tree(chance, 4)
        assert encode_html(tag) == flattened(tag)


def test_control_unescaped_text_would_be_noticed() -> None:
    """The trees have what has to be escaped, in texts and in attributes."""
    chance = random.Random(1)
    octets = b"".join(encode_html(tree(chance, 4)) for _ in range(50))
    assert b"&lt;script&gt;" in octets and b"&quot;" in octets and b"<script>]]>" not in octets


@pytest.mark.parametrize("what", [None, 7, b"octets", object()])
def test_what_is_no_part_of_a_page_is_an_error(what: object) -> None:
    """And never written as it happens to look."""
    with pytest.raises(TypeError):
        encode_html(tags.p(what))
