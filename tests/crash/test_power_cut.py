"""
Power cuts (P6): what was acknowledged is there, whole and linked, wherever power failed.

The store runs with its own SQL and settings on a disk that forgets what was
not synced.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import Change, ReservationKey, Sealed
from agtphost.audit.state_check import findings
from agtphost.audit.state_keeper import StateKeeper
from agtphost.audit.verify import verify_records
from agtphost.audit.writer import Claim, Entry, GroupWriter, Submission
from agtphost.stores import Selection, open_store
from agtphost.stores.connection import Connect, Connection
from tests.audit.drafting import ALICE, BOB, draft, group_writer, transition
from tests.crash.disk import Disk
from tests.programmes import length

CUTS = length(80, 5000)
CUTS_PER_RUN = 20


@dataclass
class Acknowledged:
    """What callers were told before the cut."""

    audit_ids: list[str] = field(default_factory=list)
    answered: list[ReservationKey] = field(default_factory=list)
    state: str | None = None


@dataclass
class Loss:
    """What a cut left behind that it should not have, summed over all cuts."""

    cuts: int = 0
    acknowledged: int = 0
    lost: int = 0
    unreadable: int = 0
    faults: int = 0


def inspect(folder: Path, told: Acknowledged, loss: Loss) -> None:
    """Open the copy with the standard driver, and compare it with what callers were told."""
    loss.cuts += 1
    loss.acknowledged += len(told.audit_ids)
    try:
        store = open_store(f"sqlite:{folder / 'records.sqlite3'}", create=False)
        reader = store.reader()
        faults = reader.faults()
        found = list(reader.records(Selection()))
    except Exception:
        loss.unreadable += 1
        loss.lost += len(told.audit_ids)
        return
    try:
        loss.faults += len(faults) + len(verify_records(found, {}, allow_unsigned=True).faults)
        loss.lost += len(set(told.audit_ids) - {record.audit_id for record in found})
        loss.faults += sum(1 for _ in findings(reader))
        claims: list[Entry] = [Claim(key, b"digest") for key in told.answered]
        try:
            # What a start does: it fails where the tables of state are not what the newest record signed.
            group_writer(store, states=StateKeeper(store, tuple)).write(claims)
        except Exception:
            loss.faults += 1
        loss.lost += sum(getattr(claim.outcome, "result", b"") != b"answer" for claim in claims)
        loss.lost += told.state is not None and ALICE not in store.lifecycle_states()
    finally:
        reader.close()
        store.close()


def load(writer: GroupWriter, told: Acknowledged, chance: random.Random) -> Iterator[None]:
    """Groups of every kind, for ever; acknowledged when they are durable, as far as the store says."""
    number = 0
    status = None
    while True:
        number += 1
        key = ReservationKey(agent_id=BOB, key=str(number))
        writer.write([Claim(key, b"digest")])
        keyed = draft(BOB, path="/" + "x" * chance.randrange(400))
        keyed.reservation, keyed.result = key, b"answer"
        entries = [Submission(draft()) for _ in range(chance.randrange(6))]
        entries.append(Submission(keyed))
        if number % 7 == 0:
            after = "active" if status == "suspended" else "suspended"
            entries.append(Submission(transition(status, after)))
            status = after
        if number % 3 == 0:
            plain, linked = draft(), draft()
            plain.changes = (Change(kind="quote", key=str(number % 12), value={"n": number}),)
            linked.changes = (Change(kind="approval", key="a", value={"n": number, "by": ""}, linked="by"),)
            entries += [Submission(plain), Submission(linked)]
        writer.write(entries)
        for entry in entries:
            assert isinstance(entry.outcome, Sealed), entry.outcome
            told.audit_ids.append(entry.outcome.audit_id)
            if entry.outcome.event is not None:
                told.audit_ids.append(entry.outcome.event.audit_id)
        told.answered.append(key)
        told.state = status
        if chance.random() < 0.05:
            writer.tidy()
        yield


def one_run(folder: Path, seed: int, cuts: int, safe: bool, loss: Loss) -> None:
    """Load a new store, and cut its power ``cuts`` times at random writes and syncs."""
    chance = random.Random(seed)
    disk = Disk()
    told = Acknowledged()
    done = 0
    waiting = chance.randrange(2, 60)

    def maybe_cut() -> None:
        nonlocal done, waiting
        waiting -= 1
        if waiting > 0 or done >= cuts:
            return
        waiting = chance.randrange(1, 60)
        copy = folder / f"cut{done}"
        copy.mkdir()
        disk.cut(copy, chance)
        done += 1
        inspect(copy, told, loss)

    opener: Connect = disk.connect if safe else lambda uri: Unsafe(disk.connect(uri))
    store = open_store(f"sqlite:{folder / 'records.sqlite3'}", create=True, opener=opener)
    writer = GroupWriter(store, RecordSigner(None), server_id="s", states=StateKeeper(store, tuple))
    writer.load()
    # The file's own creation is over before anybody is served.
    store.tidy()
    for journal in disk.journals.values():
        journal.sync()
    disk.on_write = maybe_cut
    steps = load(writer, told, chance)
    while done < cuts:
        next(steps)
    disk.on_write = lambda: None
    store.close()
    disk.unregister()


class Unsafe:
    """The control: a connection that turns ``synchronous=FULL`` into something weaker."""

    level = "NORMAL"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, statement: str, *parameters: object) -> object:
        weaker = statement.replace("synchronous=FULL", f"synchronous={self.level}")
        return self._connection.execute(weaker, *parameters)  # type: ignore[arg-type]

    def close(self) -> None:
        self._connection.close()


def suffer(folder: Path, cuts: int, *, safe: bool = True) -> Loss:
    loss = Loss()
    for run in range(-(-cuts // CUTS_PER_RUN)):
        place = folder / f"run{run}"
        place.mkdir()
        one_run(place, run, min(CUTS_PER_RUN, cuts - loss.cuts), safe, loss)
    return loss


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + CUTS)
def test_no_power_cut_loses_what_was_acknowledged(tmp_path: Path) -> None:
    """Every acknowledged record, state and result is there; no chain has a fault (P6, security invariant 1)."""
    loss = suffer(tmp_path, CUTS)
    assert (loss.lost, loss.unreadable, loss.faults) == (0, 0, 0), loss
    assert loss.cuts == CUTS and loss.acknowledged > 10 * CUTS


@pytest.mark.parametrize("level", ["NORMAL", "OFF"])
def test_a_store_that_does_not_wait_for_the_disk_is_caught(
    tmp_path: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with ``synchronous`` NORMAL or OFF the same cuts lose acknowledged records."""
    monkeypatch.setattr(Unsafe, "level", level)
    loss = suffer(tmp_path, 20, safe=False)
    assert loss.lost > 0, loss
