"""Where a configuration's keys and values are from, for messages and comparisons while it is in use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agtphost.vocabulary.regular_files import Stamp
from agtphost.vocabulary.tomltext import Location


class Places:
    """
    Lines by location, counted from 1, and the files that values were read from.

    All instances are equal, because where a value is from does not change its meaning.
    """

    __slots__ = ("_lines", "files")

    def __init__(self, lines: Mapping[Location, int] | None = None, files: Mapping[Path, Stamp] | None = None) -> None:
        self._lines = lines or {}
        self.files = files or {}

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
