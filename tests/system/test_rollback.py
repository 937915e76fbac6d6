"""A state that went back, a witness that is gone, a page that went bad: what the next start says, and the way out."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit import checkpoint
from agtphost.identity import jws
from agtphost.stores import RecordReader, open_store
from agtphost.stores.connection import connect
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID
from tests.programmes import sampled
from tests.stores.test_database_check import broken, middle
from tests.system.hosting import Host, agtp, free_port, running, sample, until
from tests.system.raw_link import RawLink
from tests.system.test_start_errors import refuses

WARNING = "lies in the state directory, and no other host witnesses the log"


def calls(host: Host, count: int) -> None:
    with RawLink(host) as link:
        for _ in range(count):
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200


def put_back(config: Path, copy: Path, *names: str) -> None:
    """Of an older copy of the state directory, these files."""
    state = config.parent / "state"
    for name in ("agtphost.sqlite3-wal", "agtphost.sqlite3-shm"):
        (state / name).unlink(missing_ok=True)
    for name in names:
        shutil.copy(copy / name, state / name)


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A deployment that ran twice, and a copy of its state directory from in between."""
    config = sample(tmp_path_factory.mktemp("rollback"))
    copy = config.parent.parent / "copy"
    for last in (False, True):
        with running(config) as host:
            until(lambda host=host: WARNING in host.output)  # type: ignore[misc]
            calls(host, 3)
        if not last:
            shutil.copytree(config.parent / "state", copy)
    return config, copy


def test_an_older_store_is_refused_with_and_without_its_witness(twice: tuple[Path, Path]) -> None:
    """Removing the witness is no way around; accepting it is, by name, and what was seen is kept."""
    config, copy = twice
    state = config.parent / "state"
    newest = (state / "checkpoint.txt").read_bytes()
    put_back(config, copy, "agtphost.sqlite3")
    refuses(config, ["older copy was restored", "agtp audit accept-store"])
    (state / "checkpoint.txt").unlink()
    refuses(config, ["checkpoint.txt is not there, and the store has a checkpoint", "agtp audit accept-store"])
    done = agtp("audit", "verify", cwd=config.parent)
    assert done.returncode == 4 and "is missing although the store has checkpoints" in done.stdout + done.stderr
    (state / "checkpoint.txt").write_bytes(newest)
    looked = agtp("audit", "accept-store", cwd=config.parent)
    assert looked.returncode != 0 and "nothing was changed" in looked.stderr, looked
    assert (state / "checkpoint.txt").read_bytes() == newest
    done = agtp("audit", "accept-store", "--yes", "--reason", "a drill", cwd=config.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = state.glob("checkpoint.txt.*Z")
    assert kept.read_bytes() == newest
    with running(config) as host:
        calls(host, 1)
        events = [entry for entry in entries(host, "host") if entry["payload"].get("event_type") == "store-accepted"]
        assert len(events) == 1 and events[0]["verified"] and events[0]["kind"] == "event"
        said = events[0]["payload"]
        assert said["actor"]["uid"] == os.getuid() and said["actor"]["user"] and said["issued_at"]
        assert (said["reason"], said["witness"]["kept"]) == ("a drill", str(kept))
        seen = checkpoint.read(newest.decode())
        assert said["witness"]["seen"] == {"size": seen.size, "root": seen.root.hex()}
        assert said["accepted"]["size"] < seen.size and len(said["accepted"]["root"]) == 64
        beside = host.agtp("audit", "accept-store", "--yes")
        assert beside.returncode != 0 and f"another host, pid {host.process.pid}," in beside.stderr
    assert agtp("audit", "verify", cwd=config.parent).returncode == 0


def entries(host: Host, chain: str) -> list[dict[str, Any]]:
    """The newest records of a chain, verified by the command."""
    done = host.agtp("audit", "walk", chain, "--json", "-n", "500")
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def emptied(state: Path) -> None:
    """What is left of the store has no record, as if it had just been made."""
    for path in state.glob("agtphost.sqlite3*"):
        if path.suffix != ".reserve":
            path.unlink()
    open_store(f"sqlite:{state / 'agtphost.sqlite3'}", create=True).close()
    (state / "checkpoint.txt").unlink()


def production(tmp_path: Path) -> Path:
    """A production host's ``host.toml``."""
    port = str(free_port())
    done = agtp("init", str(tmp_path / "site"), "--production", "--server-id", "localhost", "--port", port)
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path / "site" / "host.toml"


@pytest.mark.parametrize("trace", sampled(["manifest.json", "agtphost.sqlite3.reserve"], 2))
def test_an_emptied_store_without_its_witness_is_no_new_host(tmp_path: Path, trace: str) -> None:
    """
    What a host leaves when it runs shows that there were records: refused, each trace alone; accepted on record.

    Where nothing of it is left it is a new host, and nobody can tell.
    """
    config = production(tmp_path)
    state = config.parent / "state"
    with running(config):
        pass
    with running(config):  # A second start of the same state, as it is, is none of this.
        pass
    emptied(state)
    for name in {"manifest.json", "agtphost.sqlite3.reserve"} - {trace}:
        (state / name).unlink()
    refuses(config, ["checkpoint.txt is not there, the store has no checkpoint", trace, "agtp audit accept-store"])
    done = agtp("audit", "accept-store", "--yes", cwd=config.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    with running(config):
        pass
    verified = agtp("audit", "verify", cwd=config.parent)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    (event,) = [row for row in stored(state) if row["event_type"] == "store-accepted"]
    assert event["accepted"] == {"size": 0} and event["witness"]["seen"] is None
    emptied(state)
    for name in ("manifest.json", "agtphost.sqlite3.reserve"):
        (state / name).unlink(missing_ok=True)
    with running(config):
        pass


def test_setting_up_again_is_on_record_and_starts(tmp_path: Path) -> None:
    """The first record of the new store says who did it and what was put aside."""
    config = production(tmp_path)
    state = config.parent / "state"
    with running(config):
        pass
    done = agtp("init", str(config.parent), "--production", "--again")
    assert done.returncode == 0, done.stdout + done.stderr
    with running(config):
        pass
    (event,) = [row for row in stored(state) if row["event_type"] == "store-accepted"]
    assert event["previous_audit_id"] == ZERO_AUDIT_ID
    assert event["actor"]["uid"] == os.getuid() and any("agtphost.sqlite3." in name for name in event["kept"])


def stored(state: Path) -> list[dict[str, Any]]:
    """The events of the host's own chain, read from the store."""
    reader = RecordReader(str(state / "agtphost.sqlite3"), connect)
    try:
        found = reader.walk("", None, 100)
    finally:
        reader.close()
    return [jws.parse_unverified(record.signed.decode()) for record in found if record.kind == "event"]


def test_a_witness_elsewhere_is_not_warned_of(tmp_path: Path) -> None:
    """On another disk it is what it should be."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    text = f'\n[audit]\nwitness = "{place}/checkpoint.txt"\n'
    config = sample(tmp_path)
    config.write_text(_with_witness(config.read_text(), text))
    with running(config) as host:
        assert WARNING not in host.output
        assert (place / "checkpoint.txt").exists()


def _with_witness(text: str, section: str) -> str:
    if "[audit]\n" not in text:
        return text + section
    return text.replace("[audit]\n", "[audit]\n" + section.split("[audit]\n")[1], 1)


def test_a_bad_page_is_told_at_start_and_by_verify(tmp_path: Path) -> None:
    """The records concerned, in the log and by the command; the host takes new records all the same."""
    config = sample(tmp_path)
    with running(config) as host:
        calls(host, 60)
    state = config.parent / "state"
    whole = tmp_path / "whole.sqlite3"
    (state / "agtphost.sqlite3").rename(whole)
    broken(whole, tmp_path, "record", middle)
    (tmp_path / "records.sqlite3").rename(state / "agtphost.sqlite3")
    with running(config) as host:
        until(lambda: "the store is damaged: record" in host.output)
        calls(host, 1)
    done = agtp("audit", "verify", cwd=config.parent)
    said = done.stdout + done.stderr
    assert done.returncode == 4 and "cannot be read" in said and "record " in said, said
