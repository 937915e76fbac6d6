"""Every test at the page begins with a browser that has nothing left to say of the one before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.page.browser import Browser, Windows


@pytest.fixture(scope="session")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Windows]:
    """Of the modules ``test_browser_*``, which are all on one worker: see ``tests/conftest.py``."""
    windows = Windows(tmp_path_factory.mktemp("chromium"))
    yield windows
    windows.quit()


@pytest.fixture(scope="module")
def window(windows: Windows) -> Iterator[Browser]:
    """Of one module."""
    with windows.window() as browser:
        yield browser


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> None:
    """Leave the last view, so that it asks for nothing more, and take what stands on the console."""
    browser = request.getfixturevalue("browser") if "browser" in request.fixturenames else None
    if isinstance(browser, Browser):
        browser.open("about:blank")
        browser.said()
