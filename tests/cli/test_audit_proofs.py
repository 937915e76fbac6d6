"""audit export --proofs and --since 1h, and how verify --file marks what nobody known signed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit.tree import TreeKeeper
from agtphost.audit.writer import GroupWriter
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.stores import open_store
from tests.audit import independent
from tests.audit.drafting import draft
from tests.cli.conftest import Run

KEY = "state/signing.pub"


@pytest.fixture
def audited(folder: Path) -> Path:
    """A store of six records with a checkpoint over five of them."""
    from agtphost.audit.chain import RecordSigner
    from agtphost.audit.writer import Submission

    store = open_store(f"sqlite:{folder / 'state' / 'agtphost.sqlite3'}", create=True)
    key = SigningKey.load(folder / "state" / "signing.key")
    tree = TreeKeeper(store, "localhost", key)
    writer = GroupWriter(store, RecordSigner(key), server_id="localhost", tree=tree)
    writer.load()
    writer.write([Submission(draft(server_id="localhost")) for _ in range(5)])
    assert tree.catch_up() is not None
    writer.write([Submission(draft(server_id="localhost"))])
    store.close()
    return folder


def verified(run: Run, *words: str) -> tuple[int, Any]:
    result = run("audit", "verify", "--file", "records.jsonl", *words, "--json")
    return result.exit_code, json.loads(result.stdout)


def test_an_export_with_proofs(run: Run, audited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the checkpoint covers is proven, offline and by another verifier; the record of just now is not yet."""
    monkeypatch.setattr("agtphost.cli.audit.export.PATIENCE", 0.1)
    done = run("audit", "export", "--since", "1h", "--proofs", "-o", "records.jsonl")
    assert done.exit_code == 0, done.output
    status, answer = verified(run, "--signing-key", KEY)
    assert status == 0
    assert (answer["records"], answer["proven"], answer["log"]) == (6, 5, "localhost of 5")
    assert answer["whole"] is False and answer["signature_unverified"] == []
    key = VerifyingKey.load(audited / KEY)
    lines = (audited / "records.jsonl").read_bytes().splitlines(keepends=True)
    assert len(independent.members(lines, {key.kid: key.raw})) == 5
    shown = run("audit", "verify", "--file", "records.jsonl", "--signing-key", KEY)
    assert "proven: 5 records are in the log localhost of 5" in shown.output and "a selection" in shown.output


def test_nothing_is_older_than_now(run: Run, audited: Path) -> None:
    """``--until 1h`` leaves out all of the last hour."""
    done = run("audit", "export", "--until", "1h", "-o", "records.jsonl")
    assert done.exit_code == 0
    assert verified(run, "--signing-key", KEY)[1]["records"] == 0


def test_proofs_need_a_checkpoint(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 4, and no file that looks like an export."""
    monkeypatch.setattr("agtphost.cli.audit.export.PATIENCE", 0.1)
    open_store(f"sqlite:{folder / 'state' / 'agtphost.sqlite3'}", create=True).close()
    done = run("audit", "export", "--proofs", "-o", "records.jsonl")
    assert done.exit_code == 4 and "no checkpoint" in done.output
    assert not (folder / "records.jsonl").exists()


def test_records_that_no_known_key_signed_are_marked(run: Run, audited: Path) -> None:
    """AGTP-307: an export of another host is status 4, each record of it ``signature_unverified``; none is proven."""
    assert run("audit", "export", "--proofs", "-o", "records.jsonl").exit_code == 0
    SigningKey.generate().public.save(audited / "other.pub")
    status, answer = verified(run, "--signing-key", "other.pub")
    assert status == 4 and len(answer["signature_unverified"]) == 6
    assert all(
        fault["signature_unverified"] for fault in answer["faults"] if fault["kind"] in ("signature", "unsigned")
    )
    assert (
        "signature_unverified" in run("audit", "verify", "--file", "records.jsonl", "--signing-key", "other.pub").output
    )
    # The control: the same file with the right key.
    assert verified(run, "--signing-key", KEY)[1]["signature_unverified"] == []
