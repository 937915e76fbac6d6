"""Make texts that match a pattern, for the plain patterns that endpoint schemas use."""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass

MOST = 8
"""Repetitions if a pattern sets no bound."""

_CLASSES = {"d": string.digits, "w": string.ascii_letters + string.digits + "_", "s": " "}
_DOT = string.ascii_lowercase + string.digits
_COUNT = re.compile(r"\{([0-9]{1,4})(,)?([0-9]{1,4})?\}", re.ASCII)
_SIGNS = {"?": (0, 1), "*": (0, MOST), "+": (1, MOST)}


class UnsupportedPattern(ValueError):
    """The pattern uses a feature that this module does not support."""


@dataclass
class _PatternWalker:
    """A parser that makes a matching text while it reads a pattern."""

    pattern: str
    dice: random.Random
    at: int = 0

    def alternatives(self) -> str:
        """Make a text for one of the alternatives up to ``)`` or the end."""
        found = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            found.append(self._sequence())
        return self.dice.choice(found)

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _sequence(self) -> str:
        made = []
        while (sign := self._peek()) and sign not in "|)":
            start = self.at
            piece = self._piece()
            least, most = self._repetitions()
            after = self.at
            repeated = []
            for _ in range(self.dice.randint(least, most)):
                self.at = start
                repeated.append(self._piece() if most > 1 else piece)
            self.at = after
            made.append("".join(repeated))
        return "".join(made)

    def _piece(self) -> str:
        sign = self._peek()
        self.at += 1
        if sign in "^$":
            return ""
        if sign == ".":
            return self.dice.choice(_DOT)
        if sign == "[":
            return self.dice.choice(self._set())
        if sign == "(":
            return self._group()
        if sign == "\\":
            return self._escape()
        if sign in "?*+{":
            raise UnsupportedPattern(self.pattern)
        return sign

    def _group(self) -> str:
        if self.pattern.startswith("?:", self.at):
            self.at += 2
        elif self._peek() == "?":
            raise UnsupportedPattern(self.pattern)
        made = self.alternatives()
        if self._peek() != ")":
            raise UnsupportedPattern(self.pattern)
        self.at += 1
        return made

    def _escape(self) -> str:
        sign = self._peek()
        self.at += 1
        if sign in _CLASSES:
            return self.dice.choice(_CLASSES[sign])
        if not sign or sign.isalnum():
            raise UnsupportedPattern(self.pattern)
        return sign

    def _set(self) -> str:
        end = self.pattern.find("]", self.at + 1)
        content = self.pattern[self.at : end]
        if end < 0 or "\\]" in content:
            raise UnsupportedPattern(self.pattern)
        self.at = end + 1
        negated = content.startswith("^")
        members = _members(content.removeprefix("^"))
        if negated:
            members = "".join(sign for sign in _DOT + string.ascii_uppercase if sign not in members)
        if not members:
            raise UnsupportedPattern(self.pattern)
        return members

    def _repetitions(self) -> tuple[int, int]:
        sign = self._peek()
        least = most = 1
        if sign in _SIGNS and sign:
            self.at += 1
            least, most = _SIGNS[sign]
        elif sign == "{":
            match = _COUNT.match(self.pattern, self.at)
            if match is None:
                raise UnsupportedPattern(self.pattern)
            self.at = match.end()
            least = int(match[1])
            most = int(match[3]) if match[3] else least + MOST if match[2] else least
        if self._peek() in ("?", "+") and sign in _SIGNS:
            self.at += 1
        return least, max(least, min(most, least + MOST))


def _members(content: str) -> str:
    made = []
    at = 0
    while at < len(content):
        if content[at] == "\\":
            name = content[at + 1 : at + 2]
            made.append(_CLASSES.get(name, name))
            at += 2
        elif content[at + 1 : at + 2] == "-" and at + 2 < len(content):
            made.append("".join(map(chr, range(ord(content[at]), ord(content[at + 2]) + 1))))
            at += 3
        else:
            made.append(content[at])
            at += 1
    return "".join(made)


def make_match(pattern: str, dice: random.Random) -> str:
    """
    Return a text that ``pattern`` matches.

    :raises UnsupportedPattern: the pattern has look-around, back references or other rare features.
    """
    reader = _PatternWalker(pattern, dice)
    made = reader.alternatives()
    if reader.at != len(pattern):
        raise UnsupportedPattern(pattern)
    return made
