"""Sessions of the page that end: all of them by one command, and one of an operator that is listed no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.page.browsing import Site, served

ANNA = '\n[[operator]]\nname = "anna"\nkey = "anna.pem"\nrole = "{role}"\n'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page")) as site:
        yield site


def listed(site: Site, role: str) -> None:
    """List anna in that role, or not at all, and reload."""
    file: Path = site.host.config
    text = file.read_text().partition('\n[[operator]]\nname = "anna"')[0]
    file.write_text(text + (ANNA.format(role=role) if role else ""))
    done = site.host.agtp("reload")
    assert done.returncode == 0, done.stderr


def test_one_command_ends_every_session_and_every_unused_link(site: Site) -> None:
    """The record names the operator; a form that was open does nothing, and says that the session has ended."""
    browsers = [site.browser(), site.browser()]
    link = site.link()
    form = browsers[0].get("/contracts").page.form("/do/sweep")
    done = site.host.agtp_json("page", "--end-sessions")
    assert done["sessions"] >= 2 and done["links"] == 1
    shown = site.host.agtp_json(
        *("call", "-", "INSPECT", "/", "target=audit", f"audit_id={done['audit_id']}", "--as", "registrar")
    )
    payload = shown["body"]["result"]["payload"]
    assert payload["operator"]["name"] and payload["extra"]["page_sessions_ended"]["sessions"] == done["sessions"]
    for browser in browsers:
        answer = browser.get("/agents")
        assert answer.status == 401 and "You have no session, or it has ended." in answer.text
    assert browsers[0].send(form, ("do", "sweep")).status == 401
    late = site.stranger().enter(link)
    assert late.status == 410 and "agtp page --end-sessions" in late.text
    assert site.browser().get("/").status == 200
    plain = site.host.agtp("page", "--end-sessions")
    assert plain.stdout == "ended: 1 session and 0 unused links\n"


def test_entering_again_ends_the_session_that_the_browser_had(site: Site) -> None:
    """A link that is refused ends nothing; after a good one, the earlier cookie opens nothing."""
    browser, thief = site.browser(), site.stranger()
    earlier = {"Cookie": browser.cookie}
    assert browser.enter("https://localhost/enter#wrong").status == 403
    assert thief.ask("GET", "/agents", headers=earlier).status == 200
    browser.enter(site.link())
    assert browser.get("/agents").status == 200
    assert thief.ask("GET", "/agents", headers=earlier).status == 401


def test_only_an_administrator_ends_sessions(site: Site) -> None:
    """Neither a viewer nor an agent; and not together with --open."""
    browser = site.browser()
    assert "operators-only" in site.host.agtp("page", "--end-sessions", "--as", "demo").stderr
    assert site.host.agtp("page", "--end-sessions", "--open").returncode == 2
    assert browser.get("/").status == 200


def test_the_open_page_of_an_operator_that_is_removed_is_refused(site: Site) -> None:
    """At the next click after the reload, with a page that says why; so does a role that was lowered."""
    issue = site.host.agtp("cert", "issue", "client", "anna", "--ca", str(site.host.state / "ca.pem"), "-o", "anna.pem")
    assert issue.returncode == 0, issue.stderr
    listed(site, "administrator")
    anna = site.browser("--cert", "anna.pem")
    form = anna.get("/contracts").page.form("/do/sweep")
    listed(site, "viewer")
    assert anna.send(form, ("do", "sweep")).status == 403
    assert "anna (viewer)" in anna.get("/").text
    listed(site, "")
    refused = anna.send(form, ("do", "sweep"))
    assert refused.status == 401 and "The session has ended" in refused.text and "[[operator]]" in refused.text
    assert anna.get("/").status == 401 and anna.cookie == ""


def test_config_says_what_a_reload_would_take(site: Site) -> None:
    """Of each section in general, and of the present file compared with what is in force; a form reloads."""
    file: Path = site.host.config
    text = file.read_text()
    browser = site.browser()
    page = browser.get("/config").page
    assert "Changes need a restart." in page.said and "A reload applies changes." in page.said
    assert not [form for form in page.forms if form.action == "/do/reload"]
    try:
        file.write_text(
            text.replace("[audit]", '[audit]\nsigning = true\nenvelope = "jws"') + ANNA.format(role="viewer")
        )
        page = browser.get("/config?compare=yes").page
        assert any("[operator]" in each for each in page.said), page.said
        form = page.form("/do/reload")
        assert browser.send(form, ("do", "reload")).status == 400
        done = browser.send(form, ("do", "reload"), confirmed="yes")
        assert done.status == 200 and "Applied:" in done.page.said
        assert "nothing, as the host runs with what the files say" in browser.get("/config?compare=yes").text
        file.write_text(f"{text}\n[nonsense]\n")
        wrong = browser.get("/config?compare=yes")
        assert wrong.status == 200 and "nonsense" in wrong.text and "the files have faults" in wrong.text
        refused = browser.send(form, ("do", "reload"), confirmed="yes")
        assert refused.status >= 400 and "nonsense" in refused.text
    finally:
        file.write_text(text)
        assert site.host.agtp("reload").returncode == 0
