"""
Cached encodings of long arrays, so that a document is written and signed without encoding each item.

The canonical form of an array contains those of its items (RFC 8785), and so does its JSON. Of a document with many
thousand items, only those that changed are encoded again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from json.encoder import encode_basestring as quoted
from threading import Lock
from typing import Any, Generic, TypeVar

from agtphost.identity.canonical import canonical
from agtphost.vocabulary import jsontext

Source = TypeVar("Source")

STEP = 50
"""Items that are made in one step."""


class UnescapedText(str):
    """Text without a character that JSON would escape: base64url and the like. It may be megabytes long."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class EncodedItem:
    """A value with its canonical form and its JSON, in pieces that it may have in common with others."""

    value: Any
    canonical_form: tuple[bytes, ...]
    text: tuple[bytes, ...]
    octets: int
    """Of the text."""


class EncodedArray(list[Any]):
    """An array with its encodings; it must not be changed."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[EncodedItem]) -> None:
        self.items = tuple(items)
        super().__init__(each.value for each in self.items)

    @property
    def octets(self) -> int:
        """The octets of the texts of all items."""
        return sum(each.octets for each in self.items)

    def canonical_pieces(self) -> Iterator[bytes]:
        """Return what together is its canonical form."""
        return _array([each.canonical_form for each in self.items])

    def text_pieces(self) -> Iterator[bytes]:
        """Return what together is its JSON, with names in the order of the items."""
        return _array([each.text for each in self.items])


def _array(items: Iterable[tuple[bytes, ...]]) -> Iterator[bytes]:
    sign = b"["
    for pieces in items:
        yield sign
        yield from pieces
        sign = b","
    yield b"]" if sign == b"," else b"[]"


def encode_array(items: Iterable[EncodedItem]) -> EncodedArray:
    """Join encoded items to an encoded array."""
    return EncodedArray(items)


def encode_item(value: Any) -> EncodedItem:
    """
    Return a value with its encodings.
    """
    text = jsontext.encode(value)
    return EncodedItem(value, (_forms.form_of(text, value),), (text,), len(text))


class _CanonicalForms:
    """
    Canonical forms by the JSON that they are of.

    A host that reads its files anew writes most of its items as before.
    """

    def __init__(self, most: int, octets: int) -> None:
        self._most, self._most_octets = most, octets
        self._octets = 0
        self._forms: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = Lock()

    def form_of(self, text: bytes, value: Any) -> bytes:
        """
        Return the canonical form of a value.

        :param text: its JSON.
        """
        key = blake2b(text, digest_size=20).digest()
        with self._lock:
            found = self._forms.get(key)
            if found is not None:
                self._forms.move_to_end(key)
                return found
        found = canonical(value)
        with self._lock:
            if key not in self._forms:
                self._forms[key] = found
                self._octets += len(found)
            while len(self._forms) > self._most or self._octets > self._most_octets:
                self._octets -= len(self._forms.popitem(last=False)[1])
        return found


_forms = _CanonicalForms(16_384, 16 << 20)


class ItemWriter:
    """
    Writes items of which parts are the same objects: each part once, however many items have it.

    :param places: where an item has an object of such parts, as the names of two members inside each other.
    """

    def __init__(self, places: Iterable[tuple[str, str]]) -> None:
        self._places = dict(places)
        self._parts: dict[tuple[str, int], tuple[Any, tuple[bytes, bytes], tuple[bytes, bytes]]] = {}

    def item(self, value: Mapping[str, Any]) -> EncodedItem:
        """
        Return an item of an object; nothing of it is to be changed.

        :raises ValueError: where it has no JSON, or no canonical form.
        """
        shared = {
            outer: value[outer]
            for outer, inner in self._places.items()
            if isinstance(value.get(outer), dict) and isinstance(value[outer].get(inner), dict) and value[outer][inner]
        }
        if not shared:
            return encode_item(value)
        text = [b"{"]
        canonical_form = [b"{"]
        for number, (name, member) in enumerate(value.items()):
            text.append(_encode_name(name, number))
            text += self._text(member, self._places[name]) if name in shared else [jsontext.encode(member)]
        for number, name in enumerate(sorted(value, key=_order)):
            canonical_form.append(_encode_name(name, number))
            member = value[name]
            if name in shared:
                canonical_form += self._canonical(member, self._places[name])
            else:
                canonical_form.append(canonical(member))
        text.append(b"}")
        canonical_form.append(b"}")
        found = _join_short(text)
        return EncodedItem(value, _join_short(canonical_form), found, sum(map(len, found)))

    def _text(self, member: Mapping[str, Any], inner: str) -> Iterator[bytes]:
        yield b"{"
        for number, (name, each) in enumerate(member.items()):
            yield _encode_name(name, number)
            if name != inner:
                yield jsontext.encode(each)
                continue
            yield b"{"
            for place, (key, part) in enumerate(each.items()):
                if place:
                    yield b","
                yield from self._part(key, part)[0]
            yield b"}"
        yield b"}"

    def _canonical(self, member: Mapping[str, Any], inner: str) -> Iterator[bytes]:
        yield b"{"
        for number, name in enumerate(sorted(member, key=_order)):
            yield _encode_name(name, number)
            each = member[name]
            if name != inner:
                yield canonical(each)
                continue
            yield b"{"
            for place, key in enumerate(sorted(each, key=_order)):
                if place:
                    yield b","
                yield from self._part(key, each[key])[1]
            yield b"}"
        yield b"}"

    def _part(self, name: str, part: Any) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
        """Return the pieces of one member of such an object: of its JSON, and of its canonical form."""
        known = self._parts.get((name, id(part)))
        if known is None:
            text = jsontext.encode(part)
            start = _encode_name(name, 0)
            # Not joined: the canonical form is kept by _forms as well.
            known = part, (start, text), (start, _forms.form_of(text, part))
            self._parts[name, id(part)] = known
        return known[1], known[2]


SHORT = 512
"""Octets of pieces that are joined with those beside them."""


def _join_short(pieces: Iterable[bytes]) -> tuple[bytes, ...]:
    found: list[bytes] = []
    waiting: list[bytes] = []
    for piece in pieces:
        if len(piece) <= SHORT:
            waiting.append(piece)
            continue
        if waiting:
            found.append(b"".join(waiting))
            waiting = []
        found.append(piece)
    if waiting:
        found.append(b"".join(waiting))
    return tuple(found)


def _encode_name(name: str, number: int) -> bytes:
    return b"%b%b:" % (b"," if number else b"", quoted(name).encode("utf-8"))


def _order(name: str) -> bytes:
    """RFC 8785 sorts names by their UTF-16 code units."""
    return name.encode("utf-16be")


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
        """Return the array of what is made of the sources, in their order."""
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
        if type(value) is EncodedArray:
            yield from value.canonical_pieces()
        elif type(value) is list:
            # EncodedItem by item: thousands of endpoints at once take ten times their octets while they are written.
            yield from _array((canonical(each),) for each in value)
        else:
            yield canonical(value)
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
        elif type(value) is EncodedArray:
            yield from value.text_pieces()
        else:
            yield jsontext.encode(value)
        sign = b","
    yield b"}"
