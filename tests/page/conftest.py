"""
Every test at the page begins with a browser that lives, and has nothing left to say of the one before.

Where Chromium died in a test, and its driver says so, that test is asked once more of a new one: it says nothing about
the page. The run's warnings name the test and the death.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator

import pytest
from _pytest.runner import runtestprotocol

from tests.page.browser import Browser
from tests.page.windows import DEATHS, Windows

WINDOWS = pytest.StashKey[Windows]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test of this directory, and once more if it failed as its browser died."""
    if "living" not in getattr(item, "fixturenames", ()):
        return None
    DEATHS.clear()
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if DEATHS:
        warnings.warn(f"Chromium died in {item.nodeid}, which is asked once more: {DEATHS[0]}", stacklevel=1)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Look whether it died, before anything is taken down."""
    report = yield
    windows = item.session.stash.get(WINDOWS, None)
    if report.failed and windows is not None:
        DEATHS.extend(filter(None, [windows.death()]))
    return report


@pytest.fixture(scope="session")
def windows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Windows]:
    """Of the modules ``test_browser_*``, which are all on one worker: see ``tests/conftest.py``."""
    windows = request.session.stash[WINDOWS] = Windows(tmp_path_factory.mktemp("chromium"))
    yield windows
    del request.session.stash[WINDOWS]
    windows.quit()


@pytest.fixture(scope="module")
def window(windows: Windows) -> Iterator[Browser]:
    """Of one module."""
    with windows.window() as browser:
        yield browser


@pytest.fixture(autouse=True)
def living(request: pytest.FixtureRequest) -> None:
    """The window of a process that lives, if there is one: what ended with a test's process ends with that test."""
    windows = request.session.stash.get(WINDOWS, None)
    if windows is not None and "window" in request.fixturenames:
        windows.mend()


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> None:
    """Leave the last view, so that it asks for nothing more, and take what stands on the console."""
    browser = request.getfixturevalue("browser") if "browser" in request.fixturenames else None
    if isinstance(browser, Browser):
        browser.leave()
        browser.said()
