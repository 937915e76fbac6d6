"""``agtp audit report``: a page and a table that say what the export says, and obey nothing that it says."""

from __future__ import annotations

import csv
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import HOST_CHAIN, Draft, StreamEvent
from agtphost.audit.summaries import EVENT, READS
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.writer import GroupWriter, Submission
from agtphost.identity.keys import SigningKey
from agtphost.stores import open_store
from tests.audit.drafting import draft
from tests.cli.conftest import Run

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"
KEY = "state/signing.pub"


@pytest.fixture
def export(folder: Path, run: Run) -> Path:
    """Five records, one of them of a path that would like to be obeyed."""
    store = open_store(f"sqlite:{folder / 'state' / 'agtphost.sqlite3'}", create=True)
    key = SigningKey.load(folder / "state" / "signing.key")
    tree = TreeKeeper(store, "localhost", key)
    writer = GroupWriter(store, RecordSigner(key), server_id="localhost", tree=tree)
    writer.load()
    plain = [Submission(draft(server_id="localhost")) for _ in range(3)]
    hostile = Submission(draft(server_id="localhost", path=HOSTILE, method="QUERY"))
    formula = Submission(draft(server_id="localhost", reason="=cmd|' /C calc'!A0", method="QUERY", path="/x"))
    writer.write([*plain, hostile, formula])
    assert tree.catch_up() is not None
    store.close()
    assert run("audit", "export", "--proofs", "-o", "records.jsonl").exit_code == 0
    return folder / "records.jsonl"


class Seen(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


def test_a_page_and_a_table(run: Run, export: Path) -> None:
    """The verdict, every record, the key, and how to check; in a spreadsheet likewise."""
    done = run("audit", "report", "records.jsonl", "--csv", "records.csv", "--signing-key", KEY)
    assert done.exit_code == 0, done.output
    assert "wrote records.html" in done.output
    seen = Seen((export.parent / "records.html").read_text())
    assert "Verified." in seen.words and "5 of 5 records are proven to be in the log localhost of 5" in seen.words
    entries = [json.loads(line) for line in export.read_text().splitlines()[1:-1]]
    assert all(entry["audit_id"] in seen.words for entry in entries)
    assert "agtp-verify records.jsonl --key signing.pub" in seen.words
    with (export.parent / "records.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["audit_id"] for row in rows] == [entry["audit_id"] for entry in entries]
    assert {row["verified"] for row in rows} == {"yes"}


def test_requests_that_summaries_count_are_in_the_report(run: Run, folder: Path) -> None:
    """Refusals and reads without a record of their own, added up over all summaries; not in the counts of records."""
    store = open_store(f"sqlite:{folder / 'state' / 'agtphost.sqlite3'}", create=True)
    writer = GroupWriter(store, RecordSigner(SigningKey.load(folder / "state" / "signing.key")), server_id="localhost")
    writer.load()
    counts = ((EVENT, 1_200), (EVENT, 34), (READS, 5))
    events = tuple(
        StreamEvent(chain=HOST_CHAIN, event_type=kind, fields={"count": count, "explanation": "many"})
        for kind, count in counts
    )
    writer.write(
        [Submission(draft(server_id="localhost")), Submission(Draft(chain=HOST_CHAIN, payload={}, events=events))]
    )
    store.close()
    assert run("audit", "export", "-o", "records.jsonl").exit_code == 0
    done = run("audit", "report", "records.jsonl", "--csv", "records.csv", "--signing-key", KEY)
    assert done.exit_code == 0, done.output
    words = Seen((folder / "records.html").read_text()).words
    assert "Summaries count 1,234 refused requests without a separate record." in words
    assert "Summaries count 5 repeated reads without a separate record." in words
    with (folder / "records.csv").open(newline="") as stream:
        assert {row["kind"] for row in csv.DictReader(stream)} == {"record", "event"}


def test_nothing_in_a_record_is_obeyed(run: Run, export: Path) -> None:
    """No tag, no attribute and no control character of theirs; no formula."""
    assert run("audit", "report", "records.jsonl", "--csv", "records.csv", "--signing-key", KEY).exit_code == 0
    text = (export.parent / "records.html").read_text()
    seen = Seen(text)
    assert "<script>alert(1)</script>" in seen.words and "script" not in seen.tags
    assert not {name for name in seen.attributes if name.startswith("on")} | {"src", "href"} & seen.attributes
    assert "\u202e" not in text and "\x1b" not in text
    with (export.parent / "records.csv").open(newline="") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row]
    assert "'=cmd|' /C calc'!A0" in cells and not any(cell.startswith("=") for cell in cells)


def test_what_does_not_verify_says_so(run: Run, export: Path) -> None:
    """Status 4, and the page says it first; whoever has no key is told what that means."""
    damaged = export.read_text().replace('"seq":3', '"seq":4')
    (export.parent / "damaged.jsonl").write_text(damaged)
    done = run("audit", "report", "damaged.jsonl", "--signing-key", KEY)
    assert done.exit_code == 4 and "does not verify" in done.output
    seen = Seen((export.parent / "damaged.html").read_text())
    assert "Not verified" in seen.words and "it follows record 2" in seen.words and "Verified." not in seen.words
    SigningKey.generate().public.save(export.parent / "other.pub")
    done = run(
        "audit", "report", "records.jsonl", "-o", "other.html", "--csv", "other.csv", "--signing-key", "other.pub"
    )
    assert done.exit_code == 4
    assert {row["verified"] for row in csv.DictReader((export.parent / "other.csv").open())} == {"no"}


def test_files_are_not_overwritten(run: Run, export: Path) -> None:
    """A second report needs another name; a file that is no export is said to be none."""
    assert run("audit", "report", "records.jsonl", "--signing-key", KEY).exit_code == 0
    assert run("audit", "report", "records.jsonl", "--signing-key", KEY).exit_code == 2
    assert run("audit", "report", KEY, "-o", "none.html").exit_code == 2


def test_a_long_export_is_cut_in_the_page_alone(run: Run, export: Path) -> None:
    """The newest rows, and it says how many there are."""
    assert (
        run("audit", "report", "records.jsonl", "--rows", "2", "--csv", "all.csv", "--signing-key", KEY).exit_code == 0
    )
    seen = Seen((export.parent / "records.html").read_text())
    assert "2 of 5; the table of --csv has all." in seen.words
    assert len((export.parent / "all.csv").read_text().splitlines()) == 6
