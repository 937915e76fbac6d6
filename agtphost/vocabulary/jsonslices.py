"""Write large JSON texts in slices, so that the writer can do other work in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agtphost.vocabulary import jsontext

HEAVY = 5_000
"""Values and names, and 32 characters of text for one each, that are written in one go: some milliseconds' work."""

TEXT = 262_144
"""Characters of one text that are written in one go."""


class Encoded:
    """
    A value that is encoded already, to be inserted into another value's JSON.

    :param octets: of the whole text.
    :param value: what it was decoded to; None where that is not known. It is shared, and not to be changed.
    """

    __slots__ = ("octets", "value")

    def __init__(self, octets: bytes, value: Any = None) -> None:
        self.octets = octets
        self.value = value


def weight(value: Any, most: int = HEAVY) -> int:
    """Return the cost of writing a value, counted in values; the count stops a little over ``most``."""
    kind = type(value)
    if kind is str:
        return 1 + len(value) // 32
    if kind is not dict and kind is not list and kind is not tuple:
        return 1
    found, containers = 1, [value]
    while containers:
        container = containers.pop()
        found += len(container)
        if found > most:
            break
        for item in container.values() if type(container) is dict else container:
            kind = type(item)
            if kind is str:
                if len(item) > 31:
                    found += len(item) // 32
            elif kind is dict or kind is list or kind is tuple:
                containers.append(item)
    return found


def least_octets(value: Any, most: int) -> int:
    """
    Return how many octets the JSON of a value has at least: texts and names without what escapes add.

    Counted no further than a little over ``most``, so that the size of a large result is known before it is written.
    """
    found = 0
    waiting = [value]
    while waiting and found <= most:
        each = waiting.pop()
        kind = type(each)
        if kind is str:
            found += len(each) + 2
        elif kind is dict:
            found += 2 + sum(map(len, each)) + 4 * len(each)
            waiting.extend(each.values())
        elif kind is list or kind is tuple:
            found += 2 + len(each)
            waiting.extend(each)
        else:
            found += 1
    return found


def slices(value: Any) -> Iterator[bytes]:
    """
    Yield the text of :func:`jsontext.encode`, piece by piece.

    :raises ValueError: as that does.
    :raises TypeError: as that does.
    """
    if weight(value) <= HEAVY:
        yield jsontext.encode(value)
    elif isinstance(value, str):
        yield b'"'
        for at in range(0, len(value), TEXT):
            yield jsontext.encode(value[at : at + TEXT])[1:-1]
        yield b'"'
    elif isinstance(value, dict):
        yield from _members(value)
    elif isinstance(value, (list, tuple)):
        yield from _items(value)
    else:
        yield jsontext.encode(value)


def object_slices(members: Iterable[tuple[str, Any]]) -> Iterator[bytes]:
    """
    Yield the text of an object piece by piece, while its members are still being made.

    :param members: names and values; each is encoded alone, and not referred to any more when the next one is made.
    """
    separator = b"{"
    for name, item in members:
        yield separator + jsontext.encode({name: item})[1:-1]
        separator = b","
        del item
    yield b"{}" if separator == b"{" else b"}"


def _members(value: dict[Any, Any]) -> Iterator[bytes]:
    separator, batch, load = b"{", dict[Any, Any](), 0
    for name, item in value.items():
        more = weight(item)
        if batch and load + more > HEAVY:
            yield separator + jsontext.encode(batch)[1:-1]
            separator, batch, load = b",", {}, 0
        if more > HEAVY:
            yield separator + jsontext.encode({name: 0})[1:-2]
            separator = b","
            yield from slices(item)
        else:
            batch[name] = item
            load += more
    if batch:
        yield separator + jsontext.encode(batch)[1:-1]
    yield b"}"


def _items(value: list[Any] | tuple[Any, ...]) -> Iterator[bytes]:
    separator, batch, load = b"[", list[Any](), 0
    for item in value:
        more = weight(item)
        if batch and load + more > HEAVY:
            yield separator + jsontext.encode(batch)[1:-1]
            separator, batch, load = b",", [], 0
        if more > HEAVY:
            yield separator
            separator = b","
            yield from slices(item)
        else:
            batch.append(item)
            load += more
    if batch:
        yield separator + jsontext.encode(batch)[1:-1]
    yield b"]"
