"""Canonical JSON and base64url: one value, one text."""

from __future__ import annotations

import base64
import json
import math
import random

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from agtphost.identity import encoding
from agtphost.identity.canonical import CanonicalError, ascii_escaped, canonical
from tests.rows import each_row

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(TEXTS, VALUES))
def test_equals_rfc8785_and_is_stable(value: dict[str, object]) -> None:
    """The octets are those of RFC 8785 in whatever order names came, and reading them changes nothing."""
    octets = canonical(value)
    assert octets == rfc8785.dumps(value)
    assert canonical(dict(reversed(value.items()))) == octets
    assert canonical(json.loads(octets)) == octets


class Word(str):
    """A text of another type, such as members of an Enum are."""


def test_every_character_and_every_type_is_written_as_rfc8785_does() -> None:
    """Control characters, DEL and Latin-1 in names and values; subclasses, tuples, empty arrays and objects."""
    value = {
        **{f"{chr(code)}x": chr(code) for code in range(0x180)},
        "types": [Word("a\n"), True, False, None, 1.0, 1e21, -0.0, 0, -(2**53) + 1, (), [], {}, ("x", [Word()])],
    }
    assert canonical(value) == rfc8785.dumps(value)


def test_names_sort_by_utf16_units() -> None:
    """U+10000 sorts before U+E000, as its first UTF-16 unit does and its code point does not (T-CN)."""
    value = {"\ue000": 1, "\U00010000": 2}
    assert canonical(value) == '{"\U00010000":2,"\ue000":1}'.encode()
    assert ascii_escaped(value) == b'{"\\ue000":1,"\\ud800\\udc00":2}'


def test_escaped_form_differs_outside_ascii_only() -> None:
    """The escaped form equals RFC 8785 for ASCII, and differs for everything else (companion section 1.2)."""
    assert ascii_escaped({"b": 1, "a": "x"}) == canonical({"a": "x", "b": 1})
    assert ascii_escaped({"a": "ü"}) == b'{"a":"\\u00fc"}'
    assert canonical({"a": "ü"}) == '{"a":"ü"}'.encode()


@each_row("value", [math.nan, math.inf, 2**53 + 1, "\ud800", {1: 2}, object(), {"a": {1, 2}}, b"x"])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    """Values that JSON cannot hold, or that readers disagree on, have no canonical form (companion section 1.5)."""
    with pytest.raises(CanonicalError):
        canonical({"a": value} if not isinstance(value, dict) else value)


@pytest.mark.parametrize("value", [math.nan, object(), b"x"])
def test_escaped_form_refuses_too(value: object) -> None:
    """The verify-only form has no answer for them either."""
    with pytest.raises(CanonicalError):
        ascii_escaped({"a": value})


@given(st.binary())
def test_base64url_round_trip(octets: bytes) -> None:
    """What is written is what the standard library writes without padding, and is read back."""
    text = encoding.encode(octets).decode()
    assert text == base64.urlsafe_b64encode(octets).rstrip(b"=").decode()
    assert encoding.decode(text) == octets
    padded = text + "=" * (-len(text) % 4)
    assert encoding.decode_padded(padded) == octets


@each_row("text", ["A", "AB", "AAB", "AA==", "A A", "AA\n", "+A", "/A", "é", "AAAAA"])
def test_other_texts_for_the_same_octets_are_refused(text: str) -> None:
    """Padding, white space, the other alphabet, stray bits: one record, two identifiers (T-JW)."""
    with pytest.raises(ValueError, match=r"base64url|bits"):
        encoding.decode(text)


@each_row("text", ["AA=", "AA===", "=", "AB==", "AAAA="])
def test_wrong_padding_is_refused(text: str) -> None:
    """Documents of others may be padded, but only right."""
    with pytest.raises(ValueError, match=r"padding|bits"):
        encoding.decode_padded(text)


def test_fractions_are_written_as_rfc8785_writes_them() -> None:
    """Of every size, and on both sides of where an exponent is needed."""
    chance = random.Random(8785)
    bounds = (1e-4, 1e16, 1e21, 1e-6, 1e-7, 123456789.0, 2.0**53, 5e-324, 1.7976931348623157e308, 0.1, 1.0, 0.0)
    values = [math.nextafter(bound, toward) for bound in bounds for toward in (-math.inf, bound, math.inf)]
    values += [chance.random() * 10.0 ** chance.randint(-9, 24) for _ in range(20_000)]
    values += [float(round(chance.random() * 10**17)) for _ in range(1_000)]
    values = [value for value in values if math.isfinite(value)]
    for value in (*values, *(-value for value in values)):
        assert canonical([value]) == rfc8785.dumps([value])
