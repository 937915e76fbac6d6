"""
Long arrays of a document that keep their texts, so that the whole is written and signed without looking at each item.

A canonical form has those of its parts in it (RFC 8785), and so has a JSON text. Of a document with many thousand
items of which few change, only what changed is written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

from agtphost.identity.canonical import canonical
from agtphost.vocabulary import jsontext

Source = TypeVar("Source")

STEP = 50
"""Items that are made in one step."""


class Kept(list[Any]):
    """
    An array, not to be changed, with its texts.

    :param items: its values.
    :param canonical_form: of the array: UTF-8.
    :param text: its JSON, with names in the order of ``items``.
    """

    __slots__ = ("canonical_form", "text")

    def __init__(self, items: Iterable[Any], canonical_form: bytes, text: bytes) -> None:
        super().__init__(items)
        self.canonical_form = canonical_form
        self.text = text


class Plain(str):
    """Text without a character that JSON would escape: base64url and the like. It may be megabytes long."""

    __slots__ = ()


Item = tuple[Any, bytes, bytes]
"""A value, its canonical form and its JSON."""


def item(value: Any) -> Item:
    """
    :raises ValueError: where the value has no JSON, or no canonical form.
    """
    written = _Written(jsontext.encode(value), value)
    return value, _form(written), written.text


@dataclass(frozen=True, slots=True)
class _Written:
    """A value, which its text tells from others."""

    text: bytes
    value: Any = field(compare=False)


@lru_cache(maxsize=16_384)
def _form(written: _Written) -> bytes:
    """The canonical form: a host that reads its files anew writes most of its items as before."""
    return canonical(written.value)


def kept(items: Iterable[Item]) -> Kept:
    """The array of so many items."""
    found = list(items)
    return Kept(
        (value for value, _, _ in found),
        b"[%b]" % b",".join([form for _, form, _ in found]),
        b"[%b]" % b",".join([text for _, _, text in found]),
    )


class Keeper(Generic[Source]):
    """
    Items that are made of something, made anew only where that is another object.

    What nothing is asked of any more is forgotten: there are never more than in the latest array.

    :param name: what tells the sources apart.
    :param make: an item's value.
    """

    def __init__(self, name: Callable[[Source], str], make: Callable[[Source], Any]) -> None:
        self._name = name
        self._make = make
        self._items: dict[str, tuple[Source, Item]] = {}

    def prepare(self, sources: Iterable[Source]) -> Generator[None, None, None]:
        """Make items in steps, so that their array has little left to make."""
        for number, source in enumerate(sources, 1):
            name = self._name(source)
            found = self._items.get(name)
            if found is None or found[0] is not source:
                self._items[name] = source, item(self._make(source))
            if not number % STEP:
                yield

    def __call__(self, sources: Iterable[Source]) -> Kept:
        """The array of what is made of the sources, in their order."""
        known, items = self._items, {}
        for source in sources:
            name = self._name(source)
            found = known.get(name)
            items[name] = (source, item(self._make(source))) if found is None or found[0] is not source else found
        self._items = items
        return kept(each for _, each in items.values())


def canonical_pieces(document: Mapping[str, Any]) -> Iterator[bytes]:
    """
    What together is :func:`agtphost.identity.canonical.canonical` of an object whose members may be :class:`Kept`.

    :param document: with names in ASCII.
    :raises agtphost.identity.canonical.CanonicalError: where a member has no canonical form.
    """
    sign = b"{"
    for name in sorted(document):
        value = document[name]
        yield b'%b"%b":' % (sign, name.encode("ascii"))
        yield value.canonical_form if type(value) is Kept else canonical(value)
        sign = b","
    yield b"}"


def text_pieces(document: Mapping[str, Any]) -> Iterator[bytes]:
    """
    What together is :func:`agtphost.vocabulary.jsontext.encode` of an object.

    Its members may be :class:`Kept` or :class:`Plain`.

    :param document: with names in ASCII that need no escapes.
    """
    sign = b"{"
    for name, value in document.items():
        yield b'%b"%b":' % (sign, name.encode("ascii"))
        if type(value) is Plain:
            yield b'"%b"' % value.encode("ascii")
        else:
            yield value.text if type(value) is Kept else jsontext.encode(value)
        sign = b","
    yield b"}"
