"""Who may look and who may act: viewers, pages that write nothing, certificates that end, calls that are ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Certificate

from agtphost.identity.certificates import Authority, issue_client_certificate
from agtphost.identity.keys import SigningKey
from agtphost.page.overview import DECIDERS_ONLY
from agtphost.page.views import VIEWS
from agtphost.testing.identities import key_of
from tests.page.browsing import Browser, Site, served
from tests.page.test_inbox import escalated
from tests.system.hosting import Host, until
from tests.system.test_a2a_front import SLOW, SLOW_HANDLER

TOKEN = "0123456789abcdef" * 4


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The sample agent may look; a call takes as long as it says; certificates can be revoked."""
    folder = tmp_path_factory.mktemp("page")
    looker = key_of("looker").public.fingerprint
    with served(folder, more=f'viewers = ["{{demo}}", "{looker}"]', prepare=slow) as site:
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


def test_a_viewer_is_not_shown_what_it_cannot_decide(site: Site) -> None:
    """A sentence stands in its place, and no request is made that the host refuses; agent or not."""
    state = site.host.state
    key = key_of("looker")
    key.save(state / "looker.key")
    file = certified(site, key, "looker", datetime.now(UTC))
    words = ("--cert", str(file), "--key", str(state / "looker.key"))
    escalated(site, "task-unseen")
    for viewer in (site.browser(*words), site.browser("--as", "demo")):
        for path in ("/", "/inbox"):
            answer = viewer.get(path)
            assert answer.status == 200 and DECIDERS_ONLY in answer.text, path
            assert "task-unseen" not in answer.text and '<section class="refused"' not in answer.text, path
        for path in VIEWS:
            # Before the first checkpoint is signed there is none to show.
            assert '<section class="refused"' not in viewer.get(path).text or path == "/evidence", path
    assert DECIDERS_ONLY not in site.browser().get("/inbox").text
    refusals = site.host.agtp_json(
        *("call", "-", "INSPECT", "/", "target=records", "reason=operators-only", "--as", "registrar")
    )["body"]["result"]["records"]
    assert [each["path"] for each in refusals if each["method"] != "REVOKE"] == []


def test_where_nothing_is_written_nothing_is_done(tmp_path: Path) -> None:
    """``writes = false``: no forms, and 403 for one that is made up, without asking the host for it."""
    with served(tmp_path, more="writes = false") as site:
        known = escalated(site, "task-shown")
        demo = site.host.agtp_json("cert", "show", str(site.host.state / "agents/demo/agent.pem"))["agent_id"]
        browser = site.browser()
        assert known in browser.get("/inbox").text
        for path in (*VIEWS, f"/agents/{demo}", "/tools/mcp.files.list_files"):
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
    calling.join(120)
    assert answers == [1]
    late = browser.send(form, ("do", "end"))
    assert late.status == 404 and "target-unknown" in late.text


# Sessions that end


def entered_with(site: Site, name: str, seconds: float) -> Browser:
    """A session of the registrar's key with a certificate that is valid for so long."""
    state = site.host.state
    key = SigningKey.load(state / "registrar.key")
    now = datetime.now(UTC)
    wanted = now + timedelta(seconds=seconds)
    ends = issued(site, key, name, wanted).not_valid_after_utc
    file = certified(site, key, name, wanted - (ends - wanted))
    return site.browser("--cert", str(file), "--key", str(state / "registrar.key"))


def issued(site: Site, key: SigningKey, name: str, now: datetime) -> Certificate:
    """A certificate of the host's authority that names no agent."""
    authority = Authority.load(site.host.state / "ca.pem", site.host.state / "ca.key")
    return issue_client_certificate(authority, key.public, label=name, organization="x", now=now, days=1)


def certified(site: Site, key: SigningKey, name: str, now: datetime) -> Path:
    """The same, as a file."""
    file = site.host.state / f"{name}.pem"
    file.write_bytes(issued(site, key, name, now).public_bytes(Encoding.PEM))
    return file


def test_a_session_ends_with_its_certificate(site: Site) -> None:
    """At the next click after it has expired; the cookie is good for nothing then."""
    for seconds in (8.0, 40.0, 120.0):
        begun = time.monotonic()
        try:
            browser = entered_with(site, f"short-{seconds:.0f}", seconds)
            cookie = browser.cookie
            assert browser.get("/").status == 200
            break
        except AssertionError:
            # Entering takes its time on a busy machine; a certificate ends with a whole second.
            if time.monotonic() - begun < seconds - 1.0:
                raise
    until(lambda: browser.get("/").status == 401, seconds=180, pause=0.5)
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
