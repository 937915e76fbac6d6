"""Several processes, one chain (P9): no fork, and nobody is refused."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from agtphost.audit.verify import Report, verify_records
from agtphost.stores import Selection, open_store, upgrade
from tests import forking
from tests.audit.drafting import ALICE
from tests.programmes import length

APPENDS = length(100, 2000)
"""Of each process."""

PROCESSES = 4
ROOT = Path(__file__).resolve().parents[2]


def race(database: Path, kind: str) -> int:
    """Let the processes append at once; returns how many appends were refused."""
    command = [sys.executable, Path(__file__).with_name("appender.py"), database, str(APPENDS), kind]
    environ, pipe = {**os.environ, "PYTHONPATH": str(ROOT)}, subprocess.PIPE
    children = [forking.start(command, env=environ, stdin=pipe, stdout=pipe, text=True) for _ in range(PROCESSES)]
    try:
        for child in children:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        return sum(int(child.communicate(timeout=length(100, 1000))[0]) for child in children)
    finally:
        for child in children:
            child.kill()
            child.wait()


def walked(database: Path) -> Report:
    store = open_store(f"sqlite:{database}", create=False)
    report = verify_records(store.reader().records(Selection()), {}, allow_unsigned=True)
    store.close()
    return report


@pytest.mark.programme
@pytest.mark.slow
def test_processes_share_a_chain_without_forks(tmp_path: Path) -> None:
    """Every append takes its turn: no fork, no gap, no refusal (T-FK-1, P9)."""
    database = tmp_path / "records.sqlite3"
    open_store(f"sqlite:{database}", create=True).close()
    assert race(database, "real") == 0
    report = walked(database)
    assert report.ok, report.faults[:3]
    assert report.heads[ALICE].seq == PROCESSES * APPENDS


@pytest.mark.release
@pytest.mark.slow
def test_reading_first_and_writing_later_is_caught(tmp_path: Path) -> None:
    """Controls: without UNIQUE such writers fork the chain; with it, the database refuses them."""
    loose = tmp_path / "loose.sqlite3"
    open_store(f"sqlite:{loose}", create=True).close()
    schema = upgrade.steps()[0].read_text()
    columns = schema[schema.index("CREATE TABLE record (") : schema.index("    UNIQUE (chain, seq)")]
    with sqlite3.connect(loose) as connection:
        connection.execute("DROP TABLE record")
        body = "\n".join(line.partition(" -- ")[0] for line in columns.splitlines())
        connection.execute(body.rstrip().rstrip(",") + ") STRICT")
        for step in upgrade.steps()[1:]:
            for statement in upgrade.statements(step.read_text()):
                if "ALTER TABLE record" in statement:
                    connection.execute(statement)
        connection.execute("INSERT INTO chain (agent_id) VALUES (?)", (bytes.fromhex(ALICE),))
    race(loose, "naive")
    with sqlite3.connect(loose) as connection:
        forks = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM record GROUP BY chain, previous HAVING count(*) > 1)"
        ).fetchone()[0]
    assert forks > 0

    strict = tmp_path / "strict.sqlite3"
    open_store(f"sqlite:{strict}", create=True).close()
    with sqlite3.connect(strict) as connection:
        connection.execute("INSERT INTO chain (agent_id) VALUES (?)", (bytes.fromhex(ALICE),))
    assert race(strict, "naive") > 0
    assert walked(strict).ok
