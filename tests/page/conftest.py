"""Every test at the page begins with a browser that has nothing left to say of the one before."""

from __future__ import annotations

import pytest

from tests.page.browser import Browser


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> None:
    """Leave the last view, so that it asks for nothing more, and take what stands on the console."""
    browser = request.getfixturevalue("browser") if "browser" in request.fixturenames else None
    if isinstance(browser, Browser):
        browser.open("about:blank")
        browser.said()
