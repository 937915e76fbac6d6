"""
A window of Chromium: what it shows, what somebody does in it, and what stands on its console.

A view changes while it is looked at: a click's answer comes when it comes, and scripts put in what they compute. So the
verbs here are whole: each finds the element that it is about, and begins again where that was replaced, or cannot be
reached yet, before anything was done. What leads to another document is done by :meth:`Browser.follow`, or within
:meth:`Browser.leaving`: nobody reads the old one and takes it for the new one.

With ``AGTP_SCREENSHOTS=DIRECTORY`` in the environment the screenshots lie there afterwards. Without it none is taken:
no test looks at one, and it costs half as much as a view.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests import npm
from tests.system.hosting import until

Answered = TypeVar("Answered")

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = Path(os.environ["AGTP_SCREENSHOTS"]) if os.environ.get("AGTP_SCREENSHOTS") else None
AXE = "4"

NOT_YET = (StaleElementReferenceException, ElementNotInteractableException, ElementClickInterceptedException)
"""What a driver says of an element that was replaced, or is not to be reached; nothing was done to it then."""

REPLACED = "does not belong to the document"
"""What Chromium says where the driver asks it for an element at the moment in which its document is replaced."""


def is_replaced(error: WebDriverException) -> bool:
    """Whether an element is one of a document, or of a view, that is there no more."""
    return isinstance(error, StaleElementReferenceException) or REPLACED in str(error.msg)


VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(event.violatedDirective + " " + event.blockedURI + " " + event.sample));
"""


# Of a report all else is forty times as long, and takes a third of the time.
AXE_RUN = """
const report = await axe.run(document, {resultTypes: ['violations']});
return [report.passes.length, report.violations];
"""

REFRESH_SOON = """
document.addEventListener('readystatechange', () => {
  const region = document.querySelector('[data-refresh]');
  if (region) region.dataset.refresh = '0';
});
"""
"""Sets the seconds between two refreshes to none, before the page's script reads them."""

CALL = """
const done = arguments[arguments.length - 1], given = arguments;
(async function () { %s }).apply(null, given).then(done, (error) => done({thrown: String(error.stack ?? error)}));
"""


class Browser:
    """
    One window.

    :param driver: whose present window it is.
    :param scripts: False where none run.
    """

    driver: Chrome

    def __init__(self, driver: Chrome, *, scripts: bool = True) -> None:
        self._scripts = scripts
        self.show(driver)

    def show(self, driver: Chrome) -> None:
        """Be the window that the driver has now: the first one, or one in the place of another that died."""
        self.driver = driver
        self._begun = False
        self.driver.set_window_size(1280, 900)
        if self._scripts:
            self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": VIOLATIONS})

    def beginning(self, act: Callable[[], object]) -> None:
        """Do what tests of a module begin with: once in each window, and again after :meth:`forget`."""
        if not self._begun:
            act()
            self._begun = True

    def forget(self) -> None:
        """Its cookies: a session of nobody."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self._begun = False

    # Looking

    def open(self, address: str) -> None:
        """Go to an address; a view is there when its script has run, if it has one."""
        self.driver.get(address)

    def leave(self) -> None:
        """
        Leave the view, so that it asks for nothing more.

        By a script of its own: the empty document stays in the process of the view. One that the driver opens begins
        another process, and the next view one more, which costs as much as three views.
        """
        self.driver.execute_script("location.replace('about:blank')")
        until(lambda: self.driver.current_url == "about:blank")

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
        The answer to a question of several steps: find an element, and ask it, or do something to it.

        The view may change between any two of them. Then all of it is asked again, of what is there now.
        """
        found: list[Answered] = []
        last: list[Exception] = []

        def answered() -> bool:
            try:
                found.append(question())
            except WebDriverException as error:
                if not (isinstance(error, NOT_YET) or is_replaced(error)):
                    raise
                last[:] = [error]
            return bool(found)

        try:
            until(answered, seconds)
        except AssertionError as error:
            raise (last or [error])[0] from None
        return found[0]

    def text_of(self, selector: str) -> str:
        """What the first of such elements says, waited for."""
        return self.asked(lambda: str(self.one(selector).text))

    def texts_of(self, selector: str) -> list[str]:
        """What each of them says, of one moment."""
        return self.asked(lambda: [str(element.text) for element in self.all(selector)])

    def attribute_of(self, selector: str, name: str) -> str:
        """Of the first of such elements, waited for; empty where it has none."""
        return self.asked(lambda: str(self.one(selector).get_attribute(name) or ""))

    @property
    def text(self) -> str:
        """What the document says."""
        return self.text_of("body")

    def run(self, script: str, *values: Any) -> Any:
        """The value of a script's ``return``, or of what it passes to ``done``."""
        found = self.driver.execute_async_script(CALL % script, *values)
        assert not (isinstance(found, dict) and "thrown" in found), found["thrown"]
        return found

    # Acting

    def click(self, selector: str) -> None:
        """With the mouse, on the first of such elements, once it can be clicked on."""
        self.asked(lambda: self.one(selector).click())

    def type(self, selector: str, text: str) -> None:
        """Into the first of such elements, once it takes what is typed."""
        self.asked(lambda: self.one(selector).send_keys(text))

    def press(self, *keys: str) -> None:
        """Wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """What is done within leads to another document: it is there afterwards, and all of it is loaded."""
        here = self.one("html")
        yield

        def left() -> bool:
            try:
                here.is_enabled()
            except WebDriverException as error:
                if not is_replaced(error):
                    raise
                return True
            return False

        until(left)
        until(lambda: self.driver.execute_script("return document.readyState") == "complete")

    def follow(self, selector: str) -> None:
        """Click on what leads to another document, and be there."""
        with self.leaving():
            self.click(selector)

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
        if not self.driver.execute_script("return 'axe' in window"):
            # Through the driver: the page's own policy lets no such script in, and should not.
            self.driver.execute_script(npm.document("axe-core", "axe.min.js", AXE).read_text())
        passes, violations = self.run(AXE_RUN)
        assert passes, "axe-core looked at nothing"
        return [
            f"{found['impact']} {found['id']}: {node['html'][:200]} ({node.get('failureSummary', '')[:200]})"
            for found in violations
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

    @contextmanager
    def refreshing(self) -> Iterator[None]:
        """Views that are opened within refresh themselves as soon as a call is recorded, without a wait of seconds."""
        source = {"source": REFRESH_SOON}
        added = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)

    def screenshot(self, name: str) -> None:
        """Keep what is seen, the whole height of it, where the environment asks for it."""
        if SCREENSHOTS is None:
            return
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        options = {"captureBeyondViewport": True, "optimizeForSpeed": True}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", options)
        (SCREENSHOTS / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))


def policy_of(headers: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    """The content policy among header fields."""
    return dict(headers)["Content-Security-Policy"]


def shown(value: object) -> str:
    """A value for a failure's message."""
    return json.dumps(value, indent=1, default=str)[:4000]
