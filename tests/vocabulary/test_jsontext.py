"""The strict decoder: T-JB-1 to T-JB-50."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary import jsontext
from tests.programmes import seed_of_chance
from tests.rows import each_row

HOSTILE = [
    pytest.param(b'{"a":1,"a":2}', "twice", id="duplicate name"),
    pytest.param(b'{"a":{"b":1,"b":1}}', "twice", id="duplicate name below"),
    pytest.param(b"NaN", "NaN", id="NaN"),
    pytest.param(b"[Infinity]", "Infinity", id="Infinity"),
    pytest.param(b"-Infinity", "Infinity", id="negative Infinity"),
    pytest.param(b"1e400", "too large", id="overflow to infinity"),
    pytest.param(b"9007199254740993", "2**53", id="integer beyond 2**53"),
    pytest.param(b"-9007199254740993", "2**53", id="negative integer beyond 2**53"),
    pytest.param(b"1" * 4301, "2**53", id="4301 digits"),
    pytest.param(b"0." + b"1" * 100, "64 characters", id="long fraction"),
    pytest.param(b'"\\ud800"', "surrogate", id="lone high surrogate"),
    pytest.param(b'"\\uDC00"', "surrogate", id="lone low surrogate"),
    pytest.param(b'{"\\ud800":1}', "surrogate", id="lone surrogate in a name"),
    pytest.param(b'"\xed\xa0\x80"', "UTF-8", id="surrogate as raw octets"),
    pytest.param(b'"\xff"', "UTF-8", id="not UTF-8"),
    pytest.param(b"\xef\xbb\xbf{}", "is expected", id="byte order mark"),
    pytest.param(b"[" * 65 + b"]" * 65, "deep", id="65 deep"),
    pytest.param(b"[" * 100_000 + b"]" * 100_000, "50000", id="100,000 deep"),
    pytest.param(b"[" * 40_000 + b"]" * 40_000, "deep", id="40,000 deep"),
    pytest.param(b'{"a":' * 3000 + b"1" + b"}" * 3000, "deep", id="3,000 objects deep"),
    pytest.param(b"[" + b"[]," * 60_000 + b"[]]", "50000", id="60,000 empty lists"),
    pytest.param(b"", "is expected", id="empty"),
    pytest.param(b"{} {}", "more text", id="two texts"),
    pytest.param(b"{'a':1}", "is expected", id="single quotes"),
    pytest.param(b'{"a":1,}', "double quotes|comma precedes", id="trailing comma"),
    pytest.param(b"01", "more text", id="leading zero"),
    pytest.param(b"+1", "is expected", id="plus sign"),
    pytest.param(b"0x10", "more text", id="hexadecimal"),
    pytest.param(b'"a\nb"', "control", id="raw control character"),
    pytest.param(b'"\x00"', "control", id="raw NUL"),
]


@each_row(("octets", "why"), HOSTILE)
def test_hostile_texts_are_refused(octets: bytes, why: str) -> None:
    """Each text that two readers could read differently is an error that says why."""
    with pytest.raises(jsontext.JSONTextError, match="(?i)" + why.replace("**", "..")):
        jsontext.decode(octets)


@each_row("octets", [b'{"a":1,"a":2}', b"NaN", b'"\\ud800"', b"9007199254740993", b"[" * 65 + b"]" * 65])
def test_the_standard_decoder_accepts_what_this_one_refuses(octets: bytes) -> None:
    """The control: the cases above are not refused by any JSON reader anyway."""
    assert json.loads(octets) is not None


@each_row(
    ("octets", "value"),
    [
        (b"[" * 64 + b"]" * 64, None),
        (b'{"a":[1,2.5,-3,true,false,null,"\\u00e9"]}', {"a": [1, 2.5, -3, True, False, None, "é"]}),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b" [ ] ", []),
        (b"9007199254740992", 2**53),
    ],
)
def test_ordinary_texts_are_read(octets: bytes, value: object) -> None:
    """What is plain JSON is read as it stands."""
    decoded = jsontext.decode(octets)
    assert value is None or decoded == value


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(blacklist_categories=("Cs",))),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_what_is_encoded_is_decoded(value: object) -> None:
    """Encoding and decoding are inverse for everything the encoder accepts."""
    try:
        octets = jsontext.encode(value)
    except UnicodeEncodeError:
        return
    assert jsontext.decode(octets) == value


@given(st.binary(max_size=200))
def test_no_octets_break_the_decoder(octets: bytes) -> None:
    """Whatever arrives, the only error is JSONTextError."""
    try:
        jsontext.decode(octets)
    except jsontext.JSONTextError:
        return


def test_signed_documents_are_flatter() -> None:
    """The depth limit is the caller's to lower."""
    text = b"[" * 33 + b"]" * 33
    jsontext.decode(text)
    with pytest.raises(jsontext.JSONTextError):
        jsontext.decode(text, max_depth=jsontext.SIGNED_DEPTH)


def test_what_the_host_wrote_itself_is_read_again() -> None:
    """Deeper and longer than what others send, and no deeper than is looked at beforehand."""
    for depth in (1, 33, jsontext.KEPT_DEPTH):
        value: object = 1
        for _ in range(depth):
            value = [value] if depth % 2 else {"a": value}
        assert (jsontext.is_deep(value, depth), jsontext.is_deep(value, depth - 1)) == (False, True)
        assert jsontext.decode_kept(jsontext.encode(value)) == value
    with pytest.raises(jsontext.JSONTextError):
        jsontext.decode_kept(jsontext.encode([value]))
    many = [1] * (jsontext.MAX_TOKENS + 1)
    assert jsontext.decode_kept(jsontext.encode(many)) == many


def test_large_texts_are_read_as_small_ones_are() -> None:
    """Whatever stands in their strings, and whatever is wrong with them."""
    chance = random.Random(seed_of_chance())
    pieces = [
        "a",
        '\\"',
        "\\\\",
        "\\n",
        ",",
        "{",
        "[",
        "]",
        ":",
        "\u00e9",
        "\U0001f600",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\" * 80,
    ]
    faults = ["\\ud83d", "\x01", "\\x", '"']
    for number in range(40):
        texts = ["".join(chance.choices(pieces, k=chance.randrange(9_000))) for _ in range(chance.randrange(1, 9))]
        texts.append("a" * jsontext.LARGE)
        if number % 2:
            texts[0] += chance.choice(faults)
        text = "[" + ", ".join(f'{{"n":"{part}"}}' for part in texts) + "]"
        try:
            expected = json.loads(text)
            json.dumps(expected, ensure_ascii=False).encode()
        except ValueError:
            with pytest.raises(jsontext.JSONTextError):
                jsontext.decode(text.encode())
        else:
            assert jsontext.decode(text.encode()) == expected


@pytest.mark.parametrize("space", ["", " ", "\n\t"])
def test_values_of_large_texts_are_counted(space: str) -> None:
    """Whether strings are few or many, before they are made; so many as there may be pass."""
    long = '"' + "x" * jsontext.LARGE + '"'
    for item in ("[]", "1", '"a"', '"\\"\\""'):
        few = f"[{long}" + f",{space}{item}" * 49_990 + "]"
        assert len(jsontext.decode(few.encode())) == 49_991
        with pytest.raises(jsontext.JSONTextError, match="more than 50000 values"):
            jsontext.decode((f"[{long}" + f",{space}{item}" * 50_001 + "]").encode())


def test_what_is_counted_in_a_text_is_what_is_counted_in_its_value() -> None:
    """Values, names and depth of a large text are looked for in its signs, those of others when they are made."""
    chance = random.Random(7)

    def made(depth: int) -> object:
        kind = chance.random()
        if not depth or kind < 0.4:
            return chance.choice([1, -2.5, "[]{},:", '"\\', "ä\n", True, None, "]}"])
        if kind < 0.7:
            return [made(depth - 1) for _ in range(chance.randrange(4))]
        return {f"k{n}{chance.choice(['', '{}', '[,:'])}": made(depth - 1) for n in range(chance.randrange(4))}

    def refused(measure: Callable[[int, int], object], depth: int, tokens: int) -> bool:
        try:
            measure(depth, tokens)
        except jsontext.JSONTextError:
            return True
        return False

    found = set()
    for number in range(1_500):
        value = made(chance.randrange(7))
        text = json.dumps(value, ensure_ascii=bool(number % 2), indent=chance.choice([None, 1])).encode()
        outside = (jsontext._outside_strings, jsontext._outside_long_strings)[number % 3 == 0](text, 1_000)
        bounds = chance.randrange(1, 8), chance.randrange(1, 40)
        expected = refused(partial(jsontext._require_bounds, value), *bounds)
        assert refused(partial(jsontext._require_bounds_outside, outside), *bounds) == expected, (value, bounds)
        found.add(expected)
    assert found == {True, False}


def test_what_stands_outside_of_strings_is_bounded() -> None:
    """Spaces, digits or signs of no meaning."""
    for octets in (b" " * (5 << 20) + b"1", b"9" * (5 << 20), b"[" + b"1," * (3 << 20) + b"1]"):
        with pytest.raises(jsontext.JSONTextError, match="outside of its strings"):
            jsontext.decode(octets)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**55), 2**55)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(), inner, max_size=9),
    max_leaves=60,
)


@given(VALUES)
def test_what_this_process_wrote_reads_alike_without_the_checks_for_foreign_texts(value: object) -> None:
    """Both readers give one value, or refuse it with the same words."""
    try:
        octets = jsontext.encode(value)
    except ValueError:  # A lone surrogate is not written at all.
        return
    assert _read(jsontext.decode_own, octets) == _read(jsontext.decode, octets)


def test_own_texts_are_bounded_all_the_same() -> None:
    """Depth, size and integers are held as for foreign ones; a name that stands twice alone is not looked for."""
    deep: object = 1
    for _ in range(jsontext.MAX_DEPTH + 1):
        deep = [deep]
    for value in (deep, list(range(jsontext.MAX_TOKENS + 1)), {"a": 2**53 + 1}):
        with pytest.raises(jsontext.JSONTextError):
            jsontext.decode_own(jsontext.encode(value))
    twice = jsontext.encode({1: "a", "1": "b"})
    assert jsontext.decode_own(twice) == {"1": "b"}
    with pytest.raises(jsontext.JSONTextError, match="twice"):
        jsontext.decode(twice)


def _read(read: Callable[[bytes], object], octets: bytes) -> tuple[object, str]:
    try:
        return read(octets), ""
    except jsontext.JSONTextError as error:
        return None, str(error)
