"""A parser of regular expressions, for the syntax that :mod:`.pattern_automaton` supports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Chars = tuple[tuple[int, int], ...]
"""Ranges of characters: first and last character of each."""

Node = Any
"""
A tuple: ``("chars", Chars)``, ``("all", nodes)`` for a sequence, ``("any", nodes)`` for alternatives, or ``("times",
node, least, most)``; ``most`` is None if it is unbounded.
"""

LAST = 0x10FFFF

_DIGIT: Chars = ((0x30, 0x39),)
_WORD: Chars = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Chars = ((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x2000, 0x200A), (0x2028, 0x2029), (0xFEFF, 0xFEFF))
_COUNT = re.compile(r"\{([0-9]{1,4})(,([0-9]{1,4})?)?\}", re.ASCII)
_GROUP = re.compile(r"\((?:\?(?::|P?<[A-Za-z_][A-Za-z0-9_]*>))?(?!\?)", re.ASCII)
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})", re.ASCII)
_PLAIN = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}


class UnsupportedPattern(Exception):
    """The expression has unsupported syntax: a look-around, a boundary, a flag, a class by property."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression."""

    node: Node
    from_start: bool
    """Whether it is anchored with ``^``."""

    to_end: bool
    """Whether it is anchored with ``$``."""


def parse(pattern: str) -> Expression:
    """
    Parse a regular expression.

    :raises UnsupportedPattern: it has unsupported syntax.
    """
    from_start = pattern.startswith("^")
    reader = _PatternReader(pattern, 1 if from_start else 0)
    node = reader.alternatives()
    to_end = reader.at < len(pattern) and pattern[reader.at] == "$"
    if reader.at + to_end != len(pattern):
        raise UnsupportedPattern
    if node[0] == "any" and (from_start or to_end):
        raise UnsupportedPattern  # The anchor belongs to one alternative only.
    return Expression(node, from_start, to_end)


def _except(chars: Chars) -> Chars:
    found, at = [], 0
    for low, high in sorted(chars):
        if low > at:
            found.append((at, low - 1))
        at = max(at, high + 1)
    if at <= LAST:
        found.append((at, LAST))
    return tuple(found)


_ANY = _except(((0x0A, 0x0A),))
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE, "D": _except(_DIGIT), "W": _except(_WORD), "S": _except(_SPACE)}


class _PatternReader:
    def __init__(self, pattern: str, at: int) -> None:
        self._pattern = pattern
        self.at = at

    def _peek(self) -> str:
        return self._pattern[self.at : self.at + 1]

    def _next(self) -> str:
        found = self._peek()
        if not found:
            raise UnsupportedPattern
        self.at += 1
        return found

    def alternatives(self) -> Node:
        found = [self._row()]
        while self._peek() == "|":
            self.at += 1
            found.append(self._row())
        return found[0] if len(found) == 1 else ("any", found)

    def _row(self) -> Node:
        row: list[Node] = []
        while (char := self._peek()) and char not in "|)$":
            row.append(self._read_repetition(self._atom()))
        return ("all", row)

    def _atom(self) -> Node:
        group = _GROUP.match(self._pattern, self.at)
        if group is not None:
            self.at = group.end()
            inner = self.alternatives()
            if self._next() != ")":
                raise UnsupportedPattern
            return inner
        char = self._next()
        if char == "[":
            return ("chars", self._class())
        if char == ".":
            return ("chars", _ANY)
        if char == "\\":
            return ("chars", self._read_escape())
        if char in "^(*+?{":
            raise UnsupportedPattern
        return ("chars", ((ord(char), ord(char)),))

    def _read_repetition(self, atom: Node) -> Node:
        char = self._peek()
        if char and char in "*+?":
            self.at += 1
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        elif char == "{":
            count = _COUNT.match(self._pattern, self.at)
            if count is None:
                raise UnsupportedPattern
            self.at = count.end()
            least = int(count[1])
            most = least if count[2] is None else int(count[3]) if count[3] else None
        else:
            return atom
        if self._peek() == "?":
            self.at += 1  # Laziness does not change whether there is a match.
        if self._peek() in ("*", "+", "{") or (most is not None and most < least):
            raise UnsupportedPattern
        return ("times", atom, least, most)

    def _read_escape(self) -> Chars:
        code = _CODE.match(self._pattern, self.at)
        if code is not None:
            self.at = code.end()
            point = int(code[1] or code[2], 16)
            return ((point, point),)
        char = self._next()
        if char in _CLASSES:
            return _CLASSES[char]
        char = _PLAIN.get(char, char)
        if char.isalnum():
            raise UnsupportedPattern
        return ((ord(char), ord(char)),)

    def _class(self) -> Chars:
        negated = self._peek() == "^"
        self.at += negated
        found: list[tuple[int, int]] = []
        if self._peek() == "]":
            raise UnsupportedPattern
        while (char := self._next()) != "]":
            if char == "[" or (char in "&~-" and self._peek() == char):
                raise UnsupportedPattern  # Nested classes and set operations are not supported.
            ranges = self._read_escape() if char == "\\" else ((ord(char), ord(char)),)
            if self._peek() == "-" and self._pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                char = self._next()
                last = self._read_escape() if char == "\\" else ((ord(char), ord(char)),)
                if len(ranges) != 1 or len(last) != 1 or ranges[0][0] != ranges[0][1] or last[0][0] != last[0][1]:
                    raise UnsupportedPattern
                ranges = ((ranges[0][0], last[0][0]),)
            found.extend(ranges)
        return _except(tuple(found)) if negated else tuple(sorted(set(found)))
