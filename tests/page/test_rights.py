"""Who may look and who may act: viewers, pages that write nothing, certificates that end, calls that are ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.identity.certificates import Authority, issue_client_certificate
from agtphost.identity.keys import SigningKey
from agtphost.page.views import VIEWS
from tests.page.browsing import Browser, Site, served
from tests.system.hosting import Host, until
from tests.system.test_a2a_front import SLOW, SLOW_HANDLER

TOKEN = "0123456789abcdef" * 4


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The sample agent may look; a call takes as long as it says; certificates can be revoked."""
    folder = tmp_path_factory.mktemp("page")
    with served(folder, more='viewers = ["{demo}"]', prepare=slow) as site:
        yield site


def slow(config: Path) -> None:
    """An endpoint that waits, and an empty revocation list."""
    (config.parent / "handlers" / "slow.py").write_text(SLOW_HANDLER)
    (config.parent / "endpoints" / "slow.toml").write_text(SLOW)
    state = config.parent / "state"
    host = Host.__new__(Host)
    host.config = config
    done = host.agtp("cert", "crl", "--ca", str(state / "ca.pem"), "--crl", str(state / "crl.pem"))
    assert done.returncode == 0, done.stderr
    token = config.parent / "nightly.token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    client = '\n[[http.client]]\nname = "nightly"\ntoken = "file:nightly.token"\nagent = "demo"\n'
    config.write_text(f'{config.read_text()}{client}\n[tls]\nclient_crl = ["state/crl.pem"]\n')


# Viewers


def test_a_viewer_looks_at_everything_and_does_nothing(site: Site) -> None:
    """No view has a form that changes anything; one that is sent all the same is refused by the host."""
    viewer = site.browser("--as", "demo")
    for path in VIEWS:
        answer = viewer.get(path)
        assert answer.status == 200, path
        assert [form.action for form in answer.page.forms if form.method == "POST"] == ["/leave"], path
    for path in ("/calls", "/agents", "/tools", "/evidence", "/config"):
        assert "operators-only" not in viewer.get(path).text, path
    csrf = viewer.get("/").page.form("/leave").fields["csrf"]
    answer = viewer.ask("POST", "/do/sweep", {"csrf": csrf, "do": "sweep", "back": "/contracts"})
    assert answer.status == 403, answer.text


def test_where_nothing_is_written_nothing_is_done(tmp_path: Path) -> None:
    """``writes = false``: no forms, and 403 for one that is made up, without asking the host for it."""
    with served(tmp_path, more="writes = false") as site:
        browser = site.browser()
        for path in VIEWS:
            page = browser.get(path).page
            assert [form.action for form in page.forms if form.method == "POST"] == ["/leave"], path
        csrf = browser.get("/").page.form("/leave").fields["csrf"]
        answer = browser.ask("POST", "/do/sweep", {"csrf": csrf, "do": "sweep", "back": "/contracts"})
        assert answer.status == 403 and "writes is false" in answer.text


def test_keys_of_http_clients_are_told_by_name(site: Site) -> None:
    """With the agent that they call as; the tokens themselves are nowhere."""
    browser = site.browser()
    demo = site.host.agtp_json("cert", "show", str(site.host.state / "agents/demo/agent.pem"))["agent_id"]
    assert "nightly" in browser.get(f"/agents/{demo}").page.said
    assert "nightly" in browser.get("/config").text
    assert all(TOKEN not in browser.get(path).text for path in (*VIEWS, f"/agents/{demo}"))


# Calls that wait


def test_a_call_that_waits_is_ended(site: Site) -> None:
    """Its caller is told, and the record says by whom."""
    browser = site.browser()
    answers: list[int] = []
    words = ("call", "-", "BOOK", "/slow", "seconds:=120")
    calling = threading.Thread(target=lambda: answers.append(site.host.agtp(*words).returncode))
    calling.start()
    until(lambda: "BOOK /slow" in browser.get("/calls").text)
    form = browser.get("/calls").page.form("/do/end-call")
    done = browser.send(form, ("do", "end"))
    assert done.status == 200 and "was ended" in done.text
    calling.join(30)
    assert answers == [1]
    late = browser.send(form, ("do", "end"))
    assert late.status == 404 and "target-unknown" in late.text


# Sessions that end


def entered_with(site: Site, name: str, seconds: float) -> Browser:
    """A session of the registrar's key with a certificate that is valid for so long."""
    state = site.host.state
    key = SigningKey.load(state / "registrar.key")
    authority = Authority.load(state / "ca.pem", state / "ca.key")

    def issued(now: datetime) -> object:
        return issue_client_certificate(authority, key.public, label=name, organization="x", now=now, days=1)

    wanted = datetime.now(UTC) + timedelta(seconds=seconds)
    ends = issued(wanted).not_valid_after_utc  # type: ignore[attr-defined]
    certificate = issued(wanted - (ends - wanted))
    file = state / f"{name}.pem"
    file.write_bytes(certificate.public_bytes(Encoding.PEM))  # type: ignore[attr-defined]
    return site.browser("--cert", str(file), "--key", str(state / "registrar.key"))


def test_a_session_ends_with_its_certificate(site: Site) -> None:
    """At the next click after it has expired; the cookie is good for nothing then."""
    browser = entered_with(site, "short", 12.0)
    cookie = browser.cookie
    assert browser.get("/").status == 200
    until(lambda: browser.get("/").status == 401, pause=0.5)
    assert browser.cookie == ""
    assert site.stranger().ask("GET", "/inbox", headers={"Cookie": cookie}).status == 401


def test_a_session_ends_with_a_revoked_certificate(site: Site) -> None:
    """A form that was open is not acted upon either."""
    browser = entered_with(site, "revoked", 3_600.0)
    form = browser.get("/contracts").page.form("/do/sweep")
    done = site.host.agtp("cert", "revoke", str(site.host.state / "revoked.pem"), "--reason", "key-compromise")
    assert done.returncode == 0, done.stderr
    other = site.browser()
    until(lambda: browser.get("/").status == 401, pause=0.5)
    assert browser.send(form, ("do", "sweep")).status == 401
    assert other.get("/").status == 200, "that of the same key with another certificate goes on"
