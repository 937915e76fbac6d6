"""
Read TOML with the line of each key, and write TOML.

Python's parser keeps no positions. The scanner here walks a document *that has
already been parsed*, so it needs to recognize only where keys, tables and
values begin and end, never whether they are right.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.regular_files import read_octets
from agtphost.vocabulary.tomlparser import is_toml, parse_toml

Location = tuple[str | int, ...]
"""Keys and list indices from the top of the document, such as ``("mcp", "server", 0, "name")``."""

MAX_OCTETS = 1 << 20
"""Of a file, where its reader says nothing else."""

_POSITION = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")
_KEY_TUPLE = re.compile(r"\('[^)]*'\)|\('[^)]*',\)")
"""A key in an error of Python's parser."""

_TRIVIA = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*", re.ASCII)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_MEMBER = re.compile(r"[ \t]*([A-Za-z0-9_-]+)[ \t]*[.=]", re.ASCII)
_HEADER = re.compile(r"\[{1,2}[ \t]*([A-Za-z0-9_-]+)[ \t]*[.\]]", re.ASCII)

_QUOTED_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\r\n]*")
_TOKEN = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[\[\]{},=]|[^\[\]{},="']+)""")
"""What a list or a table of one line consists of."""

_PLAIN = re.compile(r"true|false|[+-]?[0-9].*", re.DOTALL)
_NO_EQUALS = re.compile(r"\s*([A-Za-z0-9_-]+)(?:\s*:\s*|\s+)([^=\s].*)", re.ASCII)
"""A key and a value with a colon or a space between them."""

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class TomlError(ValueError):
    """
    A file cannot be read, or is not TOML.

    :param message: what is wrong, without a subject: ``is not UTF-8``.
    :param line: where, counted from 1; 0 where the fault is not in one line.
    :param hint: what to do about it.
    """

    def __init__(self, message: str, line: int = 0, hint: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.hint = hint


@dataclass(frozen=True)
class Document:
    """A document, and the line of each of its tables, keys and list elements."""

    tree: dict[str, Any]
    text: str = field(repr=False)

    @cached_property
    def lines(self) -> Mapping[Location, int]:
        """Return the lines by location; they are found on first use, which takes as long as parsing did."""
        return locate(self.text)

    def top_lines(self) -> dict[str, int]:
        """
        Return the lines of the document's own members.

        A sound document of thousands is asked for nothing else, so these are found without a scan of what is inside.
        """
        if '"""' in self.text or "'''" in self.text:
            return {name: self.line((name,)) for name in self.tree}
        found: dict[str, int] = {}
        below = False
        for number, line in enumerate(self.text.split("\n"), 1):
            # Keys behind the first header belong to that table.
            below = below or line.startswith("[")
            match = (_HEADER if below else _MEMBER).match(line)
            if match is not None:
                found.setdefault(match[1], number)
        return {name: found.get(name) or self.line((name,)) for name in self.tree}

    def line(self, location: Location, otherwise: int = 1) -> int:
        """
        Return the line of ``location``, or of the nearest thing around it; ``otherwise`` if nothing is in the file.
        """
        while location and location not in self.lines:
            location = location[:-1]
        # The document itself is on no line; asking for it must not scan a sound document of thousands.
        return self.lines[location] if location else otherwise


def read(source: Path | str, most: int = MAX_OCTETS) -> Document:
    """
    Parse a file, or a text.

    :param most: octets that the file may have.
    :raises TomlError: it cannot be read, is too long, or is not TOML in UTF-8.
    """
    if isinstance(source, str):
        return _parse(source)
    try:
        octets = read_octets(source, most + 1)
    except OSError as error:
        what, cure = split(error)
        raise TomlError(f"cannot be read: {what}", hint=cure) from error
    if len(octets) > most:
        raise TomlError(f"has more than {most} octets")
    try:
        return _parse(octets.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise TomlError("is not UTF-8", octets.count(b"\n", 0, error.start) + 1, "save it as UTF-8") from None


def _parse(text: str) -> Document:
    try:
        return Document(parse_toml(text), text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        said = str(_find_open_quote(text, said) or said)
        position = _POSITION.search(said)
        line = int(position[1]) if position and position[1] else text.rstrip().count("\n") + 1
        what = _POSITION.sub("", said)
        keys = _KEY_TUPLE.search(what)
        named = ": " + ".".join(re.findall(r"'([^']*)'", keys[0])) if keys else ""
        raise TomlError(f"is not TOML: {_explain(what)}{named}", line, _cure(text, line, what)) from error
    except RecursionError:
        raise TomlError("is not TOML: nested too deeply", 1) from None


def _find_open_quote(text: str, said: str) -> tomllib.TOMLDecodeError | None:
    """
    Return the error with the line of a text in single quotes that is not closed; None for any other error.

    If no single quote follows, the parser names the end of the document. With one there it names the line.
    """
    if said.startswith('Expected "\'"'):
        try:
            parse_toml(f"{text}'")
        except tomllib.TOMLDecodeError as error:
            return error
    return None


_MEANINGS: Mapping[str, str] = {
    "Invalid value": "the value is not text in quotes, a number, true, false, a date, a list or a table",
    "Invalid statement": "the line is neither KEY = VALUE nor [TABLE]",
    "Expected '='": "the key is not followed by = and a value",
    "Expected newline": "the line has more text after its value",
    "Expected ']]'": "the header of a table of a list is not closed with ]]",
    "Expected ']'": "the header of a table is not closed with ]",
    "Expected": "a quotation mark or bracket is not closed",
    "Unclosed array": "a list is not closed with ], or lacks a comma",
    "Unclosed inline table": "an inline table is not closed with }, or lacks a comma",
    "Unterminated string": "a text is not closed with a quotation mark",
    "Unescaped": "a text has a backslash that escapes nothing; write two",
    "Escaped character": "a text has \\u or \\U without a character of Unicode",
    "Invalid hex value": "a text has \\u or \\U without the hexadecimal digits",
    "Invalid initial character": "a key begins with a character that needs quotes",
    "Invalid date": "the date or time does not exist",
    "Illegal character": "a text in quotes has a line break or a control character",
    "Found invalid character": "the line has a control character",
    "Cannot overwrite": "the key has a value already",
    "Cannot declare": "the table is there already",
    "Cannot mutate": "the table is closed already, and cannot be added to",
    "Cannot redefine": "the table is there already, in another form",
    "Duplicate inline table key": "the inline table has a key twice",
}
"""By how the messages of Python's parser begin; the first that fits counts."""


def _explain(what: str) -> str:
    """Return what a message of the parser means, without the text of the line: it may hold a secret."""
    return next((meaning for start, meaning in _MEANINGS.items() if what.startswith(start)), "its syntax is wrong")


def _cure(text: str, number: int, what: str) -> str:
    """
    Return a correction for a line that is not TOML; each proposal was tried.

    Values are not shown: the line may hold a secret.
    """
    lines = text.split("\n")
    line = lines[number - 1].rstrip()
    if what.startswith("Cannot") and (other := _other_form(lines, number)):
        return other
    if what.startswith("Cannot overwrite"):
        return f"{line.partition('=')[0].strip()[:64]} is set twice: remove this line, or the other one"
    if what.startswith("Cannot declare"):
        both = f", or write [[{line[:64].strip('[] ')}]] in both places if there may be several"
        said = f"{line[:64]} is there twice: remove this line, and put what is below it under the other one"
        return said + (both if "." in line else "")

    def parses(candidate: str) -> bool:
        """Return whether nothing up to this line is wrong any more."""
        return is_toml("\n".join((*lines[: number - 1], candidate)))

    if number == 1 and text.startswith(_MARK):
        return "save it without a byte order mark"
    if re.search(r"\r(?!\n)", text):
        return "save it with lines that end with LF, or with CRLF"
    if line.endswith(",") and parses(line.rstrip(",")):
        return "remove the comma at the end of this line"
    plain = line.translate(_TYPED)
    if plain != line and parses(plain):
        odd = next(char for char in line if ord(char) in _TYPED)
        return f"replace U+{ord(odd):04X}, which is not ASCII, with a character of the keyboard, or remove it"
    for old, new in (("'", '"'), ('"', "'")):
        if parses(line.replace(old, new, 1)):
            return (
                f"write {new} for the first {old} of this line: a text ends with the quotation mark that it begins with"
            )
    for ending in ('"', "'", '"]', '"}', "]", "}", '"""'):
        if parses(line + ending):
            return f"end this line with {ending}"
    if line.endswith("]") and "=" not in line:
        bare = line.strip().strip("[]")
        several = f"[[{bare}]]" in map(str.strip, lines)
        for header in (f"[[{bare}]]", f"[{bare}]") if several else (f"[{bare}]", f"[[{bare}]]"):
            if parses(header):
                return f"write {header}"
    without = _NO_EQUALS.match(line)
    if without is not None and parses(f"{without[1]} = {without[2]}"):
        return "put = between the key and its value"
    key, _, value = line.partition("=")
    name, value = key.strip()[:64], value.strip()
    if value.lower() in ("true", "false"):
        return f"write {name} = {value.lower()}"
    if value[:1] in ('"', "'") and value[-1:] == value[:1] and parses(f"{key}= {value[1:-1]}"):
        return "remove the quotes around the value"
    if value and value[0] not in "[{\"'" and parses(f"{key}= {_quote(value)}"):
        return f'put the value into quotes: {name} = "..."'
    if not value and parses(f'{key}= ""'):
        return f'write a value: {name} = "..."'
    if value.startswith("{") and parses(f'{line} = ""}}'):
        return f'complete {name}: add = "..." and }} to this line'
    if name and (parses(f"{key}= {_quote_words(value)}") or value[:1] in ("[", "{")):
        return f"put each text of {name} into quotes"
    return "mend the file's syntax there"


def _other_form(lines: Sequence[str], number: int) -> str:
    """Return what to write where one of several tables of a list has the brackets of a single one; empty elsewhere."""
    line = lines[number - 1].strip()
    bare = line.strip("[]").strip()
    if not line.startswith("["):
        return ""
    if not line.startswith("[["):
        return f"write [[{bare}]]" if f"[[{bare}]]" in map(str.strip, lines[: number - 1]) else ""
    single = next((at for at, each in enumerate(lines[: number - 1], 1) if each.strip() == f"[{bare}]"), 0)
    return f"write [[{bare}]] in line {single} too" if single else ""


_MARK = "\ufeff"
"""The byte order mark."""

_TYPED = {
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u00ab\u00bb"), '"'),
    **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2009\u202f"), " "),
    **dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad\u2028\u200e\u200f"), None),
}
"""Characters that word processors and web pages put in place of quotes and spaces, and what they stand for."""


def _quote_words(value: str) -> str:
    """Return a list or a table of one line with its texts in quotes, as far as no text has brackets or commas."""
    done: list[str] = []
    opened: list[str] = []
    value_next = True
    for token in _TOKEN.findall(re.sub(r"=\s*=", "= \0", value)):
        word = token.strip()
        if token in ("[", "{"):
            opened.append(token)
            value_next = token == "["
        elif token in ("]", "}"):
            opened = opened[:-1]
        elif token == ",":
            value_next = opened[-1:] == ["["]
        elif token == "=":
            value_next = True
        elif value_next and word and word[0] not in "\"'" and _PLAIN.fullmatch(word) is None:
            token = _quote(word.replace("\0", "="))
        done.append(token)
    return "".join(done)


def _quote(value: str) -> str:
    escaped = "".join(_ESCAPES.get(char, char) for char in value)
    return f'"{escaped}"'


class _Scanner:
    """A scanner that passes over one document; ``lines`` is its result."""

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
        """Yield the parts of a key, which may be quoted, and leave the position at what follows it."""
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


def write_toml(table: Mapping[str, Any]) -> str:
    """
    Return a document with the members of ``table``.

    :param table: text, booleans, finite numbers, lists and mappings of these.
    :raises TypeError: for what TOML cannot hold, such as None.
    """
    return "\n".join(_table(table, ())).strip("\n") + "\n"


def key_text(name: str) -> str:
    """Return a key, quoted where it has to be."""
    return name if _BARE_KEY.fullmatch(name) else string_text(name)


def string_text(text: str) -> str:
    """Return a string on one line."""
    return f'"{"".join(map(_character, text))}"'


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char < " " or char == "\x7f":
        return f"\\u{ord(char):04X}"
    return char


def _table(table: Mapping[str, Any], at: Sequence[str]) -> Iterator[str]:
    for name, value in table.items():
        if not isinstance(value, Mapping):
            yield f"{key_text(name)} = {value_text(value)}"
    for name, value in table.items():
        if isinstance(value, Mapping):
            header = [*at, key_text(name)]
            if not value or any(not isinstance(inner, Mapping) for inner in value.values()):
                yield f"\n[{'.'.join(header)}]"
            yield from _table(value, header)


def value_text(value: Any) -> str:
    """
    Return a value on one line.

    :raises TypeError: for what TOML cannot hold.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case str():
            return string_text(value)
        case list() | tuple():
            return f"[{', '.join(map(value_text, value))}]"
        case Mapping():
            return (
                "{}"
                if not value
                else f"{{ {', '.join(f'{key_text(name)} = {value_text(inner)}' for name, inner in value.items())} }}"
            )
    raise TypeError(f"TOML has no {type(value).__name__}")
