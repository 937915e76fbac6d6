"""The page of the gateway's OpenAPI document in a real browser: it makes calls, and nothing comes from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from selenium.webdriver.common.by import By

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


def test_who_has_a_token_calls_what_it_may_call(window: Browser, served: tuple[Host, int]) -> None:
    """Without one there is nothing to see; with it, the operations of that caller, and a call of one has its record."""
    host, port = served
    window.open(f"http://127.0.0.1:{port}{VIEWER}")
    until(lambda: "401" in window.one("#said").text)
    assert not window.all(".opblock")
    window.quiet("401")
    window.one("#token").send_keys(TOKEN)
    window.one("#who button").click()
    window.one(".opblock")
    shown = {block.text for block in window.all(".opblock-summary-path")}
    assert {path.replace("\u200b", "") for path in shown} == set(ask(port, "GET", f"{VIEWER}.json").value["paths"])

    window.one(f"{ECHO} .opblock-summary-control").click()
    window.one(f"{ECHO} .try-out__btn").click()
    body = window.one(f"{ECHO} textarea.body-param__text")
    window.driver.execute_script("arguments[0].value = ''", body)
    body.clear()
    body.send_keys(json.dumps({"text": "from a page"}))
    for field in window.all(f"{ECHO} select"):
        chosen = [
            option for option in field.find_elements(By.TAG_NAME, "option") if option.text in ("ECHO", "AGIS/1.0")
        ]
        if chosen:
            chosen[0].click()
    window.one(f"{ECHO} .execute").click()
    answered = window.one(f"{ECHO} .live-responses-table").text
    assert "from a page" in answered and "attribution-record" in answered.lower()
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
