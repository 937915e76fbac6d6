"""
JSON with comments and trailing commas, as editors keep their settings in; and such a text with one member changed.

Only the octets of that member and its comma change. Everything else, comments, order and layout, is
as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

DEEPEST = 100
"""Objects and arrays inside each other."""

_TRIVIA = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*[^\n]*?\*/)*(?://[^\r\n]*)?(?=\r?\n)")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"')
_PLAIN = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INDENT = re.compile(r"[ \t]*")


class JSONCError(ValueError):
    """
    A text that is none.

    :param line: counted from 1.
    """

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True)
class Node:
    """A value, and its place in the text."""

    value: Any
    start: int
    end: int
    members: dict[str, Member] = field(default_factory=dict)
    """Of an object."""


@dataclass(frozen=True)
class Member:
    """A member of an object."""

    start: int
    """Of its name."""

    node: Node
    comma: int
    """Where the comma behind it is; -1 where there is none."""


def parse(text: str) -> Node:
    """
    Read a text.

    :raises JSONCError: it is none, or an object in it has two members of one name.
    """
    reader = _Reader(text)
    node = reader.value(0)
    if reader.skip_comments() < len(text):
        reader.fail("something follows after the value")
    return node


class _Reader:
    """A reader that passes over one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith("\ufeff") else 0

    def fail(self, message: str) -> NoReturn:
        """Raise an error with the present line."""
        raise JSONCError(message, self._text.count("\n", 0, self._at) + 1)

    def skip_comments(self) -> int:
        """Skip white space and comments, and return the place that follows."""
        match = _TRIVIA.match(self._text, self._at)
        self._at = match.end() if match else self._at
        if self._text.startswith("/*", self._at):
            self.fail("a comment is not closed")
        return self._at

    def _takes(self, character: str) -> bool:
        if not self._text.startswith(character, self.skip_comments()):
            return False
        self._at += 1
        return True

    def value(self, depth: int) -> Node:
        """Read the next value."""
        if depth > DEEPEST:
            self.fail("it is nested too deeply")
        start = self.skip_comments()
        if self._takes("{"):
            return self._object(start, depth)
        if self._takes("["):
            items = []
            while not self._takes("]"):
                items.append(self.value(depth + 1).value)
                if not self._takes(",") and not self._text.startswith("]", self.skip_comments()):
                    self.fail("a comma or ] is missing")
            return Node(items, start, self._at)
        for pattern in (_STRING, _PLAIN):
            match = pattern.match(self._text, start)
            if match is not None:
                self._at = match.end()
                return Node(json.loads(match[0]), start, self._at)
        return self.fail("it ends too early" if start == len(self._text) else "this is not a value")

    def _object(self, start: int, depth: int) -> Node:
        members: dict[str, Member] = {}
        while not self._takes("}"):
            place = self.skip_comments()
            name = _STRING.match(self._text, place)
            if name is None:
                self.fail("a member's name in double quotation marks is missing")
            key = json.loads(name[0])
            if key in members:
                self.fail(f"there are two members named {key!r}")
            self._at = name.end()
            if not self._takes(":"):
                self.fail("a colon is missing")
            node = self.value(depth + 1)
            comma = self._at if self._text.startswith(",", self.skip_comments()) else -1
            if self._takes(","):
                comma = self._at - 1
            elif not self._text.startswith("}", self._at):
                self.fail("a comma or } is missing")
            members[key] = Member(place, node, comma)
        return Node({key: member.node.value for key, member in members.items()}, start, self._at, members)


# Changing


def put(text: str, table: str, name: str, value: Any) -> str:
    """
    Return the text with the member ``name`` of its object ``table``, which is made where it is missing.

    :raises JSONCError: the text is not such a document.
    """
    if not text.strip("\ufeff \t\r\n"):
        return json.dumps({table: {name: value}}, indent=2) + "\n"
    root = parse(text)
    _require_object(text, root, "the whole")
    if table not in root.members:
        return _with_member(text, root, table, {name: value})
    inner = root.members[table].node
    _require_object(text, inner, table)
    present = inner.members.get(name)
    if present is None:
        return _with_member(text, inner, name, value)
    written = _render_value(text, value, _indent_at(text, present.start))
    return text[: present.node.start] + written + text[present.node.end :]


def include(text: str, table: str, value: Mapping[str, Any], key: str) -> str:
    """
    Return the text with an object in its list ``table``, which is made where it is missing.

    :param key: the member that tells objects of the list apart: where one has the same, nothing changes.
    :raises JSONCError: the text is not such a document.
    """
    if not text.strip("\ufeff \t\r\n"):
        return json.dumps({table: [value]}, indent=2) + "\n"
    root = parse(text)
    _require_object(text, root, "the whole")
    if table not in root.members:
        return _with_member(text, root, table, [value])
    inner = root.members[table].node
    if not isinstance(inner.value, list):
        raise JSONCError(f"{table} is not a list", text.count("\n", 0, inner.start) + 1)
    if any(isinstance(each, dict) and each.get(key) == value[key] for each in inner.value):
        return text
    first = inner.start + 1
    return text[:first] + json.dumps(value, ensure_ascii=False) + (", " if inner.value else "") + text[first:]


def remove(text: str, table: str, name: str) -> str:
    """
    Return the text without that member; as it is where there is none.

    :raises JSONCError: the text is not such a document.
    """
    if not text.strip("\ufeff \t\r\n"):
        return text
    root = parse(text)
    _require_object(text, root, "the whole")
    if table not in root.members:
        return text
    inner = root.members[table].node
    _require_object(text, inner, table)
    if name not in inner.members:
        return text
    names = list(inner.members)
    place = names.index(name)
    member = inner.members[name]
    start = len(text[: member.start].rstrip(" \t\r\n"))
    if member.comma >= 0:
        return text[:start] + text[member.comma + 1 :]
    left = text[:start] + text[member.node.end :]
    if place:
        comma = inner.members[names[place - 1]].comma
        return left[:comma] + left[comma + 1 :]
    end = inner.end - (len(text) - len(left))
    return left[: inner.start + 1] + left[end - 1 :] if not left[inner.start + 1 : end - 1].strip() else left


def _require_object(text: str, node: Node, what: str) -> None:
    if not isinstance(node.value, dict):
        raise JSONCError(f"{what} is not an object", text.count("\n", 0, node.start) + 1)


def _indent_at(text: str, place: int) -> str:
    """Return the indentation of the line that a place is in."""
    match = _INDENT.match(text, text.rfind("\n", 0, place) + 1)
    return match[0] if match else ""


def _unit(text: str) -> str:
    """Return one step of indentation, as this text uses it."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _render_value(text: str, value: Any, indent: str) -> str:
    """Return a value on separate lines, in the layout of this text."""
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (_newline(text) + indent).join(lines)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _with_member(text: str, node: Node, name: str, value: Any) -> str:
    """Add a member at the end of an object."""
    line, outer = _newline(text), _indent_at(text, node.start)
    if not node.members:
        inside = text[node.start + 1 : node.end - 1]
        member = f"{line}{outer}{_unit(text)}{json.dumps(name)}: {_render_value(text, value, outer + _unit(text))}"
        kept = inside.rstrip() if inside.strip() else ""
        return f"{text[: node.start + 1]}{kept}{member}{line}{outer}{text[node.end - 1 :]}"
    last = next(reversed(node.members.values()))
    before, trailing = (last.comma + 1, ",") if last.comma >= 0 else (last.node.end, "")
    if "\n" not in text[node.start : node.end]:
        member = f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}{trailing}"
        return text[:before] + ("" if trailing else ",") + member + text[before:]
    rest = _REST_OF_LINE.match(text, before)
    after = rest.end() if rest else before
    indent = _indent_at(text, last.start)
    member = f"{line}{indent}{json.dumps(name)}: {_render_value(text, value, indent)}{trailing}"
    return text[:before] + ("" if trailing else ",") + text[before:after] + member + text[after:]
