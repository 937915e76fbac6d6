"""
Columns of CSV that are numbers.

CSV has text alone. A column becomes numbers where each of its filled cells is one and its value is held exactly; the
schema of a collection decides where it states a type. ``docs/data-methods.rst`` lists the rules for users.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from agtphost.vocabulary import jsontext

IDENTIFIER: Final = "id"
"""The column that identifies a record: it stays text, as identifiers are."""

LONGEST: Final = 64
"""Characters of a number."""

_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?", re.ASCII)
"""A number without exponent: ``12E4`` is as often a part number."""

_JSON = re.compile(rf"{_PLAIN.pattern}(?:[eE][+-]?[0-9]{{1,3}})?", re.ASCII)
"""A number as JSON writes it, for columns that a schema declares as numbers."""

_FLAGS: Final = {"true": True, "false": False}
_MOST_REFERENCES = 8

Cell = Callable[[str], Any]
"""Reads one cell; what it cannot read stays text."""


class Columns:
    """
    The types of the columns of one table.

    :param rows: its records, with the same members each.
    :param schema: the JSON Schema that each record has to follow; None for none.
    """

    def __init__(self, rows: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None = None) -> None:
        self.types: dict[str, str] = {}
        """``number``, ``boolean`` or ``text``, by the name of the column."""

        self._cells: dict[str, Cell] = {}
        self._nullable: set[str] = set()
        for name in rows[0] if rows else ():
            kinds = _kinds_of(name, schema)
            if kinds is None:
                self._infer(name, (row[name] for row in rows))
            else:
                self._declare(name, kinds)

    def _infer(self, name: str, cells: Iterable[str]) -> None:
        filled = [text for cell in cells if (text := cell.strip(" "))]
        if name != IDENTIFIER and filled and all(map(_is_exact, filled)):
            self.types[name] = "number"
            self._cells[name] = _read_number
            self._nullable.add(name)
        else:
            self.types[name] = "text"

    def _declare(self, name: str, kinds: frozenset[str]) -> None:
        self.types[name] = "text"
        if "string" in kinds:
            return
        if kinds & {"number", "integer"}:
            self.types[name] = "number"
            self._cells[name] = _read_number
        elif "boolean" in kinds:
            self.types[name] = "boolean"
            self._cells[name] = _read_flag
        else:
            return
        if "null" in kinds:
            self._nullable.add(name)

    def convert(self, row: Mapping[str, str]) -> dict[str, Any]:
        """
        Return a record with numbers in place of their texts.

        An empty cell of a number column is null; where a schema declares the column and permits no null, the member is
        left out.
        """
        found: dict[str, Any] = {}
        for name, cell in row.items():
            read = self._cells.get(name)
            if read is None:
                found[name] = cell
            elif text := cell.strip(" "):
                found[name] = read(text)
            elif name in self._nullable:
                found[name] = None
        return found


def reads_as_number(text: str) -> bool:
    """Return whether a text is what JSON writes for a number."""
    return len(text) <= LONGEST and _JSON.fullmatch(text.strip(" ")) is not None


def convert(rows: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return the records of a table with numbers in its number columns."""
    columns = Columns(rows)
    return [columns.convert(row) for row in rows]


def _is_exact(cell: str) -> bool:
    """Return whether a cell is a plain number that JSON readers hold with the value that is written."""
    if len(cell) > LONGEST or _PLAIN.fullmatch(cell) is None:
        return False
    try:
        value = jsontext.number(cell, fraction="." in cell)
    except jsontext.JSONTextError:
        return False
    return isinstance(value, int) or Decimal(cell) == Decimal(repr(value))


def _read_number(cell: str) -> Any:
    if len(cell) > LONGEST or _JSON.fullmatch(cell) is None:
        return cell
    try:
        return jsontext.number(cell, fraction=any(sign in cell for sign in ".eE"))
    except jsontext.JSONTextError:
        return cell


def _read_flag(cell: str) -> Any:
    return _FLAGS.get(cell.lower(), cell)


def _kinds_of(name: str, schema: Mapping[str, Any] | None) -> frozenset[str] | None:
    """Return the JSON types that a schema permits for a member; None where it does not state any."""
    if schema is None:
        return None
    properties = _resolve(schema, schema).get("properties")
    if not isinstance(properties, Mapping) or name not in properties:
        return None
    declared = _resolve(properties[name], schema)
    if "type" in declared:
        return frozenset([declared["type"]] if isinstance(declared["type"], str) else declared["type"])
    values = [declared["const"]] if "const" in declared else declared.get("enum")
    return None if values is None else frozenset(map(_kind_of, values))


def _resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, or the one of the same document that it refers to."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            break
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
            return schema
        schema = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
    return {}


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, (int, float)) else "string" if isinstance(value, str) else "object"
