"""The ledger under the real reactor: grouping, order, health, recovery, stopping."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import deferLater
from twisted.logger import formatEvent, globalLogPublisher
from zope.interface.verify import verifyObject

from agtphost.audit.drafts import (
    LedgerUnavailable,
    ReservationKey,
    ReservationState,
    Sealed,
    StaleLifecycle,
)
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleStatus, LifecycleTable
from agtphost.audit.observed_records import ObservedGroup
from agtphost.audit.submission_queue import EntryCollector
from agtphost.audit.verify import verify_records
from agtphost.iagtp import IChainStore, ILedger
from agtphost.identity.jws import verify
from agtphost.stores import DamagedRecord, MemoryStore, Selection
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID
from tests.audit.drafting import ALICE, BOB, KEY, KEYS, draft, group_writer, sealed, sqlite_store, transition


@asynccontextmanager
async def running(store: IChainStore, **options: Any) -> AsyncIterator[Ledger]:
    """A started ledger, stopped at the end."""
    options.setdefault("lifecycle", LifecycleTable())
    ledger = Ledger(store, KEY, reactor, server_id="agtp.test", **options)  # type: ignore[arg-type]
    ledger.start()
    try:
        yield ledger
    finally:
        await ledger.stop()


async def soon(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    for _ in range(6000):
        if condition():
            return
        await deferLater(reactor, 0.01)  # type: ignore[arg-type]
    raise AssertionError("it did not happen within a minute")


async def refusal_text(awaitable: Awaitable[object]) -> str:
    with pytest.raises(LedgerUnavailable) as caught:
        await awaitable
    return str(caught.value)


class Counting(MemoryStore):
    """Counts transactions, can be held up, and fails on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False
        self.free = sys.maxsize

    def append(self, records: Any) -> None:
        self.groups.append(len(records))
        super().append(records)

    def commit(self) -> None:
        self.gate.wait(60)
        if self.broken:
            raise OSError("no space left")
        super().commit()

    def probe(self) -> None:
        if self.broken:
            raise OSError("no space left")

    def free_space(self) -> int:
        return self.free


def test_the_ledger_is_what_it_claims() -> None:
    """Every method of ILedger is there."""
    assert verifyObject(
        ILedger,
        Ledger(MemoryStore(), KEY, reactor, server_id="s", lifecycle=LifecycleTable()),  # type: ignore[arg-type]
    )


@pytest_twisted.ensureDeferred
async def test_what_it_returns_is_stored() -> None:
    """When the Deferred fires, the record is in the store (security invariant 1)."""
    store = MemoryStore()
    async with running(store) as ledger:
        assert ledger.healthy
        one = await ledger.submit(draft())
        found = store.record(one.audit_id)
        assert found is not None and found.signed == one.jws.encode()
        assert verify(one.jws, KEYS)["issued_at"] == one.issued_at
    assert not ledger.healthy


@pytest_twisted.ensureDeferred
async def test_drafts_of_one_turn_are_one_transaction() -> None:
    """64 drafts of one turn: one hand-over, one INSERT, one COMMIT, answers in order."""
    store = Counting()
    async with running(store) as ledger:
        answers = [ledger.submit(draft()) for _ in range(64)]
        outcomes = [await answer for answer in answers]
    assert store.groups == [64]
    found = [record.audit_id for record in store.records(Selection())]
    assert found == [outcome.audit_id for outcome in outcomes]


@pytest_twisted.ensureDeferred
async def test_a_running_commit_forms_the_next_group() -> None:
    """What arrives while a commit runs waits for it, and goes in together."""
    store = Counting()
    store.gate.clear()
    async with running(store) as ledger:
        answers = [ledger.submit(draft())]
        await soon(lambda: store.groups == [1])
        for _ in range(5):
            answers += [ledger.submit(draft()) for _ in range(4)]
            await deferLater(reactor, 0.001)  # type: ignore[arg-type]
        store.gate.set()
        await DeferredList(answers)
    assert store.groups == [1, 20]


@pytest_twisted.ensureDeferred
async def test_a_group_is_bounded() -> None:
    """5,000 drafts at once are several transactions, and large results make smaller ones."""
    store = Counting()
    async with running(store) as ledger:
        ledger._signer._signer = None
        ledger._signer._protected = b"e30"
        await DeferredList([ledger.submit(draft()) for _ in range(5000)])
        assert len(store.groups) >= 4 and max(store.groups) <= 2 * 1024 and sum(store.groups) == 5000
        store.groups.clear()
        large = []
        for number in range(24):
            one = draft()
            one.reservation, one.result = ReservationKey(agent_id=BOB, key=str(number)), bytes(1 << 20)
            large.append(ledger.submit(one))
        await DeferredList(large)
        assert len(store.groups) >= 2 and sum(store.groups) == 24


@pytest_twisted.ensureDeferred
async def test_the_new_state_holds_before_anybody_hears_of_it() -> None:
    """The lifecycle table has changed when the first Deferred of the group fires (T-LC-70)."""
    table = LifecycleTable()
    seen: list[object] = []

    def look(outcome: Sealed) -> Sealed:
        state = table.find_recorded(ALICE)
        seen.append(None if state is None else state.status)
        return outcome

    async with running(MemoryStore(), lifecycle=table) as ledger:
        before = ledger.submit(draft())
        change = ledger.submit(transition(None, "retired", "agent-genesis-revoked"))
        before.addCallback(look)
        change.addCallback(look)
        await before
        await change
        with pytest.raises(StaleLifecycle):
            await ledger.submit(transition(None, "suspended"))
    assert seen == [LifecycleStatus.RETIRED] * 2


@pytest_twisted.ensureDeferred
async def test_states_and_heads_survive_a_restart(tmp_path: Path) -> None:
    """A new ledger over the same file knows every state and continues every chain."""
    async with running(sqlite_store(tmp_path)) as ledger:
        await ledger.submit(transition(None, "deprecated", "agent-lifecycle-deprecated"))
    table = LifecycleTable()
    store = sqlite_store(tmp_path)
    reader = store.reader()
    async with running(store, lifecycle=table) as ledger:
        state = table.find_recorded(ALICE)
        assert state is not None and state.status is LifecycleStatus.DEPRECATED
        await ledger.submit(transition("deprecated", "active", "agent-lifecycle-reinstated"))
        found = list(reader.records(Selection()))
        assert len(found) == 4 and verify_records(found, KEYS).ok
        reader.close()


@pytest_twisted.ensureDeferred
async def test_keyed_requests_through_the_ledger() -> None:
    """reserve, run, submit with the result, replay."""
    key = ReservationKey(agent_id=BOB, key="k")
    async with running(MemoryStore()) as ledger:
        assert (await ledger.reserve(key, b"d")).state is ReservationState.NEW
        assert (await ledger.reserve(key, b"d")).state is ReservationState.RUNNING
        done = draft()
        done.reservation, done.result = key, b"answer"
        await ledger.submit(done)
        again = await ledger.reserve(key, b"d")
        assert (again.state, again.result) == (ReservationState.DONE, b"answer")


@pytest_twisted.ensureDeferred
async def test_a_failing_store_makes_everything_fail_until_a_probe_succeeds() -> None:
    """Unhealthy at the first failure, refusing at once, healthy again by itself (security invariant 12)."""
    store = Counting()
    key = ReservationKey(agent_id=BOB, key="k")
    async with running(store, probe_seconds=0.02) as ledger:
        one = await ledger.submit(draft())
        await ledger.reserve(key, b"d")
        store.broken = True
        failing = [ledger.submit(draft()), ledger.submit(transition(None, "retired"))]
        for answer in failing:
            assert "no space left" in await refusal_text(answer)
        assert not ledger.healthy
        keyed = draft()
        keyed.reservation = key
        assert "down" in await refusal_text(ledger.submit(keyed))
        assert "down" in await refusal_text(ledger.reserve(key, b"d"))
        await deferLater(reactor, 0.1)  # type: ignore[arg-type]
        assert not ledger.healthy
        store.broken = False
        await soon(lambda: ledger.healthy)
        two = await ledger.submit(draft())
        assert verify(two.jws, KEYS)["previous_audit_id"] == one.audit_id
        assert (await ledger.reserve(key, b"d")).state is ReservationState.IN_DOUBT
    assert store.lifecycle_states() == {}
    assert verify_records(store.records(Selection()), KEYS).ok


@pytest_twisted.ensureDeferred
async def test_drafts_behind_a_failing_group_fail_too() -> None:
    """What waited in the queue while the store broke is not written into a store that is known bad."""
    store = Counting()
    store.gate.clear()
    async with running(store, probe_seconds=60) as ledger:
        first = ledger.submit(draft())
        await soon(lambda: store.groups == [1])
        second = ledger.submit(draft())
        await deferLater(reactor, 0.01)  # type: ignore[arg-type]
        store.broken = True
        store.gate.set()
        await refusal_text(first)
        await refusal_text(second)
    assert store.groups == [1] and list(store.records(Selection())) == []


@pytest_twisted.ensureDeferred
async def test_a_full_database_is_503_and_comes_back(tmp_path: Path) -> None:
    """A real SQLITE_FULL: unhealthy, nothing half written, healthy once there is room (T-ST)."""
    store = sqlite_store(tmp_path)
    reader = store.reader()
    async with running(store, probe_seconds=0.05) as ledger:
        good = await ledger.submit(draft())
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        limit = pages + 5
        opener = store._opener

        def limited(uri: str) -> Any:
            connection = opener(uri)
            connection.execute(f"PRAGMA max_page_count={limit}")
            return connection

        store._opener = limited
        store._connection.execute(f"PRAGMA max_page_count={limit}")
        accepted = [good.audit_id]
        with pytest.raises(LedgerUnavailable, match="full"):
            while True:
                accepted.append((await ledger.submit(draft(path="/" + "x" * 500))).audit_id)
        assert not ledger.healthy
        assert verify(ledger.submit_undurable(draft()).jws, KEYS)["durable"] is False
        await deferLater(reactor, 0.3)  # type: ignore[arg-type]
        assert not ledger.healthy
        await refusal_text(ledger.submit(draft()))
        limit = 1_000_000
        await soon(lambda: ledger.healthy)
        accepted.append((await ledger.submit(draft())).audit_id)
        found = list(reader.records(Selection()))
        assert [record.audit_id for record in found] == accepted
        assert verify_records(found, KEYS).ok
        reader.close()


@pytest_twisted.ensureDeferred
async def test_little_free_space_stops_writing_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the floor it says no while writes still work, and yes when there is room again (T-ST-50)."""
    monkeypatch.setattr("agtphost.audit.space.SPACE_SECONDS", 0.0)
    store = Counting()
    async with running(store, probe_seconds=0.02, free_space_floor=1000) as ledger:
        store.free = 999
        await ledger.submit(draft())
        await soon(lambda: not ledger.healthy)
        await refusal_text(ledger.submit(draft()))
        # A handler that ran before that was noticed did not run in vain.
        performed = draft()
        performed.performed = True
        await ledger.submit(performed)
        assert not ledger.healthy
        store.free = 1000
        await soon(lambda: ledger.healthy)
        await ledger.submit(draft())
    store.free = 1
    async with running(store, free_space_floor=1000) as ledger:
        assert not ledger.healthy


@pytest_twisted.ensureDeferred
async def test_an_undurable_record_is_outside_every_chain() -> None:
    """Marked ``durable: false``, linked to nothing, stored nowhere, and the draft is untouched."""
    store = MemoryStore()
    async with running(store) as ledger:
        one = draft(payload_marker="x")
        before = dict(one.payload)
        outcome = ledger.submit_undurable(one)
        content = verify(outcome.jws, KEYS)
        assert content["durable"] is False and content["previous_audit_id"] == ZERO_AUDIT_ID
        assert one.payload == before and store.record(outcome.audit_id) is None


@pytest_twisted.ensureDeferred
async def test_stopping_writes_what_waits_and_ends_the_thread(tmp_path: Path) -> None:
    """Drafts of the last turn are flushed; afterwards everything fails; stop may be called twice (T-GS)."""
    store = sqlite_store(tmp_path)
    ledger = Ledger(store, KEY, reactor, server_id="s", lifecycle=LifecycleTable())  # type: ignore[arg-type]
    ledger.start()
    answers = [ledger.submit(draft()) for _ in range(10)]
    stopped = ledger.stop()
    assert ledger.stop() is stopped
    await stopped
    assert all(isinstance(answer.result, Sealed) for answer in answers)
    assert "agtphost-ledger" not in {thread.name for thread in threading.enumerate()}
    await refusal_text(ledger.submit(draft()))
    again = sqlite_store(tmp_path)
    assert len(list(again.reader().records(Selection()))) == 10
    assert not (tmp_path / "records.sqlite3-wal").exists() or again.last_number() == 10


@pytest_twisted.ensureDeferred
async def test_a_fault_in_the_thread_leaves_nobody_waiting() -> None:
    """Should the writer thread ever die, the ledger is unhealthy and what waits fails."""
    store = Counting()
    ledger = Ledger(store, KEY, reactor, server_id="s", lifecycle=LifecycleTable())  # type: ignore[arg-type]
    ledger.start()
    hook, threading.excepthook = threading.excepthook, lambda *args: None
    try:
        store.gate.clear()
        last = ledger.submit(draft())
        await soon(lambda: store.groups == [1])
        # A fault of the thread itself, which no store could cause.
        ledger._space._seen = None  # type: ignore[assignment]
        waiting = ledger.submit(draft())
        await deferLater(reactor, 0.01)  # type: ignore[arg-type]
        store.gate.set()
        await last
        await soon(lambda: not ledger.healthy)
        await refusal_text(waiting)
        await refusal_text(ledger.submit(draft()))
        await ledger.stop()
    finally:
        threading.excepthook = hook


async def groups_of(callers: int, rounds: int) -> list[int]:
    """Each caller submits, waits, and submits again one to three turns of the reactor later."""

    async def caller(ledger: Ledger, turns: int) -> None:
        for _ in range(rounds):
            await ledger.submit(draft())
            for _ in range(turns):
                await deferLater(reactor, 0)  # type: ignore[arg-type]

    store = Counting()
    async with running(store) as ledger:
        await DeferredList([Deferred.fromCoroutine(caller(ledger, number % 3 + 1)) for number in range(callers)])
    assert sum(store.groups) == callers * rounds
    return store.groups


@pytest_twisted.ensureDeferred
async def test_callers_in_step_share_their_groups() -> None:
    """What the answers of one group prompt becomes one group, not several that wait for each other."""
    groups = await groups_of(15, 20)
    assert groups.count(15) >= 18, groups


@pytest_twisted.ensureDeferred
async def test_control_handing_over_at_every_turn_splits_the_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count above notices a ledger that hands over whatever a turn brought."""

    def hasty(collecting: EntryCollector) -> None:
        collecting._scheduled = False
        collecting.hand_over()

    monkeypatch.setattr(EntryCollector, "_turn_over", hasty)
    groups = await groups_of(15, 20)
    assert groups.count(15) < 15, groups


@pytest_twisted.ensureDeferred
async def test_a_ledger_that_never_started_stops() -> None:
    """A host that fails half way up can still be taken down."""
    ledger = Ledger(MemoryStore(), KEY, reactor, server_id="s", lifecycle=LifecycleTable())  # type: ignore[arg-type]
    await refusal_text(ledger.submit(draft()))
    await ledger.stop()


def test_a_damaged_head_keeps_the_host_from_starting(tmp_path: Path) -> None:
    """A chain is not continued from octets that nobody signed (T-RB-10)."""
    store = sqlite_store(tmp_path)
    sealed(group_writer(store), draft())
    store._connection.execute("UPDATE record SET signed = x'00'")
    ledger = Ledger(store, KEY, reactor, server_id="s", lifecycle=LifecycleTable())  # type: ignore[arg-type]
    with pytest.raises(DamagedRecord):
        ledger.start()


@pytest_twisted.ensureDeferred
async def test_the_log_is_folded_in_when_nothing_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortly after the last record the database holds everything, log or no log."""
    monkeypatch.setattr("agtphost.audit.ledger.IDLE_SECONDS", 0.02)
    async with running(sqlite_store(tmp_path)) as ledger:
        size = (tmp_path / "records.sqlite3").stat().st_size
        await DeferredList([ledger.submit(draft()) for _ in range(50)])
        await soon(lambda: (tmp_path / "records.sqlite3").stat().st_size > size)


@pytest_twisted.ensureDeferred
async def test_a_cancelled_wait_does_no_harm() -> None:
    """Whoever stops waiting loses the answer, not the record, and its neighbours nothing."""
    store = MemoryStore()
    async with running(store) as ledger:
        gone: Deferred[Sealed] = ledger.submit(draft())
        kept = ledger.submit(draft())
        gone.addErrback(lambda failure: None)
        gone.cancel()
        await kept
        assert len(list(store.records(Selection()))) == 2


@pytest_twisted.ensureDeferred
async def test_unsigned_records_are_chained_too() -> None:
    """Without a key, records say ``alg: none`` and still form a chain (AGTP-304)."""
    store = MemoryStore()
    ledger = Ledger(store, None, reactor, server_id="s", lifecycle=LifecycleTable())  # type: ignore[arg-type]
    ledger.start()
    await ledger.submit(draft())
    await ledger.submit(transition(None, "suspended"))
    await ledger.stop()
    report = verify_records(store.records(Selection()), {}, allow_unsigned=True)
    assert report.ok and report.unsigned == 3


@pytest_twisted.ensureDeferred
async def test_watchers_are_told_of_every_group_after_its_callers() -> None:
    """What was sealed, in order, with places and durations; an interim message and a host's own word end no call."""
    store = MemoryStore()
    told: list[ObservedGroup] = []
    order: list[str] = []
    async with running(store, now=lambda: 1_000.0) as ledger:

        def watch(group: ObservedGroup) -> None:
            order.append("watcher")
            told.append(group)

        ledger.watch(watch)
        asked = draft(reason="timeout", task_id="t", extra={"mcp_server": "files", "mcp_tool": "read"})
        asked.began, asked.caller = 998.5, "bob"
        answers = [ledger.submit(each) for each in (asked, draft(BOB), transition(None, "suspended"))]
        for answer in answers:
            answer.addCallback(lambda sealed: order.append("caller") or sealed)
        first, second, third = [await answer for answer in answers]
        await soon(lambda: bool(told))
        (group,) = told
        assert order == ["caller"] * 3 + ["watcher"]
        assert [record.audit_id for record in group.records] == [first.audit_id, second.audit_id, third.audit_id]
        assert [record.number for record in group.records] == [1, 2, 4]
        assert [store.number_of(record.audit_id) for record in group.records] == [1, 2, 4]
        assert [record.seconds for record in group.records] == [1.5, None, None]
        assert group.seconds is not None and group.seconds > 0
        one = group.records[0]
        assert (one.method, one.path, one.status, one.reason, one.tool) == (
            "QUERY",
            "/orders",
            200,
            "timeout",
            "files.read",
        )
        assert (one.chain, one.caller_id, one.caller, one.task_id, one.durable) == (ALICE, BOB, "bob", "t", True)
        assert one.payload() == dict(one.members)
        ledger.submit_undurable(draft())
        assert [(record.durable, record.number, record.chain) for record in told[1].records] == [(False, 0, "")]
        assert told[1].seconds is None
        ledger.unwatch(watch)
        ledger.unwatch(watch)
        await ledger.submit(draft())
    assert len(told) == 2


@pytest_twisted.ensureDeferred
async def test_a_watcher_that_fails_is_dropped() -> None:
    """Once, in the log; the calls, and the other watchers, do not notice."""
    failing: list[ObservedGroup] = []
    told: list[ObservedGroup] = []
    lines: list[str] = []

    def fail(group: ObservedGroup) -> None:
        failing.append(group)
        raise RuntimeError("the gauge is stuck")

    def log(event: Any) -> None:
        lines.append(formatEvent(event))

    globalLogPublisher.addObserver(log)
    try:
        async with running(MemoryStore()) as ledger:
            ledger.watch(fail)
            ledger.watch(told.append)
            for _ in range(3):
                await ledger.submit(draft())
    finally:
        globalLogPublisher.removeObserver(log)
    assert (len(failing), len(told)) == (1, 3)
    assert len([line for line in lines if "not called any more" in line]) == 1


@pytest_twisted.ensureDeferred
async def test_watchers_hear_nothing_of_what_failed() -> None:
    """A group that was not committed never happened."""
    store = Counting()
    told: list[ObservedGroup] = []
    async with running(store, probe_seconds=0.01) as ledger:
        ledger.watch(told.append)
        store.broken = True
        await refusal_text(ledger.submit(draft()))
        store.broken = False
        await soon(lambda: ledger.healthy)
        await ledger.submit(draft())
    assert [len(group.records) for group in told] == [1]
