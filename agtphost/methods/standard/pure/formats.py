"""Data as JSON, JSON lines, YAML and CSV: read from text, and written to it."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure import material, number_columns
from agtphost.methods.standard.pure.material import MAX_ROWS
from agtphost.vocabulary import jsontext, yamltext
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.jsonslices import least_octets

FORMATS = ("json", "jsonl", "csv", "yaml")

MAX_OCTETS = 1_048_576
"""Of a text that is read, and of one that is written."""

MAX_CELLS = 200_000
"""Cells of a table: few lines with many columns, or many with few."""

_YAML = yamltext.Bounds(octets=MAX_OCTETS, events=200_000)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*", re.ASCII)
"""Texts that need no quotes in YAML, but for those that it has another meaning for."""

BYTE_ORDER_MARK = "\ufeff"

_SEPARATORS = {";": "semicolons", "\t": "tabs"}
"""What spreadsheets of some countries write in place of commas."""

_MEANING = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def read(source: str, form: str, name: str = "source") -> Any:
    """
    Decode a text.

    :param form: one of :data:`FORMATS`.
    :param name: the parameter that it is in, for refusals.
    :raises Refusal: 422 for a text that is not of that format, or too large.
    """
    # Spreadsheets write this mark before a table; it is not part of the first column's name.
    source = source.removeprefix(BYTE_ORDER_MARK)
    octets = source.encode("utf-8", "surrogatepass")
    if len(octets) > MAX_OCTETS:
        raise parameters.invalid(name, f"{name} has more than {MAX_OCTETS} octets.", "Send it in parts.")
    try:
        match form:
            case "json":
                return jsontext.decode(octets)
            case "jsonl":
                return _lines(source)
            case "yaml":
                return yamltext.decode(octets, _YAML)
            case _:
                return _table(source)
    except (jsontext.JSONTextError, yamltext.YAMLTextError, csv.Error, ValueError) as error:
        raise parameters.invalid(
            name, f"{name} is not {form}: {explain(error)[:160]}.", f"Correct it, or the format: {', '.join(FORMATS)}."
        ) from None


def records(call: Mapping[str, Any], name: str, *, least: int = 0) -> list[Any]:
    """
    Return the records of a parameter, a list or a text: JSON lines are read in a fraction of the time of JSON.

    Columns of CSV that are numbers are read as numbers.

    :raises Refusal: 422 for anything else.
    """
    value = material.require(call, name)
    if isinstance(value, str):
        form = guess_format(value)
        found = read(value, form, name)
        if form == "csv":
            found = number_columns.convert(found)
        value = found if isinstance(found, list) else [found]
    return material.rows({name: value}, name, least=least)


def guess_format(source: str) -> str:
    """Guess the format of a text."""
    source = source.removeprefix(BYTE_ORDER_MARK)
    begin = source.lstrip()[:1]
    if begin in ("{", "["):
        first, _, rest = source.strip().partition("\n")
        if rest.strip() and first.rstrip().endswith("}") and rest.lstrip().startswith("{"):
            return "jsonl"
        return "json"
    first = source.strip().partition("\n")[0]
    return "csv" if "," in first and ": " not in first and not first.startswith("- ") else "yaml"


def _lines(source: str) -> list[Any]:
    lines = [line for line in source.split("\n") if line.strip()]
    if len(lines) > MAX_ROWS:
        raise ValueError(f"it has more than {MAX_ROWS} lines")
    return [jsontext.decode(line.encode()) for line in lines]


def _table(source: str) -> list[dict[str, str]]:
    """
    Return rows by the names in the first line; every cell is text, as CSV has it.

    Spaces around a name do not count: "id, amount" names ``amount``, as a search does.
    """
    rows = csv.reader(io.StringIO(source, newline=""), strict=True)
    names = [name.strip(" ") for name in next(rows, [])]
    if not names or not all(names) or len({*names}) != len(names):
        raise ValueError("its first line does not name each column once")
    for sign, named in _SEPARATORS.items():
        if len(names) == 1 and sign in names[0]:
            raise ValueError(f"its cells are separated by {named}, and csv has commas")
    found: list[dict[str, str]] = []
    for row in rows:
        if not row:
            continue
        if len(row) != len(names):
            raise ValueError(f"line {rows.line_num} has {len(row)} cells, and the first one {len(names)}")
        found.append(dict(zip(names, row, strict=True)))
        if len(found) > MAX_ROWS or len(found) * len(names) > MAX_CELLS:
            raise ValueError(f"it has more than {MAX_ROWS} lines or {MAX_CELLS} cells")
    return found


def write(value: Any, form: str, name: str = "data") -> Any:
    """
    Return a value in a format: JSON is the value itself, the others are text.

    :raises Refusal: 422 for what the format cannot say, or says in too many octets.
    """
    if form == "json":
        return value
    if least_octets(value, MAX_OCTETS) > MAX_OCTETS:
        raise _too_long(name, form)
    if form == "yaml":
        text = "".join(_yaml(value, 0)) or f"{_scalar(value)}\n"
    elif form == "jsonl":
        records = value if isinstance(value, list) else [value]
        text = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    else:
        text = _written_table(value, name)
    if len(text) > MAX_OCTETS:
        raise _too_long(name, form)
    return text


def _too_long(name: str, form: str) -> Refusal:
    return parameters.invalid(name, f"As {form} it has more than {MAX_OCTETS} characters.", "Send it in parts.")


def _yaml(value: Any, depth: int) -> Iterator[str]:
    """
    Yield the lines of a mapping or sequence; nothing for what is written on the line that it belongs to.

    An emitter of our own: libyaml's would hold all of Python for as long as it writes.
    """
    indent = "  " * depth
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield f"{indent}{_scalar(name)}:"
            yield from _yaml_nested(inner, depth)
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, Mapping) and inner:
                lines = "".join(_yaml(inner, depth + 1))
                yield f"{indent}- {lines[2 * depth + 2 :]}"
            else:
                yield f"{indent}-"
                yield from _yaml_nested(inner, depth)


def _yaml_nested(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, (Mapping, list)) and value:
        yield "\n"
        yield from _yaml(value, depth + 1)
    else:
        yield f" {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _MEANING
        return value if plain else json.dumps(value, ensure_ascii=True)
    return json.dumps(value)


def _written_table(value: Any, name: str) -> str:
    records = value if isinstance(value, list) else [value]
    if not all(isinstance(record, Mapping) for record in records):
        raise parameters.invalid(
            name, "A table needs objects, and some of the data is not an object.", "Choose another format than csv."
        )
    columns = dict.fromkeys(column for record in records for column in record)
    if len(columns) * len(records) > MAX_CELLS:
        raise parameters.invalid(name, f"As a table it has more than {MAX_CELLS} cells.", "Choose jsonl.")
    out = io.StringIO(newline="")
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows([_cell(record.get(column)) for column in columns] for record in records)
    return out.getvalue()


def _cell(value: Any) -> str:
    """Return a table cell: text as it is, null as empty text, other values as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
