"""Entering the page: links, sessions, and whoever is kept out."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from agtphost.identity.peer import PeerCertificate
from agtphost.page.browser_certificates import BrowserCertificate
from agtphost.page.certificate_entry import enter_by_certificate
from agtphost.page.entrance import (
    FAILURES_OF_ALL,
    FAILURES_PER_MINUTE,
    LINK_SECONDS,
    LINKS_PER_CERTIFICATE,
    MOST_ADDRESSES,
    MOST_LINKS,
    MOST_SESSIONS,
    SESSIONS_PER_CERTIFICATE,
    Entrance,
    EntryRefused,
)
from agtphost.page.fields import COMMON_FIELDS
from agtphost.wire.events import Response
from agtphost.wire.headers import Headers
from tests.page.browsing import Answer, Browser, Site, served
from tests.system.hosting import until

CERTIFICATE = PeerCertificate(
    fingerprint="a" * 64,
    sha256="b" * 64,
    serial="1",
    subject="CN=ops",
    not_before=datetime(2026, 1, 1, tzinfo=UTC),
    not_after=datetime(2027, 1, 1, tzinfo=UTC),
)
HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page")) as site:
        yield site


@pytest.fixture(scope="module")
def browser(site: Site) -> Browser:
    """Entered."""
    return site.browser()


def hardened(answer: Answer) -> bool:
    """Whether an answer has every field that keeps a browser from harm."""
    return all(answer.headers.get(name.lower()) == value for name, value in COMMON_FIELDS)


def test_a_link_opens_a_session(site: Site) -> None:
    """Pasted into the form, without a script; the view is then there."""
    browser = site.stranger()
    answer = browser.enter(site.link())
    assert answer.status == 200
    assert "Overview" in answer.page.said
    assert answer.headers["cache-control"] == "no-store"


def test_the_cookie_is_for_this_host_alone(site: Site) -> None:
    """Over TLS, out of reach of scripts, and sent by no other site's request."""
    browser = site.stranger()
    answer = browser.ask("POST", "/enter", {"token": site.link()})
    given = answer.headers["set-cookie"]
    assert given.startswith("__Host-agtphost=")
    assert {"Path=/", "Secure", "HttpOnly", "SameSite=Strict"} <= set(given.split("; "))
    assert "domain" not in given.lower()


def test_a_link_is_good_once(site: Site) -> None:
    """The second use is 410, is logged, and opens nothing."""
    link = site.link()
    assert site.stranger().enter(link).status == 200
    second = site.stranger()
    assert second.enter(link).status == 410
    assert second.cookie == ""
    until(lambda: "used a second time" in site.host.output)


def test_the_token_is_no_part_of_what_is_asked(site: Site) -> None:
    """It stands behind the #, which no browser sends; and no line of the log has it."""
    url = site.link()
    address, _, token = url.partition("#")
    assert len(token) >= 40
    assert token not in address
    assert token not in site.host.output


def test_strangers_get_no_link(site: Site) -> None:
    """Nor does an agent that is no operator; the refusal is on record."""
    for words in (("--no-cert",), ("--as", "demo")):
        done = site.host.agtp("page", *words, "--json")
        assert done.returncode == 1, done.stdout
        assert "operators-only" in done.stdout + done.stderr


@pytest.mark.parametrize("path", ["/", "/inbox", "/nothing", "/do/decide"])
def test_without_a_session_there_is_nothing(site: Site, path: str) -> None:
    """Not even whether there is such a view."""
    answer = site.stranger().get(path)
    assert answer.status == 401
    assert hardened(answer)
    assert answer.page.form("/enter")


def test_a_form_without_a_session_is_refused_by_its_head(site: Site) -> None:
    """Its body is not looked at."""
    answer = site.stranger().ask("POST", "/do/decide", {"csrf": "x"})
    assert (answer.status, hardened(answer)) == (401, True)


def test_another_host_is_421(browser: Browser) -> None:
    """A name that somebody else bound to this address: rebinding."""
    answer = browser.ask("GET", "/", headers={"Host": f"evil.example:{browser.port}"})
    assert (answer.status, hardened(answer)) == (421, True)
    assert browser.ask("GET", "/", headers={"Host": f"localhost:{browser.port}"}).status == 200


@pytest.mark.parametrize(
    "fields",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
    ids=["origin", "null", "fetched"],
)
def test_another_sites_form_is_403(browser: Browser, fields: dict[str, str]) -> None:
    """Even with the cookie, and with the right token."""
    csrf = browser.get("/").page.form("/leave").fields["csrf"]
    answer = browser.ask("POST", "/leave", {"csrf": csrf}, headers=fields)
    assert (answer.status, hardened(answer)) == (403, True)
    assert browser.get("/").status == 200, "nobody left"


def test_a_form_without_its_token_is_403_and_logged(site: Site, browser: Browser) -> None:
    """Nothing is done; the log says where it came from."""
    for csrf in ({}, {"csrf": "x" * 43}):
        answer = browser.ask("POST", "/leave", csrf)
        assert (answer.status, hardened(answer)) == (403, True)
    assert browser.get("/").status == 200
    until(lambda: "lacks the token of its session" in site.host.output)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("PUT", "/", {}, 405),
        ("POST", "/inbox", {}, 405),
        ("POST", "/leave", {"Content-Type": "application/json"}, 415),
        ("GET", "/nothing", {}, 404),
        ("GET", "/static/../entrance.py", {}, 404),
        ("GET", "/static/entrance.py", {}, 404),
        ("GET", "/?" + "&".join(f"a{n}=1" for n in range(100)), {}, 400),
    ],
    ids=["method", "posted view", "json", "missing", "traversal", "source", "members"],
)
def test_odd_requests(browser: Browser, method: str, path: str, headers: dict[str, str], status: int) -> None:
    """Each is refused in its own way, and every answer is hardened."""
    answer = browser.ask(method, path, {"a": "b"} if method == "POST" else None, headers)
    assert answer.status == status
    assert hardened(answer)


def test_a_form_that_is_too_long_is_413(browser: Browser) -> None:
    """By its head."""
    answer = browser.ask("POST", "/leave", {"csrf": "x" * 70_000})
    assert (answer.status, hardened(answer)) == (413, True)


def test_leaving_ends_the_session(site: Site) -> None:
    """The cookie is taken away, and is good for nothing any more."""
    browser = site.browser()
    cookie = browser.cookie
    browser.send(browser.get("/").page.form("/leave"))
    assert browser.cookie == ""
    assert site.stranger().ask("GET", "/", headers={"Cookie": cookie}).status == 401


def test_a_head_has_no_body(browser: Browser) -> None:
    """And the same fields."""
    answer = browser.ask("HEAD", "/")
    assert (answer.status, answer.body) == (200, b"")


def test_a_good_link_is_not_barred_by_wrong_ones(tmp_path: Path) -> None:
    """After twenty wrong ones of an address further wrong ones are 429, cheaply; a good one enters at any time."""
    with served(tmp_path) as site:
        stranger = site.stranger()
        page = stranger.get("/enter").page
        for number in range(FAILURES_PER_MINUTE):
            assert stranger.send(page.form("/enter"), token=f"guess-{number}").status == 403
        for _ in range(3):
            answer = stranger.send(page.form("/enter"), token="guess")
            assert (answer.status, hardened(answer)) == (429, True)
            assert answer.headers["retry-after"] == "60" and len(answer.body) < 100
        long = stranger.ask("POST", "/enter", {"token": "x" * 17_000})
        assert (long.status, hardened(long)) == (413, True)
        assert site.stranger().enter(site.link()).status == 200
        assert stranger.send(page.form("/enter"), token="guess").status == 429


# Without a host


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def status_of(entrance: Entrance, token: str, address: str = HERE) -> int:
    """With what an entry is refused."""
    with pytest.raises(EntryRefused) as caught:
        entrance.enter(token, address)
    return caught.value.status


def entered(entrance: Entrance) -> str:
    return entrance.enter(entrance.issue_link(CERTIFICATE), HERE)[0]


def test_a_link_lasts_a_minute() -> None:
    """Until then it is good; a moment later it is 410."""
    clock = Clock()
    entrance = Entrance("https://127.0.0.1:4481", 1_800.0, clock)
    link, late = entrance.issue_link(CERTIFICATE), entrance.issue_link(CERTIFICATE)
    clock.now += LINK_SECONDS
    assert entrance.enter(link, HERE)[1].certificate is CERTIFICATE
    clock.now += 0.1
    with pytest.raises(EntryRefused) as caught:
        entrance.enter(late, HERE)
    assert caught.value.status == 410


def test_an_idle_session_is_over() -> None:
    """Each use keeps it for as long again."""
    clock = Clock()
    entrance = Entrance("https://127.0.0.1:4481", 60.0, clock)
    cookie = entered(entrance)
    for _ in range(5):
        clock.now += 59.0
        assert entrance.find_session(cookie) is not None
    for _ in range(2):
        clock.now += 30.1
        left = entrance.find_session(cookie, used=False)
    assert left is None, "a feed that connects anew is nobody who looks"


def person(number: int) -> PeerCertificate:
    """The certificate of one of several people."""
    return replace(CERTIFICATE, fingerprint=f"{number:064x}")


def test_sessions_of_one_person_push_out_no_others() -> None:
    """One more than :data:`SESSIONS_OF_ONE` ends the person's own session that was used longest ago."""
    entrance = Entrance("https://127.0.0.1:4481", 60.0, Clock())
    other = entrance.enter(entrance.issue_link(person(1)), HERE)[0]
    cookies = [entered(entrance) for _ in range(SESSIONS_PER_CERTIFICATE)]
    assert entrance.find_session(cookies[0]) is not None
    for _ in range(MOST_SESSIONS):
        last = entered(entrance)
        assert entrance.find_session(cookies[0]) is not None
        assert entrance.find_session(last) is not None
    assert entrance.find_session(cookies[1]) is None
    assert entrance.find_session(other) is not None
    assert len(entrance._sessions) == SESSIONS_PER_CERTIFICATE + 1


def test_who_has_most_sessions_makes_room() -> None:
    """There are never more than :data:`MOST_SESSIONS`, and who comes last takes none of who has one."""
    entrance = Entrance("https://127.0.0.1:4481", 60.0, Clock())
    alone = entrance.enter(entrance.issue_link(person(99)), HERE)[0]
    for number in range(4):
        for _ in range(SESSIONS_PER_CERTIFICATE):
            entrance.enter(entrance.issue_link(person(number)), HERE)
    assert len(entrance._sessions) == MOST_SESSIONS
    newest = entrance.enter(entrance.issue_link(person(100)), HERE)[0]
    assert entrance.find_session(alone) is not None and entrance.find_session(newest) is not None
    assert len(entrance._sessions) == MOST_SESSIONS


def test_idle_sessions_make_room_first() -> None:
    """A session that is over counts for nobody."""
    clock = Clock()
    entrance = Entrance("https://127.0.0.1:4481", 60.0, clock)
    for _ in range(SESSIONS_PER_CERTIFICATE):
        entered(entrance)
    clock.now += 60.1
    entered(entrance)
    assert len(entrance._sessions) == 1


def test_failures_are_forgotten_after_a_minute() -> None:
    """And are counted by address."""
    clock = Clock()
    entrance = Entrance("https://127.0.0.1:4481", 60.0, clock)
    for _ in range(FAILURES_PER_MINUTE):
        assert status_of(entrance, "guess") == 403
    assert status_of(entrance, "guess") == 429
    assert status_of(entrance, "guess", "192.0.2.1") == 403
    clock.now += 60.1
    assert status_of(entrance, "guess") == 403


def test_a_good_link_enters_whatever_others_send() -> None:
    """From the same address and from all others together, up to the limits and beyond; nothing more is kept."""
    clock = Clock()
    entrance = Entrance("https://127.0.0.1:4481", 60.0, clock)
    for number in range(2 * MOST_ADDRESSES):
        status_of(entrance, f"guess-{number}", f"2001:db8::{number:x}")
    assert status_of(entrance, "guess", "192.0.2.9") == 429, "of all together there are too many"
    for _ in range(3 * FAILURES_PER_MINUTE):
        status_of(entrance, "guess")
    assert entrance.enter(entrance.issue_link(CERTIFICATE), HERE)[1].certificate is CERTIFICATE
    assert len(entrance._failed) <= MOST_ADDRESSES and len(entrance._wrong) == FAILURES_OF_ALL
    assert status_of(entrance, "guess") == 429, "to enter excuses no guesses"


def test_guesses_are_hopeless_by_their_number() -> None:
    """A token has 256 bits: of all links there may be, a million guesses a second for a year find one in 2 ** 203."""
    token = Entrance("https://127.0.0.1:4481", 60.0, Clock()).issue_link(CERTIFICATE).partition("#")[2]
    assert len(base64.urlsafe_b64decode(token + "=")) * 8 == 256
    tries = 10**6 * 365 * 86_400
    assert tries * MOST_LINKS < 2 ** (256 - 203 + 1)


def test_tokens_and_cookies_are_looked_up_by_their_digest() -> None:
    """No table has the secret itself: how long it takes to look one up tells nothing of another that is close to it."""
    entrance = Entrance("https://127.0.0.1:4481", 60.0, Clock())
    link = entrance.issue_link(CERTIFICATE)
    cookie = entrance.enter(entrance.issue_link(CERTIFICATE), HERE)[0]
    secrets = {link.partition("#")[2], cookie}
    assert not secrets & {*entrance._links, *entrance._sessions}
    assert all(len(known) == 64 for known in (*entrance._links, *entrance._sessions))


def test_links_of_one_person_push_out_no_others() -> None:
    """Who asks for a link again and again loses the own oldest ones."""
    entrance = Entrance("https://127.0.0.1:4481", 60.0, Clock())
    mine, own = entrance.issue_link(CERTIFICATE), replace(CERTIFICATE, fingerprint="c" * 64)
    theirs = [entrance.issue_link(own) for _ in range(2 * MOST_LINKS)]
    assert status_of(entrance, theirs[0]) == 403 and len(entrance._links) == LINKS_PER_CERTIFICATE + 1
    assert entrance.enter(theirs[-1], HERE) and entrance.enter(mine, HERE)


@pytest_twisted.ensureDeferred
async def test_a_certificate_is_counted_by_itself() -> None:
    """Whatever others at the address send, a good certificate enters; one that is refused twenty times is not asked."""
    entrance = Entrance("https://127.0.0.1:4481", 60.0, Clock())
    asked: list[str] = []

    class Granting:
        """Grants a link to one certificate, and none to others."""

        async def dispatch(self, request: Any, peer: Any, interim: Any = None) -> Response:
            asked.append(peer.certificate.fingerprint)
            good = peer.certificate is CERTIFICATE
            body = {"result": {"url": entrance.issue_link(CERTIFICATE)}} if good else {"reason": "operators-only"}
            return Response(status=200 if good else 403, headers=Headers([]), body=json.dumps(body).encode())

    async def entered_by(shown: BrowserCertificate | None) -> int:
        try:
            await enter_by_certificate(entrance, Granting(), shown, HERE)  # type: ignore[arg-type]
        except EntryRefused as error:
            return error.status
        return 200

    bad = BrowserCertificate(digest="e" * 64, certificate=replace(CERTIFICATE, fingerprint="f" * 64))
    statuses = [await entered_by(bad) for _ in range(FAILURES_PER_MINUTE + 5)]
    assert statuses == [403] * FAILURES_PER_MINUTE + [429] * 5 and len(asked) == FAILURES_PER_MINUTE
    for number in range(FAILURES_OF_ALL):
        status_of(entrance, "guess", f"192.0.2.{number % 250}")
    assert [await entered_by(None) for _ in range(2)] == [429, 429]
    assert await entered_by(BrowserCertificate(digest="d" * 64, certificate=CERTIFICATE)) == 200
