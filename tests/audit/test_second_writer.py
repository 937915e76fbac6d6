"""
A writer that is not alone after all: what another one wrote counts from the next transaction on, whoever opens it.

Hosts lock their state, so this takes a program that does not ask. Sequence of
the fault that was seen: the checkpoint's transaction took the sign that the
store had moved and dropped it, the next group used old heads and failed, and
a checkpoint of fewer records put shorter tiles in place of longer ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from agtphost.audit.drafts import Change, Draft
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.merkle import Tree
from agtphost.audit.state import StateTable
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.verify import verify_records
from agtphost.stores import Selection, StoreError
from agtphost.stores.rows import CheckpointRow, ConflictError
from tests.audit.drafting import ALICE, KEY, KEYS, draft, group_writer, sealed, sqlite_store, transition


def deafen(store: Any) -> None:
    """The control: a store that never says that it moved."""
    begin = store.begin

    def never_moved() -> bool:
        begin()
        return False

    store.begin = never_moved


def pair(folder: Path, *, deaf: bool = False) -> list[Any]:
    """Two writers with a tree each, over one store; both have read it before either writes."""
    made = []
    for _ in range(2):
        store: Any = sqlite_store(folder)
        if deaf:
            deafen(store)
        tree = TreeKeeper(store, "agtp.test", KEY)
        made.append((group_writer(store, tree=tree), tree))
    return made


def repeat(work: Callable[[], Any]) -> Any:
    """Call a function, and again after a conflict, as the ledger does: some stores learn at the end that they moved."""
    try:
        return work()
    except ConflictError:
        return work()


def play(folder: Path, *, deaf: bool = False) -> list[int]:
    """The sequence of the fault; sizes of the checkpoints that were issued."""
    (here, tree), (there, other) = pair(folder, deaf=deaf)
    issued = []
    sealed(here, draft(), draft())
    repeat(lambda: sealed(there, *(draft() for _ in range(140))))
    issued.append(other.catch_up())
    # Moved since: told to the checkpoint, and not to the group after it.
    issued.append(repeat(tree.catch_up))
    sealed(here, draft())
    issued.append(tree.catch_up())
    repeat(lambda: sealed(there, draft()))
    other.keep_cosignatures()
    issued.append(other.catch_up())
    return [point.size for point in issued if point is not None]


def test_two_writers_make_one_log(tmp_path: Path) -> None:
    """Nothing fails, checkpoints only grow, every one is true of all records, and the chains verify."""
    sizes = play(tmp_path)
    assert sizes == sorted(set(sizes)) and sizes[-1] == 144
    reader = sqlite_store(tmp_path).reader()
    newest = reader.checkpoint()
    assert newest is not None and newest.size == 144
    Tree(reader.tile, 144).root()
    assert verify_records(reader.records(Selection()), KEYS).ok


def test_the_control_fails(tmp_path: Path) -> None:
    """A store that keeps quiet about the other writer: the sequence above breaks."""
    with pytest.raises(Exception, match=r"UNIQUE|unique constraint|checkpoint"):
        play(tmp_path, deaf=True)


def test_a_stale_checkpoint_is_not_issued(tmp_path: Path) -> None:
    """Even where nobody said that the store moved: the newest checkpoint is read again, and tiles never shrink."""
    (here, tree), (there, other) = pair(tmp_path, deaf=True)
    sealed(here, draft())
    there.load()
    sealed(there, *(draft() for _ in range(60)))
    other.catch_up()
    store = sqlite_store(tmp_path)
    before = store.tile(0, 0)
    with pytest.raises(StoreError, match="this host did not write"):
        tree.catch_up()
    store.put_tiles({(0, 0): before[:64]})
    assert store.tile(0, 0) == before and store.checkpoint() is not None
    row = store.checkpoint()
    assert isinstance(row, CheckpointRow) and row.size == 61


@pytest_twisted.ensureDeferred
async def test_gates_and_held_items_hear_of_it(tmp_path: Path) -> None:
    """With the next group of its own, the ledger takes over lifecycle states and state items of the other writer."""
    lifecycle, held = LifecycleTable(), StateTable()
    ledger = Ledger(
        sqlite_store(tmp_path),
        KEY,
        reactor,
        server_id="agtp.test",
        lifecycle=lifecycle,
        held=held,  # type: ignore[arg-type]
    )
    ledger.start()
    try:
        await ledger.submit(draft())
        stopping = transition(None, "retired")
        stopping.changes = (Change(kind="escalation", key="1", value={"a": 1}),)
        sealed(group_writer(sqlite_store(tmp_path)), stopping)
        await ledger.submit(draft())
        state = lifecycle.find_recorded(ALICE)
        assert state is not None and state.is_stopped
        assert held.get("escalation", "1") is not None
    finally:
        await ledger.stop()


@pytest_twisted.ensureDeferred
async def test_its_own_work_is_no_other_writer(tmp_path: Path) -> None:
    """Folding the log, checkpoints and tidying go through connections of its own, and move nothing."""
    store = sqlite_store(tmp_path)
    told: list[str] = []
    ledger = Ledger(
        store,
        KEY,
        reactor,
        server_id="agtp.test",
        lifecycle=LifecycleTable(),  # type: ignore[arg-type]
        tree=TreeKeeper(store, "agtp.test", KEY),
    )
    ledger._report = lambda message, why: told.append(message)  # type: ignore[method-assign]
    ledger.start()
    try:
        for _ in range(40):
            await ledger.submit(Draft(chain=ALICE, payload=draft(note="x" * 100_000).payload))
        assert not told
    finally:
        await ledger.stop()
