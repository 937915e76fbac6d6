"""Records are taken away from the page as files that the command verifies without any host."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import IncompleteRead
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from agtphost.identity.keys import SigningKey
from agtphost.page.record_export import KIND, RECORDS_PER_PAGE
from tests.page.browsing import Browser, Site, served
from tests.page.stage import flip
from tests.system.hosting import Host

CALLS = 2 * RECORDS_PER_PAGE + 20


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page")) as site:
        demo = site.host.state / "agents" / "demo"
        with Client(trust=site.trust, cert=demo / "agent.pem", key=demo / "agent.key") as client:
            for number in range(CALLS):
                assert client.call(site.host.uri, "ECHO", "/text", {"text": str(number)}).ok
        yield site


@pytest.fixture(scope="module")
def browser(site: Site) -> Browser:
    return site.browser()


def librarian(site: Site) -> str:
    return str(json.loads((site.host.state / "hosted/librarian/document.json").read_text())["agent_id"])


def exported(browser: Browser, folder: Path, chain: str, **words: str) -> Path:
    """By the form, as somebody without scripts; the file as the browser keeps it."""
    form = browser.get("/evidence").page.form("/evidence/export", chain=chain)
    fields = {**form.fields, **words}
    answer = browser.get("/evidence/export?" + "&".join(f"{name}={word}" for name, word in fields.items()))
    assert (answer.status, answer.headers["content-type"]) == (200, KIND), answer.text
    assert answer.headers["content-disposition"].startswith('attachment; filename="records-')
    file = folder / f"{time.monotonic_ns()}.jsonl"
    file.write_bytes(answer.body)
    return file


def verified(site: Site, file: Path) -> dict[str, Any]:
    """What ``agtp audit verify`` says of a file, with the host's key from elsewhere."""
    words = ("audit", "verify", "--file", str(file), "--signing-key", str(site.host.state / "signing.pub"), "--json")
    done = site.host.agtp(*words)
    answer = json.loads(done.stdout)
    assert (done.returncode == 0) is answer.get("verified"), done.stdout + done.stderr
    assert isinstance(answer, dict)
    return answer


@pytest.mark.release
def test_a_whole_chain_verifies_offline(site: Site, browser: Browser, tmp_path: Path) -> None:
    """Of more than one page; nothing of it is missing, and the file says so."""
    for chain, least in ((librarian(site), CALLS), ("host", 1)):
        file = exported(browser, tmp_path, chain)
        told = verified(site, file)
        assert told["verified"] and told["whole"] and told["records"] >= least, told
        (head,) = told["heads"]
        assert head["seq"] == told["records"], "from the first record to the last of that moment"


@pytest.mark.release
def test_what_was_changed_in_the_file_is_found(site: Site, browser: Browser, tmp_path: Path) -> None:
    """The control: one record changed, one left out, one at the end cut off."""
    lines = exported(browser, tmp_path, librarian(site)).read_bytes().splitlines(keepends=True)
    damaged = lines[5].replace(b'"seq":5', b'"seq":6')
    assert damaged != lines[5]
    for number, wrong in enumerate(([*lines[:5], damaged, *lines[6:]], lines[:7] + lines[8:], lines[:-2])):
        file = tmp_path / f"wrong-{number}.jsonl"
        file.write_bytes(b"".join(wrong))
        assert not verified(site, file)["verified"]


def test_a_range_verifies_and_says_that_it_is_one(site: Site, browser: Browser, tmp_path: Path) -> None:
    """Its first and last number are those that were asked for; beyond the end there is the end."""
    told = verified(
        site, exported(browser, tmp_path, librarian(site), **{"from": "3", "to": str(RECORDS_PER_PAGE + 7)})
    )
    assert told["verified"] and not told["whole"] and told["records"] == RECORDS_PER_PAGE + 5
    assert told["heads"][0]["seq"] == RECORDS_PER_PAGE + 7
    told = verified(site, exported(browser, tmp_path, librarian(site), **{"from": str(CALLS), "to": "999999999"}))
    assert told["verified"] and told["heads"][0]["seq"] >= CALLS


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("chain=host&from=x", 400),
        ("chain=host&from=5&to=4", 400),
        ("chain=host&from=999999999", 400),
        ("chain=nobody", 422),
        (f"chain={'0' * 64}", 404),
    ],
)
def test_what_cannot_be_exported_is_told(browser: Browser, query: str, status: int) -> None:
    """In a view, and no file is begun."""
    answer = browser.get(f"/evidence/export?{query}")
    assert answer.status == status and "content-disposition" not in answer.headers


def test_strangers_take_nothing_away(site: Site) -> None:
    """Without a session there is the form of a link."""
    answer = site.stranger().get("/evidence/export?chain=host")
    assert answer.status == 401 and answer.page.form("/enter")


def test_that_records_were_taken_away_is_on_record(site: Site, browser: Browser, tmp_path: Path) -> None:
    """Each page of them, by the key of whoever asked."""

    def asked() -> int:
        with closing(sqlite3.connect(site.host.state / "agtphost.sqlite3", timeout=30)) as database:
            ((count,),) = database.execute("SELECT count(*) FROM record WHERE method = 'INSPECT' AND status = 200")
        return int(count)

    before = asked()
    exported(browser, tmp_path, librarian(site))
    # The targets of the view in one record, the head of the chain, and three pages.
    assert asked() - before >= 3 + CALLS // RECORDS_PER_PAGE


def said(site: Site) -> Any:
    """What the last verification came to, as AGTP tells it."""
    reply = site.host.agtp_json("call", "-", "QUERY", "/verifications", "--as", "registrar")
    return reply["body"]["result"]["verification"]


def test_the_last_verification_is_shown_with_whose_word_it_is(site: Site, browser: Browser) -> None:
    """Nobody's before; the outcome of the command, its record, and the key that it was stated with, after it."""
    assert "agtp audit verify --record" in browser.get("/evidence").page.said
    assert site.host.agtp("audit", "verify").returncode == 0
    assert said(site) is None, "what nobody put on record is not shown as if somebody had"
    stranger = site.host.agtp("audit", "verify", "--record", "--as", "demo", "--json")
    assert stranger.returncode == 1 and said(site) is None
    done = site.host.agtp_json("audit", "verify", "--record", "--as", "registrar")
    assert done["verified"] and len(done["recorded"]) == 64
    operator = key_of(site.host)
    stated = said(site)
    assert (stated["verified"], stated["records"], stated["faults"]) == (True, done["records"], 0)
    assert stated["stated_by"] == operator
    page = browser.get("/evidence").page
    assert {"verified", str(done["records"])} <= set(page.said)
    assert f"/calls/{done['recorded']}" in page.links
    assert any(operator[:16] in each for each in page.said)
    record = site.host.agtp_json("call", "-", "INSPECT", "/", "target=audit", f"audit_id={done['recorded']}")
    extra = record["body"]["result"]["payload"]["extra"]["audit_verify"]
    assert extra == {"verified": True, "records": done["records"], "faults": 0, "source": "all chains"}


def key_of(host: Host) -> str:
    return SigningKey.load(host.state / "registrar.key").public.fingerprint


@pytest.mark.parametrize(
    "words",
    [
        ["verified:=true", "faults:=0"],
        ["verified:=true", "records:=7"],
        ["verified:=true", "records:=7", "faults:=1"],
        ["verified:=false", "records:=7", "faults:=0"],
        ["verified=yes", "records:=7"],
        ["verified:=true", "records:=-1"],
    ],
)
def test_a_statement_that_says_nothing_is_refused(site: Site, words: list[str]) -> None:
    """Nor one that contradicts itself."""
    done = site.host.agtp("call", "-", "CONFIRM", "/verifications", *words, "--as", "registrar", "--json")
    assert json.loads(done.stdout)["status"] in (400, 422), done.stdout


def test_a_verification_that_fails_is_on_record_too(tmp_path: Path) -> None:
    """Exit status 4 as ever, and red on the page."""
    with served(tmp_path) as site:
        with Client(trust=site.trust, agent_id=librarian(site)) as client:
            ids = [client.call(site.host.uri, "ECHO", "/text", {"text": "x"}).audit_id for _ in range(3)]
        flip(site.host, str(ids[1]))
        done = site.host.agtp("audit", "verify", "--record", "--as", "registrar", "--json")
        answer = json.loads(done.stdout)
        assert done.returncode == 4 and answer["faults"] and answer["recorded"]
        page = site.browser().get("/evidence").page
        assert "does not verify" in page.said and f"/calls/{answer['recorded']}" in page.links
    stopped = site.host.agtp("audit", "verify", "--record", "--as", "registrar", "--json")
    assert stopped.returncode == 4 and json.loads(stopped.stdout)["recorded"] == ""


def test_a_file_that_cannot_be_finished_breaks_off(tmp_path: Path) -> None:
    """Over a record that somebody changed in the database: no file that ends well leaves out what is wrong."""
    with served(tmp_path) as site:
        with Client(trust=site.trust, agent_id=librarian(site)) as client:
            ids = [
                client.call(site.host.uri, "ECHO", "/text", {"text": "x"}).audit_id for _ in range(RECORDS_PER_PAGE + 5)
            ]
        flip(site.host, str(ids[RECORDS_PER_PAGE + 2]))
        browser = site.browser()
        with pytest.raises((IncompleteRead, ConnectionError)):
            browser.get(f"/evidence/export?chain={librarian(site)}")
        flip(site.host, str(ids[RECORDS_PER_PAGE + 2]))
        flip(site.host, str(ids[1]))
        assert browser.get(f"/evidence/export?chain={librarian(site)}").status >= 400
