"""
What another process wrote, or a store that fails, holds nobody up: no turn is long, and nobody sees half of it.

What counts is the CPU time of one turn of the reactor's thread, as in :mod:`tests.methods.standard.test_turns`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from agtphost.audit.catch_up import Door
from agtphost.audit.drafts import Change
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.state import StateItem, StateTable
from agtphost.audit.writer import Submission
from agtphost.logs.access_log import watch_calls
from agtphost.stores import MemoryStore
from agtphost.stores.rows import ItemRow
from tests.audit.drafting import ALICE, BOB, KEY, draft, group_writer, sealed, sqlite_store, transition
from tests.measuring import measured
from tests.methods.standard.test_turns import most
from tests.methods.standard.turns import TurnHost, Turns
from tests.programmes import length

MANY = length(8_000, 200_000)
"""State items, in two kinds: so many that all of them anew would take too long."""

KINDS = ("attestation", "quote")


def rows(numbers: Sequence[int], version: int = 1) -> list[ItemRow]:
    """Items as they are stored; what two of them say is changed in one commit."""
    value = b'{"status": "pending", "version": %d, "padding": "%s"}' % (version, b"x" * 300)
    return [ItemRow(KINDS[n % 2], f"{n // 2:06}", bytes.fromhex(ALICE), version, None, value) for n in numbers]


class Beside:
    """A ledger whose store has another writer, on a reactor whose turns are counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.turns = Turns()
        self.lifecycle = LifecycleTable()
        self.held = StateTable()
        self.told: list[tuple[str, StateItem | None]] = []
        self.other = sqlite_store(folder)
        self.write(rows(range(MANY)))
        store: Any = sqlite_store(folder)
        self.ledger = Ledger(store, KEY, self.turns, server_id="agtp.test", lifecycle=self.lifecycle, held=self.held)
        self.ledger.start()
        for kind in KINDS:
            self.held.follow(kind, lambda key, item: self.told.append((key, item)))
        gc.freeze()

    def write(self, items: Sequence[ItemRow]) -> None:
        """As another process."""
        self.other.begin()
        for begin in range(0, len(items), 1000):
            self.other.put_held(items[begin : begin + 1000])
        self.other.commit()

    def longest(self, *changes: Change) -> float:
        """The longest turn of a record of its own, in seconds, and of all that comes of it."""
        self.told.clear()
        self.turns.taken.clear()
        made = draft()
        made.changes = changes
        done = self.ledger.submit(made)
        self.turns.until(lambda: done.called)
        self.turns.settle()
        return max(self.turns.taken)

    def end(self) -> None:
        stopped = self.ledger.stop()
        self.turns.until(lambda: stopped.called)
        self.turns.end()
        self.other.close()
        gc.unfreeze()


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    made = Beside(tmp_path)
    yield made
    made.end()


@measured
@pytest.mark.programme
def test_what_is_taken_over_is_what_changed(beside: Beside) -> None:
    """However much there is: one item, a thousand, all, and those that are gone; nothing else is told to anybody."""
    assert beside.held.count("attestation") == MANY // 2
    found = []
    for version, many in enumerate((0, 1, min(1_000, MANY // 2), MANY), 2):
        changed = rows(range(many), version)
        beside.write([*changed, ItemRow("attestation", f"new{version}", b"", 1, None, b"{}")])
        found.append((many, beside.longest()))
        assert {key for key, _ in beside.told} == {row.key for row in changed} | {f"new{version}"}
        assert len(beside.told) == many + 1
        for row in changed[:: max(many // 50, 1)]:
            item = beside.held.get(row.kind, row.key)
            assert item is not None and (item.version, item.value["version"]) == (version, version)
    beside.write([row._replace(value=None) for row in rows(range(100))])
    found.append((-100, beside.longest()))
    assert [item for _, item in beside.told] == [None] * 100
    assert beside.held.count("attestation") == MANY // 2 - 50 + 4 == beside.held.count("quote") + 4
    print([f"{many}: {seconds * 1000:.1f} ms" for many, seconds in found])
    assert max(seconds for _, seconds in found) < most()


@measured
def test_all_of_it_again_is_too_long(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a ledger that takes over everything that it reads, in one turn."""
    held, turns = beside.held, beside.turns

    def everything(states: Any, items: Any, then: Any) -> None:
        turns.callFromThread(held.replace, items)

    monkeypatch.setattr(beside.ledger, "_take_over", everything)
    beside.write(rows(range(1), 2))
    assert beside.longest() > most() and len(beside.told) == MANY


def test_what_is_on_its_way_into_memory_is_not_taken_for_another_s(tmp_path: Path) -> None:
    """Rows of its own that no turn has settled yet; and where another put back what was there before, that counts."""
    held, lifecycle = StateTable(), LifecycleTable()
    store: Any = sqlite_store(tmp_path)
    ledger = Ledger(store, KEY, Turns(), server_id="agtp.test", lifecycle=lifecycle, held=held)
    writer = group_writer(sqlite_store(tmp_path))
    first = draft()
    first.changes = tuple(Change(kind="escalation", key=key, value={"n": 1}, owner=ALICE) for key in "abc")
    sealed(writer, first)
    ledger.read()
    before = writer.list_items()
    second = draft()
    second.changes = (
        Change(kind="escalation", key="a", value={"n": 2}, owner=ALICE),
        Change(kind="escalation", key="b", value=None, owner=ALICE),
        Change(kind="escalation", key="d", value={"n": 2}, owner=ALICE),
    )
    entries = [Submission(second), Submission(transition(None, "suspended"))]
    writer.write(entries)
    states, after = writer._store.lifecycle_states(), writer.list_items()
    takeover = ledger._takeover
    assert {row.key for row in takeover.compare(states, after).rows} == {"a", "b", "d"}, "nothing is on its way yet"
    takeover.note_written(entries)
    nothing = takeover.compare(states, after)
    assert not nothing.rows and not nothing.states
    back = takeover.compare({}, before)
    assert {(row.key, row.value) for row in back.rows} == {
        ("a", before[0].value),
        ("b", before[1].value),
        ("d", None),
    } and back.states == {ALICE: None}
    takeover.note_settled(entries)
    assert takeover.compare(states, after).states.keys() == {ALICE}


class Shared(MemoryStore):
    """Somebody else may have written to it, and it may fail."""

    moved = failing = False

    def begin(self) -> bool:
        super().begin()
        moved, self.moved = self.moved, False
        return moved

    def commit(self) -> None:
        if self.failing:
            self.rollback()
            raise OSError("the disk is full")
        super().commit()

    def probe(self) -> None:
        if self.failing:
            raise OSError("the disk is full")

    def reopen(self) -> None:
        pass


PAIRS = 600
CALLS = length(200, 1_000)


class Pairs(TurnHost):
    """Its state items belong together two by two; a call says how many pairs there are halves of."""

    def __init__(self) -> None:
        self.shared = Shared()
        super().__init__({}, store=self.shared)
        self.clerk = self.agent("clerk", scopes=("activation:run",))
        self.endpoint("QUERY", "/halves", lambda context: {"halves": self.halves()})
        self.endpoint("QUERY", "/plain", lambda context: {})
        self.keep(rows(range(2 * PAIRS)))
        self.evidence = self.core.services.evidence
        # Another process of this class signs nothing: here it is how memory follows that is looked at.
        self.evidence.ledger._writer.states = None
        # What follows each item takes a moment.
        for kind in KINDS:
            self.evidence.held.follow(kind, self._followed)

    def _followed(self, key: str, item: StateItem | None) -> None:
        until = time.thread_time() + 0.000_05
        while time.thread_time() < until:
            pass

    def halves(self) -> int:
        held = self.evidence.held
        found = 0
        for n in range(PAIRS):
            pair = [held.get(kind, f"{n:06}") for kind in KINDS]
            found += len({0 if item is None else item.version for item in pair}) - 1
        return found

    def changed_elsewhere(self, version: int) -> None:
        """All of them, and an agent is stopped."""
        self.store._held.update({(row.kind, row.key): row for row in rows(range(2 * PAIRS), version)})
        self.shared.moved = True


@pytest.fixture(scope="module")
def pairs() -> Iterator[Pairs]:
    made = Pairs()
    made.settle()
    yield made
    made.close()


def taken_over(host: Pairs, version: int) -> tuple[list[int], int]:
    """Halves that each of ten calls saw while the host took over what another wrote, and how many pairs were halves."""
    host.changed_elsewhere(version)
    answers: list[Any] = []
    connections = [host.connect(host.clerk) for _ in range(11)]
    host.begin("QUERY", "/plain", caller=host.clerk, connection=connections.pop()).addCallback(answers.append)
    host.turns.until(lambda: host.halves())
    between = host.halves()
    for connection in connections:
        host.begin("QUERY", "/halves", caller=host.clerk, connection=connection).addCallback(answers.append)
    host.turns.until(lambda: len(answers) == 11)
    assert {answer.status for answer in answers} == {200}
    host.settle()
    return [answer.result["halves"] for answer in answers if "halves" in answer.result], between


def test_nobody_sees_half_of_what_is_taken_over(pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that come meanwhile wait until it is whole, and are answered then. The control lets them in."""
    seen, between = taken_over(pairs, 2)
    assert between, "all was taken over in one turn: nothing could be seen"
    assert seen == [0] * 10 and not pairs.halves() and not pairs.evidence.ledger.door.shut
    monkeypatch.setattr(Door, "close", lambda door: None)
    seen, between = taken_over(pairs, 3)
    assert any(seen), "the control"


@measured
@pytest.mark.programme
def test_a_group_that_fails_and_what_recovers_hold_nobody_up(pairs: Pairs) -> None:
    """Each of its calls is answered 503, in several turns; it recovers when all is in force that is stored."""
    ledger, store = pairs.evidence.ledger, pairs.shared
    connections = [pairs.connect(pairs.clerk) for _ in range(CALLS)]
    answers: list[Any] = []
    collecting = ledger._collecting
    collecting._scheduled = True  # Until all of them are there.
    for connection in connections:
        pairs.begin("QUERY", "/plain", caller=pairs.clerk, connection=connection).addCallback(answers.append)
    assert len(collecting) == CALLS
    collecting._scheduled = False
    pairs.turns.taken.clear()
    store.failing = True
    collecting.hand_over()
    pairs.turns.until(lambda: len(answers) == CALLS)
    assert {answer.status for answer in answers} == {503} and not ledger.healthy
    # Among what nobody can tell of after a failure: a COMMIT that was done.
    pairs.changed_elsewhere(9)
    store.failing = False
    pairs.turns.until(lambda: ledger.healthy)
    assert not pairs.halves()
    item = pairs.evidence.held.get("quote", "000000")
    assert item is not None and item.version == 9
    pairs.settle()
    print(f"{max(pairs.turns.taken) * 1000:.1f} ms")
    assert max(pairs.turns.taken) < most()


@measured
@pytest.mark.programme
def test_a_line_for_each_of_many_holds_nobody_up(pairs: Pairs) -> None:
    """The access log tells of a large group in turns; the control, a watcher that does as much by itself, does not."""
    ledger = pairs.evidence.ledger

    def longest(watcher: Any) -> float:
        ledger.watch(watcher)
        pairs.settle()
        pairs.turns.taken.clear()
        lines.clear()
        for _ in range(1_000):
            made = draft()
            made.began = 0.0
            ledger.submit(made)
        pairs.turns.until(lambda: len(lines) == 1_000)
        pairs.settle()
        ledger.unwatch(watcher)
        return max(pairs.turns.taken)

    def write(line: Any) -> None:
        lines.append(line)
        pairs._followed("", None)

    lines: list[Any] = []
    found = longest(watch_calls(write))
    print(f"{found * 1000:.1f} ms")
    assert found < most()
    assert longest(lambda group: [write(record) for record in group.records]) > most()


def test_what_stops_an_agent_is_in_force_before_anything_else(beside: Beside) -> None:
    """Another process stops one, and writes all items anew: the state of the agent is there before the first item."""
    seen: list[bool] = []

    def stopped() -> bool:
        state = beside.lifecycle.find_recorded(BOB)
        return state is not None and state.is_stopped

    beside.held.follow("attestation", lambda key, item: seen.append(stopped()))
    beside.write(rows(range(MANY), 2))
    sealed(group_writer(beside.other), transition(None, "retired", agent_id=BOB))
    assert not stopped()
    beside.longest()
    assert len(seen) == MANY // 2 and all(seen)


def test_nobody_waits_for_a_revocation_until_all_items_are_compared(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: here it takes until the revocation is in force."""
    heard, takeover = Event(), beside.ledger._takeover
    compare, in_time = takeover.compare, []

    def slowly(*given: Any) -> Any:
        in_time.append(heard.wait(20))
        return compare(*given)

    monkeypatch.setattr(takeover, "compare", slowly)
    told: list[str] = []
    beside.lifecycle.watch(lambda agent_id, state: (told.append(agent_id), heard.set())[0])
    sealed(group_writer(beside.other), transition(None, "retired", agent_id=BOB), transition(None, "active"))
    beside.longest()
    assert in_time == [True] and told == [BOB, ALICE], "each is told of once"
