"""Where the keys of a TOML document stand: what its own parser does not tell."""

from __future__ import annotations

import re
from collections.abc import Sequence

Location = tuple[str | int, ...]
"""Keys and list indices from the top of the document."""

_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_PART = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")
_KEY = re.compile(rf"\s*((?:{_PART.pattern})(?:\s*\.\s*(?:{_PART.pattern}))*)\s*=")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*')


def locate(text: str) -> dict[Location, int]:
    """
    The line of every table and key that begins a line; keys inside brackets count as their owner's.

    :param text: a document that :mod:`tomllib` accepts.
    """
    lines: dict[Location, int] = {}
    counts: dict[Location, int] = {}
    table: Location = ()
    depth, quote = 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        if quote:
            quote = "" if line.count(quote) % 2 else quote
            continue
        if depth <= 0:
            header, key = _HEADER.match(line), _KEY.match(line)
            if header is not None and key is None:
                table = _enter(_parts(header[2]), counts, listed=header[1] == "[[")
                lines.setdefault(table, number)
                continue
            if key is not None:
                lines.setdefault((*table, *_parts(key[1])), number)
                line = line[key.end() :]
        quote = next((mark for mark in ('"""', "'''") if line.count(mark) % 2), "")
        bare = _TEXT.sub("", line)
        depth += sum(bare.count(mark) for mark in "[{") - sum(bare.count(mark) for mark in "]}")
    return lines


def _parts(key: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(key)]


def _enter(parts: Sequence[str], counts: dict[Location, int], *, listed: bool) -> Location:
    """The location of a header, with the index of each list of tables that it is inside of."""
    table: Location = ()
    for position, part in enumerate(parts):
        table += (part,)
        if listed and position == len(parts) - 1:
            counts[table] = counts.get(table, -1) + 1
        if table in counts:
            table += (counts[table],)
    return table
