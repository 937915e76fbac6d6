"""
The text of a document: YAML or JSON to plain values, with the place of each (AGIS v01 section 10).

Both notations go the same way and give the same values. Everything is
bounded while it is read, and one fault of the text is one finding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from agtphost.vocabulary import jsontext, yamltext
from agtphost.vocabulary.yamltext import Mark, Marks

MAX_OCTETS = 4 << 20
"""Of a document."""

MAX_DEPTH = 32
"""Lists and mappings inside each other."""

MAX_VALUES = 500_000
"""Values and names of a document; 5,000 endpoints have about 300,000."""

Place = tuple[str | int, ...]
"""Names and indexes, from the document's root inwards."""

_BOUNDS = yamltext.Bounds(octets=MAX_OCTETS, events=MAX_VALUES, depth=MAX_DEPTH, guessing=True)
_SPACE = re.compile(r"[ \t\n\r]*", re.ASCII)
_SCALAR = re.compile(r'[^\s,\]}"]+')
_JSON_PLACE = re.compile(r" \(line ([0-9]+), column ([0-9]+)\)$")
_ILLUSTRATIVE = re.compile(r"(?m)^[ \t]*+(?:[A-Z]++ /\S*+(?<!:) \{|(?:semantic|vocabulary|data_manifest|input) \{)")


class Unreadable(ValueError):
    """The text is no document."""

    def __init__(self, reason: str, mark: Mark | None, *, illustrative: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.mark = mark or (1, 1)
        self.illustrative = illustrative
        """Whether it is the notation of the draft's examples."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Values, and where they stand."""

    root: Any
    marks: Marks = field(default_factory=dict)

    def mark(self, place: Place) -> Mark:
        """
        Line and column of a place, or of what is around it.

        :return: (0, 0) where no text was read.
        """
        within, found = self.root, (1, 1) if self.marks else (0, 0)
        for name in place:
            found = self.marks.get(id(within), {}).get(name, found)
            try:
                within = within[name]
            except (KeyError, IndexError, TypeError):
                break
        return found


def read(octets: bytes) -> Tree:
    """
    Read one document.

    :param octets: UTF-8, with or without a byte order mark.
    :raises Unreadable: naming what is wrong.
    """
    if len(octets) > MAX_OCTETS:
        raise Unreadable(f"it has more than {MAX_OCTETS} octets", None)
    octets = octets.removeprefix(b"\xef\xbb\xbf")
    _utf_8(octets)
    if octets.lstrip(b" \t\r\n")[:1] in (b"{", b"["):
        return _read_json(octets)
    marks: Marks = {}
    try:
        root = yamltext.decode(octets, _BOUNDS, marks)
        return Tree(root=root, marks=marks or {id(root): {}})
    except yamltext.YAMLTextError as error:
        text = octets.decode("utf-8")
        illustration = _ILLUSTRATIVE.search(text)
        if illustration is None:
            raise Unreadable(_reason(octets, error), error.mark) from None
        mark = text.count("\n", 0, illustration.start()) + 1, 1
        raise Unreadable("it is the draft's illustrative notation", mark, illustrative=True) from None


def _utf_8(octets: bytes) -> None:
    """:raises Unreadable: it is written otherwise, with the place of what shows it."""
    if octets.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in octets[:4]:
        raise Unreadable("it is UTF-16 or UTF-32, and documents are UTF-8", None)
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError as error:
        before = octets[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8")) + 1
        mark = before.count(b"\n") + 1, column
        raise Unreadable(f"it is not UTF-8 (octet {error.start})", mark) from None


def _reason(octets: bytes, error: yamltext.YAMLTextError) -> str:
    """In words of somebody who does not know what tokens are."""
    if error.mark is not None:
        line = octets.split(b"\n", error.mark[0])[error.mark[0] - 1 :][:1]
        if line and line[0].lstrip(b" ").startswith(b"\t"):
            return "a tab indents this line, and YAML is indented by spaces"
    return error.reason.partition("\n")[0]


def _read_json(octets: bytes) -> Tree:
    """JSON, or YAML's flow style, which begins like it."""
    try:
        root = jsontext.decode(octets, max_depth=MAX_DEPTH, max_tokens=MAX_VALUES)
    except jsontext.JSONTextError as error:
        try:
            marks: Marks = {}
            return Tree(root=yamltext.decode(octets, _BOUNDS, marks), marks=marks)
        except yamltext.YAMLTextError as other:
            told = _JSON_PLACE.search(str(error))
            mark = (int(told[1]), int(told[2])) if told else other.mark
            raise Unreadable(str(error)[: told.start()] if told else str(error), mark) from None
    return Tree(root=root, marks=_Marking(octets.decode("utf-8")).marks_of(root))


class _Marking:
    """Goes over a JSON text beside its values, which say what comes next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._line = 0
        self._marks: Marks = {}

    def marks_of(self, root: Any) -> Marks:
        self._value(root)
        return self._marks

    def _value(self, value: Any) -> None:
        self._space()
        if isinstance(value, dict):
            self._members(value)
        elif isinstance(value, list):
            self._items(value)
        elif isinstance(value, str):
            self._at = scanstring(self._text, self._at + 1, True)[1]
        else:
            found = _SCALAR.match(self._text, self._at)
            assert found is not None
            self._at = found.end()

    def _members(self, value: dict[str, Any]) -> None:
        marks: dict[str | int, Mark] = {}
        self._marks[id(value)] = marks
        self._at += 1
        for name, member in value.items():
            self._space()
            marks[name] = self._here()
            self._at = scanstring(self._text, self._at + 1, True)[1]
            self._space()
            self._at += 1  # The colon.
            self._value(member)
            self._space()
            self._at += 1  # The comma, or the brace.
        if not value:
            self._space()
            self._at += 1

    def _items(self, value: Sequence[Any]) -> None:
        marks: dict[str | int, Mark] = {}
        self._marks[id(value)] = marks
        self._at += 1
        for index, item in enumerate(value):
            self._space()
            marks[index] = self._here()
            self._value(item)
            self._space()
            self._at += 1
        if not value:
            self._space()
            self._at += 1

    def _space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _here(self) -> Mark:
        lines = self._lines
        while self._line + 1 < len(lines) and lines[self._line + 1] <= self._at:
            self._line += 1
        return self._line + 1, self._at - lines[self._line] + 1
