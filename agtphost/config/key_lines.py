"""The lines of a configuration's keys, for messages while it is in use."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.vocabulary.tomltext import Location


class Places:
    """
    Lines by location, counted from 1.

    All instances are equal, because the line of a key does not change its meaning.
    """

    __slots__ = ("_lines",)

    def __init__(self, lines: Mapping[Location, int] | None = None) -> None:
        self._lines = lines or {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places)

    def __hash__(self) -> int:
        return hash(Places)

    def find_line(self, location: Location) -> tuple[int, bool]:
        """Return the line of a key, and True; otherwise that of the nearest table around it, or 0, and False."""
        around = location
        while around and around not in self._lines:
            around = around[:-1]
        return self._lines.get(around, 0), around == location
