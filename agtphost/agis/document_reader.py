"""
The parser of documents: YAML or JSON to plain values, with the place of each (AGIS v01 section 10).

Both notations give the same values. Everything is bounded while it is read, and a fault of the text is one finding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from agtphost.vocabulary import jsontext, yamltext
from agtphost.vocabulary.yamltext import Mark, Marks

MAX_OCTETS = 4 << 20
"""Most octets of a document."""

MAX_DEPTH = 32
"""Depth of nested lists and mappings."""

MAX_VALUES = 500_000
"""Most values and names of a document; 5,000 endpoints have about 300,000."""

Place = tuple[str | int, ...]
"""Names and indexes, from the document's root inwards."""

_BOUNDS = yamltext.Bounds(octets=MAX_OCTETS, events=MAX_VALUES, depth=MAX_DEPTH, guessing=True)
_SPACE = re.compile(r"[ \t\n\r]*", re.ASCII)
_SCALAR = re.compile(r'[^\s,\]}"]+')
_JSON_PLACE = re.compile(r" \(line ([0-9]+), column ([0-9]+)\)$")
_ILLUSTRATIVE = re.compile(r"(?m)^[ \t]*+(?:[A-Z]++ /\S*+(?<!:) \{|(?:semantic|vocabulary|data_manifest|input) \{)")


_FORBIDDEN = "[^\\t\\n\\r\\x20-\\x7e\\x85\\xa0-\\ud7ff\\ue000-\\ufeff\\uff00-\\ufffd\\U00010000-\\U0010ffff]"
"""Characters that YAML forbids; the pattern is compiled when it is needed, which takes some milliseconds."""

_NO_YAML = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\.|[\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]", re.DOTALL
)
"""Characters that JSON strings may have and YAML may not; other escapes are matched so that none is split."""

_BREAK = re.compile("\\r\\n|[\\n\\r\\x85\\u2028\\u2029]")
_BLOCK = re.compile(r"(?:^|[:\-] +)[|>][-+0-9]*[ \t]*(?:#.*)?$")
"""The end of a line below which a block of text begins."""

_GUESSED = re.compile(r"the plain scalar '(.*)' means")

_FIXES = (
    ("illustrative", "convert it to YAML with agtp agis fmt --from-illustrative"),
    ("it is empty", 'begin with agis: "1.0", and service, agtp and so on'),
    ("more than one document", "write each document into a separate file"),
    ("directive", "remove the line that begins with %"),
    ("an alias", "write out its value"),
    ("an anchor", "remove it, and write out the repeated value"),
    ("a tag", "remove it"),
    ("stands twice", "keep one of them"),
    ("occurs twice", "keep one of them"),
    ("a name is not a string", "put it in quotes"),
    ("nested more than", "move the inner part to the document's schemas, and refer to it: #/schemas/NAME"),
    ("octets outside", "split it into several services"),
    ("it has more than", "split it into several services"),
    ("UTF-", "save it as UTF-8"),
    ("byte order mark", "save it with one byte order mark, or none"),
    ("control character", "remove it"),
    ("a tab indents", "replace it by spaces"),
    ("beyond 2**53", "put it in quotes, or write a smaller number"),
    ("a number", "write a shorter number, or put it in quotes"),
    ("cannot start any token", "put the text in quotes"),
    ("mapping values are not allowed", "put a text that contains a colon and a space in quotes"),
    ("Extra data", "remove everything after the first value"),
    ("", "check the indentation, commas, brackets and quotes of this line and the lines before it"),
)
"""What to do for each reason; the first entry whose text is in the reason applies."""


class Unreadable(ValueError):
    """The text is not a document."""

    def __init__(self, reason: str, mark: Mark | None, fix: str = "", *, illustrative: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.mark = mark or (1, 1)
        self.fix = fix or next(fix for said, fix in _FIXES if said in reason)
        """What to do about it."""

        self.illustrative = illustrative
        """Whether it is in the notation of the draft's examples."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Values with their places in the text."""

    root: Any
    marks: Marks = field(default_factory=dict)

    def mark(self, place: Place) -> Mark:
        """
        Return line and column of a place, or of the value around it.

        :return: (0, 0) if the values were not read from a text.
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
    :raises Unreadable: the text is invalid; the message says what is wrong.
    """
    if len(octets) > MAX_OCTETS:
        raise Unreadable(f"it has more than {MAX_OCTETS} octets", None)
    octets = octets.removeprefix(b"\xef\xbb\xbf")
    _require_utf_8(octets)
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
            raise _unreadable(text, error) from None
        mark = text.count("\n", 0, illustration.start()) + 1, 1
        raise Unreadable("it is the draft's illustrative notation", mark, illustrative=True) from None


def _require_utf_8(octets: bytes) -> None:
    """
    Check that a text is UTF-8.

    :raises Unreadable: it is not; the mark is the place that shows it.
    """
    if octets.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in octets[:4]:
        raise Unreadable("it is UTF-16 or UTF-32, but documents must be UTF-8", None)
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError as error:
        before = octets[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8")) + 1
        mark = before.count(b"\n") + 1, column
        raise Unreadable(f"it is not UTF-8 (octet {error.start})", mark) from None


def _unreadable(text: str, error: yamltext.YAMLTextError) -> Unreadable:
    """Return the error in words for people who do not know what tokens are."""
    reason = error.reason.partition("\n")[0]
    if error.mark is not None:
        line = text.split("\n", error.mark[0])[error.mark[0] - 1 :][:1]
        if line and line[0].lstrip(" ").startswith("\t"):
            return Unreadable("a tab indents this line, but YAML must be indented by spaces", error.mark)
        comment = _find_ending_comment(_BREAK.split(text)[: error.mark[0]])
        if comment is not None:
            said = (
                "a comment ends the block of text before it: in a block, comments are only above it or behind its sign"
            )
            return Unreadable(said, comment, "move it above the line that ends with | or >, or remove it")
        guessed = _GUESSED.match(reason)
        return Unreadable(reason, error.mark, _unambiguous_form(guessed[1]) if guessed else "")
    odd = re.search(_FORBIDDEN, text)
    if odd is None:
        return Unreadable(reason, None)
    lines = _BREAK.split(text[: odd.start()])
    return Unreadable(f"it has the control character U+{ord(odd[0]):04X}", (len(lines), len(lines[-1]) + 1))


def _find_ending_comment(lines: Sequence[str]) -> Mark | None:
    """
    Return the place of a comment between the lines of a block of text.

    :param lines: up to the one that cannot be read.
    :return: None if the last of them is in no block, or no comment ends it.
    """
    indent = len(lines[-1]) - len(lines[-1].lstrip(" ")) if lines else 0
    found: Mark | None = None
    for number in range(len(lines) - 1, 0, -1):
        line = lines[number - 1]
        own = len(line) - len(line.lstrip(" "))
        if line.lstrip(" ").startswith("#") and own < indent:
            found = number, own + 1
        elif _BLOCK.search(line) is not None and own < indent:
            return found
        elif line.strip() and own < indent:
            return None
    return None


def _unambiguous_form(plain: str) -> str:
    """Return the replacement of a scalar that YAML readers interpret differently."""
    word = plain.lower()
    if word in ("yes", "no", "on", "off", "true", "false", "y", "n"):
        meant = "true" if word in ("yes", "on", "true", "y") else "false"
        return f'{meant}, or "{plain}" if it is a text'
    if word in ("~", "null"):
        return f'null, or "{plain}" if it is a text'
    try:
        number = float(plain)
    except ValueError:
        return f'"{plain}"'
    return f'{number:g}, or "{plain}" if it is a text' if math.isfinite(number) else f'a finite number, or "{plain}"'


def _read_json(octets: bytes) -> Tree:
    """Parse JSON, or YAML's flow style, which begins alike."""
    try:
        root = jsontext.decode(octets, max_depth=MAX_DEPTH, max_tokens=MAX_VALUES)
    except jsontext.JSONTextError as error:
        try:
            marks: Marks = {}
            return Tree(root=yamltext.decode(octets, _BOUNDS, marks), marks=marks)
        except yamltext.YAMLTextError as other:
            told = _JSON_PLACE.search(str(error))
            mark = (int(told[1]), int(told[2])) if told else _mark_of(octets, other)
            raise Unreadable(str(error)[: told.start()] if told else str(error), mark) from None
    return Tree(root=root, marks=_JsonMarks(octets.decode("utf-8")).marks_of(root))


def _mark_of(octets: bytes, found: yamltext.YAMLTextError) -> Mark | None:
    """Return the place of a fault that JSON and YAML share; valid JSON that YAML forbids is replaced by letters."""
    text = _NO_YAML.sub(_letters, octets.decode("utf-8"))
    try:
        yamltext.decode(text.encode("utf-8"), _BOUNDS)
    except yamltext.YAMLTextError as other:
        return other.mark
    return found.mark


def _letters(found: re.Match[str]) -> str:
    """Return as many letters as a match has characters; other escapes stay unchanged."""
    text = found[0]
    return text if len(text) == 2 else text.replace("\\", "_") if text[0] == "\\" else "_"


class _JsonMarks:
    """A pass over a JSON text in parallel with its values, which tell what comes next."""

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
            marks[name] = self._current_mark()
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
            marks[index] = self._current_mark()
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

    def _current_mark(self) -> Mark:
        lines = self._lines
        while self._line + 1 < len(lines) and lines[self._line + 1] <= self._at:
            self._line += 1
        return self._line + 1, self._at - lines[self._line] + 1
