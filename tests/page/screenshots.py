"""
Take a screenshot of each view at three widths and in two themes: ``python -m tests.page.screenshots DIR``.

The host is the sample host with some calls. What is broken or too wide is printed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.page import browser as browsers
from tests.page.browser import Browser
from tests.page.browsing import Site
from tests.page.layout_check import WIDTHS, faults_of_layout
from tests.page.many_calls import busy
from tests.page.test_browser_journeys import address, enter
from tests.page.test_browser_views import views
from tests.page.windows import chromium

THEMES = ("light", "dark")


def name_view(path: str) -> str:
    """Return the beginning of the name of a view's screenshots."""
    parts = path.strip("/").split("/")
    return (parts[0] or "overview") + ("-one" if len(parts) > 1 else "")


def take_all(browser: Browser, site: Site) -> Iterator[str]:
    """Take every screenshot, and yield what is wrong."""
    for path in [*views(browser, site), "/calls?filter=status:4xx+from:-1h", "/calls?filter=sttus:4xx"]:
        for width in WIDTHS:
            for theme in THEMES:
                browser.scheme(theme)
                browser.wide(width)
                browser.open(address(site, path))
                browser.one("html[data-ready]")
                name = name_view(path.partition("?")[0]) + (
                    "-filtered" * ("=status" in path) + "-bad" * ("sttus" in path)
                )
                browser.screenshot(f"{name}-{width}-{theme}")
                yield from (f"{path} {width} {theme}: {each}" for each in faults_of_layout(browser))


def main(folder: Path) -> None:
    """Write the screenshots into a directory."""
    browsers.SCREENSHOTS = folder
    with (
        tempfile.TemporaryDirectory() as place,
        busy(Path(place)) as site,
        chromium(Path(place) / "chromium", site.certificate) as browser,
    ):
        # A scroll bar takes part of the window, and is not in the picture.
        browser.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        enter(browser, site)
        for wrong in take_all(browser, site):
            print(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the images are written")
    main(parser.parse_args().folder)
