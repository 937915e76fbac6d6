"""
Take a screenshot of each view at three widths and in two themes: ``python -m tests.page.screenshots DIR``.

The host is the sample host with some calls: answered, refused, held for a person, and in the name of an agent. What is
broken or too wide is printed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.page import browser as browsers
from tests.page.browser import Browser
from tests.page.browsing import Site, served
from tests.page.layout_check import WIDTHS, faults_of_layout
from tests.page.many_calls import APPROVAL, call_much
from tests.page.test_browser_journeys import address, enter
from tests.page.test_browser_views import full_paths, views
from tests.page.test_inbox import escalated
from tests.page.windows import chromium

THEMES = ("light", "dark")


def name_view(path: str) -> str:
    """Return the beginning of the name of a view's screenshots."""
    found = urlsplit(path)
    parts = found.path.strip("/").split("/")
    asked = "bad" if "sttus" in path else found.query.partition("=")[0]
    return (parts[0] or "overview") + ("-one" if len(parts) > 1 else "") + (f"-{asked}" if asked else "")


def take_all(browser: Browser, site: Site) -> Iterator[str]:
    """Take every screenshot, and yield what is wrong."""
    filtered = ("/calls?filter=status:4xx+from:-1h", "/calls?filter=sttus:4xx", "/inbox?show=decided")
    for path in dict.fromkeys([*views(browser, site), *full_paths(site), *filtered]):
        for width in WIDTHS:
            for theme in THEMES:
                browser.scheme(theme)
                browser.wide(width)
                browser.open(address(site, path))
                browser.one("html[data-ready]")
                browser.screenshot(f"{name_view(path)}-{width}-{theme}")
                yield from (f"{path} {width} {theme}: {each}" for each in faults_of_layout(browser))


def main(folder: Path) -> None:
    """Write the screenshots into a directory."""
    browsers.SCREENSHOTS = folder
    with (
        tempfile.TemporaryDirectory() as place,
        served(Path(place), append=APPROVAL, eager=True) as site,
        chromium(Path(place) / "chromium", site.certificate) as browser,
    ):
        call_much(site)
        escalated(site, "task-of-views")
        for words in (("files.delete_note", "name=old"), ("files.list_files", "--no-cert")):
            site.host.agtp("tools", "call", *words)
        # A scroll bar takes part of the window, and is not in the picture.
        browser.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        enter(browser, site)
        for wrong in take_all(browser, site):
            print(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the images are written")
    main(parser.parse_args().folder)
