"""
Tests that are collected once, in the process that workers of pytest-xdist are forked from.

To collect takes three seconds of a processor's time, which each worker would spend. A worker has a configuration of its
own: it is put into the session that has collected, and all else of that configuration begins as usual.
"""

from __future__ import annotations

import logging
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

KNOWN = (9, 2)
"""The release of pytest whose nodes and fixtures can be given another configuration as is done here."""

_FROM_CONFIG = pytest.Session.from_config

_prepared: list[tuple[pytest.Session, Any]] = []
"""
The session that has collected in the process that this one was forked from, without an error, and its fixtures: a new
manager of fixtures takes their place when the session starts.
"""

adopted: list[pytest.Session] = []
"""The session of this worker, if it took what was collected before."""

log_handlers: list[logging.Handler] = []
"""What handled records of libraries in the process that this one was forked from, once it had imported all modules."""


class _Skips:
    """A plugin of pytest that keeps the reports of what was skipped as a whole, such as a package."""

    def __init__(self) -> None:
        self.reports: list[pytest.CollectReport] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.reports.append(report)


_skips = _Skips()


def prepare(config: pytest.Config) -> None:
    """Collect what the configuration names, for processes that are forked from this one."""
    log_handlers.extend(logging.root.handlers)
    if pytest.version_tuple[:2] != KNOWN:
        return
    with redirect_stdout(StringIO()):
        config._do_configure()
        config.pluginmanager.register(_skips)
        session = pytest.Session.from_config(config)
        config.hook.pytest_sessionstart(session=session)
        try:
            session.perform_collect()
        except pytest.UsageError:
            return
    if not session.testsfailed:
        _prepared.append((session, session._fixturemanager))
        pytest.Session.from_config = _take  # type: ignore[method-assign]


def _take(config: pytest.Config) -> pytest.Session:
    """Return the first session of a worker: the prepared one, where that has collected what is asked for."""
    pytest.Session.from_config = _FROM_CONFIG  # type: ignore[method-assign]
    session, _ = _prepared[0]
    if config.args != session.config.args or _plugins_of(config) != _plugins_of(session.config):
        _prepared.clear()
        return pytest.Session.from_config(config)
    for node in {node for item in session.items for node in item.listchain()}:
        node.config = config
    config.pluginmanager.register(session, name="session")
    return session


def _plugins_of(config: pytest.Config) -> set[str]:
    """Return the plugins that are asked for by name, each of which may have fixtures, or collect."""
    return {name for name in config.option.plugins if not name.startswith("no:")}


def adopt(session: pytest.Session) -> bool:
    """
    Give the session of a worker what was collected, instead of collecting it again.

    :return: False where nothing was prepared.
    """
    if not _prepared:
        return False
    adopted.append(session)
    config = session.config
    _, manager = _prepared.pop()
    session._fixturemanager = manager
    manager.config = config
    for folder in sorted({item.path.parent for item in session.items}):
        config.pluginmanager._loadconftestmodules(
            folder, config.getoption("importmode"), config.rootpath, consider_namespace_packages=False
        )
    for report in _skips.reports:
        config.hook.pytest_collectreport(report=report)
    config.hook.pytest_collection_modifyitems(session=session, config=config, items=session.items)
    config.hook.pytest_collection_finish(session=session)
    session.testscollected = len(session.items)
    return True
