"""The commands on a store whose tables were changed: findings with table and row, and never a traceback."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agtphost.identity.keys import SigningKey
from tests.audit.rich_store import write_rich_store
from tests.audit.table_mutations import loosen, tighten
from tests.cli.conftest import Run

GROUPS = 12


@pytest.fixture
def rich(folder: Path) -> Path:
    """The deployment's store, with something in every table, and its witness file."""
    path = folder / "state" / "agtphost.sqlite3"
    key = SigningKey.load(folder / "state" / "signing.key")
    write_rich_store(path, folder / "state" / "checkpoint.txt", key, "localhost", groups=GROUPS)
    return path


def changed(path: Path, *statements: str) -> None:
    schema = loosen(path)
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            assert database.execute(statement).rowcount > 0, statement
    tighten(path, schema)


def found(run: Run, *words: str) -> set[tuple[str, str]]:
    """Table and row of each fault; the command ends with status 4, as an answer and without a traceback."""
    result = run("audit", "verify", *words, "--json")
    assert result.exit_code == 4 and isinstance(result.exception, SystemExit), result.output
    return {(fault.get("table", ""), fault.get("row", "")) for fault in json.loads(result.stdout)["faults"]}


def test_a_store_with_something_in_every_table_verifies(run: Run, rich: Path) -> None:
    """The control."""
    result = run("audit", "verify")
    assert result.exit_code == 0, result.output


def test_tables_that_are_not_there_are_named(run: Run, rich: Path) -> None:
    """Records, tables and the witness file are then left alone: one fault for each, and no traceback."""
    with closing(sqlite3.connect(rich)) as database:
        database.executescript("DROP TABLE record; DROP TABLE checkpoint; DROP TABLE lifecycle")
    rows = {row for table, row in found(run) if table == "sqlite_schema"}
    assert rows >= {"table record", "table checkpoint", "table lifecycle"}


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE record SET caller = X'' WHERE number = 2", ("record", "2")),
        ("UPDATE record SET method = CAST(X'FF' AS TEXT) WHERE number = 6", ("record", "6")),
        ("UPDATE record SET signed = NULL WHERE number = 7", ("record", "7")),
        ("UPDATE record SET number = 4611686018427387904 WHERE number = 8", ("record", "8")),
        ("UPDATE chain SET agent_id = 'text' WHERE number = 1", ("chain", "1")),
        ("UPDATE tile SET hashes = 'text'", ("tile", "0 0")),
        ("UPDATE checkpoint SET note = NULL", ("checkpoint", "48")),
        ("UPDATE checkpoint SET size = 4611686018427387000 WHERE size > 55", ("checkpoint", "4611686018427387000")),
        ("UPDATE keyed SET keys = 'many' WHERE owner = X''", ("keyed", "(empty)")),
        ("UPDATE lifecycle SET status = CAST(X'FF' AS TEXT)", None),
        ("UPDATE held SET value = 'no json'", None),
        # The same octets as before, so no digest differs.
        ("UPDATE lifecycle SET status = CAST(status AS BLOB)", ("lifecycle", "a1" * 32)),
    ],
)
def test_commands_name_table_and_row(
    run: Run, rich: Path, folder: Path, statement: str, named: tuple[str, str] | None
) -> None:
    """``audit verify`` names the row; status, export and backup end as commands do, whatever the row holds."""
    with closing(sqlite3.connect(rich)) as database:
        ((size,),) = database.execute("SELECT max(size) FROM checkpoint").fetchall()
    changed(rich, statement)
    if named is not None:
        table, row = named
        assert (table, str(size) if row == "48" else row) in found(run)
    commands = (
        ("status",),
        ("audit", "export", "--output", str(folder / "records.jsonl")),
        ("backup", "create", str(folder / "copy.tar")),
        ("lifecycle", "ls"),
    )
    for words in commands:
        result = run(*words)
        assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.exception)
        assert "Traceback" not in result.output
