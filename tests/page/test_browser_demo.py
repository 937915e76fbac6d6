"""docs/page-demo.rst, played: an assistant on the official MCP client, a person in Chromium, and a tampered store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from textwrap import dedent

import pytest
from mcp.shared.exceptions import MCPError
from selenium.webdriver.common.keys import Keys

from tests.page.browser import ROOT, Browser
from tests.page.browsing import Site
from tests.page.stage import Assistant, assistant, edited, flip, signed_of
from tests.page.test_browser_evidence import verify
from tests.page.test_browser_journeys import address, enter, place_of
from tests.system.hosting import free_port, running, sample, until
from tests.system.mcp_sessions import audit_id, said

PAGE = (ROOT / "docs" / "page-demo.rst").read_text()


def configuration(port: int, operator: str) -> str:
    """What the page adds to the sample's host.toml, on a free port, with this host's own registrar."""
    (block,) = re.findall(r"::\n\n((?:(?: {4}.*)?\n)+?)(?=\S)", PAGE)
    text = dedent(block)
    assert "ssl:4481:" in text and text.count('operators = ["') == 1
    text = re.sub(r'operators = \["[0-9a-f]{64}"\]', f'operators = ["{operator}"]', text)
    return "\n" + text.replace("ssl:4481:", f"ssl:{port}:")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    config, port = sample(tmp_path_factory.mktemp("demo")), free_port()
    with running(config) as host:
        # A development host makes its registrar at its first start.
        key = host.agtp_json("cert", "show", "state/registrar.pem")["key_fingerprint"]
        host.stop()
    with config.open("a") as file:
        file.write(configuration(port, key))
    notes = config.parent / "mcp" / "files" / "notes"
    notes.mkdir(exist_ok=True)
    (notes / "old.txt").write_text("An old note.\n")
    with running(config) as host:
        yield Site(host, port)


@pytest.fixture(scope="module")
def browser(window: Browser) -> Browser:
    return window


@pytest.fixture(scope="module")
def model(site: Site) -> Iterator[Assistant]:
    with assistant(site.host, "--approval-wait", "300") as one:
        yield one


def note(site: Site) -> Path:
    return site.host.config.parent / "mcp" / "files" / "notes" / "old.txt"


@pytest.mark.release
def test_the_story(browser: Browser, site: Site, model: Assistant) -> None:
    """The five steps of the page, in their order, over one connection of the assistant's."""
    # 1. The call is held.
    held = model.call("files.delete_note", name="old")
    enter(browser, site)
    deciding = 'article:has(button[value="accepted"])'

    def shown() -> bool:
        browser.open(address(site, "/inbox"))
        return bool(browser.all(deciding))

    until(shown, pause=0.5)
    card = browser.text_of(deciding)
    assert "delete_note" in card and '"old"' in card and "demo" in card
    assert not held.done() and note(site).exists()
    browser.screenshot("demo-1-held")

    # 2. It is approved.
    browser.type(f'{deciding} [name="reason"]', "it is an old one")
    browser.follow(f'{deciding} button[value="accepted"]')
    assert "accepted" in browser.text_of(".said")
    wait([held], timeout=60)
    answer = held.result(0)
    assert not answer.is_error, said(answer)
    assert not note(site).exists()
    browser.screenshot("demo-2-approved")

    # 3. The evidence is green.
    deletion = audit_id(answer)
    assert not model.call("files.list_files").result(60).is_error
    browser.open(address(site, "/calls"))
    # Not by the mouse: the rows of a feed move while one points at them.
    with browser.leaving():
        browser.type(f'main a[href="/calls/{deletion}"]', Keys.ENTER)
    good, lines, text = verify(browser, "[data-verify]")
    browser.screenshot("demo-3-green")
    assert good, text
    assert all(lines[what].startswith("ok ") for what in ("key", "hash", "signature", "link", "proof")), text
    browser.quiet()

    # 4. One bit is flipped.
    before = signed_of(site.host, deletion)
    flip(site.host, deletion)
    good, _, text = verify(browser, "[data-verify]")
    browser.screenshot("demo-4-red")
    assert not good and deletion in text
    browser.quiet("status of 500")
    edited(site.host, "UPDATE record SET signed = ? WHERE audit_id = ?", before, bytes.fromhex(deletion))
    assert verify(browser, "[data-verify]")[0], "the copy is put back"

    # 5. The assistant is stopped.
    browser.open(address(site, "/agents"))
    browser.one("main table")
    browser.follow(f'main a[href="{place_of(browser, "demo")}"]')
    browser.type('main input[name="reason"]', "it deletes too much")
    browser.type('main input[name="typed"]', "demo")
    browser.follow('main button[value="revoke"]')
    assert "REVOKE" in browser.text_of(".said")
    with pytest.raises(MCPError) as refused:
        model.call("files.list_files").result(60)
    assert "This is final" in str(refused.value)
    browser.open(address(site, "/calls?status=410"))
    rows = browser.texts_of("main table:not([data-live]) tbody tr")
    browser.screenshot("demo-5-stopped")
    assert any("410 refused agent-retired" in row for row in rows), browser.text
    browser.quiet()
