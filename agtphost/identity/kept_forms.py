"""
Cached encodings of long arrays, so that a document is written and signed without encoding each item.

The canonical form of an array contains those of its items (RFC 8785), and so does its JSON. Of a document with many
thousand items, only those that changed are encoded again.
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


class EncodedArray(list[Any]):
    """
    An array with its encodings; it must not be changed.

    :param items: its values.
    :param canonical_form: of the array: UTF-8.
    :param text: its JSON, with names in the order of ``items``.
    """

    __slots__ = ("canonical_form", "text")

    def __init__(self, items: Iterable[Any], canonical_form: bytes, text: bytes) -> None:
        super().__init__(items)
        self.canonical_form = canonical_form
        self.text = text


class UnescapedText(str):
    """Text without a character that JSON would escape: base64url and the like. It may be megabytes long."""

    __slots__ = ()


EncodedItem = tuple[Any, bytes, bytes]
"""A value, its canonical form and its JSON."""


def encode_item(value: Any) -> EncodedItem:
    """
    Return a value with its encodings.
    """
    written = _Written(jsontext.encode(value), value)
    return value, _form(written), written.text


@dataclass(frozen=True, slots=True)
class _Written:
    """A value that is compared by its text."""

    text: bytes
    value: Any = field(compare=False)


@lru_cache(maxsize=16_384)
def _form(written: _Written) -> bytes:
    """Return the canonical form; cached, because a host that reads its files again encodes most items as before."""
    return canonical(written.value)


def encode_array(items: Iterable[EncodedItem]) -> EncodedArray:
    """Join encoded items to an encoded array."""
    found = list(items)
    return EncodedArray(
        (value for value, _, _ in found),
        b"[%b]" % b",".join([form for _, form, _ in found]),
        b"[%b]" % b",".join([text for _, _, text in found]),
    )


class EncodedItemCache(Generic[Source]):
    """
    Encoded items by their source; an item is made again only if its source is another object. The cache has the items
    of the latest array only.

    :param name: what tells the sources apart.
    :param make: an item's value.
    """

    def __init__(self, name: Callable[[Source], str], make: Callable[[Source], Any]) -> None:
        self._name = name
        self._make = make
        self._items: dict[str, tuple[Source, EncodedItem]] = {}

    def prepare(self, sources: Iterable[Source]) -> Generator[None, None, None]:
        """Make items in steps, so that their array has little left to make."""
        for number, source in enumerate(sources, 1):
            name = self._name(source)
            found = self._items.get(name)
            if found is None or found[0] is not source:
                self._items[name] = source, encode_item(self._make(source))
            if not number % STEP:
                yield

    def __call__(self, sources: Iterable[Source]) -> EncodedArray:
        """The array of what is made of the sources, in their order."""
        known, items = self._items, {}
        for source in sources:
            name = self._name(source)
            found = known.get(name)
            items[name] = (
                (source, encode_item(self._make(source))) if found is None or found[0] is not source else found
            )
        self._items = items
        return encode_array(each for _, each in items.values())


def canonical_pieces(document: Mapping[str, Any]) -> Iterator[bytes]:
    """
    Yield the pieces of the canonical form of an object whose members may be :class:`EncodedArray`
    (:func:`agtphost.identity.canonical.canonical`).

    :param document: with names in ASCII.
    :raises agtphost.identity.canonical.CanonicalError: where a member has no canonical form.
    """
    sign = b"{"
    for name in sorted(document):
        value = document[name]
        yield b'%b"%b":' % (sign, name.encode("ascii"))
        yield value.canonical_form if type(value) is EncodedArray else canonical(value)
        sign = b","
    yield b"}"


def text_pieces(document: Mapping[str, Any]) -> Iterator[bytes]:
    """
    Yield the pieces of the JSON of an object, as :func:`agtphost.vocabulary.jsontext.encode` writes it.

    Its members may be :class:`EncodedArray` or :class:`UnescapedText`.

    :param document: with names in ASCII that need no escapes.
    """
    sign = b"{"
    for name, value in document.items():
        yield b'%b"%b":' % (sign, name.encode("ascii"))
        if type(value) is UnescapedText:
            yield b'"%b"' % value.encode("ascii")
        else:
            yield value.text if type(value) is EncodedArray else jsontext.encode(value)
        sign = b","
    yield b"}"
