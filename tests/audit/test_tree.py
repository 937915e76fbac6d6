"""The tree follows the records, and an older or changed database contradicts its witness."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.merkle import Tree, leaf_hash, verify_consistency, verify_inclusion
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.witness import WitnessFile
from agtphost.audit.writer import GroupWriter
from agtphost.identity.key_history import HostKey, succeed
from agtphost.identity.keys import SigningKey
from agtphost.stores import MemoryStore, SQLiteStore, StoreError
from tests.audit.drafting import KEY, draft, group_writer, sealed, sqlite_store


def keeper(store: SQLiteStore | MemoryStore, folder: Path | None = None, key: SigningKey = KEY) -> TreeKeeper:
    witnesses = () if folder is None else (WitnessFile(folder / "checkpoint.txt", [KEY.public]),)
    return TreeKeeper(store, "agtp.test", key, witnesses)


def writing(folder: Path) -> tuple[SQLiteStore, TreeKeeper, GroupWriter]:
    store = sqlite_store(folder)
    tree = keeper(store, folder)
    writer = group_writer(store, tree=tree)
    tree.check_witnesses()
    return store, tree, writer


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_record_is_in_the_tree(kind: str, tmp_path: Path) -> None:
    """Inclusion of each record and consistency of all checkpoints, in both stores, over several growths."""
    store = MemoryStore() if kind == "memory" else sqlite_store(tmp_path)
    tree = keeper(store)
    writer = group_writer(store, tree=tree)
    made: list[str] = []
    issued: list[Checkpoint] = []
    for count in (1, 3, 300, 2):
        made += [record.audit_id for record in sealed(writer, *(draft() for _ in range(count)))]
        latest = tree.catch_up()
        assert latest is not None and latest.size == len(made)
        issued.append(checkpoint.verify(latest.note, [KEY.public]))
    assert tree.catch_up() is None
    newest = issued[-1]
    reader = store.reader()
    row = reader.checkpoint() if isinstance(store, SQLiteStore) else store.checkpoint()
    assert row is not None and row.note == newest.note
    read = Tree(reader.tile, newest.size)
    for index in (0, 1, 3, 4, 255, 256, 303, 305):
        number = reader.number_of(made[index])
        assert number == index + 1
        verify_inclusion(index, newest.size, leaf_hash(bytes.fromhex(made[index])), read.inclusion(index), newest.root)
    for earlier in issued:
        verify_consistency(earlier.size, earlier.root, newest.size, newest.root, read.consistency(earlier.size))


def test_both_lines_of_a_checkpoint_are_of_one_key(tmp_path: Path) -> None:
    """Where another key follows the host's, in the reactor's thread, while the ledger's thread signs a checkpoint."""
    old, new = SigningKey.generate(), SigningKey.generate()
    old.save(tmp_path / "signing.key")
    key = HostKey.of_host(tmp_path / "signing.key", tmp_path)
    store = sqlite_store(tmp_path)
    tree = keeper(store, key=key)

    class Digests(tuple[bytes, bytes]):
        def __iter__(self) -> Iterator[bytes]:  # Called after the first line was signed.
            key.follow(new, succeed(old, new, server_id="agtp.test", rotated_at="2026-07-01T00:00:00Z"))
            return super().__iter__()

    tree.state = lambda: Digests((bytes(32), bytes(32)))
    sealed(group_writer(store, tree=tree), draft())
    issued = tree.catch_up()
    assert issued is not None and key.kid == new.kid
    assert checkpoint.find_unsigned_line(issued, [old.public]) == ""
    assert checkpoint.state_of(checkpoint.verify(issued.note, [old.public]), [old.public]) is not None


def test_a_restart_goes_on_where_the_tree_ended(tmp_path: Path) -> None:
    """Records that no checkpoint covers when the process ends are in the next one."""
    store, tree, writer = writing(tmp_path)
    sealed(writer, draft(), draft())
    first = tree.catch_up()
    sealed(writer, draft())
    store.close()
    store, tree, writer = writing(tmp_path)
    sealed(writer, draft())
    second = tree.catch_up()
    assert first is not None and second is not None and (first.size, second.size) == (2, 4)
    proof = Tree(store.tile, 4).consistency(2)
    verify_consistency(2, first.root, 4, second.root, proof)


def test_an_older_copy_is_refused(tmp_path: Path) -> None:
    """T-RB: a restored backup lacks records that the witness has seen."""
    store, tree, writer = writing(tmp_path)
    sealed(writer, draft())
    tree.catch_up()
    store.close()
    shutil.copy(tmp_path / "records.sqlite3", tmp_path / "backup")
    store, tree, writer = writing(tmp_path)
    sealed(writer, draft())
    tree.catch_up()
    store.close()
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"records.sqlite3{suffix}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup", tmp_path / "records.sqlite3")
    with pytest.raises(StoreError, match="older copy was restored"):
        writing(tmp_path)
    # Taking the witness away as well is no way around.
    (tmp_path / "checkpoint.txt").unlink()
    with pytest.raises(StoreError, match=r"is not there, and the store has a checkpoint of 1 records.*accept-store"):
        writing(tmp_path)
    # The control: who brings back an older witness with it is not noticed; hence the warning at each start.
    row = sqlite_store(tmp_path).checkpoint()
    assert row is not None
    (tmp_path / "checkpoint.txt").write_text(row.note)
    writing(tmp_path)[0].close()


def test_the_witness_is_there_before_the_first_record(tmp_path: Path) -> None:
    """A crash between the first checkpoint and its note leaves no store without a witness: one of nothing is first."""
    store, tree, writer = writing(tmp_path)
    note = (tmp_path / "checkpoint.txt").read_text()
    assert checkpoint.verify(note, [KEY.public]).size == 0
    sealed(writer, draft())
    store.close()
    store, tree, writer = writing(tmp_path)
    sealed(writer, draft())
    tree._witnesses = ()  # As if the process died before it told them.
    tree.catch_up()
    store.close()
    writing(tmp_path)[0].close()


def test_a_witness_that_cannot_be_written_is_said_at_start(tmp_path: Path) -> None:
    """And not when its first checkpoint is due."""
    store = sqlite_store(tmp_path)
    tree = TreeKeeper(store, "agtp.test", KEY, [WitnessFile(tmp_path / "none" / "checkpoint.txt", [KEY.public])])
    group_writer(store, tree=tree)
    with pytest.raises(StoreError, match=r"none/checkpoint\.txt cannot be written"):
        tree.check_witnesses()


def test_an_older_copy_that_went_on_is_refused(tmp_path: Path) -> None:
    """A fork: as many records as the witness has seen, but others."""
    store, tree, writer = writing(tmp_path)
    sealed(writer, draft(), draft())
    tree.catch_up()
    store.close()
    seen = (tmp_path / "checkpoint.txt").read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    store, tree, writer = writing(other)
    sealed(writer, draft(), draft(), draft())
    tree.catch_up()
    store.close()
    (other / "checkpoint.txt").write_bytes(seen)
    with pytest.raises(StoreError, match="not those that"):
        writing(other)


def test_a_database_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    """Its own checkpoint covers more records than there are."""
    store, tree, writer = writing(tmp_path)
    sealed(writer, draft(), draft(), draft())
    tree.catch_up()
    store.close()
    with sqlite3.connect(tmp_path / "records.sqlite3") as database:
        database.execute("DELETE FROM record WHERE number = 3")
    database.close()
    with pytest.raises(StoreError, match=r"records are missing|the newest record is 2"):
        writing(tmp_path)


@pytest.mark.parametrize("damage", ["another key", "cut", "a bit", "not text"])
def test_a_witness_that_cannot_be_believed_keeps_the_host_from_starting(damage: str, tmp_path: Path) -> None:
    """Fail closed: whoever can write the database must not get by with spoiling the witness."""
    store, tree, writer = writing(tmp_path)
    sealed(writer, draft())
    tree.catch_up()
    store.close()
    file = tmp_path / "checkpoint.txt"
    note = file.read_text()
    if damage == "another key":
        file.write_text(checkpoint.issue("agtp.test", 1, bytes(32), SigningKey.generate()).note)
    elif damage == "cut":
        file.write_text(note[:30])
    elif damage == "a bit":
        file.write_text(note.replace("\n1\n", "\n0\n", 1))
    else:
        file.write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match="witness file"):
        writing(tmp_path)


def test_checkpoints_are_due_by_count_and_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load nothing waits for an idle moment."""
    clock = [100.0]
    store = MemoryStore()
    tree = TreeKeeper(store, "agtp.test", KEY, now=lambda: clock[0])
    writer = group_writer(store, tree=tree)
    assert not tree.due
    sealed(writer, draft())
    assert not tree.due
    clock[0] += 61
    assert tree.due
    tree.catch_up()
    assert not tree.due
    monkeypatch.setattr("agtphost.audit.tree.MOST_WAITING", 2)
    sealed(writer, draft(), draft())
    assert tree.due


def test_it_is_told_for_how_long_records_wait() -> None:
    """From the first record that no checkpoint covers, however long the host had nothing to do before."""
    clock = [100.0]
    tree = TreeKeeper(MemoryStore(), "agtp.test", KEY, now=lambda: clock[0])
    writer = group_writer(tree._store, tree=tree)  # type: ignore[arg-type]
    assert (tree.records, tree.checkpoint_age()) == (0, None)
    sealed(writer, draft())
    clock[0] += 3
    sealed(writer, draft())
    assert (tree.records, tree.checkpoint_age()) == (2, 3.0)
    tree.catch_up()
    clock[0] += 10_000
    assert tree.checkpoint_age() == 0
    sealed(writer, draft())
    clock[0] += 1
    assert (tree.records, tree.checkpoint_age()) == (3, 1.0)


def test_a_failed_checkpoint_leaves_the_tree_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one covers what this one should have."""
    store, tree, writer = writing(tmp_path)
    sealed(writer, draft())
    with monkeypatch.context() as patch:
        patch.setattr(store, "put_checkpoint", lambda row: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            tree.catch_up()
    sealed(writer, draft())
    issued = tree.catch_up()
    assert issued is not None and issued.size == 2 and store.tile(0, 0) != b""


def test_a_ledger_that_is_never_idle_makes_checkpoints_all_the_same(tmp_path: Path) -> None:
    """A reader who only polls makes a record each time: two seconds after the last checkpoint one is due."""
    clock = [1_795_000_000.0]
    store = sqlite_store(tmp_path)
    tree = TreeKeeper(store, "agtp.test", KEY, now=lambda: clock[0])
    writer = group_writer(store, tree=tree)
    made = []
    for _ in range(100):
        clock[0] += 0.1
        sealed(writer, draft())
        if tree.due:
            assert tree.catch_up() is not None
            made.append(clock[0])
    assert len(made) in (4, 5)
    assert max(later - earlier for earlier, later in itertools.pairwise(made)) < 2.2
    assert not tree.due, "the control: nothing waits long enough"
