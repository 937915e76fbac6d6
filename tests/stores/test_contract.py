"""One contract for every store: what :class:`agtphost.iagtp.IChainStore` and the reading side promise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from zope.interface.verify import verifyObject

from agtphost.audit.drafts import HOST_CHAIN
from agtphost.audit.verify import verify_records
from agtphost.iagtp import IChainStore, IRecordStore
from agtphost.stores import MemoryStore, OffReactorRecords, Selection, SQLiteStore
from agtphost.stores.rows import RecordRow, ReservationRow, StateRow
from tests.audit.drafting import ALICE, BOB, KEYS, draft, group_writer, sealed, sqlite_store, transition

Store = MemoryStore | SQLiteStore


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A new store of each kind."""
    made: Store = MemoryStore() if request.param == "memory" else sqlite_store(tmp_path)
    yield made
    made.rollback()
    made.close()


def row(chain: int, number: int, seq: int, previous: int, audit_id: bytes = b"") -> RecordRow:
    name = audit_id or bytes([number]) * 32
    return RecordRow(number, chain, seq, name, previous, 0, 0, 1, 200, "QUERY", "/", b"", b"signed")


def test_both_sides_are_what_they_claim(store: Store) -> None:
    """Every method of the interfaces is there with its signature."""
    assert verifyObject(IChainStore, store)
    assert verifyObject(IRecordStore, OffReactorRecords(store.reader(), maybeDeferred))


def test_a_new_store_is_empty(store: Store) -> None:
    """No heads, no states, no records."""
    assert store.heads() == {} and store.lifecycle_states() == {} and store.last_number() == 0
    reader = store.reader()
    assert reader.head(ALICE) is None and reader.record("0" * 64) is None and reader.chains() == []


def test_records_come_back_as_they_were_signed(store: Store) -> None:
    """Stored octets are sent octets, found by Audit-ID, chain and lifecycle (security invariant 3)."""
    writer = group_writer(store)
    first, second = sealed(writer, draft(), draft())
    (change,) = sealed(writer, transition(None, "suspended"))
    assert change.event is not None
    reader = store.reader()
    found = reader.record(second.audit_id)
    assert found is not None
    assert (found.signed, found.seq, found.kind) == (second.jws.encode(), 2, "record")
    assert found.previous_audit_id == first.audit_id
    walk = reader.walk(ALICE, None, 10)
    assert [record.audit_id for record in walk] == [change.event.audit_id, second.audit_id, first.audit_id]
    assert [record.seq for record in reader.walk(ALICE, 3, 1)] == [2]
    assert [record.audit_id for record in reader.lifecycle(ALICE, 10)] == [change.event.audit_id]
    assert reader.lifecycle(BOB, 10) == []
    head = reader.head(HOST_CHAIN)
    assert head is not None and head.audit_id == change.audit_id
    assert reader.chains() == [HOST_CHAIN, ALICE]


def test_a_rolled_back_transaction_leaves_nothing(store: Store) -> None:
    """Records, chains, states and reservations go together, or none (security invariant 1)."""
    store.begin()
    chain = store.chain_number(ALICE)
    store.append([row(chain, 1, 1, 0)])
    store.set_lifecycle(ALICE, StateRow("suspended", "", None, None, None))
    store.put_reservations([ReservationRow(b"n", b"d", 1, None)])
    assert store.lifecycle_status(ALICE) == "suspended"
    store.rollback()
    store.rollback()
    store.begin()
    assert store.lifecycle_status(ALICE) is None
    assert store.reservations([b"n"]) == {} and not store.holds(b"\x01" * 32) and store.last_number() == 0
    store.commit()


@pytest.mark.parametrize(
    "second",
    [
        row(1, 2, 1, 1),  # the place is taken
        row(1, 2, 2, 0),  # the predecessor has a successor already: a fork
        row(1, 1, 2, 1),  # the number is taken
        row(9, 2, 1, 0),  # there is no such chain
    ],
)
def test_a_chain_cannot_fork(store: Store, second: RecordRow) -> None:
    """One successor and one place each, whatever the writer believes (security invariant 2)."""
    store.begin()
    assert store.chain_number(ALICE) == 1
    store.append([row(1, 1, 1, 0)])
    store.commit()
    store.begin()
    with pytest.raises(Exception, match=r"UNIQUE|FOREIGN|taken|no such"):
        store.append([second])
        store.commit()
    store.rollback()
    assert not store.holds(second.audit_id) or second.audit_id == b"\x01" * 32


def test_reservations_are_kept_answered_and_dropped(store: Store) -> None:
    """A result joins its reservation; old ones go when idle, but never one that is running."""
    store.begin()
    store.put_reservations([ReservationRow(bytes([n]), b"digest", 100 + n, None) for n in range(3)])
    store.put_results([(b"\x01", b"answer")])
    store.commit()
    found = store.reservations([b"\x00", b"\x01", b"\x07"])
    assert found == {
        b"\x00": ReservationRow(b"\x00", b"digest", 100, None),
        b"\x01": ReservationRow(b"\x01", b"digest", 101, b"answer"),
    }
    assert store.forget(102, [b"\x00"], 0) is False
    assert set(store.reservations([b"\x00", b"\x01", b"\x02"])) == {b"\x00", b"\x02"}


def test_many_rows_at_once(store: Store) -> None:
    """A group larger than one statement's rows is still one transaction, in order."""
    writer = group_writer(store)
    outcomes = sealed(writer, *[draft() for _ in range(300)])
    records = list(store.reader().records(Selection(), page=70))
    assert [record.audit_id for record in records] == [each.audit_id for each in outcomes]
    assert verify_records(records, KEYS).ok


def test_a_selection_narrows_an_export(store: Store) -> None:
    """By chain, by caller, and by time (AGTP-179)."""
    times = iter(range(1_000, 100_000))
    writer = group_writer(store, now=lambda: next(times))
    for number in range(20):
        sealed(writer, draft(ALICE, caller_id=BOB if number % 2 else ""), draft(BOB))
    reader = store.reader()

    def count(**parts: object) -> int:
        return len(list(reader.records(Selection(**parts), page=7)))  # type: ignore[arg-type]

    assert count() == 40
    assert count(chain=ALICE) == 20
    assert count(chain=ALICE, caller=BOB) == 10
    assert count(caller=BOB) == 30
    assert count(chain=ALICE, since=1_005_000) == 15
    assert count(chain=ALICE, until=1_005_000) == 5
    assert count(since=1_005_000, until=1_010_000) == 10
    assert count(since=9_999_000) == 0
    assert count(chain="cc" * 32) == 0


def test_the_store_comes_back_after_reopening(store: Store) -> None:
    """What was committed is there, what was not is gone."""
    writer = group_writer(store)
    (kept,) = sealed(writer, draft())
    store.begin()
    store.append([row(store.chain_number(ALICE), 2, 2, 1)])
    store.reopen()
    assert store.last_number() == 1
    assert store.heads()[ALICE].audit_id.hex() == kept.audit_id
    store.probe()
    assert store.free_space() > 0
    (after,) = sealed(group_writer(store), draft())
    assert [record.audit_id for record in store.reader().walk(ALICE, None, 9)] == [
        after.audit_id,
        kept.audit_id,
    ]


def test_reads_off_the_reactor_give_the_same_answers(store: Store) -> None:
    """The asynchronous side runs every read where it is told to."""
    (one,) = sealed(group_writer(store), draft())
    ran: list[str] = []

    def run(function: object, *args: object) -> Deferred[object]:
        ran.append(function.__name__)  # type: ignore[attr-defined]
        return maybeDeferred(function, *args)  # type: ignore[arg-type]

    records = OffReactorRecords(store.reader(), run)
    answers = [
        Deferred.fromCoroutine(call).result
        for call in (
            records.record(one.audit_id),
            records.head(ALICE),
            records.walk(ALICE, None, 5),
            records.lifecycle(ALICE, 5),
        )
    ]
    assert answers[0] == answers[1] == answers[2][0] and answers[3] == []
    assert ran == ["record", "head", "walk", "lifecycle"]
