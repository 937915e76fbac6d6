"""kill -9 of a ledger under load (P5): nothing acknowledged is lost, the chain goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agtphost.audit.verify import verify_records
from agtphost.identity.keys import VerifyingKey
from agtphost.stores import Selection, open_store
from tests.programmes import length

KILLS = length(24, 2000)
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def forking() -> Iterator[tuple[subprocess.Popen[str], dict[str, VerifyingKey]]]:
    """The process that forks ledgers."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.forked_ledgers"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        key = VerifyingKey.from_text(process.stdout.readline().removeprefix("key "))
        yield process, {key.kid: key}
    finally:
        process.kill()
        process.communicate()


def live_and_die(process: subprocess.Popen[str], database: Path, kind: str, seconds: float) -> list[str]:
    """One ledger, killed so long after its first answer; returns what it acknowledged."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{database} {kind}\n")
    process.stdin.flush()
    child = 0
    acknowledged: list[str] = []
    deadline = 0.0
    for line in process.stdout:
        word, _, value = line.rstrip("\n").partition(" ")
        if word == "gone":
            return acknowledged
        if word == "child":
            child = int(value)
        else:
            acknowledged.append(value)
            deadline = deadline or time.monotonic() + seconds
        if child and deadline and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            deadline = float("inf")
    raise AssertionError("the process that forks ended")


def lost(database: Path, keys: dict[str, VerifyingKey], acknowledged: list[str]) -> int:
    """How many acknowledged records are missing; the chain itself has to be whole in any case."""
    store = open_store(f"sqlite:{database}", create=False)
    reader = store.reader()
    found = list(reader.records(Selection()))
    reader.close()
    store.close()
    assert verify_records(found, keys).faults == []
    return len(set(acknowledged) - {record.audit_id for record in found})


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + 2 * KILLS)
def test_killing_the_ledger_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Dozens of kills on one database: every acknowledged record is there, one chain, no fault (P5)."""
    chance = random.Random(5)
    database = tmp_path / "records.sqlite3"
    acknowledged: list[str] = []
    with forking() as (process, keys):
        for _ in range(KILLS):
            acknowledged += live_and_die(process, database, "real", chance.uniform(0.0, 0.06))
    assert lost(database, keys, acknowledged) == 0
    assert len(acknowledged) > KILLS


@pytest.mark.release
@pytest.mark.slow
def test_a_ledger_that_answers_before_the_commit_is_caught(tmp_path: Path) -> None:
    """The control: the same kills show losses when the answer goes out first."""
    chance = random.Random(6)
    database = tmp_path / "records.sqlite3"
    acknowledged: list[str] = []
    with forking() as (process, keys):
        for _ in range(8):
            acknowledged += live_and_die(process, database, "hasty", chance.uniform(0.0, 0.02))
    assert lost(database, keys, acknowledged) > 0
