r"""
The text of a record: what is signed, in the RFC 8785 form.

How it works. Records are few kinds of the same thing: which members they have repeats, and their values are short texts
of visible ASCII. So the text of each kind is kept with gaps, its names sorted once, and a record fills the gaps. That
holds as long as no value needs an escape, which the JSON encoder's own function says of all values of a record
together: an escape is longer than its character. Everything else is encoded the slow way: by the encoder of the
standard library, and where that would write something else than RFC 8785, through :func:`canonical`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii as escaped
from marshal import dumps
from operator import itemgetter
from typing import Any

from agtphost.identity.canonical import canonical
from agtphost.vocabulary.jsontext import prepare_encoder

_encode = prepare_encoder(json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False))

_OTHERS = frozenset({"extra", "host_state", "invoked", "operator", "prior_actions", "status"})
"""Members that are not texts in the records that have them."""

MOST_KINDS = 512
"""Combinations of names whose text is kept, of some 2 KiB each: callers choose among a few hundred."""

_CONTAINERS = frozenset({dict, list})


class _Kind:
    """
    The text of all records with the same members.

    :param names: of the members, two or more.
    """

    __slots__ = ("others", "pieces", "values")

    def __init__(self, names: tuple[str, ...]) -> None:
        ordered = sorted(names)
        self.values: Callable[[Mapping[str, Any]], tuple[Any, ...]] = itemgetter(*ordered)
        """What a record has for the gaps, in their order."""
        self.others = tuple((gap, name) for gap, name in enumerate(ordered) if name in _OTHERS)
        """Gaps that take no text, but JSON of another kind."""
        self.pieces: list[str] = []
        """The text, with a place at every second for a value: quotation marks are around gaps that take texts."""
        before = "{"
        for name in ordered:
            mark = "" if name in _OTHERS else '"'
            self.pieces += [f'{before}"{name}":{mark}', ""]
            before = f"{mark},"
        self.pieces.append(f"{before[:-1]}}}")


@lru_cache(maxsize=MOST_KINDS)
def _kind(names: tuple[str, ...]) -> _Kind | None:
    """Return the kind of payloads with these members; None if a name might be escaped or sorted differently."""
    plain = len(names) > 1 and all(type(name) is str and len(escaped(name)) == len(name) + 2 for name in names)
    return _Kind(names) if plain else None


def _plain(value: object) -> bool:
    """Return whether both encoders write ``value`` identically, if its text needs no escape."""
    kind = type(value)
    if kind is str or value is None:
        return True
    if kind is dict:
        for name, item in value.items():  # type: ignore[attr-defined]
            if not isinstance(name, str) or not (type(item) is str or _plain(item)):
                return False
        return True
    if isinstance(value, (list, tuple)):
        return all(map(_plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and _plain(item) for name, item in value.items())
    return isinstance(value, str) or (isinstance(value, int) and abs(value) < 2**53)


def _write_container(value: Any) -> str:
    """Return the JSON of a list or an object that both encoders write identically; a backslash if they do not."""
    try:
        octets = dumps(value, 2)
    except ValueError:
        octets = b""
    text = _written.get(octets)
    if text is None:
        text = _encode(value) if _plain(value) else "\\"
        if 0 < len(octets) <= MOST_OCTETS:
            if len(_written) >= MOST_KINDS:
                _written.clear()
            _written[octets] = text
    return text


_written: dict[bytes, str] = {}
"""The JSON of small containers by their octets in the form of ``marshal``, which takes a third of the time."""

MOST_OCTETS = 512
"""Octets of a container whose JSON is kept; those of most records are the same in every call of an endpoint."""


def _fill_text(payload: Mapping[str, object]) -> bytes | None:
    """Return the text of a usual record; None for every other one."""
    kind = _kind(tuple(payload))
    if kind is None:
        return None
    values: list[Any] = list(kind.values(payload))
    written = []
    for gap, _ in kind.others:
        value = values[gap]
        if type(value) is int:
            text = str(value) if -(2**53) < value < 2**53 else "\\"
        elif type(value) in _CONTAINERS:
            text = _write_container(value)
        else:
            return None
        if "\\" in text:
            return None
        written.append((gap, text))
        values[gap] = ""
    try:
        texts = "".join(values)
    except TypeError:
        return None  # Something else than a text where texts usually are.
    if len(escaped(texts)) != len(texts) + 2:
        return None
    for gap, text in written:
        values[gap] = text
    pieces = kind.pieces.copy()
    pieces[1::2] = values
    return "".join(pieces).encode("ascii")


def encode_payload(payload: Mapping[str, object]) -> bytes:
    r"""
    Return the RFC 8785 form of a record's payload.

    :raises ValueError: if it has none.
    :raises TypeError: if it holds what JSON does not have.
    """
    return _fill_text(payload) or encode_any(payload)


def encode_any(payload: Mapping[str, object]) -> bytes:
    r"""
    Encode any payload, in the slow way.

    For what records consist of (short ASCII names, strings, small integers) the standard library's encoder writes
    the same octets as :func:`canonical`; everything else goes through that.
    """
    if not _plain(payload):
        return canonical(payload)
    text = _encode(payload)
    # RFC 8785 writes the characters of numeric escapes as they are, and refuses lone surrogates.
    return canonical(payload) if "\\u" in text else text.encode("ascii")
