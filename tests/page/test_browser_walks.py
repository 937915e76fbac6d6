"""Four days of an operator, in Chromium: an incident, a week's review, a new tool, and an operator who leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from tests import forking
from tests.page.browser import Browser
from tests.page.browsing import Site, served
from tests.page.test_browser_journeys import address, enter
from tests.page.test_inbox import TOOLS
from tests.system.hosting import agtp, until
from tests.system.up_host import VERIFIER

TOOL = "files.list_files"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A host with two agents, one operator, and some calls."""
    with served(tmp_path_factory.mktemp("page"), append=ANNA, eager=True, prepare=prepare) as site:
        yield site


ANNA = """
[[operator]]
name = "anna"
key = "anna.pem"
role = "administrator"
"""


def prepare(config: Path) -> None:
    """Give anna a certificate, whose name the configuration says, and make an agent."""
    for words in (
        ("cert", "issue", "client", "anna", "--ca", "state/ca.pem", "-o", "anna.pem"),
        ("agent", "create", "clerk", "--scope", "documents:query"),
    ):
        done = agtp(*words, cwd=config.parent)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def browser(window: Browser, site: Site) -> Browser:
    window.wide(1280)
    return window


def be(browser: Browser, site: Site, *words: str) -> None:
    """Enter, unless the window has this person's session already."""
    browser.open(address(site, "/config"))
    person = "anna" if words else "registrar"
    if not any(person in text for text in browser.texts_of("header .person")):
        browser.said()
        enter(browser, site, *words)


def command(site: Site, *words: str) -> str:
    done = site.host.agtp(*words)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def client_of(site: Site, name: str) -> Client:
    folder = site.host.state / "agents" / name
    return Client(trust=site.trust, cert=folder / "agent.pem", key=folder / "agent.key")


def agent_id(site: Site, name: str) -> str:
    return str(json.loads((site.host.state / "agents" / name / "document.json").read_text())["agent_id"])


def call_tool(client: Client, site: Site, tool: str, **arguments: Any) -> int:
    said = {"tool": tool, "arguments": arguments}
    given = {"action": "mcp.tools.call", "payload_type": TOOLS, "payload": said}
    return int(client.call(site.host.uri, "EXECUTE", "/", given).status)


def verify(browser: Browser, place: str) -> str:
    """Click, and return what the browser computed."""
    browser.click(f"{place} button.verify")
    browser.one(f"{place} .result[data-result]")
    return browser.attribute_of(f"{place} .result", "data-result")


def test_an_incident(browser: Browser, site: Site, tmp_path: Path) -> None:
    """What happened, who it was, stop it, and prove it to somebody who has neither the host nor the program."""
    with client_of(site, "clerk") as client:
        for _ in range(3):
            assert client.call(site.host.uri, "QUERY", "/library/9780142437230").status == 200
            assert call_tool(client, site, TOOL) == 455
        be(browser, site)
        # What: the Overview says why calls were refused, and leads to them.
        browser.follow('header nav a[href="/"]')
        browser.follow('main a[href*="reason=scope"]')
        refused = browser.texts_of("tr[data-record].refused")
        assert len(refused) == 3 and all(TOOL in row and "clerk" in row for row in refused)
        assert verify(browser, "[data-verify-list]") == "ok"
        # Who: all that this agent did, and what it may do.
        clerk = f"/agents/{agent_id(site, 'clerk')}"
        browser.follow(f'tr[data-record] a[href="{clerk}"]')
        assert "documents:query" in browser.text and "QUERY" in browser.text
        # Stop: the next request is refused.
        browser.type('form[action="/do/lifecycle"] [name="reason"]', "reads what it should not")
        browser.type('form[action="/do/lifecycle"] [name="typed"]', "clerk")
        browser.follow('form[action="/do/lifecycle"] [value="revoke"]')
        assert "retired" in browser.text
        assert client.call(site.host.uri, "QUERY", "/library/9780142437230").status == 410
    # Prove: the export is verified by a program of its own, with the host's key alone.
    browser.follow('header nav a[href="/evidence"]')
    assert verify(browser, '[data-verify-range="host"]') == "ok"
    export = tmp_path / "host.jsonl"
    export.write_text(browser.run("return await (await fetch('/evidence/export?chain=host')).text()"))
    checking = [sys.executable, str(VERIFIER), str(export), "--key", str(site.host.state / "signing.pub")]
    proof = subprocess.run(checking, capture_output=True, text=True)
    assert proof.returncode == 0 and "reads what it should not" not in proof.stderr, proof.stdout + proof.stderr
    browser.quiet()


@pytest.mark.release
def test_a_weeks_review(browser: Browser, site: Site) -> None:
    """Calls by time, tool and agent of seven days, who has which rights, and whether all of it verifies."""
    with client_of(site, "demo") as client:
        assert [call_tool(client, site, TOOL) for _ in range(2)] == [200, 200]
        assert client.call(site.host.uri, "DISCOVER", "/nothing").status == 404
    be(browser, site)
    browser.follow('header nav a[href="/"]')
    browser.follow('main a[href="/?from=-7d"]')
    rows = browser.texts_of("main tbody tr")
    assert any(TOOL in row for row in rows) and any(row.startswith("demo") for row in rows)
    assert "not-found" in browser.text or "endpoint-not-found" in browser.text
    browser.follow('header nav a[href="/agents"]')
    browser.click('#filter-range option[value="-7d"]')
    browser.follow('form[action="/agents"] button')
    demo = next(row for row in browser.texts_of("main tbody tr") if row.startswith("demo"))
    assert "mcp:tools:execute" in demo and "UTC" in demo, demo
    browser.open(address(site, "/tools?range=-7d"))
    listed = next(row for row in browser.texts_of("main tbody tr") if row.startswith(TOOL))
    counted = json.loads(command(site, "audit", "search", "--tool", TOOL, "--count", "tool", "--json"))["counts"]
    calls = [str(each["records"]) for each in counted if each["value"] == TOOL]
    assert [listed.split()[2]] == calls and listed.split()[1] == "on" and "mcp:tools:execute" in listed, listed
    browser.open(address(site, "/calls?filter=agent:demo+from:-7d"))
    browser.one("html[data-ready]")
    assert verify(browser, "[data-verify-list]") == "ok"
    browser.quiet()


@pytest.mark.release
def test_a_new_tool_is_introduced(browser: Browser, site: Site) -> None:
    """Its calls wait for a person, who decides in the inbox; the next call is made, and the record says by whom."""
    words = site.host.config.parent / "words"
    words.write_text("Adds up.\nNothing else.")
    server = forking.mcp_server(Path(__file__).parents[1] / "system" / "changing_server.py", words)
    entry = f'\n[[mcp.server]]\nname = "sums"\ncommand = {json.dumps(server)}\nstart = "eager"\n'
    with site.host.config.open("a") as file:
        file.write(f'{entry}[mcp.server.tools.work]\napproval = "required"\n')
    command(site, "reload")
    be(browser, site, "--cert", "anna.pem")
    browser.open(address(site, "/tools/mcp.sums.work"))
    assert "approval by a person" in browser.text or "by a person" in browser.text
    assert "Adds up." in browser.text
    with client_of(site, "demo") as client:
        held = call_tool(client, site, "sums.work", amount=1)
        assert held == 202, held
        browser.follow('header nav a[href="/inbox"]')
        waiting = 'form[action="/do/decide"]'
        browser.type(f'{waiting} [name="reason"]', "ticket 4711")
        browser.follow(f'{waiting} [value="accepted"]')
        assert "ticket 4711" in browser.text or "accepted" in browser.text
        assert call_tool(client, site, "sums.work", amount=1) == 200
    browser.open(address(site, "/calls?filter=tool:sums.work"))
    made, *_, asked = browser.texts_of("tr[data-record]")
    assert "demo" in made and " 200 " in made and "approval-required" in asked
    browser.open(address(site, "/calls?filter=operator:anna+method:CONFIRM"))
    (decided,) = browser.texts_of("tr[data-record]")
    assert "anna" in decided
    browser.quiet()


@pytest.mark.release
def test_an_operator_leaves(browser: Browser, site: Site) -> None:
    """The open page of a person whose entry is gone shows nothing more; what was done before still has the name."""
    be(browser, site, "--cert", "anna.pem")
    demo = f"/agents/{agent_id(site, 'demo')}"
    browser.open(address(site, demo))
    browser.type('form[action="/do/lifecycle"] [name="reason"]', "a test")
    browser.follow('form[action="/do/lifecycle"] [value="deactivate"]')
    assert "suspended" in browser.text
    browser.type('form[action="/do/lifecycle"] [name="reason"]', "enough")
    browser.follow('form[action="/do/lifecycle"] [value="reinstate"]')
    browser.open(address(site, "/calls"))
    browser.one('table[data-feed="open"]')
    site.host.config.write_text(site.host.config.read_text().replace(ANNA, ""))
    command(site, "reload")
    until(lambda: "The feed has ended: The page is for operators" in browser.text_of(".feed"))
    browser.open(address(site, demo))
    until(lambda: "demo" not in browser.text)
    assert not browser.all('form[action="/do/lifecycle"]')
    browser.said()
    enter(browser, site)
    browser.open(address(site, "/calls?filter=operator:anna&reads=all"))
    done = browser.texts_of("tr[data-record]")
    assert any("DEACTIVATE" in row for row in done) and any("REINSTATE" in row for row in done)
    assert all("anna" in row for row in done)
    browser.quiet()
