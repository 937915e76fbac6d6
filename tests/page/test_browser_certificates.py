"""Entering with a certificate that the browser itself has: whom it stands for, what ends it, and what is none."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from agtphost.identity.certificates import Authority
from agtphost.identity.keys import SigningKey
from tests.page.browser_certificates import Certificate, certificate, rsa_key
from tests.page.browsing import Answer, Browser, Site, served
from tests.system.hosting import Host, running, until

LISTED = ("good", "viewer", "issued", "rsa", "twin")
Certificates = dict[str, Certificate]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """By name; those of :data:`LISTED` are listed, once the host has an authority."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ec.generate_private_key(ec.SECP256R1())
    return {
        "good": certificate(folder, "good"),
        "viewer": certificate(folder, "viewer"),
        "over": certificate(folder, "over", seconds=-1.0),
        "rsa": certificate(folder, "rsa", key=rsa_key()),
        "unlisted": certificate(folder, "unlisted"),
        # Of one key and one name, and yet another certificate than the one that is listed.
        "twin": certificate(folder, "twin", key=key),
        "likeness": certificate(folder, "likeness", key=key),
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, known: Certificates) -> Iterator[Site]:
    with served(
        tmp_path_factory.mktemp("page"), more='viewers = ["{demo}"]', prepare=lambda file: listed(file, known)
    ) as site:
        yield site


def listed(config: Path, known: Certificates) -> None:
    """All but two are listed for the operator; one stands for the agent's key, which only looks."""
    state = config.parent / "state"
    known["issued"] = certificate(
        config.parent, "issued", authority=Authority.load(state / "ca.pem", state / "ca.key"), serial=4711
    )
    host = Host.__new__(Host)
    host.config = config
    done = host.agtp("cert", "crl", "--ca", str(state / "ca.pem"), "--crl", str(state / "crl.pem"))
    assert done.returncode == 0, done.stderr
    viewer = fingerprint(state / "agents/demo/agent.key")
    people = {known[name].digest: viewer if name == "viewer" else operator_of(config) for name in (*LISTED, "over")}
    lines = "\n".join(f'"{digest}" = "{person}"' for digest, person in people.items())
    config.write_text(f'{config.read_text()}\n[admin.browsers]\n{lines}\n\n[tls]\nclient_crl = ["state/crl.pem"]\n')


def operator_of(config: Path) -> str:
    return fingerprint(config.parent / "state" / "registrar.key")


def fingerprint(key: Path) -> str:
    return SigningKey.load(key).public.fingerprint


def shown(site: Site, one: Certificate) -> Browser:
    """A browser that shows a certificate, and has not entered."""
    return site.stranger(one.file)


def entered(browser: Browser) -> Answer:
    """By the button, as somebody without scripts."""
    page = browser.get("/").page
    return browser.send(page.form("/enter", certificate=button(page)))


def button(page: object) -> str:
    (value,) = (form.fields["certificate"] for form in page.forms if "certificate" in form.fields)  # type: ignore[attr-defined]
    return str(value)


def offered(answer: Answer) -> bool:
    """Whether there is a button for the browser's certificate."""
    return any("certificate" in form.fields for form in answer.page.forms)


def test_a_listed_certificate_enters_without_a_link(site: Site, known: Certificates) -> None:
    """As the operator that it stands for; each record names that key, and the certificate that was shown."""
    browser = shown(site, known["good"])
    first = browser.get("/")
    operator = operator_of(site.host.config)
    assert first.status == 401 and offered(first) and operator[:16] in first.page.said
    answer = entered(browser)
    assert answer.status == 200 and "Overview" in answer.page.said and "admin (administrator)" in answer.page.said
    assert browser.get("/contracts").page.form("/do/sweep"), "an operator, who may do things"
    found = site.host.agtp_json("call", "-", "INSPECT", "/", "target=records", "path=/page", "--as", "registrar")
    entries = found["body"]["result"]["records"]
    (entry,) = (each for each in entries if each["method"] == "AUTHORIZE")
    record = site.host.agtp_json("call", "-", "INSPECT", "/", "target=audit", f"audit_id={entry['audit_id']}")
    said = record["body"]["result"]["payload"]["extra"]["http"]
    assert said == {"surface": "admin", "client": f"key:{operator}", "browser": known["good"].digest}


def test_what_a_viewers_certificate_shows_and_does(site: Site, known: Certificates) -> None:
    """Nothing but what that viewer may."""
    browser = shown(site, known["viewer"])
    answer = entered(browser)
    assert answer.status == 200
    assert [form.action for form in browser.get("/contracts").page.forms if form.method == "POST"] == ["/leave"]
    csrf = answer.page.form("/leave").fields["csrf"]
    assert browser.ask("POST", "/do/sweep", {"csrf": csrf, "do": "sweep", "back": "/"}).status == 403


@pytest.mark.parametrize("name", ["unlisted", "likeness"])
def test_a_certificate_that_is_not_listed_is_told_so(site: Site, known: Certificates, name: str) -> None:
    """With its SHA-256, which is what the operator would list; it enters by a link as any browser does."""
    browser = shown(site, known[name])
    answer = browser.get("/")
    assert answer.status == 401 and not offered(answer) and known[name].digest in answer.text
    for digest in (known[name].digest, known["good"].digest):
        refused = browser.ask("POST", "/enter", {"certificate": digest})
        assert (refused.status, browser.cookie) == (403, "")
    assert browser.enter(site.link()).status == 200


def test_a_browser_without_a_certificate_is_asked_for_none(site: Site, known: Certificates) -> None:
    """Who shows none may enter by a link, and by saying that it has one does not."""
    browser = site.stranger()
    assert not offered(browser.get("/"))
    assert browser.ask("POST", "/enter", {"certificate": known["good"].digest}).status == 403
    assert site.browser().get("/").status == 200


def test_a_certificate_that_is_over_opens_nothing(site: Site, known: Certificates) -> None:
    """The host's own gate says so, and that it was tried is on record."""
    refused = entered(shown(site, known["over"]))
    assert refused.status == 401 and "outside its validity period" in refused.text
    found = site.host.agtp_json(
        *("call", "-", "INSPECT", "/", "target=records", "method=AUTHORIZE", "status:=401", "--as", "registrar")
    )
    assert [each["path"] for each in found["body"]["result"]["records"]] == ["/page"]


def test_a_key_of_another_kind_opens_nothing(site: Site, known: Certificates) -> None:
    """Though it is listed."""
    answer = shown(site, known["rsa"]).get("/")
    assert "not ECDSA" in answer.text and not offered(answer)


def test_a_certificate_is_good_with_its_key_alone(site: Site, known: Certificates) -> None:
    """Who has a copy of it, and another key, does not get through the handshake."""
    other = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(ssl.SSLError):
        site.stranger(forged(known["good"], other))


def forged(one: Certificate, key: ec.EllipticCurvePrivateKey) -> Path:
    file = one.file.with_name("forged.pem")
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(plain + one.made.public_bytes(Encoding.PEM))
    return file


def test_a_stolen_cookie_is_good_for_nothing(site: Site, known: Certificates) -> None:
    """Without the certificate that its session began with; with it, the session goes on."""
    browser = shown(site, known["good"])
    assert entered(browser).status == 200
    for thief in (site.stranger(), shown(site, known["viewer"])):
        assert thief.ask("GET", "/inbox", headers={"Cookie": browser.cookie}).status == 401
        sent = thief.ask("POST", "/leave", {"csrf": "x"}, headers={"Cookie": browser.cookie})
        assert sent.status == 401
    assert browser.get("/inbox").status == 200


def test_a_session_ends_with_its_browsers_certificate(site: Site, tmp_path: Path) -> None:
    """At the next click after it has expired."""
    config = site.host.config
    for seconds in (10, 40, 120):
        short = certificate(tmp_path, f"short-{seconds}", seconds=seconds)
        line = f'[admin.browsers]\n"{short.digest}" = "{operator_of(config)}"\n'
        config.write_text(config.read_text().replace("[admin.browsers]\n", line))
        assert site.host.agtp("reload", "--as", "registrar").returncode == 0
        browser = shown(site, short)
        status = entered(browser).status
        if status == 200:
            break
        # On a busy machine it was over before anybody could enter.
        assert (status, short.made.not_valid_after_utc <= datetime.now(UTC)) == (401, True)
    until(lambda: browser.get("/").status == 401, seconds=180, pause=0.5)
    assert browser.cookie == ""


def test_a_session_ends_with_a_revoked_certificate(site: Site, known: Certificates) -> None:
    """One that an authority issued, and has revoked."""
    browser = shown(site, known["issued"])
    assert entered(browser).status == 200
    state = site.host.state
    file = known["issued"].file
    done = site.host.agtp("cert", "revoke", str(file), "--ca", str(state / "ca.pem"), "--crl", str(state / "crl.pem"))
    assert done.returncode == 0, done.stderr
    until(lambda: browser.get("/").status == 401, pause=0.5)
    assert "revoked" in entered(browser).text


def test_a_certificate_that_is_listed_no_more_opens_nothing(tmp_path: Path) -> None:
    """Nor does one whose operator is none any more: there is no such host, and no other operator comes in by it."""
    one, other = certificate(tmp_path, "one"), certificate(tmp_path, "other")
    known = {"one": one, "other": other}

    def prepare(config: Path) -> None:
        operator = operator_of(config)
        lines = "\n".join(f'"{each.digest.upper()}" = "{operator}"' for each in known.values())
        config.write_text(f"{config.read_text()}\n[admin.browsers]\n{lines}\n")

    with served(tmp_path / "host", prepare=prepare) as site:
        browsers = [shown(site, each) for each in (one, other)]
        assert [entered(each).status for each in browsers] == [200, 200]
        host = site.host
        assert host.stop() == 0
    operator, text = operator_of(host.config), host.config.read_text()
    host.config.write_text(text.replace(f'"{one.digest.upper()}" = "{operator}"\n', ""))
    with running(host.config):
        assert [each.get("/").status for each in browsers] == [401, 401], "no session outlives its host"
        assert not offered(browsers[0].get("/")) and entered(browsers[1]).status == 200
    text = text.replace(f'operators = ["{operator}"]', f'operators = ["{"0" * 64}"]')
    host.config.write_text(text.replace('key = "state/registrar.pem"', f'key = "{"0" * 64}"'))
    refused = host.agtp("check", str(host.config))
    assert refused.returncode != 0 and f"stands for {operator[:16]}" in refused.stdout + refused.stderr


def test_a_reload_ends_what_is_listed_no_more_at_the_next_click(tmp_path: Path) -> None:
    """Without a restart: of the certificate that was taken out, of one that is another person's now, of no other."""
    names = ("gone", "another", "stays", "new")
    known = {name: certificate(tmp_path, name) for name in names}

    def prepare(config: Path) -> None:
        operator = operator_of(config)
        lines = "\n".join(f'"{known[name].digest}" = "{operator}"' for name in names[:3])
        config.write_text(f"{config.read_text()}\n[admin.browsers]\n{lines}\n")

    with served(tmp_path / "host", more='viewers = ["{demo}"]', prepare=prepare) as site:
        browsers = [shown(site, known[name]) for name in names]
        assert [entered(each).status for each in browsers[:3]] == [200, 200, 200]
        assert not offered(browsers[3].get("/"))
        config, operator = site.host.config, operator_of(site.host.config)
        viewer = fingerprint(site.host.state / "agents/demo/agent.key")
        text = config.read_text().replace(f'"{known["gone"].digest}" = "{operator}"\n', "")
        text = text.replace(f'"{known["another"].digest}" = "{operator}"', f'"{known["another"].digest}" = "{viewer}"')
        config.write_text(
            text.replace("[admin.browsers]\n", f'[admin.browsers]\n"{known["new"].digest}" = "{operator}"\n')
        )
        done = site.host.agtp("reload", "--as", "registrar")
        assert done.returncode == 0, done.stdout + done.stderr
        assert [each.get("/").status for each in browsers] == [401, 401, 200, 401]
        assert not offered(browsers[0].get("/"))
        assert entered(browsers[3]).status == 200
        as_viewer = entered(browsers[1])
        assert as_viewer.status == 200 and f"viewer-{viewer[:8]} (viewer)" in as_viewer.page.said
