"""
``REQUIREMENTS.tsv`` says for each requirement how it is shown; what it names exists.

A line is ``ID<TAB>SHOWN``. ``SHOWN`` is a comma-separated list of tests
(``tests/FILE.py::NAME``), or ``later: AREA`` for what this host does not do
yet, or both, joined by ``; ``, where a part is still to come.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "REQUIREMENTS.tsv"

AREAS = frozenset(
    {
        "audit",
        "catalog",
        "discovery",
        "endpoint",
        "gateway",
        "genesis",
        "haidip",
        "handler",
        "headers",
        "identity",
        "lifecycle",
        "oauth",
        "propose",
        "rcns",
        "session",
        "uri",
        "wire",
        "method-DELEGATE",
        "method-AUTHORIZE",
        "method-MONITOR",
        "method-RUN",
        "method-TRANSFER",
    }
)
"""What ``later`` may name."""

_LINE = re.compile(r"([A-Z]+-[0-9]{3})\t([^\t]+)", re.ASCII)
_TEST = re.compile(r"(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)", re.ASCII)
_LATER = re.compile(r"later: ([A-Za-z-]+)(?: \(.+\))?", re.ASCII)


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the tests of a file, in classes too, read without importing it."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    top = ast.parse(path.read_text()).body
    inside = [node for each in top if isinstance(each, ast.ClassDef) for node in each.body]
    return frozenset(node.name for node in (*top, *inside) if isinstance(node, functions))


def faults(text: str) -> list[str]:
    """Everything that is wrong with a table."""
    found, seen = [], set()
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            found.append(f"line {number}: not ID, tab, how it is shown")
            continue
        identifier, shown = match.groups()
        if identifier in seen:
            found.append(f"{identifier}: stands twice")
        seen.add(identifier)
        found += [f"{identifier}: {fault}" for fault in shown_faults(shown)]
    return found


def shown_faults(shown: str) -> list[str]:
    """What is wrong with one line's second column."""
    tests, _, later = shown.partition("; ") if not shown.startswith("later: ") else ("", "", shown)
    found = []
    if later:
        match = _LATER.fullmatch(later)
        if match is None or match[1] not in AREAS:
            found.append(f"{later!r} names no area")
    for name in tests.split(", ") if tests else ():
        match = _TEST.fullmatch(name)
        if match is None or match[2] not in names_in(match[1]):
            found.append(f"{name} does not exist")
    return found


def test_everything_that_the_table_names_exists() -> None:
    """Each line is well formed, each test exists, each requirement stands once."""
    assert faults(TABLE.read_text()) == []


def test_the_table_is_in_order_and_shows_most_of_it() -> None:
    """It follows the drafts' order, one line a requirement, and nine of ten are shown by a test."""
    lines = TABLE.read_text().splitlines()
    assert len(lines) >= 470
    assert sum("::test_" in line for line in lines) >= 0.9 * len(lines)


def test_a_broken_table_is_noticed() -> None:
    """The control: a test that was renamed, a line twice, an unknown area, a malformed line."""
    good = "AGTP-001\ttests/test_requirements.py::test_a_broken_table_is_noticed"
    assert faults(good) == []
    assert faults(f"{good}; later: rcns (the rest)") == []
    assert faults(f"{good}\n{good}") == ["AGTP-001: stands twice"]
    assert faults(f"{good}d") == [f"AGTP-001: {good.split(chr(9))[1]}d does not exist"]
    missing = "tests/test_nothing.py::test_x"
    assert faults(f"AGTP-001\t{missing}") == [f"AGTP-001: {missing} does not exist"]
    assert faults("AGTP-001\tlater: someday") == ["AGTP-001: 'later: someday' names no area"]
    assert faults("AGTP-1 later") == ["line 1: not ID, tab, how it is shown"]
