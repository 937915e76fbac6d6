"""The page of the gateway's OpenAPI document in a real browser: it makes calls, and nothing comes from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.page.browser import Browser
from tests.system.gateways import TOKEN, ask, with_gateway
from tests.system.hosting import Host, running, until

VIEWER = "/.well-known/openapi"
ECHO = ".opblock[id$='-ECHO_text']"
"""The operation of ECHO /text, in whichever group it stands."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, int]]:
    config, port = with_gateway(tmp_path_factory.mktemp("viewer"))
    with running(config) as host:
        yield host, port


def retype(window: Browser, selector: str, text: str) -> None:
    """In the place of what stands in a field."""
    field = window.one(selector)
    window.driver.execute_script("arguments[0].value = ''", field)
    field.clear()
    field.send_keys(text)


def choose(window: Browser, selector: str, *choices: str) -> None:
    """These options, wherever a list has one."""
    for option in window.all(f"{selector} option"):
        if option.text in choices:
            option.click()


@pytest.mark.release
def test_who_has_a_token_calls_what_it_may_call(window: Browser, served: tuple[Host, int]) -> None:
    """Without one there is nothing to see; with it, the operations of that caller, and a call of one has its record."""
    host, port = served
    window.open(f"http://127.0.0.1:{port}{VIEWER}")
    until(lambda: "401" in window.text_of("#said"))
    assert not window.all(".opblock")
    window.quiet("401")
    window.type("#token", TOKEN)
    window.click("#who button")
    window.one(".opblock")
    shown = window.texts_of(".opblock-summary-path")
    paths = ask(port, "GET", f"{VIEWER}.json").value["paths"]
    assert {path.replace("\u200b", "") for path in shown} == set(paths)

    window.click(f"{ECHO} .opblock-summary-control")
    window.click(f"{ECHO} .try-out__btn")
    window.asked(lambda: retype(window, f"{ECHO} textarea.body-param__text", json.dumps({"text": "from a page"})))
    window.asked(lambda: choose(window, f"{ECHO} select", "ECHO", "AGIS/1.0"))
    window.click(f"{ECHO} .execute")
    until(lambda: "from a page" in window.text_of(f"{ECHO} .live-responses-table"))
    assert "attribution-record" in window.text_of(f"{ECHO} .live-responses-table").lower()
    window.quiet()
    loaded = window.run("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert loaded and all(name.startswith((f"http://127.0.0.1:{port}/", "data:", "blob:")) for name in loaded), loaded
    assert host.output.count("Traceback") == 0


def test_the_policy_has_no_unsafe(served: tuple[Host, int]) -> None:
    """Scripts and styles are the page's own files; nobody shows it in a frame."""
    _, port = served
    page = ask(port, "GET", VIEWER, token=None)
    policy = page.fields["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert b"<script>" not in page.body and b"style=" not in page.body and b"http" not in page.body
