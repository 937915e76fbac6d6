"""
The one strict JSON decoder, for every body that comes from outside.

JSON as RFC 8259 has it, minus what lets two readers disagree about one text:
duplicate names, NaN and the infinities, numbers beyond what a double holds
exactly, lone surrogates, a byte order mark, and nesting or sizes that only an
attack needs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from agtphost.vocabulary.foreign_errors import explain_json

MAX_DEPTH = 64
"""Arrays and objects inside each other. Deeper bodies have no honest use here."""

SIGNED_DEPTH = 32
"""The same for signed documents, which are flat by design."""

KEPT_DEPTH = 256
"""The same for what this host wrote itself: bodies of others, inside of what it says about them."""

MAX_TOKENS = 50_000
"""Values and names in one text: half a second of work for every consumer would need more."""

LARGE = 1 << 18
"""Octets of a text whose strings are passed over one by one, since every pass over all of it would be felt."""

LONG = 4_096
"""Octets of a text whose depth is measured in its octets, in C; of shorter ones, in what they decode to."""

MOST_QUOTES = 20_000
"""Quotation marks that are looked at one by one; in texts with more of them, passes in C are faster."""

MOST_OUTSIDE = 4 << 20
"""Octets outside of strings: numbers, signs and white space of as many values as there may be."""

MOST_SLASHES = 64
"""Backslashes before one of them that are counted."""

OWN = 4_096
"""Octets of a text of this process's own that are read without counting: fewer values than any bound."""

MAX_INTEGER = 2**53
"""Beyond this, readers that hold numbers as doubles see another value."""

MAX_FRACTION = sys.float_info.max
"""Beyond this there is nothing but infinity."""


class JSONTextError(ValueError):
    """The text is not JSON as this host reads it; the message says where and why."""


def _refuse(message: str) -> NoReturn:
    raise JSONTextError(message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                _refuse(f"the name {name[:64]!r} occurs twice in one object")
            seen.add(name)
    return members


def _integer(text: str) -> int:
    if len(text) < 16:
        return int(text)  # Fifteen digits are below the bound: most integers of a body need no comparison.
    if len(text) > 17:
        _refuse("an integer is beyond 2**53")
    value = int(text)
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        _refuse("an integer is beyond 2**53")
    return value


def _fraction(text: str) -> float:
    value = float(text) if len(text) <= 64 else _refuse("a number has more than 64 characters")
    if not -MAX_FRACTION <= value <= MAX_FRACTION:
        _refuse("a number is too large")
    return value


def number(text: str, *, fraction: bool) -> int | float:
    """
    Return the number that a JSON number's text means.

    :param fraction: whether it has a fraction or an exponent.
    :raises JSONTextError: it is beyond what every reader holds exactly, or at all.
    """
    return _fraction(text) if fraction else _integer(text)


def _constant(text: str) -> NoReturn:
    _refuse(f"{text} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_SURROGATE = re.compile(rb"\\u[dD]")  # Escaped: in a string that has none, no half of a pair can stand alone.
_NESTING = frozenset({dict, list})
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_BESIDE_NESTING = bytes(octet for octet in range(256) if octet not in b"[]{}")
_scan: Callable[[str, int], tuple[Any, int]] = vars(_DECODER)["scan_once"]
_scan_own: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder(parse_int=_integer))["scan_once"]


def prepare_encoder(encoder: json.JSONEncoder) -> Callable[[Any], str]:
    """
    Return a function that does what ``encoder.encode`` does for objects and arrays, with its C half made once.

    Circular values are not looked for: they end in a RecursionError.

    :param encoder: without indentation.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    escape = json.encoder.encode_basestring_ascii if encoder.ensure_ascii else json.encoder.encode_basestring
    chunks = make(
        None,
        encoder.default,
        escape,
        None,
        encoder.key_separator,
        encoder.item_separator,
        encoder.sort_keys,
        encoder.skipkeys,
        encoder.allow_nan,
    )
    return lambda value: "".join(chunks(value, 0))


_encode = prepare_encoder(_ENCODER)


def _require_bounds(value: Any, max_depth: int, max_tokens: int) -> None:
    """
    Refuse a decoded value that is nested too deeply or has too many values and names.

    :raises JSONTextError: a bound is exceeded.
    """
    tokens = depth = 0
    # Only arrays and objects get into the next level, so that each scalar is looked at once.
    level: list[Any] = [value] if type(value) in _NESTING else []
    while level:
        depth += 1
        if depth > max_depth:
            _refuse(f"it is nested more than {max_depth} deep")
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                tokens += 2 * len(item)
                below += [member for member in item.values() if type(member) in _NESTING]
            else:
                tokens += len(item)
                below += [member for member in item if type(member) in _NESTING]
        if tokens > max_tokens:
            _refuse(f"it has more than {max_tokens} values and names")
        level = below


def _require_bounds_outside(outside: bytes, max_depth: int, max_tokens: int) -> None:
    """
    Refuse a large text as :func:`_require_bounds` refuses a value, in passes in C over its octets.

    :param outside: the part of the text outside of strings.
    :raises JSONTextError: a bound is exceeded.
    """
    nesting = outside.translate(_ONE_KIND, _BESIDE_NESTING)
    bare = outside.translate(None, b" \t\n\r")
    # What has members has one more than commas.
    filled = nesting.count(b"[") - bare.count(b"{}") - bare.count(b"[]")
    if filled + bare.count(b",") + bare.count(b":") > max_tokens:
        _refuse(f"it has more than {max_tokens} values and names")
    for _ in range(max_depth):
        if not nesting:
            return
        nesting = nesting.replace(b"[]", b"")
    if nesting:
        _refuse(f"it is nested more than {max_depth} deep")


def _outside_strings(octets: bytes, max_tokens: int) -> bytes:
    """
    Return the part of a text outside of its strings, in some passes in C; it is only cut once its strings are known to
    be few.

    A text that is not JSON may be cut wrongly: it is refused in any case.
    """
    bare = octets.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in octets else octets
    if bare.count(b'"') > 2 * max_tokens:
        _refuse(f"it has more than {max_tokens} values and names")
    return b'""'.join(bare.split(b'"')[::2])


def _outside_long_strings(octets: bytes, max_tokens: int) -> bytes:
    """
    Return the part of a large text outside of its strings, as :func:`_outside_strings` does.

    It skips the strings one by one, which is faster as long as they have few quotation marks.
    """
    outside, at, found = [], 0, 0
    while (begin := octets.find(b'"', at)) >= 0:
        outside.append(octets[at:begin])
        end = begin
        while True:
            end = octets.find(b'"', end + 1)
            found += 1
            if end < 0 or found > MOST_QUOTES:
                return _outside_strings(octets, max_tokens)
            # The mark is escaped where an odd number of backslashes comes before it.
            before = octets[max(begin, end - MOST_SLASHES) : end]
            slashes = len(before) - len(before.rstrip(b"\\"))
            if slashes == MOST_SLASHES:
                return _outside_strings(octets, max_tokens)
            if slashes % 2 == 0:
                break
        at = end + 1
    outside.append(octets[at:])
    return b'""'.join(outside)


def _require_few(outside: bytes, max_tokens: int) -> None:
    """
    Refuse a text with too many values and names before one of them is made.

    What is counted are openings and commas.

    :param outside: the part of the text outside of strings.
    """
    # Every array or object but the outermost is a value, and one after a comma is counted by either.
    values = max(outside.count(b","), outside.count(b"{") + outside.count(b"[") - 1)
    if values + outside.count(b":") > max_tokens:
        _refuse(f"it has more than {max_tokens} values and names")


def _count_large(octets: bytes, max_tokens: int) -> tuple[int, bool, bytes]:
    """
    Refuse a large text that has too many values and names, or too much outside of its strings.

    :return: how many arrays and objects it may have, whether its values have to be counted once they are made, and the
        part outside of strings.
    """
    # Where nothing is escaped, cutting at every mark costs less than passing over the strings one by one.
    outside = (_outside_long_strings if b"\\" in octets else _outside_strings)(octets, max_tokens)
    if len(outside) > MOST_OUTSIDE:
        _refuse(f"it has more than {MOST_OUTSIDE} octets outside of its strings")
    openings = outside.count(b"{") + outside.count(b"[")
    many = openings + outside.count(b",") > max_tokens
    if many:
        _require_few(outside, max_tokens)
    return openings, many, outside


def _require_text(value: Any) -> None:
    """
    Check that all strings can be encoded.

    :raises UnicodeEncodeError: a string has a lone surrogate.
    """
    level = [value]
    while level:
        below: list[Any] = []
        for item in level:
            if type(item) is str:
                if not item.isascii():
                    item.encode("utf-8")
            elif type(item) is dict:
                below += item
                below += item.values()
            elif type(item) is list:
                below += item
        level = below


def decode(octets: bytes, *, max_depth: int = MAX_DEPTH, max_tokens: int = MAX_TOKENS) -> Any:
    """
    Read one JSON text.

    :param octets: the whole text, UTF-8 without a byte order mark.
    :param max_depth: how many arrays and objects may be inside each other.
    :param max_tokens: how many values and names it may have; more for documents known to be large.
    :return: dicts, lists, strings, ints, finite floats, booleans and None.
    :raises JSONTextError: naming what is wrong.
    """
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JSONTextError(f"it is not UTF-8 (octet {error.start})") from None
    length = len(octets)
    if length < LARGE:
        openings, many, outside = octets.count(b"{") + octets.count(b"["), False, b""
        # A short text cannot have too many.
        if length > max_tokens and openings + octets.count(b",") > max_tokens:
            many, outside = True, _outside_strings(octets, max_tokens)
            _require_few(outside, max_tokens)
    else:
        openings, many, outside = _count_large(octets, max_tokens)
    try:
        try:
            value, end = _scan(text, 0)
        except StopIteration:
            end = -1
        # Its own method finds white space around a text, by two regular expressions, and says what is wrong with it.
        if end != len(text):
            value = _DECODER.decode(text)
    except RecursionError:
        raise JSONTextError(f"it is nested more than {max_depth} deep") from None
    except json.JSONDecodeError as error:
        raise JSONTextError(explain_json(error)) from error
    if openings > max_depth or many:
        if outside or len(octets) >= LONG:
            _require_bounds_outside(outside or _outside_strings(octets, max_tokens), max_depth, max_tokens)
        else:
            _require_bounds(value, max_depth, max_tokens)
    if b"\\" in octets and (len(octets) >= LARGE or _SURROGATE.search(octets)):
        try:
            _require_text(value)
        except UnicodeEncodeError:
            raise JSONTextError("a string has a lone surrogate") from None
    return value


def decode_own(octets: bytes) -> Any:
    """
    Read what :func:`encode` wrote in this process: the same value as by :func:`decode`, in a third of the time.

    Names that stand twice are not looked for. :func:`encode` writes them for a mapping whose names are both the number
    1 and the text ``1``, which only code of this host can make; the later one counts then.

    :raises JSONTextError: as :func:`decode` does, for integers, sizes and depth.
    """
    if not is_unchecked(octets):
        return decode(octets)
    return _scan_own(octets.decode("utf-8"), 0)[0]


def is_unchecked(octets: bytes) -> bool:
    """Return whether :func:`decode_own` reads a text without a check: it returns what the text was written of."""
    return len(octets) <= OWN and octets.count(b"{") + octets.count(b"[") <= MAX_DEPTH


def decode_kept(octets: bytes) -> Any:
    """
    Read what this host wrote itself: an answer, or what it keeps.

    Text that was accepted once is never refused when it is read again: it was bounded on arrival, and the host only
    wraps it.

    :raises JSONTextError: it is nested deeper than :data:`KEPT_DEPTH`, which :func:`is_deep` tells beforehand.
    """
    return decode(octets, max_depth=KEPT_DEPTH, max_tokens=max(len(octets), MAX_TOKENS))


def decode_own_kept(octets: bytes) -> Any:
    """
    Read a stored text that is known to be what this host wrote: as :func:`decode_kept`, in a third of the time.

    Names that stand twice are not looked for, as by :func:`decode_own`.

    :raises JSONTextError: as :func:`decode_kept`.
    """
    if is_unchecked(octets):
        try:
            text = octets.decode("utf-8")
            value, end = _scan_own(text, 0)
            if end == len(text):
                return value
        except (StopIteration, ValueError):
            pass
    return decode_kept(octets)


def kept_length(value: Any) -> int:
    """Octets of the JSON of what is to be kept; 0 where it could not be read again: at the next start, for one."""
    return len(encode_kept(value))


def encode_kept(value: Any) -> bytes:
    """Write the JSON of what is to be kept; nothing where it is too deep to be read again."""
    encoded = encode(value)
    deep = encoded.count(b"[") + encoded.count(b"{") > KEPT_DEPTH and is_deep(value, KEPT_DEPTH)
    return b"" if deep else encoded


def is_deep(value: Any, most: int) -> bool:
    """Return whether arrays and objects are more than ``most`` inside each other."""
    level: list[Any] = [value] if type(value) in _NESTING else []
    for _ in range(most):
        if not level:
            return False
        level = [
            member
            for item in level
            for member in (item.values() if type(item) is dict else item)
            if type(member) in _NESTING
        ]
    return bool(level)


def encode(value: Any) -> bytes:
    """
    Write one JSON text: compact UTF-8, names in the order given.

    :raises ValueError: for NaN, infinities, lone surrogates and circular values.
    :raises TypeError: for what JSON cannot hold.
    """
    try:
        return _encode(value).encode("utf-8")
    except RecursionError:
        raise ValueError("the value contains itself, or is nested too deeply") from None
