"""
Header fields: core v08 section 5.5; the syntax of a field line is RFC 9112 section 5.

Names are compared without case; order and spelling are kept as received. A
repeated field reads as its values joined by a comma, and says that it was
repeated, so that whoever needs exactly one can refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_NONE: frozenset[str] = frozenset()


class Headers:
    """
    An immutable list of header fields.

    :param fields: ``(name, value)`` pairs in wire order, values without
        surrounding white space.
    """

    __slots__ = ("_fields", "_index", "repeated")

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields = tuple(fields)
        index: dict[str, str] = {}
        repeated: set[str] = set()
        for name, value in self._fields:
            key = name.lower()
            if key in index:
                index[key] = f"{index[key]}, {value}"
                repeated.add(key)
            else:
                index[key] = value
        self._index = index
        self.repeated: frozenset[str] = frozenset(repeated)
        """The lower-case names of fields that occur more than once."""

    @classmethod
    def indexed(cls, fields: list[tuple[str, str]], index: dict[str, str]) -> Headers:
        """
        Headers whose index is built already.

        :param fields: as for the constructor, but none of them repeated.
        :param index: their values by lower-case name.
        """
        headers = cls.__new__(cls)
        headers._fields = tuple(fields)
        headers._index = index
        headers.repeated = _NONE
        return headers

    def get(self, name: str) -> str | None:
        """The value of ``name`` (given in lower case), repeated ones joined by ``", "``; None if absent."""
        return self._index.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    def __repr__(self) -> str:
        return f"Headers({[name for name, _ in self._fields]})"
