"""
Workers of pytest-xdist, forked from a process that has imported every test module.

The modules and what they import are 4,300: seven seconds of a processor's time, which each of the workers would spend.
:func:`python` is the command that they are started with, instead of the interpreter's own. What a worker does is left
to pytest-xdist; it finds the modules imported, as :mod:`tests.forking` does for hosts, and by the same means.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite as assertion

from tests import collection, forking, forkserver, sources

ROOT = Path(__file__).parents[1]


def python(places: Sequence[str], options: Sequence[str]) -> list[str]:
    """
    Start the process that forks, wait until it has imported the modules, and return the command of a worker.

    :param places: directories and files, as on pytest's command line.
    :param options: of pytest, for what a module looks at when it is imported.
    """
    path, server = forking.begin("workers", [sys.executable, "-m", __name__], [*options, *places], cwd=ROOT)
    assert server.stdout is not None and server.stdout.readline() == b"ready\n", "the test modules are not imported"
    return forking.launched(path, sys.executable)


def modules(places: Iterable[str]) -> Iterator[str]:
    """Yield the names of the test modules of these directories and files."""
    for place in places:
        path = (ROOT / place.partition("::")[0]).resolve()
        for file in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
            if file.is_relative_to(ROOT):
                yield ".".join(file.relative_to(ROOT).with_suffix("").parts)


class Importer:
    """A plugin of pytest that imports and forks where a run would begin: assertions are rewritten by then."""

    def __init__(self, path: str) -> None:
        self._path = path

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        gc.disable()
        # A third of the time of rewriting is that of a generator in a generator for each level of a tree.
        assertion.traverse_node = sources.walk
        importlib.import_module("tests.conftest").choose_length(config)
        names = [*modules(config.args)]
        rewriter = os.fork()
        if rewriter == 0:
            forkserver.end(partial(rewrite, names))
        for name in names:
            # What cannot be imported is reported by the worker, which tries again. Standard output is for one word.
            with redirect_stdout(StringIO()), suppress(Exception, pytest.skip.Exception):
                importlib.import_module(name)
        os.waitpid(rewriter, 0)
        collection.prepare(config)
        gc.collect()
        gc.freeze()
        forkserver.end(partial(work, forkserver.serve(self._path)))


def rewrite(names: Sequence[str]) -> None:
    """
    Rewrite the assertions of modules, and keep what was compiled, from the last one to the first.

    In a new checkout that is a third of what their import takes, and another core would wait. Nothing of a module runs:
    its first statement is an import, as pytest adds some, and fails.
    """
    for name in reversed(names):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        vars(module)["__builtins__"] = {}
        with suppress(Exception):
            spec.loader.exec_module(module)


def send_fewer_events(config: pytest.Config) -> None:
    """
    Send the controller no event for a test that begins, nor for a set-up or a tear-down that passed.

    These are three of six events of a test, each of which two processes spend time on, and a run shows none of them
    unless an option asks for it.
    """
    option = config.option
    if option.verbose > 0 or option.durations is not None or option.xmlpath or set("PA") & set(option.reportchars):
        return
    [worker] = [plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent")]
    send = worker.sendevent

    def send_needed(name: str, **about: Any) -> None:
        report = about["data"] if name == "testreport" else {}
        silent = report.get("outcome") == "passed" and report.get("when") != "call"
        if name != "logstart" and not silent:
            send(name, **about)

    worker.sendevent = send_needed


def work(request: dict[str, Any]) -> None:
    """Be the interpreter that pytest-xdist asks for: ``python -u -c PROGRAM``."""
    forkserver.adopt(request)
    renew_reactor()
    exec(request["words"][-1], {"__name__": "__main__"})


def renew_reactor() -> None:
    """Give the reactor, which test modules have imported, descriptors of this process alone."""
    reactor = sys.modules.get(forkserver.REACTOR)
    if reactor is not None:
        reactor.waker.connectionLost(None)
        reactor.__init__()  # type: ignore[misc]


if __name__ == "__main__":
    path, *words = sys.argv[1:]
    pytest.main(["-s", "-n0", "-p", "no:cacheprovider", *words], plugins=[Importer(path)])
