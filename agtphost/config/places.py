"""Where the keys of a configuration stand, for what is told of it while it is in use."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.vocabulary.tomltext import Location


class Places:
    """
    Lines by location, counted from 1.

    Equal to every other, as where a key stands changes nothing of what it says.
    """

    __slots__ = ("_lines",)

    def __init__(self, lines: Mapping[Location, int] | None = None) -> None:
        self._lines = lines or {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places)

    def __hash__(self) -> int:
        return hash(Places)

    def of(self, location: Location) -> tuple[int, bool]:
        """The line of a key, and True; else that of the nearest table around it, 0 where there is none, and False."""
        around = location
        while around and around not in self._lines:
            around = around[:-1]
        return self._lines.get(around, 0), around == location
