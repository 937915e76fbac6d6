"""Every view at the widths of a telephone, a tablet and a desk: no word is broken, and nothing is too wide."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.page.browser import Browser, shown
from tests.page.browsing import Site
from tests.page.layout_check import WIDTHS, faults_of_layout
from tests.page.many_calls import busy
from tests.page.test_browser_journeys import address, enter
from tests.page.test_browser_views import views


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with busy(tmp_path_factory.mktemp("page")) as site:
        yield site


@pytest.fixture
def browser(window: Browser, site: Site) -> Browser:
    window.beginning(lambda: enter(window, site))
    return window


def test_no_word_is_broken_and_nothing_is_too_wide(browser: Browser, site: Site) -> None:
    """The boxes of all cells of all views say so."""
    wrong = []
    for path in views(browser, site):
        for width in WIDTHS:
            browser.wide(width)
            browser.open(address(site, path))
            browser.one("html[data-ready]")
            wrong += [f"{path} at {width}: {each}" for each in faults_of_layout(browser)]
    browser.wide(1280)
    assert not wrong, shown(wrong)


def test_a_broken_word_is_noticed(browser: Browser, site: Site) -> None:
    """The control: a narrow cell, and one that is too wide."""
    browser.open(address(site))
    browser.run("""
    const put = (tag, text, width) => {
      const made = document.createElement(tag);
      made.textContent = text;
      made.style.width = width;
      made.style.maxWidth = 'none';
      made.style.overflowWrap = 'anywhere';
      document.querySelector('main').append(made);
    };
    put('p', 'refused', '2em');
    put('p', 'x', '9000px');
    """)
    found = faults_of_layout(browser)
    assert any("broken: refused" in each for each in found) and any("too wide" in each for each in found), found
