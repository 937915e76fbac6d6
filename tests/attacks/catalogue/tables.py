"""Tables of the store that decide, changed by somebody who can write the file."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.attacks.attack import Attack, Target
from tests.attacks.catalogue.ledger import DATABASE, SEED, _copy, _start, await_checkpoint
from tests.attacks.strikes import turns
from tests.audit.table_mutations import unindex
from tests.system.hosting import agtp
from tests.system.raw_link import RawLink, client_context, request

CHANGES = (
    ("record", "UPDATE record SET status = 200 + 403 * (status = 200) WHERE number = {number}"),
    ("record", "UPDATE record SET caller = randomblob(32) WHERE number = {number}"),
    ("record", "UPDATE record SET path = CAST(X'FF' AS TEXT) WHERE number = {number}"),
    ("record", "UPDATE record SET issued_at = issued_at - 86400000 WHERE number = {number}"),
    ("record", "UPDATE record SET number = number + 1048576 WHERE number = {number}"),
    ("chain", "UPDATE chain SET agent_id = randomblob(32) WHERE number = 1"),
    ("chain", "DELETE FROM chain WHERE number = 1"),
    ("tile", "UPDATE tile SET hashes = randomblob(length(hashes)) WHERE level = 0 AND number = 0"),
    ("checkpoint", "UPDATE checkpoint SET note = note || 'x' WHERE size = (SELECT min(size) FROM checkpoint)"),
    ("reservation", "UPDATE reservation SET result = randomblob(length(result)) WHERE record > 0"),
    ("keyed", "UPDATE keyed SET keys = keys + 1 WHERE owner <> X''"),
    ("sqlite_schema", "CREATE TRIGGER added AFTER INSERT ON record BEGIN DELETE FROM lifecycle; END"),
    ("sqlite_schema", "DROP TABLE state_change"),
)
"""A table, and a change in it."""

UNINDEXED = (
    ("reservation", "record > 0"),
    ("record", "number = (SELECT max(number) FROM record)"),
)
"""A table, and which of its rows is taken out of its indexes."""


def _calls(target: Target) -> None:
    """Calls, one of them keyed, so that there is something to change."""
    with RawLink(target, context=client_context(target, agent="other"), source="127.0.3.1") as link:
        for number in range(3):
            given = {"recipient": "operator", "content": {"text": "a"}}
            link.send(request("NOTIFY", "/", given, Idempotency_Key=f"changed-{number}"))
            answer = link.answer()
            assert answer is not None and answer.status in (200, 202, 409, 429), answer


def changed_tables(target: Target, seconds: float) -> None:
    """
    A change in a copy of the store: verification names its table.

    Without a chain, with a trigger, or with a row that its index lacks, there is no start.
    """
    _calls(target)
    await_checkpoint(target)
    chance = random.Random(SEED)
    with _copy(target) as config:
        database = config.parent / target.state.relative_to(target.config.parent) / DATABASE
        whole = database.read_bytes()
        for turn in turns(seconds, most=2 * len(CHANGES)):
            _changed(database, whole, chance, turn)
        _apply(database, whole, "DELETE FROM chain WHERE number = 1")
        status, said = _start(config)
        assert status == 1 and "table chain, row 1: is not there" in said, (status, said[-800:])
        _apply(database, whole, "CREATE TRIGGER added AFTER INSERT ON held BEGIN DELETE FROM held; END")
        status, said = _start(config)
        assert status == 1 and "row trigger added: was added" in said, (status, said[-800:])
        for table, condition in UNINDEXED:
            _apply(database, whole, "DELETE FROM probe")
            unindex(database, table, condition)
            status, said = _start(config)
            assert status == 1 and f"table {table}, row " in said and " index" in said, (table, status, said[-800:])


def _changed(database: Path, whole: bytes, chance: random.Random, turn: int) -> None:
    with closing(sqlite3.connect(database)) as opened:
        (last,) = opened.execute("SELECT max(number) FROM record").fetchone()
    table, statement = CHANGES[(turn * 5) % len(CHANGES)]
    assert _apply(database, whole, statement.format(number=chance.randint(1, last))), f"nothing changed: {statement}"
    done = agtp("audit", "verify", "--json", cwd=database.parent.parent)
    said = done.stdout + done.stderr
    assert "Traceback" not in said and done.returncode == 4, (SEED, turn, statement, said[-800:])
    named = {fault.get("table") for fault in json.loads(done.stdout)["faults"]}
    assert table in named, (SEED, turn, statement, said[-800:])


def _apply(database: Path, whole: bytes, statement: str) -> int:
    """Change the store as it was at first; how many rows were changed."""
    for log in ("-wal", "-shm"):
        database.with_name(database.name + log).unlink(missing_ok=True)
    database.write_bytes(whole)
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA journal_mode=DELETE")
        with opened:
            return opened.execute(statement).rowcount


ATTACKS = (
    Attack(
        name="changed-tables",
        who="operator",
        says="A value of a table that decides is changed in the file: verification names table and row.",
        run=changed_tables,
    ),
)
