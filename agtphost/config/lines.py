"""
The line of every key of a TOML document.

Python's parser keeps no positions. This scanner walks a document *that has
already been parsed*, so it needs to recognize only where keys, tables and
values begin and end, never whether they are right.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Mapping

Location = tuple[str | int, ...]
"""Keys and list indices from the top of the document, such as ``("mcp", "server", 0, "name")``."""

_TRIVIA = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*", re.ASCII)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_QUOTED_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\r\n]*")


class _Scanner:
    """One walk over one document; ``lines`` is what it found."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Location, int] = {}
        self._text = text
        self._at = 0
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._lengths: dict[Location, int] = {}

    def scan(self) -> None:
        table: Location = ()
        while self._skip_trivia():
            if self._text.startswith("[[", self._at):
                table = self._header(2)
            elif self._text.startswith("[", self._at):
                table = self._header(1)
            else:
                self._assignment(table)

    def _skip_trivia(self) -> bool:
        match = _TRIVIA.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._at < len(self._text)

    def _record(self, location: Location) -> None:
        self.lines.setdefault(location, bisect_left(self._breaks, self._at) + 1)

    def _header(self, brackets: int) -> Location:
        """``[a.b]`` or ``[[a.b]]``: the table that the following keys belong to."""
        start = self._at
        self._at += brackets
        parts = list(self._key())
        self._at, end = start, self._at
        table: Location = ()
        for position, part in enumerate(parts):
            table += (part,)
            self._record(table)
            if brackets == 2 and position == len(parts) - 1:
                self._lengths[table] = self._lengths.get(table, 0) + 1
            if table in self._lengths:
                table += (self._lengths[table] - 1,)
                self._record(table)
        self._at = end + brackets
        return table

    def _assignment(self, table: Location) -> None:
        start = self._at
        parts = list(self._key())
        self._at, end = start, self._at
        for part in parts:
            table += (part,)
            self._record(table)
        self._at = end + 1  # the equals sign
        self._value(table)

    def _key(self) -> Iterator[str]:
        """The parts of a key, which may be quoted; leaves the position at what follows it."""
        while True:
            self._skip_trivia()
            match = _BARE_KEY.match(self._text, self._at) or _QUOTED_KEY.match(self._text, self._at)
            if match is None:
                raise ValueError(f"no key at offset {self._at}")
            self._at = match.end()
            part = match.group()
            yield str(tomllib.loads(f"key = {part}")["key"]) if part[0] in "\"'" else part
            self._skip_trivia()
            if not self._text.startswith(".", self._at):
                return
            self._at += 1

    def _value(self, location: Location) -> None:
        self._skip_trivia()
        opening = self._text[self._at]
        if opening == "[":
            self._array(location)
        elif opening == "{":
            self._inline_table(location)
        else:
            match = _STRING.match(self._text, self._at) or _SCALAR.match(self._text, self._at)
            assert match is not None
            self._at = match.end()

    def _array(self, location: Location) -> None:
        self._at += 1
        index = 0
        while self._more("]"):
            self._record((*location, index))
            self._value((*location, index))
            index += 1

    def _inline_table(self, location: Location) -> None:
        self._at += 1
        while self._more("}"):
            self._assignment(location)

    def _more(self, closing: str) -> bool:
        """Skip to the next element; False, behind it, once the bracket closes."""
        self._skip_trivia()
        if self._text.startswith(",", self._at):
            self._at += 1
            self._skip_trivia()
        if self._text.startswith(closing, self._at):
            self._at += 1
            return False
        return True


def locate(text: str) -> dict[Location, int]:
    """
    Find the line, counted from 1, of every table, key and list element.

    :param text: a document that :mod:`tomllib` accepts.
    """
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.lines


def line_of(lines: Mapping[Location, int], location: Location) -> int:
    """The line of ``location``, or of the nearest thing around it; 0 if nothing around it is in the file."""
    while location:
        if location in lines:
            return lines[location]
        location = location[:-1]
    return 0
