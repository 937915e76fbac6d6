"""
Read what is sound in a TOML file that has syntax errors.

Commands that talk to a running host need a few keys of its configuration. A typing mistake elsewhere in the file must
not keep an operator from stopping an agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agtphost.vocabulary.tomlparser import is_toml, parse_toml
from agtphost.vocabulary.tomltext import Document, Location

LONGEST_STATEMENT = 200
"""Lines that one key and its value may take in a file with errors; a longer one is given up."""

MOST_TRIES = 4_000
"""Attempts to parse a part of the file; what comes after them is given up."""

_HEADER = re.compile(r"[ \t]*(\[{1,2})[ \t]*([A-Za-z0-9_.\-\"' \t]+?)[ \t]*(\]{1,2})[ \t\r]*(?:#.*)?", re.ASCII)
_KEY = re.compile(r"[ \t]*([A-Za-z0-9_.\-]+)[ \t]*[=:]?", re.ASCII)
_BROKEN_HEADER = re.compile(r"[ \t]*\[+[ \t]*([A-Za-z0-9_.\-]*)", re.ASCII)
_CONFLICT = re.compile(r"(?:<{7}|\|{7}|={7}|>{7})(?:[ \r].*)?")
"""A mark of a merge that has conflicts; it takes the place of no key."""

_OPENS = re.compile(r"[\[{]|\"\"\"|'''")


@dataclass(frozen=True, kw_only=True)
class Salvage:
    """The sound part of a file."""

    document: Document
    """Lines that were given up are empty in its text, so lines have their numbers."""

    lost: frozenset[Location]
    """
    Keys and tables that were given up. The empty location represents lines of which not even the key is known: any key
    that the document lacks may have been there.
    """

    contradicted: frozenset[Location]
    """
    Keys and tables that the file has twice; the document has the first. Of a table, its keys in the second place, but
    for those with the value that they have in the first.
    """


@dataclass(frozen=True, kw_only=True)
class _Statement:
    """Lines of the file that are sound alone."""

    start: int
    end: int
    location: Location
    header: bool = False


def salvage(text: str) -> Salvage:
    """Return the sound part of a text that is not TOML."""
    lines = text.replace("\r\n", "\n").split("\n")
    statements, lost = _split(lines)
    contradicted: set[Location] = set()
    while True:
        kept = "\n".join(_lines_of(lines, statements))
        try:
            document = Document(parse_toml(kept), kept)
            return Salvage(document=document, lost=frozenset(lost), contradicted=frozenset(contradicted))
        except (ValueError, RecursionError):
            statements = _drop_contradiction(lines, statements, contradicted)


def _split(lines: list[str]) -> tuple[list[_Statement], set[Location]]:
    """Return the sound statements of a file, and the locations of all others."""
    found: list[_Statement] = []
    lost: set[Location] = set()
    tries = iter(range(MOST_TRIES))
    table: Location = ()
    following = 0
    while following < len(lines):
        start, line = following, lines[following]
        following = start + 1
        header = _header_of(line)
        if header is not None:
            table = header
            found.append(_Statement(start=start, end=following, location=table, header=True))
        elif line.lstrip().startswith("["):
            # Keys below a broken header must not become those of the table above it.
            match = _BROKEN_HEADER.match(line)
            lost.add(() if match is None else tuple(filter(None, match[1].split("."))))
            following = next(
                (at for at in range(following, len(lines)) if lines[at].lstrip().startswith("[")), len(lines)
            )
        elif line.strip() and not line.lstrip().startswith("#") and _CONFLICT.fullmatch(line) is None:
            key = _KEY.match(line)
            if key is None and "=" not in line:
                continue  # Such as an element of a list that is not closed; it takes the place of no key.
            location = () if key is None else (*table, *key[1].split("."))
            end = _end_of_statement(lines, start, tries)
            if end:
                found.append(_Statement(start=start, end=end, location=location))
                following = end
            else:
                lost.add(location)
    return found, lost


def _lines_of(lines: list[str], statements: Sequence[_Statement]) -> list[str]:
    """Return the lines of the statements at their places, and empty lines elsewhere."""
    kept = [""] * len(lines)
    for each in statements:
        kept[each.start : each.end] = lines[each.start : each.end]
    return kept


def _drop_contradiction(lines: list[str], statements: list[_Statement], twice: set[Location]) -> list[_Statement]:
    """Return the statements without the first one that contradicts an earlier one, such as a key that is set twice."""
    sound, wrong = 0, len(statements)
    while wrong - sound > 1:
        middle = (sound + wrong) // 2
        if is_toml("\n".join(_lines_of(lines, statements[:middle]))):
            sound = middle
        else:
            wrong = middle
    at = wrong - 1
    after, first = wrong, statements[at]
    if first.header:
        after = next((other for other in range(wrong, len(statements)) if statements[other].header), len(statements))
    earlier, dropped = statements[:at], statements[at:after]
    if first.header and any(each.header and each.location == first.location for each in earlier):
        dropped = dropped[1:]
    known = {each.location: each for each in earlier if not each.header}
    twice.update(
        each.location
        for each in dropped
        if each.location not in known or _value_of(lines, each) != _value_of(lines, known[each.location])
    )
    return [*earlier, *statements[after:]]


def _value_of(lines: list[str], statement: _Statement) -> object:
    """Return a key with its value."""
    return parse_toml("\n".join(lines[statement.start : statement.end]))


def _header_of(line: str) -> Location | None:
    """Return the table that a line begins; None if the line is not a sound header."""
    match = _HEADER.fullmatch(line)
    if match is None or len(match[1]) != len(match[3]) or not is_toml(line):
        return None
    return tuple(part.strip(" \t\"'") for part in match[2].split("."))


def _end_of_statement(lines: list[str], start: int, tries: Iterator[int]) -> int:
    """Return the number of the line after a key and its value; 0 if they are not sound."""
    last = min(start + LONGEST_STATEMENT, len(lines)) if _OPENS.search(lines[start]) else start + 1
    for end in range(start + 1, last + 1):
        if next(tries, None) is None:
            return 0
        if end > start + 1 and _header_of(lines[end - 1]) is not None:
            return 0
        if is_toml("\n".join(lines[start:end])):
            return end
    return 0
