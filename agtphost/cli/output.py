"""Output of commands: JSON for machines, tables and text for people, with control characters escaped."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from json.encoder import encode_basestring_ascii
from typing import Any

import click

from agtphost import extras
from agtphost.vocabulary.jsontext import prepare_encoder


def visible(text: str) -> str:
    """
    Return ``text`` with every character escaped that a terminal would interpret.

    Output from hosts and tools must not move the cursor, change colours or reorder the line.
    """
    if text.isascii() and text.isprintable():
        return text
    from agtphost.client.terminal import escape

    return escape(text, keep="\n\t")


def visible_line(text: object) -> str:
    """
    Return a text that hosts and agents chose as one line.

    A line end in it would let its author write lines of a record that does not exist.
    """
    from agtphost.vocabulary.escaping import escape

    return escape(str(text))


_CONTINUATION = re.compile(r"\n(?=[^ \n])")
"""The end of a line before one that begins at the margin."""


def hang(text: str) -> str:
    """
    Return a printable text with every further line indented.

    Only what a command itself says begins a line: a text of a host or a file could pose as a line of the command.
    """
    return _CONTINUATION.sub("\n  ", text)


def print_note(text: str) -> None:
    """Print on standard error what is not a command's result: one line, with further ones indented."""
    click.echo(hang(visible(text)), err=True)


WRITTEN_AT_ONCE = 1 << 16
"""Characters of a JSON text that are printed together."""


def print_json(value: Any) -> None:
    """
    Print a JSON text for machines, in ASCII.

    It is written in pieces: whole, the manifest of 5,000 endpoints took 1 GB of memory.
    """
    pieces: list[str] = []
    length = 0

    def add(piece: str) -> None:
        nonlocal length
        pieces.append(piece)
        length += len(piece)
        if length >= WRITTEN_AT_ONCE:
            click.echo("".join(pieces), nl=False)
            pieces.clear()
            length = 0

    _indent(value, "", add)
    click.echo("".join(pieces))


def _indent(value: Any, margin: str, add: Callable[[str], None]) -> None:
    """
    Write a JSON text as :class:`json.JSONEncoder` with an indentation of two does.

    That encoder is written in Python, and takes half of the time in which the manifest of 5,000 endpoints is shown.
    Here the encoder in C writes tables and lists without others inside, which most are.

    :param margin: spaces at the beginning of the line that holds the value's last bracket.
    :param add: called with each piece of the text.
    """
    inner = f"{margin}  "
    encode = _encoder(inner)
    is_table = isinstance(value, dict)
    if not _is_filled(value):
        add(encode(value))
    elif not any(map(_is_filled, value.values() if is_table else value)):
        text = encode(value)
        add(f"{text[0]}\n{inner}{text[1:-1]}\n{margin}{text[-1]}")
    else:
        separator = "{" if is_table else "["
        for name, member in value.items() if is_table else ((None, item) for item in value):
            start = f"{separator}\n{inner}{_name(name) if is_table else ''}"
            if _is_filled(member):
                add(start)
                _indent(member, inner, add)
            else:
                add(start + encode(member))
            separator = ","
        add(f"\n{margin}{'}' if is_table else ']'}")


def _name(name: Any) -> str:
    """Return the beginning of a member; a name may be a number or null, which the encoder knows to write."""
    return f"{encode_basestring_ascii(name)}: " if isinstance(name, str) else json.dumps({name: 0})[1:-2]


def _is_filled(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple)) and bool(value)


@cache
def _encoder(margin: str) -> Callable[[Any], str]:
    """Return an encoder that begins a line with a margin before each member."""
    return prepare_encoder(json.JSONEncoder(separators=(f",\n{margin}", ": ")))


def print_document(value: Any) -> None:
    """Print a JSON value for people."""
    from agtphost.client.terminal import render_json

    click.echo(render_json(value))


def print_file(text: str | bytes) -> None:
    """
    Print the contents of a file: unchanged into a pipe, with :func:`visible` on a terminal.

    :param text: a document that may come from a host.
    """
    octets = text.encode() if isinstance(text, str) else text
    # Click removes escape sequences from piped text, but leaves bytes unchanged.
    click.echo(visible(octets.decode("utf-8", "backslashreplace")) if sys.stdout.isatty() else octets, nl=False)


def print_line(value: Any) -> None:
    """Print a JSON text on one line, in ASCII, as part of a stream for machines."""
    click.echo(json.dumps(value, separators=(",", ":")))


def to_text(value: object) -> str:
    """Return a JSON value in one line for people: text unchanged, lists joined by commas, everything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return json.dumps(value, default=str)


def print_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Print ``name  value`` lines without empty values; names as well as values may come from a host."""
    shown = [(visible(name), str(value)) for name, value in fields if value not in (None, "", (), [])]
    width = max((len(name) for name, _ in shown), default=0)
    margin = " " * (width + 2)
    for name, value in shown:
        # Only names begin a line.
        click.echo(f"{name:<{width}}  {visible(value)}".replace("\n", f"\n{margin}"))


def print_summary(fields: Mapping[str, object]) -> None:
    """Print a mapping as ``name  value`` lines, with lists joined by commas."""
    print_fields(
        (name, to_text(value) if isinstance(value, (list, tuple, dict, bool)) and value != [] else value)
        for name, value in fields.items()
    )


def print_answer(answer: Mapping[str, object], as_json: bool) -> None:
    """Print an object for machines or people."""
    print_json(dict(answer)) if as_json else print_summary(answer)


WIDE = "agtphost.wide"
"""Key of a click context's ``meta``: whether to show full identifiers; absent if the command has no ``--wide``."""

SHORT = 12
"""Digits of a shortened identifier."""

_IDENTIFIER = re.compile("[0-9a-f]{64}")
_WORD = re.compile(r"\S*")

Column = str | Callable[[Mapping[str, Any]], object]
"""The contents of a column: a member of each object, or the result of a function."""


def print_entries(
    entries: Sequence[Mapping[str, Any]], columns: Sequence[str] | Mapping[str, Column], as_json: bool
) -> None:
    """
    Print objects for machines, or some of their members as a table for people.

    :param columns: names of members; or titles with the contents of their columns.
    """
    if as_json:
        print_json(entries)
        return
    if not isinstance(columns, Mapping):
        columns = {column.upper().replace("_", "-"): column for column in columns}
    rows = (
        [entry.get(cell) if isinstance(cell, str) else cell(entry) for cell in columns.values()] for entry in entries
    )
    print_table(tuple(columns), ([to_text(cell) if isinstance(cell, list) else cell for cell in row] for row in rows))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], whole: Collection[str] = ()) -> None:
    """
    Print aligned columns, folded to a terminal's width where possible, and never cut.

    :param whole: columns that are not folded, because people copy their contents.
    """
    # The first cell of a row begins a line: one of several lines would begin rows that do not exist.
    cells = [
        [(visible if place else visible_line)("" if cell is None else str(cell)) for place, cell in enumerate(row)]
        for row in rows
    ]
    if _shortening():
        cells = shorten(cells)
    if sys.stdout.isatty() and extras.is_installed("rich"):
        _fold(columns, cells, whole)
        return
    for line in align(columns, cells):
        click.echo(line)


def _shortening() -> bool:
    """Return whether to shorten identifiers: on a terminal, if the command has ``--wide`` and it was not given."""
    context = click.get_current_context(silent=True)
    return sys.stdout.isatty() and context is not None and context.meta.get(WIDE) is False


def shorten(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """
    Shorten long identifiers in a table to :data:`SHORT` digits, or to more if necessary to tell them apart.
    """
    known = sorted({cell for row in rows for cell in row if _IDENTIFIER.fullmatch(cell)})
    lengths = dict.fromkeys(known, SHORT)
    for one, other in itertools.pairwise(known):
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True)))
        for each in (one, other):
            lengths[each] = max(lengths[each], same + 1)
    return [[cell[: lengths[cell]] if cell in lengths else cell for cell in row] for row in rows]


def align(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with two spaces between columns; cells may have several lines."""
    table = [[cell.split("\n") for cell in row] for row in (columns, *rows)]
    widths = [max(max(map(_width, row[place])) for row in table) for place in range(len(columns))]
    lines = []
    for row in table:
        for number in range(max(map(len, row))):
            parts = [cell[number] if number < len(cell) else "" for cell in row]
            padded = (part + " " * (width - _width(part)) for part, width in zip(parts, widths, strict=True))
            lines.append("  ".join(padded).rstrip())
    return lines


def _width(text: str) -> int:
    """Return the width on a terminal: wide characters take two columns, combining ones none."""
    if text.isascii():
        return len(text)
    kinds = ((unicodedata.combining(each), unicodedata.east_asian_width(each)) for each in text)
    return sum(0 if combining else 2 if kind in "WF" else 1 for combining, kind in kinds)


def _fold(columns: Sequence[str], rows: Sequence[Sequence[str]], whole: Collection[str]) -> None:
    """
    Print a table on a terminal: fold texts of several words, but not identifiers.

    If the identifiers alone are too wide, print each row on several lines.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # People copy identifiers, names and times, so a single word is not folded.
    kept = {
        column
        for place, column in enumerate(columns)
        if column in whole or all(_WORD.fullmatch(row[place]) for row in rows)
    }
    widths = {
        column: max((_width(row[place]) for row in (columns, *rows)), default=0) for place, column in enumerate(columns)
    }
    least = sum(widths[column] if column in kept else min(widths[column], SHORT) for column in columns)
    if least + 2 * (len(columns) - 1) > shutil.get_terminal_size().columns:
        _stack(columns, rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        fixed = widths[column] if column in kept else None
        table.add_column(column, overflow="fold", no_wrap=column in kept, min_width=fixed)
    for row in rows:
        table.add_row(*map(Text, row))
    Console(file=sys.stdout, highlight=False).print(table)


def _stack(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as lines of ``COLUMN  cell``."""
    width = max(map(len, columns))
    margin = " " * (width + 2)
    for number, row in enumerate(rows):
        if number:
            click.echo()
        for column, cell in zip(columns, row, strict=True):
            if cell:
                click.echo(f"{column:<{width}}  {cell}".replace("\n", f"\n{margin}"))
