"""Chromium with a certificate of its own: imported as people import theirs, and shown where it is asked for."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.page.browser import Browser
from tests.page.browsing import Site, served
from tests.page.test_browser_certificates import operator_of
from tests.page.windows import chromium
from tests.system.hosting import until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "page.rst"
PASSWORD = "only-for-the-way"
STORE = ".pki/nssdb"
"""Below a home directory: where Chromium keeps certificates."""


def imported(home: Path, one: Documented) -> None:
    """Into the store of whoever has that home, by the tools of NSS."""
    if shutil.which("certutil") is None or shutil.which("pk12util") is None:
        pytest.skip("libnss3-tools is not installed")
    store = home / STORE
    store.mkdir(parents=True)
    subprocess.run(["certutil", "-N", "-d", f"sql:{store}", "--empty-password"], check=True)
    words = ["pk12util", "-i", str(one.folder / "ops.p12"), "-d", f"sql:{store}", "-W", PASSWORD]
    subprocess.run(words, check=True, capture_output=True)


@dataclass(frozen=True)
class Documented:
    """What the commands of ``docs/page.rst`` make."""

    folder: Path
    fingerprint: str
    """As the last of them prints it, and as ``[admin.browsers]`` takes it."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Documented:
    """By the very lines that people read."""
    folder = tmp_path_factory.mktemp("certificates")
    lines = [line.strip() for line in PAGE.read_text().splitlines() if line.strip().startswith("$ openssl ")]
    assert len(lines) == 3
    said = ""
    for line in lines:
        word = f" -passout pass:{PASSWORD}" if "pkcs12" in line else ""
        done = subprocess.run(f"{line[2:]}{word}", shell=True, check=True, capture_output=True, text=True, cwd=folder)
        said = done.stdout
    return Documented(folder, said.strip().rpartition("=")[2])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, good: Documented) -> Iterator[Site]:
    def listed(config: Path) -> None:
        config.write_text(f'{config.read_text()}\n[admin.browsers]\n"{good.fingerprint}" = "{operator_of(config)}"\n')

    with served(tmp_path_factory.mktemp("page"), prepare=listed) as site:
        yield site


def opened(site: Site, home: Path) -> AbstractContextManager[Browser]:
    """A window of whoever has that home, which shows its certificate to this host without asking."""
    return chromium(home / "chromium", site.certificate, home=home, shows=f"https://127.0.0.1:{site.port}")


def test_a_person_enters_by_keyboard_with_the_browsers_certificate(
    site: Site, good: Documented, tmp_path: Path
) -> None:
    """One key opens the page; the feed and the next views come over the same certificate, and nothing is amiss."""
    imported(tmp_path, good)
    with opened(site, tmp_path) as browser:
        browser.open(f"https://127.0.0.1:{site.port}/enter")
        assert "presents a certificate with the fingerprint" in browser.text and browser.findings() == []
        browser.screenshot("enter-with-certificate")
        with browser.leaving():
            browser.type("form:has([name=certificate]) button", Keys.ENTER)
        browser.one("nav")
        assert "Overview" in browser.text
        browser.open(f"https://127.0.0.1:{site.port}/calls?reads=all")
        browser.one("[data-live] tbody tr")
        browser.quiet()
        cookie = browser.driver.get_cookie("__Host-agtphost")
        assert cookie is not None
        stolen = {"Cookie": f"__Host-agtphost={cookie['value']}"}
        assert site.stranger().ask("GET", "/", headers=stolen).status == 401


@pytest.mark.release
def test_control_a_browser_without_one_is_offered_nothing(site: Site, tmp_path: Path) -> None:
    """The same window of somebody who has imported none."""
    with opened(site, tmp_path) as browser:
        browser.open(f"https://127.0.0.1:{site.port}/enter")
        assert browser.one("[name=token]") and browser.all("[name=certificate]") == []
        assert "certificate" not in browser.text.replace("operator's certificate", "")


@pytest.mark.release
def test_a_certificate_that_is_taken_back_ends_the_open_page(site: Site, good: Documented, tmp_path: Path) -> None:
    """After the reload the open view says so, shows no further call, and the next click opens nothing."""
    imported(tmp_path, good)
    config = site.host.config
    before = config.read_text()
    try:
        with opened(site, tmp_path) as browser:
            browser.open(f"https://127.0.0.1:{site.port}/enter")
            with browser.leaving():
                browser.type("form:has([name=certificate]) button", Keys.ENTER)
            browser.open(f"https://127.0.0.1:{site.port}/calls?reads=all")
            browser.one("[data-live] tbody tr")
            config.write_text(before.replace(f'"{good.fingerprint}"', f'"{"0" * 64}"'))
            assert site.host.agtp("reload").returncode == 0
            until(lambda: "The feed has ended: The session has ended." in browser.text)
            shown = len(browser.all("[data-live] tbody tr"))
            assert site.host.agtp("call", "-", "DISCOVER", "/methods").returncode == 0
            assert len(browser.all("[data-live] tbody tr")) == shown
            browser.open(f"https://127.0.0.1:{site.port}/agents")
            assert "is not listed in [admin] browsers" in browser.text and browser.all("nav") == []
    finally:
        config.write_text(before)
        assert site.host.agtp("reload").returncode == 0
