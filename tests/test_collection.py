"""Tests have the same names in every process: what runs them side by side tells them apart by these."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Set
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import collection, workers
from tests.conftest import has_room, is_chosen

ROOT = Path(__file__).parents[1]
IN_MEMORY = ("tests/methods", "tests/client", "tests/dispatch", "tests/identity", "tests/negotiation", "tests/handlers")
"""Where names are made of keys, identifiers and sets; all of the tests would take a minute to collect."""


def collected(seed: int, *places: str) -> list[str]:
    """Names in the order in which they would run, in a process with that order of sets."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *places],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_names_and_order_are_the_same_in_every_process(request: pytest.FixtureRequest) -> None:
    """
    Nothing at collection depends on chance, on the clock or on the order of a set.

    The workers of a run are forked from one process, and have one order of sets; so another process collects too.
    """
    own = [item.nodeid for item in request.session.items]
    parts = [[name for name in own if name.startswith(f"{place}/")] for place in IN_MEMORY]
    whole = all(parts) and not request.config.option.keyword
    first = [name for part in parts for name in part] if whole else collected(1, *IN_MEMORY)
    assert len(first) > 1000
    assert first == collected(2, *IN_MEMORY)


@pytest.mark.release
def test_the_control_is_noticed(tmp_path: Path) -> None:
    """A test over a set and one over a new key: their names differ."""
    (tmp_path / "test_over.py").write_text(
        "import os\nimport pytest\n"
        "@pytest.mark.parametrize('word', {'a', 'b', 'c', 'd', 'e', 'f', os.urandom(8).hex()})\n"
        "def test_it(word): pass\n"
    )
    assert collected(1, str(tmp_path)) != collected(2, str(tmp_path))


def drawn(source: str) -> Iterator[int]:
    """Lines that draw, look at the clock or start a process when a module is imported, or its tests are collected."""
    names = {name for name in FORBIDDEN if all(part in source for part in name.split("."))}
    lines = source.splitlines()
    for node in ast.parse(source).body if names else ():
        decorated = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        for part in node.decorator_list if decorated else [node]:
            # Few statements have a part of such a name, and only those are walked.
            written = "\n".join(lines[part.lineno - 1 : part.end_lineno])
            if any(name.rpartition(".")[2] in written for name in names):
                yield from called_in(part, names)


def called_in(node: ast.AST, names: Set[str]) -> Iterator[int]:
    """Yield the lines of calls by these names."""
    parts = [node]
    for part in parts:
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and ast.unparse(part.func) in names:
            yield part.lineno
        if not isinstance(part, ast.Lambda):
            parts += ast.iter_child_nodes(part)


DRAWING = frozenset({"SigningKey.generate", "os.urandom", "uuid.uuid4", "random.random", "secrets.token_hex"})
STARTING = frozenset(f"forking.{name}" for name in ("mcp_server", "agtp", "launched", "path", "shared", "start", "run"))
AGEING = frozenset({"time.time", "time.monotonic", "datetime.now", "datetime.datetime.now"})
FORBIDDEN = DRAWING | STARTING | AGEING


def test_no_module_draws_starts_or_ages_when_it_is_imported() -> None:
    """
    Keys of a module are made of their names: a text in a signature that looks like another comes once in a while.

    Nor does a module look at the clock, or start a process, which every worker would pay for.
    """
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in drawn(path.read_text())
    ]
    assert found == []


def test_a_module_that_draws_is_noticed() -> None:
    """The control: at import, in a decorator; and what a test draws while it runs is its own."""
    assert list(drawn("KEY = SigningKey.generate()\n")) == [1]
    assert list(drawn("TOML = f'{forking.mcp_server(1)}'\nNOW = time.time()\n")) == [1, 2]
    assert list(drawn("LATER = [lambda: time.time()]\n")) == []
    assert list(drawn("@parametrize('n', [os.urandom(2)])\ndef test_it(n):\n    uuid.uuid4()\n")) == [1]


def chosen(*marks: str, programmes: bool = False, args: tuple[str, ...] = ("tests",)) -> bool:
    """Return whether a test of this file with these marks runs."""
    config: Any = SimpleNamespace(getoption=lambda name: programmes, args=args)
    item: Any = SimpleNamespace(path=Path(__file__), get_closest_marker=lambda name: name if name in marks else None)
    return is_chosen(config, item)


def test_a_release_test_runs_only_when_it_is_asked_for() -> None:
    """``--programmes`` runs it, and a command line that names its file; a directory and another file don't."""
    assert chosen("release", programmes=True) and chosen("programme", programmes=True)
    assert not chosen(programmes=True) and not chosen("slow", programmes=True)
    assert chosen() and chosen("programme") and not chosen("release") and not chosen("release", "programme")
    assert chosen("release", args=(__file__,)) and chosen("release", args=(f"{__file__}::test_it[1]",))
    assert not chosen("release", args=(str(Path(__file__).parent), str(Path(__file__).with_name("test_root.py"))))


def test_a_worker_takes_what_was_collected_before_it(request: pytest.FixtureRequest) -> None:
    """A release of pytest that the collecting process does not know fails here; elsewhere it would only cost time."""
    words = getattr(request.config, "workerinput", {"mainargv": []})["mainargv"]
    # A plugin that is named on the command line may collect in its own way.
    named = any(each == "-p" and not after.startswith("no:") for each, after in pairwise(words))
    assert collection.adopted == ([request.session] if words and not named else [])


def test_no_module_sets_up_a_log_when_it_is_imported() -> None:
    """
    Every record of a library would be rendered in every worker: an imported MCP server took a tenth of QUIC's tests.

    In a run without workers pytest has its own handlers before the modules are imported, and the list is empty.
    """
    assert collection.log_handlers == []


def sent(events: Iterable[tuple[str, dict[str, Any]]], **options: object) -> list[tuple[str, dict[str, Any]]]:
    """Return what a worker with these options sends of its events."""
    arrived: list[tuple[str, dict[str, Any]]] = []
    worker = SimpleNamespace(sendevent=lambda name, **about: arrived.append((name, about)))
    option = SimpleNamespace(**{"verbose": 0, "durations": None, "xmlpath": None, "reportchars": "a", **options})
    config: Any = SimpleNamespace(option=option, pluginmanager=SimpleNamespace(get_plugins=lambda: [worker, object()]))
    workers.send_fewer_events(config)
    for name, about in events:
        worker.sendevent(name, **about)
    return arrived


def test_a_worker_sends_each_outcome_and_each_failure() -> None:
    """It leaves out that a test begins, and a set-up and a tear-down that passed, but for options that show them."""
    reports = [
        ("testreport", {"data": {"when": when, "outcome": outcome}})
        for when in ("setup", "call", "teardown")
        for outcome in ("passed", "failed", "skipped", "rerun")
    ]
    events = [("logstart", {"nodeid": "x"}), *reports, ("logfinish", {"nodeid": "x"}), ("workerfinished", {})]
    silent = [
        events[0],
        *(("testreport", {"data": {"when": when, "outcome": "passed"}}) for when in ("setup", "teardown")),
    ]
    assert sent(events) == [event for event in events if event not in silent]
    for name, value in {"verbose": 1, "durations": 0, "xmlpath": "report.xml", "reportchars": "aP"}.items():
        assert sent(events, **{name: value}) == events


def test_files_are_in_memory_only_where_there_is_room(tmp_path: Path) -> None:
    """Not in a folder that is missing, and not where the system has less than is asked for."""
    assert has_room(tmp_path, 1 << 20)
    assert not has_room(tmp_path / "absent", 1 << 20)
    assert not has_room(tmp_path, 1 << 60)
    assert not has_room(Path("/proc"), 1 << 20)
