"""
A parser of the notation of the draft's examples (AGIS v01 section 11).

``BOOK /reservation { semantic { ... } input { ... } }`` is neither YAML nor JSON. Its meaning is clear except for what
it leaves out: ``...`` is replaced by empty contracts, with a note. Indentation is used if it exists, but is not
required, because copies of the draft have lost it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from agtphost.agis.document_reader import MAX_DEPTH, MAX_OCTETS, Unreadable
from agtphost.agis.shorthand import schema_of

_SPACE = re.compile(r"(?:\s+|#[^\n]*)*")
_GAP = re.compile(r"(?:[\s,]+|#[^\n]*)*")
_ENDPOINT = re.compile(r"([^\s{}:,]{1,200})[ \t]+(/(?:[^\s{}]|\{[^\s{}]*\}){0,2000})\s*\{")
_BLOCK = re.compile(r"([A-Za-z_][\w.-]{0,200})\s*\{")
_KEY = re.compile(r"([A-Za-z_][\w.-]{0,200})[ \t]*:(?=\s|\"|\[|\{|$)")
_NAME = re.compile(r"[^\s,:{}()\[\]]{1,200}")
_PLAIN = re.compile(r"(?:(?!,\s*[A-Za-z_][\w.-]{0,200}\s*[:{])[^\n{}])*")
_ITEM = re.compile(r"[^\n,{}]*")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_DOTS = re.compile(r"\.\.\.|…")
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_TEXTS = ("agis", "version")
"""Members whose value is always a text."""

_OUTER = ("pre_auth_discovery",)
"""Members after a list that do not belong to its last item, if there is no indentation."""


@dataclass(frozen=True, kw_only=True)
class IllustrativeDocument:
    """A document that was parsed from the notation."""

    root: dict[str, Any]
    notes: tuple[str, ...]
    """Sentences about parts that were left out and are now empty."""


def from_illustrative(octets: bytes) -> IllustrativeDocument:
    """
    Parse the notation.

    :param octets: UTF-8.
    :raises Unreadable: the text is invalid; the message says what is wrong and where.
    """
    if len(octets) > MAX_OCTETS:
        raise Unreadable(f"it has more than {MAX_OCTETS} octets", None)
    try:
        text = octets.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable("it is not UTF-8", None) from None
    reader = _NotationReader(text)
    root = reader.members(0)
    root["endpoints"] = reader.endpoints
    return IllustrativeDocument(root=root, notes=tuple(reader.notes))


def comments(octets: bytes) -> int:
    """Return the number of comments in a text of the notation."""
    text = octets.decode("utf-8-sig")
    return sum(found[1] is not None for found in re.finditer(r'"(?:[^"\\]|\\.)*"|(?<!\S)(#)[^\n]*', text))


@dataclass
class _NotationReader:
    text: str
    endpoints: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _at: int = 0
    _left_out: bool = False

    def __post_init__(self) -> None:
        self._flat = re.search(r"(?m)^[ \t]+\S", self.text) is None

    # Places

    def _refuse(self, why: str, at: int | None = None) -> NoReturn:
        at = self._at if at is None else at
        line = self.text.count("\n", 0, at) + 1
        raise Unreadable(why, (line, at - (self.text.rfind("\n", 0, at) + 1) + 1), illustrative=True)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _next(self, text: str) -> bool:
        if not self.text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _column(self) -> int:
        return self._at - (self.text.rfind("\n", 0, self._at) + 1)

    def _ends(self, depth: int, opened: int) -> bool:
        """Return whether a block ends here, and consume its brace."""
        if self._at >= len(self.text):
            if depth:
                self._refuse("this brace is never closed", opened)
            return True
        if not self.text.startswith("}", self._at):
            return False
        if not depth:
            self._refuse("this brace closes nothing")
        self._at += 1
        return True

    def _deeper(self, depth: int) -> int:
        if depth >= MAX_DEPTH:
            self._refuse(f"it is nested more than {MAX_DEPTH} deep")
        return depth + 1

    # Blocks of members

    def members(self, depth: int) -> dict[str, Any]:
        """Return the members of a block up to its brace; at depth 0 those of the whole text."""
        opened, found = self._at - 1, dict[str, Any]()
        while True:
            self._take(_GAP)
            if self._ends(depth, opened):
                return found
            self._member(found, depth)

    def _member(self, found: dict[str, Any], depth: int) -> None:
        """Parse one member, an endpoint, or an ellipsis."""
        at = self._at
        if self._take(_DOTS):
            self._left_out = True
        elif (endpoint := self._take(_ENDPOINT)) is not None:
            self._endpoint(f"{endpoint[1]} {endpoint[2]}", at, self._deeper(depth))
        elif (block := self._take(_BLOCK)) is not None:
            self._put(found, block[1], self._block(block[1], self._deeper(depth)), at)
        elif (key := self._take(_KEY)) is not None:
            column = at - (self.text.rfind("\n", 0, at) + 1)
            value = self._value(key[1], column, self._deeper(depth))
            if key[1] != "endpoints" or value is not None:
                self._put(found, key[1], value, at)
        else:
            self._refuse("a member, a block or METHOD /path was expected")

    def _put(self, found: dict[str, Any], name: str, value: Any, at: int) -> None:
        if name in found:
            self._refuse(f"the name {name} occurs twice", at)
        found[name] = value

    def _endpoint(self, name: str, at: int, depth: int) -> None:
        self._left_out = False
        members = self.members(depth)
        if self._left_out:
            empty: dict[str, Any] = {"input": {"type": "object"}, "output": {"type": "object"}, "errors": []}
            missing = [member for member in empty if member not in members]
            members |= {member: empty[member] for member in missing}
            self.notes.append(
                f"{name} leaves out {', '.join(missing) or 'no required member'}, which is treated as empty"
            )
            self._left_out = False
        self._put(self.endpoints, name, members, at)

    def _block(self, name: str, depth: int) -> Any:
        if name == "errors":
            return [each for each, _ in self._items(depth)]
        if name == "output":
            return {"type": "object", "properties": dict(self._items(depth))}
        if name == "input":
            self._take(_SPACE)
            if _KEY.match(self.text, self._at) is None:
                return {"type": "object", "properties": dict(self._items(depth))}
        return self.members(depth)

    def _items(self, depth: int) -> list[tuple[str, Any]]:
        """Return names with their schemas: ``reservation_id, status (string), restaurants: [array of objects]``."""
        opened, found = self._at - 1, list[tuple[str, Any]]()
        while True:
            self._take(_GAP)
            if self._ends(depth, opened):
                return found
            if self._take(_DOTS):
                continue
            name = self._take(_NAME)
            if name is None:
                self._refuse("a name was expected")
            self._take(_SPACE)
            found.append((name[0], self._kind(name[0], depth)))

    def _kind(self, name: str, depth: int) -> dict[str, Any]:
        if self._next("{"):
            return {"type": "object", "properties": dict(self._items(self._deeper(depth)))}
        if self.text.startswith("(", self._at):
            return _parse_description(name, self._read_brackets("(", ")"))
        if not self._next(":"):
            return {}
        self._take(_SPACE)
        if self.text.startswith("[", self._at):
            inner = self._read_brackets("[", "]")
            return {"type": "array", **({"items": {"type": "object"}} if "object" in inner else {})}
        if (string := self._take(_STRING)) is not None:
            return {"description": _unquote(string)}
        if self.text.startswith('"', self._at):
            self._refuse("this quotation is never closed")
        said = self._take(_ITEM)
        return _parse_description(name, said[0].strip() if said else "")

    # Values

    def _value(self, name: str, column: int, depth: int) -> Any:
        """Return the value after a colon, on the line or indented below it."""
        while self._at < len(self.text) and self.text[self._at] in " \t":
            self._at += 1
        if self._at < len(self.text) and self.text[self._at] not in "\r\n#":
            return self._on_line(name, depth)
        if name == "endpoints":
            return None
        self._take(_SPACE)
        if self.text.startswith("-", self._at) and not self.text.startswith("->", self._at):
            return self._read_list(depth)
        return self._read_members_below(name, column, depth)

    def _on_line(self, name: str, depth: int) -> Any:
        if (string := self._take(_STRING)) is not None:
            return _unquote(string)
        if self.text.startswith('"', self._at):
            self._refuse("this quotation is never closed")
        if self._next("{"):
            return self.members(depth)
        start = self._at
        if self.text.startswith("[", start):
            inner = self._read_brackets("[", "]")
            if re.match(r"[ \t]*->", self.text[self._at : self._at + 40]) is None:
                return [_scalar(each) for each in _split(inner)]
            self._at = start
        found = self._take(_PLAIN)
        said = (found[0] if found else "").partition(" #")[0].strip()
        if not said:
            self._refuse(f"{name} has no value")
        return said if name in _TEXTS else _scalar(said)

    def _read_members_below(self, name: str, column: int, depth: int) -> Any:
        """Return the members that are indented more than the name; in a flat text, those that contain ``->``."""
        found: dict[str, Any] = {}
        while _KEY.match(self.text, self._at) is not None or _BLOCK.match(self.text, self._at) is not None:
            end = self.text.find("\n", self._at)
            line = self.text[self._at : end if end >= 0 else len(self.text)]
            if ("->" not in line) if self._flat else self._column() <= column:
                break
            self._member(found, depth)
            self._take(_GAP)
        if not found:
            self._refuse(f"{name} has no value")
        return found

    def _read_list(self, depth: int) -> list[Any]:
        """Return the items of a list with hyphens."""
        found: list[Any] = []
        column = self._column()
        while self.text.startswith("-", self._at) and self._column() == column:
            self._at += 1
            while self._at < len(self.text) and self.text[self._at] in " \t":
                self._at += 1
            inner = self._column()
            if _KEY.match(self.text, self._at) is None:
                said = self._take(_PLAIN)
                found.append(_scalar((said[0] if said else "").strip()))
                self._take(_GAP)
                continue
            item: dict[str, Any] = {}
            while (key := _KEY.match(self.text, self._at)) is not None:
                if key[1] in _OUTER if self._flat else self._column() != inner:
                    break
                self._member(item, self._deeper(depth))
                self._take(_GAP)
            found.append(item)
        return found

    def _read_brackets(self, left: str, right: str) -> str:
        """Return the text between two brackets, which may contain others."""
        start, depth = self._at, 0
        for found in re.compile(f"[{re.escape(left + right)}]").finditer(self.text, start):
            depth += 1 if found[0] == left else -1
            if depth == 0:
                self._at = found.end()
                break
        else:
            self._refuse("this bracket is never closed", start)
        return self.text[start + 1 : self._at - 1]


def _parse_description(name: str, description: str) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema_of([f"{name} ({description})"], closed=False)["properties"]
    return dict(properties.get(name) or {})


def _unquote(found: re.Match[str]) -> str:
    return " ".join(re.sub(r"\\(.)", r"\1", found[1]).split())


def _split(text: str) -> list[str]:
    """Split a text at the commas outside of brackets."""
    parts, depth, start = list[str](), 0, 0
    for found in re.finditer(r"[(\[{)\]},]", text):
        if found[0] == ",":
            if not depth:
                parts.append(text[start : found.start()])
                start = found.end()
        else:
            depth += 1 if found[0] in "([{" else -1
    return [" ".join(part.split()) for part in (*parts, text[start:]) if part.strip()]


def _scalar(text: str) -> Any:
    quoted = _STRING.fullmatch(text)
    if quoted is not None:
        return _unquote(quoted)
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text
