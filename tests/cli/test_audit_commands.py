"""audit get, walk, verify, export: a real store, and the same records over the wire."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit import checkpoint
from agtphost.audit.chain import RecordSigner
from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.drafts import HOST_CHAIN, Draft, LifecycleEvent, StoredRecord
from agtphost.audit.merkle import leaf_hash, root_of
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.writer import GroupWriter, Submission
from agtphost.identity import envelope
from agtphost.identity.jws import parse_unverified
from agtphost.identity.keys import SigningKey
from agtphost.stores import RecordReader, Selection, open_store
from agtphost.stores.connection import connect
from agtphost.vocabulary import regular_files
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer, Exchange

RECORDS = 7
"""Of the agent's chain, the lifecycle event included; the host's own has three."""


def agent_id(folder: Path, where: str) -> str:
    return str(json.loads((folder / "state" / where / "document.json").read_text())["agent_id"])


def draft(chain: str, number: int, caller: str) -> Draft:
    """One answered call."""
    payload: dict[str, object] = {
        "audit_record_version": "1",
        "server_id": "localhost",
        "agent_id": chain,
        "owner_id": "",
        "request_id": "",
        "response_id": f"0190a0b0-0000-7000-8000-{number:012d}",
        "status": 200 if chain else 404,
        "method": "QUERY",
        "path": f"/{number}",
        "caller_id": caller,
        "identity_assurance": "certificate",
        "request_hash": "0" * 64,
        "result_hash": "1" * 64,
    }
    return Draft(chain=chain, payload=payload)


@pytest.fixture
def store(folder: Path) -> Path:
    """The deployment's database, with records of the librarian and of the host, signed with its key."""
    path = folder / "state" / "agtphost.sqlite3"
    librarian, demo = agent_id(folder, "hosted/librarian"), agent_id(folder, "agents/demo")
    written = open_store(f"sqlite:{path}", create=True)
    signer = RecordSigner(SigningKey.load(folder / "state" / "signing.key"))
    writer = GroupWriter(written, signer, server_id="localhost")
    writer.load()
    drafts = [draft(librarian, number, demo) for number in range(RECORDS - 1)]
    drafts[3].event = LifecycleEvent(
        agent_id=librarian,
        event_type="agent-lifecycle-suspended",
        expected_status=None,
        new_status="suspended",
        fields={"previous_status": "active"},
    )
    drafts[3].render = lambda sealed: b"{}"
    drafts += [draft(HOST_CHAIN, number, "") for number in range(3)]
    submissions = [Submission(one) for one in drafts]
    writer.write(submissions)
    assert not [one.outcome for one in submissions if isinstance(one.outcome, Exception)]
    written.close()
    return path


def stored(path: Path) -> list[StoredRecord]:
    """Every record, each chain oldest first."""
    reader = RecordReader(str(path), connect)
    try:
        return list(reader.records(Selection()))
    finally:
        reader.close()


@pytest.fixture
def inspected(server: AgtpServer, store: Path, folder: Path) -> Iterator[AgtpServer]:
    """A server whose INSPECT reads that store as a host's does."""

    def entry(record: StoredRecord) -> dict[str, Any]:
        text = record.signed.decode()
        payload = parse_unverified(text)
        return {
            "audit_id": record.audit_id,
            "format": "jws",
            "jws": text,
            "payload": payload,
            "kind": record.kind,
            "seq": record.seq,
        }

    def inspect(exchange: Exchange) -> Answer:
        asked = exchange.input
        if asked["target"] == "audit":
            found = [one for one in stored(store) if one.audit_id == asked["audit_id"]]
            if not found:
                return Answer({"status": 404, "reason": "record-not-found"}, 404)
            return Answer({"status": 200, "result": entry(found[0])})
        chain = HOST_CHAIN if asked.get("chain") == "host" else asked["agent_id"]
        listed = [one for one in stored(store) if one.chain == chain and one.seq < asked.get("before", 1 << 60)]
        page = listed[::-1][: min(asked["limit"], 2)]
        return Answer({"status": 200, "result": {"records": [entry(one) for one in page]}})

    server.answers["INSPECT", "/"] = inspect
    server.answers["DISCOVER", "/agents"] = Answer([{"agent_id": agent_id(folder, "hosted/librarian")}])
    server.answers["DISCOVER", "/"] = server.manifest()
    return server


def damage(path: Path, seq: int, chain_records: int = RECORDS) -> None:
    """Change one octet of one signed record of the longer chain."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA ignore_check_constraints=ON")
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        for name in names:
            database.execute(f"DROP TRIGGER {name}")
        (chain,) = database.execute(
            "SELECT chain FROM record GROUP BY chain HAVING count(*) = ?", (chain_records,)
        ).fetchone()
        (signed,) = database.execute("SELECT signed FROM record WHERE chain = ? AND seq = ?", (chain, seq)).fetchone()
        changed = bytes(signed[:40]) + bytes([signed[40] ^ 1]) + bytes(signed[41:])
        database.execute("UPDATE record SET signed = ? WHERE chain = ? AND seq = ?", (changed, chain, seq))


# verify


def test_verify_the_store(run: Run, store: Path, folder: Path) -> None:
    """``agtp audit verify`` needs no running host: every chain, its head, exit status 0."""
    result = run("audit", "verify")
    assert result.exit_code == 0, result.output
    assert f"verified: {RECORDS + 3} records" in result.stdout
    answer = json.loads(run("audit", "verify", "--json").stdout)
    assert [(head["chain"], head["seq"]) for head in answer["heads"]] == [
        ("host", 3),
        (agent_id(folder, "hosted/librarian"), RECORDS),
    ]
    assert json.loads(run("audit", "verify", "librarian", "--json").stdout)["records"] == RECORDS
    assert json.loads(run("audit", "verify", "host", "--json").stdout)["records"] == 3


@pytest.mark.parametrize("seq", [1, 3, RECORDS])
def test_verify_notices_a_flipped_bit(run: Run, store: Path, seq: int) -> None:
    """The control, T-RB-10: one bit anywhere is exit status 4."""
    damage(store, seq)
    result = run("audit", "verify", "--json")
    assert result.exit_code == 4, result.output


def test_every_damaged_record_is_listed(run: Run, store: Path) -> None:
    """The walk goes on after a damaged record, and names each."""
    damage(store, 2)
    damage(store, 4)
    faults = json.loads(run("audit", "verify", "--json").stdout)["faults"]
    damaged = [fault["explanation"] for fault in faults if fault["kind"] == "hash"]
    assert [text.split(" of ")[0] for text in damaged] == ["record 2", "record 4"]


def witnessed(folder: Path, ids: list[bytes]) -> Checkpoint:
    """What the host's witness file says when it has seen these records."""
    key = SigningKey.load(folder / "state/signing.key")
    issued = checkpoint.issue("localhost", len(ids), root_of(ids), key)
    (folder / "state/checkpoint.txt").write_text(issued.note)
    return issued


def checkpointed(store: Path, folder: Path, ids: list[bytes]) -> None:
    """The same, and the checkpoint and its tile are in the store."""
    issued = witnessed(folder, ids)
    with sqlite3.connect(store) as database:
        row = len(ids), 0, issued.note, 3 if len(ids) > 3 else 0
        database.execute("INSERT OR REPLACE INTO checkpoint (size, issued_at, note, previous) VALUES (?, ?, ?, ?)", row)
        database.execute("INSERT OR REPLACE INTO tile VALUES (0, 0, ?)", (b"".join(map(leaf_hash, ids)),))


def test_verify_asks_the_witness_file(run: Run, store: Path, folder: Path) -> None:
    """A store that its witness contradicts is status 4: cut, rolled back, or another one; the true one is 0."""
    with sqlite3.connect(store) as database:
        ids = [row[0] for row in database.execute("SELECT audit_id FROM record ORDER BY number")]
    checkpointed(store, folder, ids[:3])
    assert run("audit", "verify").exit_code == 0
    checkpointed(store, folder, ids)
    assert run("audit", "verify").exit_code == 0
    for contradiction, word in (([*ids, b"x" * 32], "older copy"), ([b"x" * 32, *ids[1:]], "other records")):
        witnessed(folder, contradiction)
        result = run("audit", "verify", "--json")
        assert result.exit_code == 4
        [fault] = json.loads(result.stdout)["faults"]
        assert fault["kind"] == "head" and word in fault["explanation"]
    (folder / "state/checkpoint.txt").write_text("nonsense")
    assert run("audit", "verify").exit_code == 4


def test_verify_notices_another_key(run: Run, store: Path, folder: Path) -> None:
    """Records that were signed with another key than the host's do not verify."""
    (folder / "state/signing.key").unlink()
    (folder / "state/signing.pub").unlink()
    assert run("key", "new", "state/signing.key").exit_code == 0
    result = run("audit", "verify", "--json")
    assert result.exit_code == 4
    assert len(json.loads(result.stdout)["faults"]) == RECORDS + 3


def test_verify_over_the_wire(run: Run, inspected: AgtpServer) -> None:
    """Page by page through INSPECT: the same records, the same verdict."""
    result = run("audit", "verify", "--uri", inspected.uri, "--cacert", "state/ca.pem", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["records"] == RECORDS + 3


def test_verify_without_a_store(run: Run, folder: Path) -> None:
    """Before the first start there is nothing: status 2, and the remedy."""
    result = run("audit", "verify")
    assert result.exit_code == 2
    assert "Start the host once" in result.stderr


# export


def test_an_export_verifies_anywhere(run: Run, store: Path, folder: Path) -> None:
    """Written for its owner alone, verified with the key from elsewhere, and without."""
    result = run("audit", "export", "-o", "records.jsonl")
    assert result.exit_code == 0, result.output
    path = folder / "records.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    (folder / "host.toml").unlink()
    assert run("audit", "verify", "--file", "records.jsonl", "--signing-key", "state/signing.pub").exit_code == 0
    unknown = run("audit", "verify", "--file", "records.jsonl")
    assert unknown.exit_code == 0
    assert "was not checked" in unknown.stdout
    other = run("audit", "verify", "--file", "records.jsonl", "--signing-key", "state/registrar.key")
    assert other.exit_code == 4


def test_a_long_export_is_flushed_piece_by_piece(
    run: Run, store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the host at the same disk would wait for all of it otherwise."""
    flushed: list[int] = []
    monkeypatch.setattr(regular_files, "FLUSHED_OCTETS", 1_000)
    monkeypatch.setattr(regular_files.os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_size))
    assert run("audit", "export", "-o", "records.jsonl").exit_code == 0
    assert len(flushed) >= RECORDS and flushed[-1] == (folder / "records.jsonl").stat().st_size


def test_a_changed_export_is_status_4(run: Run, store: Path, folder: Path) -> None:
    """A line left out, and a file cut short."""
    lines = run("audit", "export").stdout_bytes.splitlines(keepends=True)
    assert len(lines) == RECORDS + 3 + 2
    for changed in (lines[:3] + lines[4:], lines[:-1], lines[:-3] + lines[-1:]):
        (folder / "changed.jsonl").write_bytes(b"".join(changed))
        result = run("audit", "verify", "--file", "changed.jsonl")
        assert result.exit_code == 4, result.output


def test_a_selection(run: Run, store: Path) -> None:
    """By chain, caller and time."""

    def exported(*words: str) -> int:
        result = run("audit", "export", *words)
        assert result.exit_code == 0, result.output
        return len(result.stdout.splitlines()) - 2

    assert exported("--agent", "librarian") == RECORDS
    assert exported("--agent", "host") == 3
    assert exported("--caller", "demo") == RECORDS - 1
    alone = run("audit", "export", "--agent", "demo")
    assert "--filter agent:demo" in alone.stderr, "its calls are in the chains of those who answered"
    assert "note" not in run("audit", "export", "--agent", "librarian").stderr
    assert run("audit", "export", "--caller", "demo", "-o", "calls.jsonl").exit_code == 0
    table = run("audit", "verify", "--file", "calls.jsonl").stdout
    assert "SEQ" in table and "RECORDS" not in table, "the place in its chain, not how many records the file has"
    assert exported("--since", "2020-01-01T00:00:00Z") == RECORDS + 3
    assert exported("--until", "2020-01-01T00:00:00+01:00") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("export", "--since", "yesterday"), "is not a time"),
        (("export", "--since", "2026-01-01T00:00:00"), "has no time zone"),
        (("export", "-o", "host.toml"), "host.toml exists"),
        (("export", "--agent", "nobody"), "no agent is named"),
        (("verify", "--file", "none"), "none cannot be read"),
        (("verify", "--file", "host.toml"), "is not an export"),
        (("verify", "--signing-key", "x"), "needs --file or -"),
        (("verify", "host", "--file", "x"), "--file excludes"),
        (("get", "x"), "'x' is not an Audit-ID of 64"),
        (("walk", "nobody"), "no agent is named"),
    ],
    ids=" ".join,
)
def test_wrong_input(run: Run, store: Path, words: tuple[str, ...], message: str) -> None:
    """Status 2, and what is wrong."""
    result = run("audit", *words)
    assert result.exit_code == 2, result.output
    assert message in result.stderr


# get and walk


def test_get_a_record(run: Run, inspected: AgtpServer, store: Path) -> None:
    """The payload, and that it verifies."""
    record = stored(store)[0]
    answer = json.loads(run("audit", "get", record.audit_id, "--json").stdout)
    assert (answer["verified"], answer["payload"]["response_id"]) == (
        True,
        parse_unverified(record.signed.decode())["response_id"],
    )
    assert "record verified" in run("audit", "get", record.audit_id).stdout
    assert run("audit", "get", "0" * 64).exit_code == 1


def test_get_does_not_believe_the_host(run: Run, inspected: AgtpServer, store: Path) -> None:
    """A record under another Audit-ID, or with another payload beside it: what was signed is what counts."""
    first, second = stored(store)[:2]
    text = second.signed.decode()
    inspected.answers["INSPECT", "/"] = Answer({"result": {"jws": text, "payload": {"status": 1}, "seq": 1}})
    assert run("audit", "get", first.audit_id).exit_code == 4
    answer = json.loads(run("audit", "get", second.audit_id, "--json").stdout)
    assert answer["payload"] == parse_unverified(text)


def test_walk_a_chain(run: Run, inspected: AgtpServer) -> None:
    """Newest first, by label, as many as asked for, over several pages."""
    listed = json.loads(run("audit", "walk", "librarian", "--json").stdout)
    assert [entry["seq"] for entry in listed] == list(range(RECORDS, 0, -1))
    assert [entry["kind"] for entry in listed].count("event") == 1
    assert len(json.loads(run("audit", "walk", "librarian", "-n", "3", "--json").stdout)) == 3
    table = run("audit", "walk").stdout.splitlines()
    assert len(table) == 4
    assert table[1].split()[0] == "3"


def test_walk_ends_with_a_host_that_never_does(run: Run, inspected: AgtpServer, store: Path) -> None:
    """The same page again and again is a chain that does not go backwards: exit status 4."""
    record = stored(store)[-1]
    entry = {"audit_id": record.audit_id, "jws": record.signed.decode(), "seq": 9, "kind": "record"}
    inspected.answers["INSPECT", "/"] = Answer({"result": {"records": [entry]}})
    result = run("audit", "walk", "--all")
    assert result.exit_code == 4
    assert "do not decrease at record" in result.stderr


def test_agent_ls_shows_the_stored_state(run: Run, store: Path) -> None:
    """What the store knows goes over what the document says."""
    listed = {agent["name"]: agent["status"] for agent in json.loads(run("agent", "ls", "--json").stdout)}
    assert listed == {"demo": "active", "librarian": "suspended"}


def test_accepting_a_store_is_said_twice(folder: Path, store: Path, run: Run) -> None:
    """Shown first, done with --yes; only for a checkpoint that the host itself issued and that its tree has."""
    witness = folder / "state/checkpoint.txt"
    refused = run("audit", "accept-store")
    assert refused.exit_code != 0 and "no checkpoint" in refused.stderr and not witness.exists()
    key = SigningKey.load(folder / "state" / "signing.key")
    written = open_store(f"sqlite:{store}", create=False)
    tree = TreeKeeper(written, "localhost", key)
    tree.load()
    tree.catch_up()
    written.close()
    witness.write_text("nonsense")
    shown = run("audit", "accept-store")
    assert shown.exit_code != 0 and "does not verify" in shown.stderr and witness.read_text() == "nonsense"
    done = run("audit", "accept-store", "--yes")
    assert done.exit_code == 0, done.output
    assert checkpoint.verify(witness.read_text(), [key.public]).size == RECORDS + 5, (
        "its own record and the baseline are two more"
    )
    (kept,) = witness.parent.glob("checkpoint.txt.*Z")
    assert kept.read_text() == "nonsense"
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE tile SET hashes = zeroblob(length(hashes))")
    refused = run("audit", "accept-store", "--yes")
    assert refused.exit_code == 4 and "does not match the store's tree" in refused.stderr


def test_changed_rows_of_state_are_named_and_accepted_knowingly(folder: Path, store: Path, run: Run) -> None:
    """By table and row; without --yes they are listed, and with it they count from then on."""
    assert run("audit", "accept-store", "--yes").exit_code == 0, "what the store has is signed, as at a start"
    assert run("audit", "verify").exit_code == 0
    with sqlite3.connect(store) as connection:
        ((agent_id,),) = connection.execute("SELECT agent_id FROM lifecycle WHERE status = 'suspended'").fetchall()
        connection.execute("DELETE FROM lifecycle WHERE agent_id = ?", (agent_id,))
    named = f"lifecycle, {agent_id.hex()}: was deleted"
    wrong = run("audit", "verify")
    assert wrong.exit_code == 4 and f"lifecycle, row {agent_id.hex()}: was deleted" in wrong.stderr
    listed = run("audit", "accept-store")
    assert listed.exit_code != 0 and named in listed.stderr and "--yes" in listed.stderr
    done = run("audit", "accept-store", "--yes", "--reason", "ticket 7", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["rows"] == [named]
    assert run("audit", "verify").exit_code == 0
    written = open_store(f"sqlite:{store}", create=False)
    newest = [envelope.parse_unverified(each.format, each.signed) for each in written.reader().walk("", None, 2)]
    written.close()
    assert [each["event_type"] for each in newest] == ["store-accepted", "state-accepted"]
    assert newest[0]["reason"] == "ticket 7" and agent_id.hex() in newest[1]["rows"][0]
