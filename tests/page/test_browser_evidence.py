"""Evidence at the page, in Chromium: green for what was signed, red and named for what somebody changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
import rfc8785

from agtphost.identity import jws
from agtphost.identity.keys import SigningKey, VerifyingKey
from tests.identity.samples import key_of
from tests.page.browser import Browser
from tests.page.browsing import SECTION, Site, served
from tests.page.stage import edited, flip, signed_of
from tests.page.test_browser_journeys import address, enter
from tests.system.hosting import free_port, running, until
from tests.system.test_approving import execute
from tests.system.test_witness import Pair


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Whoever damages something mends it."""
    with served(tmp_path_factory.mktemp("page")) as site:
        yield site


@pytest.fixture
def browser(window: Browser, site: Site) -> Browser:
    window.said()
    window.beginning(lambda: enter(window, site))
    return window


@contextmanager
def flipped(site: Site, audit_id: str) -> Iterator[None]:
    """With one bit of a record changed."""
    flip(site.host, audit_id)
    try:
        yield
    finally:
        flip(site.host, audit_id)


def called(site: Site, count: int = 1) -> list[str]:
    """Audit-IDs of calls of a tool, oldest first."""
    given = {"tool": "files.list_files", "arguments": {}}
    replies = [execute(site.host, "mcp.tools.call", given) for _ in range(count)]
    assert all(reply.status == 200 for reply in replies)
    return [str(reply.audit_id) for reply in replies]


def verify(browser: Browser, selector: str) -> tuple[bool, dict[str, str], str]:
    """Click, and what came of it: whether all held, lines by what they are about, and all of the text."""
    browser.one(f"{selector} .result")
    # What came of the last time says nothing of this time.
    browser.run("delete document.querySelector(arguments[0]).dataset.result", f"{selector} .result")
    browser.click(f"{selector} button.verify")
    result = browser.one(f"{selector} .result[data-result]", 60)
    lines = {
        str(line.get_attribute("data-what")): f"{line.get_attribute('class')} {line.text}"
        for line in result.find_elements("css selector", ".checks li")
    }
    return result.get_attribute("data-result") == "ok", lines, result.text


def test_a_record_is_green_line_by_line(browser: Browser, site: Site) -> None:
    """Each line names what was computed, the key is the one that the link named."""
    _, audit_id = called(site, 2)
    browser.open(address(site, f"/calls/{audit_id}"))
    good, lines, text = verify(browser, "[data-verify]")
    browser.screenshot("verified")
    assert good, text
    fingerprint = site.host.agtp_json("page")["signing_key"]
    assert fingerprint in lines["key"] and lines["key"].startswith("ok")
    assert "SHA-256" in lines["hash"] and "octets" in lines["hash"]
    assert f"ed25519-{fingerprint[:16]}" in lines["signature"]
    assert "links to the previous record" in lines["link"]
    assert "included in the tree of" in lines["proof"]
    assert all(lines[what].startswith("ok ") for what in ("hash", "signature", "place", "link", "proof")), lines
    assert lines["witness"].startswith("note "), "nobody witnesses this host, and nobody says so in green"
    browser.quiet()


def test_the_proof_of_an_operator_is_the_key(browser: Browser, site: Site) -> None:
    """The record of a sign-in names the operator's key as the proof of identity, and verifies; another text is red."""
    audit_id = site.host.agtp_json("audit", "search", "--path", "/page", "--method", "AUTHORIZE")[0]["audit_id"]
    browser.open(address(site, f"/calls/{audit_id}"))
    proof = browser.one('[data-shown="identity_assurance"]')
    assert proof.text == "the operator's key"
    good, _, text = verify(browser, "[data-verify]")
    assert good, text
    browser.run("document.querySelector('[data-shown=identity_assurance]').textContent = 'none'")
    good, _, text = verify(browser, "[data-verify]")
    assert not good and "the operator's key" in text
    browser.quiet()


@pytest.mark.release
def test_a_flipped_bit_is_red_and_named(browser: Browser, site: Site) -> None:
    """The view that is open stays as it was; the same click says now that the record is not what was signed."""
    audit_id, _ = called(site, 2)
    browser.open(address(site, f"/calls/{audit_id}"))
    assert verify(browser, "[data-verify]")[0]
    browser.quiet()
    with flipped(site, audit_id):
        good, _, text = verify(browser, "[data-verify]")
        browser.screenshot("flipped")
        assert not good and "NOT verified" in text and audit_id in text
        browser.quiet("status of 500")


@contextmanager
def forged(site: Site, audit_id: str, key: SigningKey) -> Iterator[str]:
    """With a record that says something else, as somebody with the database and without the host's key leaves it."""
    signed = signed_of(site.host, audit_id)
    parts = jws.parse(signed.decode("ascii"))
    payload = {**parts.payload, "status": 200, "method": "FORGED"}
    # Under the host's own kid: only the signature can tell.
    header = rfc8785.dumps(parts.header)
    text = jws.compact(jws.encode_part(header), rfc8785.dumps(payload), key)
    made = sha256(text.encode()).hexdigest()
    statement = "UPDATE record SET signed = ?, audit_id = ? WHERE audit_id = ?"
    edited(site.host, statement, text.encode(), bytes.fromhex(made), bytes.fromhex(audit_id))
    try:
        yield made
    finally:
        edited(site.host, statement, signed, bytes.fromhex(audit_id), bytes.fromhex(made))


@pytest.mark.release
def test_a_forged_record_is_red_though_its_hash_is_right(browser: Browser, site: Site) -> None:
    """The host's own reading finds hash and octets to agree, and shows it: the browser does not believe it."""
    audit_id, _ = called(site, 2)
    browser.open(address(site, f"/calls/{audit_id}"))
    assert verify(browser, "[data-verify]")[0], "it is in the tree"
    with forged(site, audit_id, key_of("a forger")) as made:
        browser.open(address(site, f"/calls/{made}"))
        good, lines, text = verify(browser, "[data-verify]")
        browser.screenshot("forged")
    assert not good and made in text
    assert lines["hash"].startswith("ok ") and lines["signature"].startswith("bad ")
    assert "does not match" in lines["signature"] and lines["proof"].startswith("bad ")


@pytest.mark.release
def test_a_record_is_red_whose_neighbour_was_changed(browser: Browser, site: Site) -> None:
    """The link to the record before leads nowhere any more."""
    before, audit_id = called(site, 2)
    with flipped(site, before):
        browser.open(address(site, f"/calls/{audit_id}"))
        good, lines, text = verify(browser, "[data-verify]")
    assert not good and lines["link"].startswith("bad ") and before in text
    assert lines["signature"].startswith("ok ")


@pytest.mark.release
def test_a_range_is_green_and_names_the_one_that_is_not(window: Browser, tmp_path: Path) -> None:
    """Sixty records of a chain; one of them changed is found among them, and those after it still hold."""
    with served(tmp_path) as site:
        enter(window, site)
        ranged(window, site)


def ranged(browser: Browser, site: Site) -> None:
    """On a host that nobody has called before."""
    made = called(site, 60)
    browser.open(address(site, "/evidence"))
    agent = '[data-verify-range]:not([data-verify-range="host"])'
    good, lines, text = verify(browser, agent)
    browser.screenshot("range-verified")
    assert good, text
    assert re.search(r"Audit-IDs of 6[0-9] records", lines["hash"])
    assert re.search(r"records 1 to 6[0-9]: each links", lines["link"])
    browser.quiet()
    flip(site.host, made[11])
    good, lines, text = verify(browser, agent)
    browser.screenshot("range-flipped")
    assert not good and re.search(rf"record [0-9]+ \({made[11]}\)", lines["hash"]), text
    assert "records" in lines["signature"] and lines["signature"].startswith("ok "), "those after it still hold"


@pytest.mark.release
def test_the_hosts_own_chain_is_a_range_too(browser: Browser, site: Site) -> None:
    """Though each look at it makes it longer."""
    browser.open(address(site, "/evidence"))
    good, lines, text = verify(browser, '[data-verify-range="host"]')
    assert good, text
    assert lines["proof"].startswith("ok "), lines
    browser.quiet()


@pytest.mark.release
def test_another_key_than_the_links_is_red(browser: Browser, site: Site) -> None:
    """A host that shows a key of its own choice is told from the one that the link named."""
    (audit_id,) = called(site)
    browser.open(address(site, f"/calls/{audit_id}"))
    browser.run("localStorage.setItem('agtphost-key', arguments[0])", key_of("another").public.fingerprint)
    good, lines, text = verify(browser, "[data-verify]")
    assert not good and "but the sign-in link names" in lines["key"], text
    browser.run("localStorage.removeItem('agtphost-key')")
    good, lines, text = verify(browser, "[data-verify]")
    assert good and lines["key"].startswith("note ") and "which only the host vouches for" in lines["key"], text
    browser.quiet()
    browser.forget()


@pytest.mark.release
def test_a_kept_proof_is_verified_without_the_host(browser: Browser, site: Site, tmp_path: Path) -> None:
    """What the view offers to keep is what ``agtp audit prove --file`` takes."""
    (audit_id,) = called(site)
    browser.open(address(site, f"/calls/{audit_id}"))
    assert verify(browser, "[data-verify]")[0]
    link = browser.attribute_of("a[download]", "href")
    text = browser.run("return await (await fetch(arguments[0])).text()", link)
    (tmp_path / "proof.json").write_text(text)
    words = ("audit", "prove", "--file", str(tmp_path / "proof.json"))
    done = site.host.agtp(*words, "--signing-key", str(site.host.state / "signing.pub"))
    assert done.returncode == 0 and "proven" in done.stdout, done.stdout + done.stderr


@pytest.mark.release
def test_a_witness_that_cosigned_is_named(window: Browser, tmp_path: Path) -> None:
    """Of two hosts one witnesses the other: the line about it is green, and has the witness's name and key."""
    for name in ("log", "witness"):
        (tmp_path / name).mkdir()
    pair, port = Pair(tmp_path), free_port()
    config = pair.witnessed()
    with config.open("a") as file:
        file.write(SECTION.format(port=port, more=""))
    with running(pair.witness) as witness, running(config) as log:
        site = Site(log, port)
        audit_id, _ = called(site, 2)
        enter(window, site)
        window.open(address(site, f"/calls/{audit_id}"))

        def cosigned() -> bool:
            # A witness answers a moment after the checkpoint that it is sent.
            good, lines, text = verify(window, "[data-verify]")
            assert good, text
            return lines["witness"].startswith("ok ")

        until(cosigned, pause=0.5)
        _, lines, _ = verify(window, "[data-verify]")
        key = VerifyingKey.load(witness.state / "signing.pub")
        assert "that witness.test" in lines["witness"] and key.kid in lines["witness"]
        window.screenshot("cosigned")
        window.quiet()
