"""What only the SQLite store has: a file, its settings, its versions, and damage."""

from __future__ import annotations

import re
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from agtphost.stores import DamagedRecord, Selection, StoreError, open_reader, open_store, snapshot, upgrade
from agtphost.stores.connection import connect, uri_of
from agtphost.stores.dry_run_store import rehearse_store
from agtphost.stores.record_reader import FIND
from tests.audit.drafting import ALICE, draft, group_writer, sealed, sqlite_store
from tests.rows import each_row


def url(folder: Path) -> str:
    return f"sqlite:{folder / 'records.sqlite3'}"


def test_the_file_and_its_log_are_for_the_owner_alone(tmp_path: Path) -> None:
    """Mode 0600, whatever the umask says (T-KY)."""
    store = sqlite_store(tmp_path)
    sealed(group_writer(store), draft())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600} and len(modes) == 3, modes


def test_the_settings_that_durability_rests_on(tmp_path: Path) -> None:
    """WAL, synchronous=FULL, foreign keys and a bounded log, read back from the connection in use."""
    connection = sqlite_store(tmp_path)._connection
    expected = {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
        "journal_size_limit": 64 * 1024 * 1024,
        "wal_autocheckpoint": 3072,
    }
    for name, value in expected.items():
        assert connection.execute(f"PRAGMA {name}").fetchone()[0] == value, name


def test_what_undoes_a_statement_of_many_rows_is_kept_in_memory(tmp_path: Path) -> None:
    """Not in a file that is made and removed with every commit; and it undoes such a statement."""
    store = sqlite_store(tmp_path)
    connection = store._connection
    assert connection.execute("PRAGMA temp_store").fetchone()[0] == 2
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO checkpoint (size, issued_at, note) VALUES (3, 1, 'a')")
    rows = ",".join(f"({size}, 1, '{'b' * 3000}')" for size in (*range(10, 90), 3))
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(f"INSERT INTO checkpoint (size, issued_at, note) VALUES {rows}")
    connection.execute("COMMIT")
    assert connection.execute("SELECT size FROM checkpoint").fetchall() == [(3,)]


def test_a_missing_store_is_not_made_by_accident(tmp_path: Path) -> None:
    """Where a store is expected, an empty one would hide a loss (T-RB)."""
    with pytest.raises(StoreError, match="does not exist"):
        open_store(url(tmp_path), create=False)
    assert list(tmp_path.iterdir()) == []
    open_store(url(tmp_path), create=True).close()
    open_store(url(tmp_path), create=False).close()


@each_row("bad", ["", "sqlite:", "postgresql://x/y", "records.sqlite3"])
def test_another_url_is_refused(bad: str) -> None:
    """Only ``sqlite:PATH`` names a file."""
    with pytest.raises(StoreError, match="names no file"):
        open_store(bad, create=True)


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    """The error is the store's own, with the path."""
    with pytest.raises(StoreError, match="absent"):
        open_store(url(tmp_path / "absent"), create=True)


def test_a_later_schema_is_left_alone(tmp_path: Path) -> None:
    """A database of a newer program is refused, not touched."""
    open_store(url(tmp_path), create=True).close()
    with sqlite3.connect(tmp_path / "records.sqlite3") as connection:
        connection.execute(f"PRAGMA user_version={upgrade.latest() + 1}")
    with pytest.raises(StoreError, match="schema version"):
        open_store(url(tmp_path), create=True)


@pytest.mark.parametrize("version", [0, *range(upgrade.first(), upgrade.INDEXED - 1)])
def test_a_number_that_was_lowered_is_told_from_an_earlier_schema(tmp_path: Path, version: int) -> None:
    """No start brings such a database up to date: the message names the version that its tables are of."""
    open_store(url(tmp_path), create=True).close()
    damage(tmp_path, f"PRAGMA user_version={version}")
    before = (tmp_path / "records.sqlite3").read_bytes()
    said = f"schema version is {version}, and has the tables of version {upgrade.latest()}: its number was changed"
    for use in (lambda: open_reader(url(tmp_path)), lambda: open_store(url(tmp_path), create=False)):
        with pytest.raises(StoreError, match=said) as refused:
            use()
        assert f"PRAGMA user_version={upgrade.latest()}" in str(refused.value)
    assert (tmp_path / "records.sqlite3").read_bytes() == before


@pytest.mark.parametrize("content", ["CREATE TABLE theirs (a)", "PRAGMA user_version=1"])
def test_another_programs_database_is_left_alone(tmp_path: Path, content: str) -> None:
    """Only an empty file or one of ours is used."""
    with sqlite3.connect(tmp_path / "records.sqlite3") as connection:
        connection.execute(content)
    with pytest.raises(StoreError, match="another program"):
        open_store(url(tmp_path), create=True)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """Garbage is an error of the store, not of SQLite."""
    (tmp_path / "records.sqlite3").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="cannot be used"):
        open_store(url(tmp_path), create=True)


def test_a_step_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema version applies whole or not at all."""
    broken = tmp_path / "0009_broken.sql"
    broken.write_text("CREATE TABLE one (a);\nCREATE TABLE one (a);\n")
    monkeypatch.setattr(upgrade, "steps", lambda: [broken])
    with pytest.raises(StoreError, match="its tables are not those of a store"):
        open_store(url(tmp_path), create=True)
    with sqlite3.connect(tmp_path / "records.sqlite3") as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)


def make_development_store(path: Path, version: int) -> None:
    """A store as a version before the first release left it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE record (number INTEGER PRIMARY KEY)")
        connection.execute(f"PRAGMA application_id={upgrade.APPLICATION}")
        connection.execute(f"PRAGMA user_version={version}")


@pytest.mark.parametrize("version", [1, 8])
def test_a_store_of_a_development_version_is_refused(tmp_path: Path, version: int) -> None:
    """By a start, a rehearsal, a command and a backup: each says what to do, and nothing is changed."""
    path = tmp_path / "records.sqlite3"
    make_development_store(path, version)
    before = path.read_bytes()
    for use in (
        lambda: open_store(url(tmp_path), create=False),
        lambda: open_reader(url(tmp_path)),
        lambda: rehearse_store(path, create=False, aside=tmp_path),
        lambda: snapshot.take(path, tmp_path / f"copy-{version}"),
    ):
        with pytest.raises(
            StoreError, match=rf"{path} .*version {version}, of a development.*audit export.*--again.*move"
        ):
            use()
    assert path.read_bytes() == before


def test_schema_files_are_numbered_by_their_versions() -> None:
    """One makes the first version; each later one leads to the next."""
    numbers = [upgrade.number_of(step) for step in upgrade.steps()]
    assert numbers == list(range(upgrade.first(), upgrade.latest() + 1)) and upgrade.first() == 9


def test_a_later_step_changes_a_store_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of the first version gets what it lacks, once; a new one comes to the same."""
    step = tmp_path / f"{upgrade.latest() + 1:04}_more.sql"
    step.write_text("ALTER TABLE chain ADD COLUMN more INTEGER NOT NULL DEFAULT 7; -- more\n")
    for folder in (tmp_path / "old", tmp_path / "new"):
        folder.mkdir()
    store = open_store(url(tmp_path / "old"), create=True)
    store.chain_number(ALICE)
    store.close()
    steps = [*upgrade.steps(), step]
    monkeypatch.setattr(upgrade, "steps", lambda: steps)
    with pytest.raises(StoreError, match="start the host once"):
        open_reader(url(tmp_path / "old"))
    for folder, rows in ((tmp_path / "old", [(7,)]), (tmp_path / "new", []), (tmp_path / "old", [(7,)])):
        open_store(url(folder), create=folder.name == "new").close()
        with sqlite3.connect(folder / "records.sqlite3") as connection:
            assert connection.execute("SELECT more FROM chain").fetchall() == rows
            assert connection.execute("PRAGMA user_version").fetchone() == (upgrade.latest(),)


def test_every_column_has_a_comment() -> None:
    """The schema files explain themselves."""
    for step in upgrade.steps():
        for line in step.read_text().splitlines():
            if re.match(r"    [a-z_]+ (INTEGER|BLOB|TEXT)\b", line):
                assert " -- " in line, line


def damage(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / "records.sqlite3") as connection:
        connection.execute(statement)


def test_a_damaged_record_is_an_error_and_never_missing(tmp_path: Path) -> None:
    """Each read hashes again: by Audit-ID, at the head, on a walk and in an export (T-RB-10)."""
    store = sqlite_store(tmp_path)
    one, two = sealed(group_writer(store), draft(), draft())
    reader = store.reader()
    damage(tmp_path, "UPDATE record SET signed = CAST(signed || 'x' AS BLOB) WHERE seq = 2")
    assert reader.record(one.audit_id) is not None
    for read in (
        lambda: reader.record(two.audit_id),
        lambda: reader.head(ALICE),
        lambda: reader.walk(ALICE, None, 5),
        lambda: list(reader.records(Selection())),
        store.heads,
    ):
        with pytest.raises(DamagedRecord):
            read()


def test_a_lost_predecessor_is_damage(tmp_path: Path) -> None:
    """A record whose predecessor is gone is not shown as the first of its chain."""
    store = sqlite_store(tmp_path)
    _, two = sealed(group_writer(store), draft(), draft())
    damage(tmp_path, "DELETE FROM record WHERE seq = 1")
    with pytest.raises(DamagedRecord, match="predecessor"):
        store.reader().record(two.audit_id)


def test_an_unknown_kind_is_damage(tmp_path: Path) -> None:
    """Numbers that mean nothing are not guessed at."""
    store = sqlite_store(tmp_path)
    sealed(group_writer(store), draft())
    damage(tmp_path, "UPDATE record SET kind = 7")
    with pytest.raises(DamagedRecord):
        store.reader().head(ALICE)


def test_readers_cannot_write(tmp_path: Path) -> None:
    """The reading side's connections are read-only twice over."""
    store = sqlite_store(tmp_path)
    sealed(group_writer(store), draft())
    with pytest.raises(sqlite3.OperationalError, match=r"readonly|query_only|read-only"):
        store.reader()._rows("DELETE FROM record")


def test_reading_a_store_that_no_host_has_open(tmp_path: Path) -> None:
    """Offline, with neither log nor index beside the file, records are read all the same."""
    store = sqlite_store(tmp_path)
    (one,) = sealed(group_writer(store), draft())
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["records.sqlite3"]
    reader = open_reader(url(tmp_path))
    assert reader.record(one.audit_id) is not None
    assert reader.faults() == []
    reader.close()


def test_only_a_store_of_this_version_is_read(tmp_path: Path) -> None:
    """Missing, empty, foreign and later files are errors that name the file."""
    with pytest.raises(StoreError, match="does not exist"):
        open_reader(url(tmp_path))
    path = tmp_path / "records.sqlite3"
    path.touch()
    with pytest.raises(StoreError, match="version 0"):
        open_reader(url(tmp_path))
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="cannot be read"):
        open_reader(url(tmp_path))
    path.unlink()
    open_store(url(tmp_path), create=True).close()
    damage(tmp_path, "PRAGMA user_version=99")
    with pytest.raises(StoreError, match="version 99"):
        open_reader(url(tmp_path))


def test_many_threads_read_while_one_writes(tmp_path: Path) -> None:
    """Reads have connections of their own, see whole transactions only, and give them back."""
    store = sqlite_store(tmp_path)
    writer = group_writer(store)
    sealed(writer, *[draft() for _ in range(10)])
    reader = store.reader()
    failures: list[object] = []

    def read() -> None:
        for _ in range(30):
            seen = [record.seq for record in reader.walk(ALICE, None, 10_000)]
            if len(seen) % 10 or seen != list(range(len(seen), 0, -1)):
                failures.append(seen)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        sealed(writer, *[draft() for _ in range(10)])
    for thread in threads:
        thread.join()
    assert failures == []
    assert 1 <= len(reader._idle) <= 4
    reader.close()
    assert reader._idle == []


def test_the_log_stays_bounded(tmp_path: Path) -> None:
    """Under load the log is folded in every 8 MiB (P15: 64 MiB at most)."""
    store = sqlite_store(tmp_path)
    writer = group_writer(store)
    writer._signer._signer = None
    writer._signer._protected = b"e30"
    most = 0
    for _ in range(60):
        sealed(writer, *[draft(path="/" + "x" * 3000) for _ in range(60)])
        most = max(most, (tmp_path / "records.sqlite3-wal").stat().st_size)
    assert (tmp_path / "records.sqlite3").stat().st_size > 10_000_000
    assert most < 16 * 1024 * 1024


def test_audit_ids_are_found_across_runs_of_the_index(tmp_path: Path) -> None:
    """
    The Audit-ID index is in runs of 512 records, 32 runs a span: first, last and edges of each are found, by index.

    So is a record whose number is far beyond the others, as damage may leave it.
    """
    store = sqlite_store(tmp_path)
    store.begin()
    chain = store.chain_number(ALICE)
    store.commit()
    numbers = (*range(1, 1538), *range(16_000, 17_000), 2**40)
    with sqlite3.connect(tmp_path / "records.sqlite3") as connection:
        connection.executemany(
            "INSERT INTO record VALUES (?, ?, ?, ?, ?, 0, 0, 1, 200, '', '', x'', x'00', '', '', 1)",
            [(n, chain, n, n.to_bytes(32, "little"), n - 1) for n in numbers],
        )
    for number in (1, 511, 512, 513, 1023, 1024, 1025, 1537, 16_000, 16_383, 16_384, 16_385, 16_999, 2**40):
        assert store.holds(number.to_bytes(32, "little")), number
    for number in (1538, 15_999, 17_000, 2**40 - 1):
        assert not store.holds(number.to_bytes(32, "little")), number
    plan = str(connect(uri_of(str(store.path), "ro")).execute(f"EXPLAIN QUERY PLAN {FIND}", (b"x", b"x")).fetchall())
    assert "record_audit_id" in plan
