"""
Header fields: core v08 section 5.5; the syntax of a field line is RFC 9112 section 5.

Names are compared without case; order and spelling are kept as received. A
repeated field reads as its values joined by a comma, and says that it was
repeated, so that a reader that needs exactly one can refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

_NONE: frozenset[str] = frozenset()


class Common:
    """Identifies the requests of a connection that share a head: :mod:`agtphost.wire.heads`."""

    __slots__ = ("__weakref__", "found")

    def __init__(self) -> None:
        self.found: Callable[[], Any] | None = None
        """A weak reference to what a layer above worked out of it; that layer's alone."""


class Headers:
    """
    An immutable list of header fields.

    :param fields: ``(name, value)`` pairs in wire order, values without
        surrounding white space.
    """

    __slots__ = ("_index", "_repeated", "common", "fields")

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self.fields = tuple(fields)
        """As they were given."""
        # Made at the first look-up: what is written to the wire is mostly never looked up.
        self._index: Mapping[str, str] | None = None
        self._repeated = _NONE
        self.common: Common | None = None
        """One object for all that differ in identifiers of single calls alone, from the second on of a connection."""

    @classmethod
    def from_index(cls, fields: Sequence[tuple[str, str]], index: Mapping[str, str]) -> Headers:
        """
        Return headers with an index that is built already.

        :param fields: as for the constructor, but none of them repeated.
        :param index: their values by lower-case name.
        """
        headers = cls.__new__(cls)
        headers.fields = tuple(fields)
        headers._index = index
        headers._repeated = _NONE
        headers.common = None
        return headers

    def _look_up(self) -> dict[str, str]:
        index: dict[str, str] = {}
        repeated: set[str] = set()
        for name, value in self.fields:
            key = name.lower()
            if key in index:
                index[key] = f"{index[key]}, {value}"
                repeated.add(key)
            else:
                index[key] = value
        self._index = index
        if repeated:
            self._repeated = frozenset(repeated)
        return index

    @property
    def repeated_names(self) -> frozenset[str]:
        """The lower-case names of fields that occur more than once."""
        if self._index is None:
            self._look_up()
        return self._repeated

    @property
    def by_name(self) -> Mapping[str, str]:
        """Values by lower-case name, repeated ones joined by ``", "``: for readers of several fields."""
        return self._look_up() if self._index is None else self._index

    def get(self, name: str) -> str | None:
        """Return the value of ``name`` (given in lower case), repeated ones joined by ``", "``; None if absent."""
        return (self._look_up() if self._index is None else self._index).get(name)

    def __contains__(self, name: str) -> bool:
        return name in (self._look_up() if self._index is None else self._index)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.fields)

    def __repr__(self) -> str:
        return f"Headers({[name for name, _ in self.fields]})"
