"""
Chromium for tests, driven by its own driver, with nothing left unsaid on its console.

Debian's ``chromium`` and ``chromium-driver``; tests that need them are skipped where they are not installed.
Screenshots lie in ``build/screenshots`` afterwards.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import urlopen

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from websocket import create_connection

from tests import npm
from tests.system.hosting import until

Answered = TypeVar("Answered")

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
AXE = "4"

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
)
"""No window, no names looked up, nothing asked of anybody but the host of the test."""

VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(event.violatedDirective + " " + event.blockedURI + " " + event.sample));
"""


CALL = """
const done = arguments[arguments.length - 1], given = arguments;
(async function () { %s }).apply(null, given).then(done, (error) => done({thrown: String(error.stack ?? error)}));
"""


def spki(certificate: Path) -> str:
    """What Chromium takes to trust one certificate's key and no other: the SHA-256 of its public key, base64."""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    octets = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(octets).digest()).decode()


class Browser:
    """
    One window.

    :param driver: whose present window it is.
    :param scripts: False where none run.
    """

    def __init__(self, driver: Chrome, *, scripts: bool = True) -> None:
        self.driver = driver
        self.driver.set_window_size(1280, 900)
        if scripts:
            self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": VIOLATIONS})

    def forget(self) -> None:
        """Its cookies: a session of nobody."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})

    # Looking

    def open(self, address: str) -> None:
        """Go to an address; a view is there when its script has run, if it has one."""
        self.driver.get(address)

    def all(self, selector: str) -> list[WebElement]:
        """Elements by CSS selector."""
        found: list[WebElement] = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found

    def one(self, selector: str, seconds: float = 30.0) -> WebElement:
        """The first of them, waited for."""
        found: list[WebElement] = []
        try:
            until(lambda: found.extend(self.all(selector)) or found, seconds)
        except AssertionError as error:
            shown = self.asked(lambda: [body.text[:2000] for body in self.all("body")])
            raise AssertionError(f"no {selector} at {self.driver.current_url}: {shown!r}, {self.said()}") from error
        return found[0]

    def asked(self, question: Callable[[], Answered], seconds: float = 30.0) -> Answered:
        """
        The answer to a question of several steps: find an element, and ask it.

        A view may be replaced between any two of them, as a click's answer is shown whenever it comes. Then the
        question is asked again, of what is there now.
        """
        found: list[Answered] = []

        def answered() -> bool:
            with suppress(StaleElementReferenceException):
                found.append(question())
            return bool(found)

        until(answered, seconds)
        return found[0]

    def text_of(self, selector: str) -> str:
        """What the first of such elements says, waited for."""
        return self.asked(lambda: str(self.one(selector).text))

    @property
    def text(self) -> str:
        """What the document says."""
        return self.text_of("body")

    def run(self, script: str, *values: Any) -> Any:
        """The value of a script's ``return``, or of what it passes to ``done``."""
        found = self.driver.execute_async_script(CALL % script, *values)
        assert not (isinstance(found, dict) and "thrown" in found), found["thrown"]
        return found

    # Judging

    def said(self) -> list[str]:
        """What stands on the console since the last time, and violations of the content policy."""
        entries = [f"{entry['level']} {entry['message']}" for entry in self.driver.get_log("browser")]
        return entries + list(self.driver.execute_script("return window.violations ?? []"))

    def quiet(self, *expected: str) -> None:
        """
        Hold that nothing went wrong unseen.

        :param expected: parts of what may be there: a refusal that is looked at is one line.
        """
        wrong = [line for line in self.said() if not any(part in line for part in expected)]
        assert not wrong, "\n".join(wrong)

    def findings(self) -> list[str]:
        """Serious and critical findings of axe-core in the view as it is."""
        source = npm.document("axe-core", "axe.min.js", AXE).read_text()
        # Through the driver: the page's own policy lets no such script in, and should not.
        self.driver.execute_script(source)
        report = self.run("return await axe.run(document, {resultTypes: ['violations']})")
        assert report["passes"], "axe-core looked at nothing"
        return [
            f"{found['impact']} {found['id']}: {node['html'][:200]} ({node.get('failureSummary', '')[:200]})"
            for found in report["violations"]
            if found["impact"] in ("serious", "critical")
            for node in found["nodes"]
        ]

    def scheme(self, name: str) -> None:
        """Prefer ``light`` or ``dark``."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def wide(self, width: int) -> None:
        """Be as wide as that, in CSS pixels."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def overflow(self) -> int:
        """Pixels by which the view is wider than the window."""
        script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.driver.execute_script(script))

    def screenshot(self, name: str) -> None:
        """Keep what is seen, the whole height of it."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        (SCREENSHOTS / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))


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
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("chromium and chromium-driver are not installed")
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
    made = Chrome(options, ChromeService(driver, env=environ))
    made.set_script_timeout(120)
    return made


@contextmanager
def chromium(
    folder: Path, certificate: Path | None = None, *, scripts: bool = True, **options: Any
) -> Iterator[Browser]:
    """A browser with a process of its own, gone afterwards; the options are those of :func:`started`."""
    driver = started(folder, certificate, scripts=scripts, **options)
    try:
        yield Browser(driver, scripts=scripts)
    finally:
        driver.quit()


class Windows:
    """
    One process for many modules: each has a window with a profile of its own, of which nothing stays.

    It takes any certificate, as it sees many hosts; that a page shows its own host's is seen by browsers that trust
    no other, which are processes of their own.
    """

    def __init__(self, folder: Path) -> None:
        self._driver = started(folder, any_certificate=True, names={"evil.test": "127.0.0.1"})
        self._first = self._driver.current_window_handle
        address = self._driver.capabilities["goog:chromeOptions"]["debuggerAddress"]
        with urlopen(f"http://{address}/json/version") as answer:
            place = json.load(answer)["webSocketDebuggerUrl"]
        # A driver's own connection is to a window, which makes no profiles.
        self._link = create_connection(place, suppress_origin=True)
        self._asked = 0

    def _ask(self, method: str, **given: Any) -> Any:
        self._asked += 1
        self._link.send(json.dumps({"id": self._asked, "method": method, "params": given}))
        while True:
            answer = json.loads(self._link.recv())
            if answer.get("id") == self._asked:
                return answer["result"]

    @contextmanager
    def window(self) -> Iterator[Browser]:
        """A new one, gone afterwards with its cookies, its storage and what it had open."""
        profile = self._ask("Target.createBrowserContext")["browserContextId"]
        target = self._ask("Target.createTarget", url="about:blank", browserContextId=profile)["targetId"]
        self._driver.switch_to.window(target)
        browser = Browser(self._driver)
        browser.said()
        try:
            yield browser
        finally:
            self._driver.switch_to.window(self._first)
            self._ask("Target.disposeBrowserContext", browserContextId=profile)

    def quit(self) -> None:
        self._link.close()
        self._driver.quit()


def policy_of(headers: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    """The content policy among header fields."""
    return dict(headers)["Content-Security-Policy"]


def shown(value: object) -> str:
    """A value for a failure's message."""
    return json.dumps(value, indent=1, default=str)[:4000]
