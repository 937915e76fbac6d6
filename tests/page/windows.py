"""
Processes of Chromium for tests, each driven by its own driver; one that dies has a successor.

Debian's ``chromium`` and ``chromium-driver``; tests that need them are skipped where they are not installed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from selenium.common.exceptions import (
    InvalidSessionIdException,
    NoSuchWindowException,
    SessionNotCreatedException,
    WebDriverException,
)
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from urllib3.exceptions import HTTPError
from websocket import create_connection

from tests.page.browser import Browser

QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--lang=en",
    # One process for all documents and one for the rest: a document that begins a process costs as much as a view, and
    # so does each process of a browser that starts.
    "--in-process-gpu",
    "--disable-software-rasterizer",
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
    "--disable-features=SpareRendererForSitePerProcess,BackForwardCache,IsolateOrigins,site-per-process",
)
"""No window, no names looked up, nothing asked of anybody but the host of the test; few processes."""


DEATHS: list[str] = []
"""How browsers died in the test that is running, as their drivers said it: see ``conftest.py``."""


def death_of(driver: Chrome) -> str:
    """How a browser, its document or its driver died; empty while it answers."""
    try:
        driver.execute_script("return 0")
    except (InvalidSessionIdException, NoSuchWindowException, HTTPError) as error:
        return str(error).removeprefix("Message: ").partition(";")[0].splitlines()[0]
    except WebDriverException as error:
        # It has no name of its own among the errors of WebDriver.
        return "tab crashed" if "tab crashed" in str(error) else ""
    return ""


def spki(certificate: Path) -> str:
    """What Chromium takes to trust one certificate's key and no other: the SHA-256 of its public key, base64."""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    octets = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(octets).digest()).decode()


def find_programs() -> tuple[str, str]:
    """Return the paths of Chromium and its driver; skip the test that asks where one of them is missing."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("chromium and chromium-driver are not installed")
    return browser, driver


def started(
    folder: Path,
    certificate: Path | None = None,
    *,
    scripts: bool = True,
    names: Mapping[str, str] | None = None,
    any_certificate: bool = False,
    home: Path | None = None,
    shows: str = "",
) -> Chrome:
    """
    A process, with one window.

    :param certificate: of the host that is looked at; None for plain HTTP on loopback.
    :param folder: the browser's own.
    :param scripts: False for a browser that runs none.
    :param names: addresses that names of others are bound to.
    :param home: of whoever looks, where certificates of the browser's own are kept.
    :param shows: the origin that it shows one to, without asking which.
    :param any_certificate: for a browser that is shown several hosts, one after the other.
    """
    browser, driver = find_programs()
    options = ChromeOptions()
    options.binary_location = browser
    trust = () if certificate is None else (f"--ignore-certificate-errors-spki-list={spki(certificate)}",)
    trust = ("--ignore-certificate-errors",) if any_certificate else trust
    bound = ", ".join(f"MAP {name} {address}" for name, address in (names or {}).items())
    for word in (*QUIET, *trust, f"--host-resolver-rules={bound}", f"--user-data-dir={folder}"):
        options.add_argument(word)
    chosen: dict[str, Any] = {} if scripts else {"profile.managed_default_content_settings.javascript": 2}
    if shows:
        rule = {"pattern": shows, "filter": {}}
        chosen["profile.managed_auto_select_certificate_for_urls"] = [json.dumps(rule)]
    if chosen:
        options.add_experimental_option("prefs", chosen)
    environ = None if home is None else {**os.environ, "HOME": str(home)}
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for last in (False, False, True):
        try:
            made = Chrome(options, ChromeService(driver, env=environ))
            made.set_script_timeout(120)
            return made
        except SessionNotCreatedException as error:
            if last:
                raise
            warnings.warn(f"Chromium did not start, and is started once more: {error}", stacklevel=2)
    raise AssertionError


@contextmanager
def chromium(
    folder: Path, certificate: Path | None = None, *, scripts: bool = True, **options: Any
) -> Iterator[Browser]:
    """A browser with a process of its own, gone afterwards; the options are those of :func:`started`."""
    driver = started(folder, certificate, scripts=scripts, **options)
    try:
        yield Browser(driver, scripts=scripts)
    except Exception:
        DEATHS.extend(filter(None, [death_of(driver)]))
        raise
    finally:
        driver.quit()


class Windows:
    """
    One process for many modules: each has a window with a profile of its own, of which nothing stays.

    It takes any certificate, as it sees many hosts; that a page shows its own host's is seen by browsers that trust
    no other, which are processes of their own.

    :param folder: where each process has one of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shown: Browser | None = None
        self._driver: Chrome | None = None
        self._dead = True

    @property
    def driver(self) -> Chrome:
        """Of the process that lives."""
        assert self._driver is not None, "none was started yet"
        return self._driver

    def _start(self) -> None:
        own = Path(tempfile.mkdtemp(dir=self._folder))
        driver = started(own, any_certificate=True, names={"evil.test": "127.0.0.1"})
        try:
            self._first = driver.current_window_handle
            address = driver.capabilities["goog:chromeOptions"]["debuggerAddress"]
            with urlopen(f"http://{address}/json/version") as answer:
                place = json.load(answer)["webSocketDebuggerUrl"]
            # A driver's own connection is to a window, which makes no profiles.
            self._link = create_connection(place, suppress_origin=True, timeout=60)
        except Exception:
            driver.quit()
            raise
        self._driver, self._asked = driver, 0

    def ask(self, method: str, **given: Any) -> Any:
        """The process itself, of which no window knows."""
        self._asked += 1
        self._link.send(json.dumps({"id": self._asked, "method": method, "params": given}))
        while True:
            answer = json.loads(self._link.recv())
            if answer.get("id") == self._asked:
                return answer["result"]

    def _opened(self) -> Chrome:
        """The driver, at a new window."""
        self._profile = self.ask("Target.createBrowserContext")["browserContextId"]
        target = self.ask("Target.createTarget", url="about:blank", browserContextId=self._profile)["targetId"]
        self.driver.switch_to.window(target)
        return self.driver

    @contextmanager
    def window(self) -> Iterator[Browser]:
        """A new one, gone afterwards with its cookies, its storage and what it had open."""
        self.mend()
        self._shown = browser = Browser(self._opened())
        browser.said()
        try:
            yield browser
        finally:
            self._shown = None
            if not self.death():
                self.driver.switch_to.window(self._first)
                self.ask("Target.disposeBrowserContext", browserContextId=self._profile)

    def death(self) -> str:
        """How the process or the document in its window died; empty while they live."""
        found = "" if self._driver is None else death_of(self._driver)
        self._dead = self._dead or bool(found)
        return found

    def mend(self) -> None:
        """At first, or after a death: a new process, and a new window of it in the place of the one that is shown."""
        if not self._dead:
            return
        self.quit()
        self._start()
        self._dead = False
        if self._shown is not None:
            self._shown.show(self._opened())

    def quit(self) -> None:
        """End the process, if there is one."""
        if self._driver is not None:
            self._link.close()
            self._driver.quit()
            self._driver = None
