"""From a TOML file to its document, or to the one problem that stands in the way."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agtphost.contract.toml_lines import Location
from agtphost.errors import Problem

MAX_OCTETS = 1 << 20
"""Of one file."""

_AT_LINE = re.compile(r"\(at line ([0-9]+),")


class NotToml(Exception):
    """The file cannot be read, or is no TOML; ``problem`` says why and where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def text_of(file: Path) -> str:
    """
    What the file says.

    :raises NotToml: it cannot be read, is too long, or is not UTF-8.
    """
    name = str(file)
    try:
        octets = file.read_bytes()
    except OSError as error:
        raise NotToml(Problem(message=f"it cannot be read: {error.strerror}", file=name)) from None
    if len(octets) > MAX_OCTETS:
        raise NotToml(Problem(message=f"it has more than {MAX_OCTETS} octets", file=name))
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError as error:
        line = octets.count(b"\n", 0, error.start) + 1
        raise NotToml(Problem(message="it is not UTF-8", file=name, line=line)) from None


def document_of(text: str, file: str) -> dict[str, Any]:
    """
    Its tables.

    :param file: its name, for the problem.
    :raises NotToml: it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise NotToml(Problem(message=f"it is not TOML: {error}", file=file, line=line)) from None
    except RecursionError:
        raise NotToml(Problem(message="it is not TOML: it is nested too deeply", file=file)) from None


def line_of(lines: Mapping[Location, int], location: Location) -> int:
    """The line of the innermost key or table around ``location`` that begins one."""
    while location and location not in lines:
        location = location[:-1]
    return lines.get(location, 1)
