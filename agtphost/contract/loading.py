"""
Endpoints from TOML files: every problem, with file and line, and whatever is sound besides.

A file holds one endpoint at its top level, or several as ``[[endpoint]]``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agtphost.contract.declaration import REQUIRED, Declaration, Location, Rules
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.table import conflicts
from agtphost.errors import Problem
from agtphost.vocabulary.paths import parse_template

MAX_OCTETS = 1 << 20
"""Of one file."""

_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_PART = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")
_KEY = re.compile(rf"\s*((?:{_PART.pattern})(?:\s*\.\s*(?:{_PART.pattern}))*)\s*=")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*')
_AT_LINE = re.compile(r"\(at line ([0-9]+),")


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


def _line_of(lines: Mapping[Location, int], location: Location) -> int:
    while location and location not in lines:
        location = location[:-1]
    return lines.get(location, 1)


def load_endpoints(directory: Path, rules: Rules) -> tuple[list[Endpoint], list[Problem]]:
    """
    Read every ``*.toml`` of a directory, in order of name.

    :return: the sound endpoints, and everything that is wrong with the others.
    """
    if not directory.is_dir():
        hint = "create it, or correct [endpoints] directory"
        return [], [Problem(message=f"{directory} is not a directory", hint=hint)]
    endpoints: list[Endpoint] = []
    problems: list[Problem] = []
    for file in sorted(directory.glob("*.toml")):
        found, wrong = load_file(file, rules)
        endpoints.extend(found)
        problems.extend(wrong)
    clashes = list(_clashes(endpoints))
    removed = {index for index, _ in clashes}
    problems.extend(problem for _, problem in clashes)
    return [endpoint for index, endpoint in enumerate(endpoints) if index not in removed], problems


def load_file(file: Path, rules: Rules) -> tuple[list[Endpoint], list[Problem]]:
    """Read one file; see :func:`load_endpoints`."""
    name = str(file)
    try:
        octets = file.read_bytes()
    except OSError as error:
        return [], [Problem(message=f"it cannot be read: {error.strerror}", file=name)]
    if len(octets) > MAX_OCTETS:
        return [], [Problem(message=f"it has more than {MAX_OCTETS} octets", file=name)]
    try:
        return read_endpoints(octets.decode("utf-8"), name, rules)
    except UnicodeDecodeError as error:
        line = octets.count(b"\n", 0, error.start) + 1
        return [], [Problem(message="it is not UTF-8", file=name, line=line)]


def read_endpoints(text: str, file: str, rules: Rules) -> tuple[list[Endpoint], list[Problem]]:
    """
    Read the endpoints of one document.

    :param file: its name, for the problems.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        return [], [Problem(message=f"it is not TOML: {error}", file=file, line=line)]
    except RecursionError:
        return [], [Problem(message="it is not TOML: it is nested too deeply", file=file)]
    lines = locate(text)
    endpoints: list[Endpoint] = []
    problems: list[Problem] = []
    for at, table in _tables(document):
        line = _line_of(lines, at)
        label = _label(table)

        def say(location: Location, message: str, hint: str, at: Location = at, label: str = label) -> None:
            where = _line_of(lines, (*at, *location))
            problems.append(Problem(message=f"{label}{message}", file=file, line=where, hint=hint))

        endpoint = Declaration(table, rules, say).endpoint(file, line)
        if endpoint is not None:
            endpoints.append(endpoint)
    if not endpoints and not problems:
        problems.append(Problem(message="it declares no endpoint", file=file, hint="see AGTP-API section 6"))
    return endpoints, sorted(problems, key=lambda problem: problem.line)


def _tables(document: Mapping[str, Any]) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """The tables that are endpoints, and where they are."""
    listed = document.get("endpoint")
    rest = {name: value for name, value in document.items() if name != "endpoint"}
    if isinstance(listed, list) and not rest.keys() & set(REQUIRED):
        for index, table in enumerate(listed):
            yield ("endpoint", index), table if isinstance(table, Mapping) else {}
        if rest:
            # Reported as unknown members, in their own place: no table of the list owns them.
            yield (), {"endpoint": listed, **rest}
    elif document:
        yield (), document


def _label(table: Mapping[str, Any]) -> str:
    method, path = table.get("method"), table.get("path")
    return f"{method[:32]} {path[:128]}: " if isinstance(method, str) and isinstance(path, str) else ""


def _clashes(endpoints: Sequence[Endpoint]) -> Iterator[tuple[int, Problem]]:
    for conflict in conflicts([(endpoint.method, parse_template(endpoint.path)) for endpoint in endpoints]):
        first, second = endpoints[conflict.first], endpoints[conflict.second]
        yield (
            conflict.second,
            Problem(
                message=conflict.explanation,
                file=second.file,
                line=second.line,
                hint=f"the other one is at {first.file}:{first.line}",
            ),
        )
