"""A named operator on a running host: what shows the name, and what a removed operator can still do."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from agtphost.vocabulary.media_types import MCP_TOOLS
from tests.page.browsing import Answer, Browser, Site, served
from tests.system.hosting import Host, until

ROOT = Path(__file__).resolve().parents[2]
ENTRY = '\n[[operator]]\nname = "{name}"\nkey = "{name}.pem"\nrole = "{role}"\n'
ROLES = {"anna": "administrator", "ben": "approver", "vera": "viewer"}


def certify(config: Path) -> None:
    """One certificate for each role, and an entry for it."""
    from tests.system.hosting import agtp

    folder = config.parent
    for name, role in ROLES.items():
        words = ("client", name, "--ca", "state/ca.pem", "-o", f"{name}.pem")
        done = agtp("cert", "issue", *words, cwd=folder)
        assert done.returncode == 0, done.stderr
        config.write_text(config.read_text() + ENTRY.format(name=name, role=role))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    access = '[log]\naccess = true\n[metrics]\nlisten = "tcp:0:interface=127.0.0.1"\n'
    with served(tmp_path, append=access.partition("[metrics]")[0], prepare=certify) as made:
        yield made


def client(site: Site, name: str) -> Client:
    folder = site.host.config.parent
    return Client(trust=site.trust, cert=folder / f"{name}.pem", key=folder / f"{name}.key")


def remove(site: Site, name: str) -> None:
    """Take an operator out, and reload."""
    config = site.host.config
    config.write_text(config.read_text().replace(ENTRY.format(name=name, role=ROLES[name]), ""))
    done = site.host.agtp("reload")
    assert done.returncode == 0, done.stderr


SENT_BY_LESSER_ROLES = {
    "reload": ("ACTIVATE", "/configuration", {"check": True}),
    "lifecycle": ("DEACTIVATE", "/", {"agent_id": "AGENT"}),
    "grant": ("AUTHORIZE", "/grants", {"subject": "demo", "resource": ["files.read_file"], "scope": "allow"}),
    "sweep": ("REVOKE", "/", {"target": "stale-contracts"}),
    "contract": ("REVOKE", "/", {"target": "contract", "synthesis_id": "syn-1"}),
    "sessions": ("REVOKE", "/page/sessions", {}),
    "tool": ("EXECUTE", "/", {"payload_type": MCP_TOOLS, "action": "mcp.tools.call", "payload": {"tool": "files.x"}}),
}


def test_each_refusal_of_a_role_names_the_setting_that_helps(site: Site) -> None:
    """It is the role that the request needs: none leads a viewer to a role that is refused as well."""
    agent = json.loads((site.host.state / "agents/demo/document.json").read_text())["agent_id"]
    for name in ("vera", "ben"):
        with client(site, name) as calling:
            for what, (method, path, given) in SENT_BY_LESSER_ROLES.items():
                sent = {key: agent if value == "AGENT" else value for key, value in given.items()}
                refused = calling.call(site.host.uri, method, path, sent)
                remedy = refused.document["remedy"]
                assert refused.status in (401, 403), (name, what, refused.document)
                if what == "tool" and name == "ben":
                    # What EXECUTE is for is known of the body: operators approve definitions by it.
                    assert "the client certificate of the agent that calls" in remedy, remedy
                    continue
                assert 'role = "administrator"' in remedy, (name, what, refused.document)


def test_a_removed_operator_is_refused_on_an_open_connection(site: Site) -> None:
    """The next request after the reload is refused; the connection itself stays open."""
    with client(site, "anna") as anna, client(site, "ben") as ben:
        assert anna.call(site.host.uri, "INSPECT", "/", {"target": "chains"}).ok
        assert ben.call(site.host.uri, "QUERY", "/approvals").ok
        remove(site, "anna")
        refused = anna.call(site.host.uri, "INSPECT", "/", {"target": "chains"})
        assert (refused.status, refused.reason) == (403, "operators-only"), refused.body
        assert ben.call(site.host.uri, "QUERY", "/approvals").ok


def test_a_removed_operator_is_refused_on_an_open_page(site: Site) -> None:
    """The page of a removed operator ends at the next click; a smaller role takes the buttons away."""
    words = ("--cert", "anna.pem")
    browser, other = site.browser(*words), site.browser("--cert", "ben.pem")
    assert "anna (administrator)" in browser.get("/").page.said
    assert "ben (approver)" in other.get("/").page.said
    agent = json.loads((site.host.state / "agents/demo/document.json").read_text())["agent_id"]
    forms = browser.get(f"/agents/{agent}").page.forms
    form = next(iter([each for each in forms if ("do", "deactivate") in each.buttons]))
    remove(site, "anna")
    assert browser.send(form, ("do", "deactivate"), reason="too late").status in (401, 403)
    assert browser.get("/agents").status in (401, 403)
    assert other.get("/").status == 200


@contextmanager
def following(browser: Browser, host: Host, headers: Mapping[str, str] | None = None) -> Iterator[Future[Answer]]:
    """With an open live feed, which the end of the block does not wait for."""

    def opened_and_closed() -> int:
        return len(host.agtp_json("audit", "search", "--path", "/page/feed", "--reads", "all"))

    begun = opened_and_closed()
    with ThreadPoolExecutor(1) as pool:
        feed = pool.submit(browser.ask, "GET", "/live", None, headers)
        until(lambda: opened_and_closed() > begun)
        yield feed


def test_the_open_feed_of_a_removed_operator_ends(site: Site) -> None:
    """It has no call that came after the reload; the feed of another person can be asked for again."""
    browser = site.browser("--cert", "anna.pem")
    with following(browser, site.host) as feed:
        assert site.host.agtp("tools", "call", "files.list_files").returncode == 0
        remove(site, "anna")
        assert site.host.agtp("call", "-", "ECHO", "/text", "text=too late").returncode == 0
        seen = feed.result(20)
    assert seen.status == 200 and "ECHO /text" not in seen.text, seen.text
    assert browser.get("/live").status == 403


def test_signing_out_ends_the_open_feeds_of_the_session(site: Site) -> None:
    """Without a reload, and with no call that came after it; the feed of another session goes on."""
    leaving, staying = site.browser("--cert", "anna.pem"), site.browser("--cert", "anna.pem")
    with following(staying, site.host) as other, following(leaving, site.host) as feed:
        assert leaving.send(leaving.get("/").page.form("/leave")).status == 200
        assert site.host.agtp("call", "-", "ECHO", "/text", "text=too late").returncode == 0
        seen = feed.result(20)
        assert not other.done()
        remove(site, "vera")
        assert other.result(20).status == 200
    assert seen.status == 200 and "ECHO /text" not in seen.text, seen.text
    assert leaving.get("/live").status == 401


def test_a_reload_loses_no_call_in_the_feeds_of_others(site: Site) -> None:
    """A browser that asks again with the place that it had last gets what came in between, and of a reload alone."""
    browser = site.browser("--cert", "anna.pem")
    with following(browser, site.host) as feed:
        remove(site, "vera")
        last = re.findall(r"^id: (.+)$", feed.result(20).text, re.M)[-1]
    until(lambda: len(site.host.agtp_json("audit", "search", "--path", "/page/feed", "--reads", "all")) == 2)
    assert site.host.agtp("call", "-", "ECHO", "/text", "text=between").returncode == 0
    with following(browser, site.host, {"Last-Event-ID": last}) as again:
        remove(site, "ben")
        seen = again.result(20).text
    assert "ECHO /text" in seen and "event: gap" not in seen and "event: skipped" not in seen, seen
    with following(browser, site.host, {"Last-Event-ID": "of-a-former-process.7"}) as late:
        site.host.config.write_text(site.host.config.read_text() + ENTRY.format(name="ben", role="approver"))
        assert site.host.agtp("reload").returncode == 0
        assert "event: gap" in late.result(20).text


def test_a_revoked_certificate_is_refused_on_an_open_connection_and_page(tmp_path: Path) -> None:
    """Revoking the certificate ends both, also while the entry is still there."""

    def prepare(config: Path) -> None:
        certify(config)
        from tests.system.hosting import agtp

        words = ("--ca", "state/ca.pem", "--crl", "state/crl.pem")
        assert agtp("cert", "crl", *words, cwd=config.parent).returncode == 0
        config.write_text(f'{config.read_text()}\n[tls]\nclient_crl = ["state/crl.pem"]\n')

    with served(tmp_path, prepare=prepare) as site, client(site, "anna") as anna:
        browser = site.browser("--cert", "anna.pem")
        assert anna.call(site.host.uri, "INSPECT", "/", {"target": "chains"}).ok
        agent = json.loads((site.host.state / "agents/demo/document.json").read_text())["agent_id"]
        open_page = browser.get(f"/agents/{agent}")
        words = ("--ca", "state/ca.pem", "--crl", "state/crl.pem")
        with following(browser, site.host) as feed:
            assert site.host.agtp("cert", "revoke", "anna.pem", *words).returncode == 0
            assert feed.result(20).status == 200, "the feed ends without a reload"
        assert site.host.agtp("reload").returncode == 0
        late = browser.send(open_page.page.form("/do/lifecycle"), ("do", "deactivate"), reason="a late one")
        assert late.status == 401, late.text
        assert browser.get("/").status == 401
        state = site.host.agtp_json("agent", "show", "demo")["status"]
        assert state == "active", "an action of a page that is still open changes nothing"
        assert not anna.call(site.host.uri, "INSPECT", "/", {"target": "chains"}).ok


def test_everything_that_shows_records_shows_the_operator(site: Site, tmp_path: Path) -> None:
    """Walk, explain, report, export, log and page name who called; the record verifies by another program."""
    host = site.host
    done = host.agtp("agent", "deactivate", "demo", "--reason", "a test", "--cert", "anna.pem")
    assert done.returncode == 0, done.stderr
    assert host.agtp("agent", "reinstate", "demo", "--cert", "anna.pem").returncode == 0
    walked = host.agtp("audit", "walk", "host", "--cert", "vera.pem")
    assert "anna (operator)" in walked.stdout, walked.stdout + walked.stderr
    listed = host.agtp_json("audit", "walk", "host", "--cert", "vera.pem")
    entry = next(each for each in listed if each["payload"].get("operator", {}).get("name") == "anna")
    assert re.fullmatch("sha256:[0-9a-f]{64}", entry["payload"]["operator"]["key"])
    key = host.agtp_json("cert", "show", "anna.pem")["key_in_records"]
    assert key == entry["payload"]["operator"]["key"]
    by_key, by_name = (host.agtp_json("audit", "search", f"operator:{each}") for each in (key, "anna"))
    assert by_key == by_name
    explained = host.agtp("explain", entry["audit_id"], "--cert", "vera.pem")
    assert "anna (operator) called" in explained.stdout, explained.stdout + explained.stderr
    assert f"operator anna, with the key {entry['payload']['operator']['key']}" in explained.stdout
    assert "caller   " not in explained.stdout, "an operator is not an unnamed caller"
    assert "today" not in explained.stdout, "the gates have no answer about an operator"
    events = host.agtp_json("audit", "walk", "demo", "--cert", "vera.pem")
    assert any(each["payload"].get("operator", {}).get("name") == "anna" for each in events), events
    export = tmp_path / "records.jsonl"
    assert host.agtp("audit", "export", "-o", str(export)).returncode == 0
    report = host.agtp("audit", "report", str(export), "-o", str(tmp_path / "r.html"), "--csv", str(tmp_path / "r.csv"))
    assert report.returncode == 0, report.stderr
    assert "anna (operator)" in (tmp_path / "r.html").read_text()
    rows = csv.DictReader((tmp_path / "r.csv").read_text().splitlines())
    assert any(row["operator"] == "anna" for row in rows)
    verifier = ROOT / "packages" / "agtp-verify" / "agtp_verify.py"
    words = [sys.executable, str(verifier), str(export), "--key", str(host.state / "signing.pub")]
    proven = subprocess.run(words, capture_output=True, text=True, check=False)
    assert proven.returncode == 0, proven.stdout + proven.stderr
    logged = [json.loads(line[line.index("{") :]) for line in host.lines if '"kind":"agtp"' in line]
    assert any(line["operator"] == "anna" and line["method"] == "DEACTIVATE" for line in logged)
    browser = site.browser("--cert", "vera.pem")
    assert "anna (operator)" in browser.get("/calls").text
    assert "nobody" not in browser.get("/calls").text
    shown = browser.get(f"/calls/{entry['audit_id']}").text
    assert entry["payload"]["operator"]["key"] in shown


def test_two_operators_who_decide_in_the_same_instant_are_told_apart(tmp_path: Path) -> None:
    """One decision counts; the other operator learns who decided, and the records name each of them."""
    with served(tmp_path, append='\n[mcp.server.tools.delete_note]\napproval = "required"\n', prepare=certify) as site:
        demo = site.host.state / "agents" / "demo"
        for number in range(6):
            call = {"tool": "files.delete_note", "arguments": {"name": f"note-{number}"}}
            given = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json", "payload": call}
            with Client(trust=site.trust, cert=demo / "agent.pem", key=demo / "agent.key") as caller:
                asked = caller.call(site.host.uri, "EXECUTE", "/", given)
            known = asked.document["approval_id"]
            names = ("anna", "ben")
            start = threading.Barrier(2)

            def decide(name: str, status: str, known: str = known, start: Any = start) -> Any:
                with client(site, name) as own:
                    own.call(site.host.uri, "QUERY", "/approvals", {"approval_id": known})
                    start.wait()
                    said = {"target_id": known, "status": status, "reason": name}
                    return own.call(site.host.uri, "CONFIRM", "/", said)

            with ThreadPoolExecutor(2) as pool:
                answers = dict(zip(names, pool.map(decide, names, ("accepted", "rejected")), strict=True))
            (first,) = [name for name in names if answers[name].ok]
            (late,) = {*names} - {first}
            refused = answers[late]
            assert (refused.status, refused.reason) == (409, "already-decided"), refused.document
            assert f"by {first}" in refused.explanation and refused.document["decided_by"], refused.document
            found = [
                each["payload"] for each in site.host.agtp_json("audit", "search", "--method", "CONFIRM", "-n", "2")
            ]
            assert {each["operator"]["name"]: each["status"] for each in found} == {first: 200, late: 409}, found
