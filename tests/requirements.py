"""
The table of requirements, ``REQUIREMENTS.tsv``: what the drafts ask, and what shows that it is so.

A row is ``ID<TAB>STRENGTH<TAB>TEXT<TAB>SHOWN``. ``SHOWN`` is a comma-separated
list of tests (``tests/FILE.py::NAME``), or ``later: REASON`` for what this
host does not do yet, or both, joined by ``; ``, where a part is still to come.

The hooks at the end watch a whole run of the suite: a test that the table
relies on and that did not pass in it, because it was skipped or never
collected, fails the run. ``tests/conftest.py`` takes them in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "REQUIREMENTS.tsv"

COUNTS = {"AGTP": 337, "API": 161, "METH": 71, "AGIS": 79, "HAIDIP": 52}
"""How many requirements each of the drafts has; they are numbered from 001."""

STRENGTHS = ("MUST", "SHOULD", "MAY", "FEATURE")

_LINE = re.compile(r"([A-Z]+-[0-9]{3})\t([A-Z]+)\t([^\t]+)\t([^\t]+)", re.ASCII)
_TEST = re.compile(r"(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)", re.ASCII)
_LATER = re.compile(r"later: \S.{10,}")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One requirement."""

    id: str
    strength: str
    text: str
    shown: str

    @property
    def tests(self) -> tuple[str, ...]:
        """Node ids without parameters."""
        tests = "" if self.shown.startswith("later: ") else self.shown.partition("; ")[0]
        return tuple(tests.split(", ")) if tests else ()

    @property
    def later(self) -> str:
        """``later: REASON``; empty where all of it is shown."""
        return self.shown if self.shown.startswith("later: ") else self.shown.partition("; ")[2]


def every_id() -> list[str]:
    """Of all drafts, in the table's order."""
    return [f"{draft}-{number:03}" for draft, count in COUNTS.items() for number in range(1, count + 1)]


def rows(text: str) -> Iterator[Row | str]:
    """Each line, or what is wrong with it."""
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            yield f"line {number}: not ID, strength, text, how it is shown, with tabs between"
        else:
            yield Row(id=match[1], strength=match[2], text=match[3], shown=match[4])


def table() -> list[Row]:
    """The rows of the table itself."""
    return [row for row in rows(TABLE.read_text()) if isinstance(row, Row)]


def faults(text: str, ids: Iterable[str] | None = None) -> list[str]:
    """
    Everything that is wrong with a table.

    :param ids: those that it must have, in order; None for all of the drafts.
    """
    wanted = every_id() if ids is None else list(ids)
    found, seen = [], []
    for row in rows(text):
        if isinstance(row, str):
            found.append(row)
            continue
        if row.id in seen:
            found.append(f"{row.id}: stands twice")
        elif row.id not in wanted:
            found.append(f"{row.id}: no draft has that requirement")
        seen.append(row.id)
        found += [f"{row.id}: {fault}" for fault in _faults(row)]
    found += [f"{missing}: missing" for missing in wanted if missing not in seen]
    if not found and seen != wanted:
        found.append("the rows are not in the order of the drafts")
    return found


def _faults(row: Row) -> Iterator[str]:
    if row.strength not in STRENGTHS:
        yield f"{row.strength} is no strength"
    if not row.text.endswith(".") and not row.text[-1:].isalnum() and row.text[-1] not in ")`":
        yield "the text ends in the middle"
    if row.later and _LATER.fullmatch(row.later) is None:
        yield f"{row.later!r} gives no reason"
    for name in row.tests:
        match = _TEST.fullmatch(name)
        if match is None or match[2] not in names_in(match[1]):
            yield f"{name} does not exist"


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


def not_run(passed: Iterable[str], relied_on: Iterable[Row]) -> list[str]:
    """
    What the table relies on and what did not pass.

    :param passed: node ids, with parameters or without.
    """
    ran = {re.sub(r"::[A-Z]\w+::", "::", node.partition("[")[0]) for node in passed}
    return [
        f"{row.id} relies on {test}, which did not run" for row in relied_on for test in row.tests if test not in ran
    ]


# Watching a run

_passed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what passed; with workers, their reports come here too."""
    if report.when == "call" and report.passed:
        _passed.add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A whole run that would pass fails where the table relies on what did not run."""
    if exitstatus == pytest.ExitCode.OK and _is_whole(session.config) and (missing := not_run(_passed, table())):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.section("requirements that nothing shows", red=True)
            for line in missing:
                reporter.line(line)


def _is_whole(config: pytest.Config) -> bool:
    """Whether this process ends a run of everything: the suite's folder, and nothing left out."""
    option = config.option
    chosen = (
        getattr(option, "programmes", False)
        or option.keyword
        or option.markexpr
        or option.collectonly
        or getattr(option, "lf", False)
        or option.deselect
    )
    whole = config.args_source is not pytest.Config.ArgsSource.ARGS or config.args in (["tests"], [str(ROOT / "tests")])
    return not chosen and whole and not hasattr(config, "workerinput") and not option.ignore and not option.maxfail
