"""
The requirements of every store, as tests for an :class:`agtphost.iagtp.IPluggableStore` of your own package.

::

    class TestMine(StoreCases):
        def make(self, folder: Path) -> Mine:
            return Mine({"file": str(folder / "records")})

Each case gets an open store. :class:`DurableStoreCases` also has cases for stores that outlive their process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest
from zope.interface.verify import verifyObject

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LifecycleEvent
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.verify import verify_records
from agtphost.iagtp import IChainStore, IPluggableStore, IRecordReader
from agtphost.stores import Selection, StoreError
from agtphost.stores.rows import (
    AnswerRow,
    CheckpointRow,
    ItemRow,
    KeyedRow,
    RecordRow,
    ReservationRow,
    StateChangeRow,
    StateRow,
)
from agtphost.testing.store_drafts import ALICE as ALICE
from agtphost.testing.store_drafts import BOB, KEY
from agtphost.testing.store_drafts import KEYS as KEYS
from agtphost.testing.store_drafts import draft as draft
from agtphost.testing.store_drafts import row as row
from agtphost.testing.store_searches import SearchCases


class StoreCases(SearchCases, ABC):
    """Requirements of the writing and the reading side; every case starts with an empty store."""

    @abstractmethod
    def make(self, folder: Path) -> IPluggableStore:
        """Return a store with its files, if any, in ``folder``; a second call for the folder returns the same store."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[IChainStore]:
        """Provide a new, open store."""
        made = self.make(tmp_path)
        made.open(True)
        yield made
        made.rollback()
        made.close()

    def test_both_sides_have_every_method(self, store: IChainStore) -> None:
        """Stores and readers provide their interfaces, with the right signatures."""
        assert verifyObject(IChainStore, store)
        assert verifyObject(IRecordReader, store.reader())

    def test_a_new_store_is_empty(self, store: IChainStore) -> None:
        """A new store has no heads, states, records and checkpoint."""
        assert (store.heads(), store.lifecycle_states(), store.last_number(), list(store.list_items())) == (
            {},
            {},
            0,
            [],
        )
        assert (store.checkpoint(), store.tile(0, 0), list(store.audit_ids(0, 9))) == (None, b"", [])
        reader = store.reader()
        assert reader.head(ALICE) is None and reader.record("0" * 64) is None and list(reader.chains()) == []

    def test_records_come_back_as_they_were_signed(self, store: IChainStore) -> None:
        """Records are found by Audit-ID, by chain, and as lifecycle events; they are numbered over all chains."""
        first, second = self.written(store, draft(), draft())
        suspended = "agent-lifecycle-suspended"
        event = LifecycleEvent(
            agent_id=ALICE, event_type=suspended, expected_status=None, new_status="suspended", fields={}
        )
        (change,) = self.written(store, Draft(chain=HOST_CHAIN, payload=draft(HOST_CHAIN).payload, event=event))
        assert change.event is not None
        reader = store.reader()
        found = reader.record(second.audit_id)
        assert found is not None
        assert (found.signed, found.seq, found.kind, found.previous_audit_id) == (
            *(second.jws.encode(), 2, "record"),
            first.audit_id,
        )
        walk = [record.audit_id for record in reader.walk(ALICE, None, 10)]
        assert walk == [change.event.audit_id, second.audit_id, first.audit_id]
        assert [record.seq for record in reader.walk(ALICE, 3, 1)] == [2]
        assert [record.audit_id for record in reader.lifecycle(ALICE, 10)] == [change.event.audit_id]
        head = reader.head(HOST_CHAIN)
        assert head is not None and head.audit_id == change.audit_id and list(reader.chains()) == [HOST_CHAIN, ALICE]
        assert [entry.hex() for entry in reader.every_audit_id()] == [*walk[::-1], change.audit_id]
        assert (reader.number_of(change.audit_id), reader.number_of("0" * 64)) == (4, None)
        assert reader.lifecycle_states()[ALICE].status == "suspended" == store.lifecycle_states()[ALICE].status

    def test_a_rolled_back_transaction_leaves_nothing(self, store: IChainStore) -> None:
        """A transaction is kept whole or not at all; a rollback without a transaction does nothing."""
        store.begin()
        store.append([row(store.chain_number(ALICE), 1, 1, 0)])
        store.set_lifecycle(ALICE, StateRow("suspended", "", None, None, None))
        store.put_reservations([ReservationRow(b"n", b"d", 1, None)])
        store.put_keyed([KeyedRow(b"", 1, 2, 3)])
        store.put_held((ItemRow("quote", "q", b"", 1, None, b"{}"),))
        store.put_tiles({(0, 0): b"h"})
        store.put_checkpoint(CheckpointRow(1, 1, "note"))
        assert store.lifecycle_status(ALICE) == "suspended" and "q" in store.held_rows("quote", ["q"])
        store.rollback()
        store.rollback()
        store.begin()
        assert store.lifecycle_status(ALICE) is None and not store.held_rows("quote", ["q"])
        assert store.reservations([b"n"]) == {} and store.read_usage([b""]) == {}
        assert (store.holds(b"\x01" * 32), store.last_number(), store.tile(0, 0)) == (False, 0, b"")
        assert store.checkpoint() is None
        store.commit()

    @pytest.mark.parametrize(
        "second",
        [
            pytest.param(row(1, 2, 1, 1), id="the place is taken"),
            pytest.param(row(1, 2, 2, 0), id="the predecessor has a successor already"),
            pytest.param(row(1, 1, 2, 1), id="the number is taken"),
            pytest.param(row(9, 2, 1, 0), id="the chain does not exist"),
        ],
    )
    def test_a_chain_cannot_fork(self, store: IChainStore, second: RecordRow) -> None:
        """Each record has one successor and one place, even if the writer assumes otherwise."""
        store.begin()
        assert store.chain_number(ALICE) == 1
        store.append([row(1, 1, 1, 0)])
        store.commit()
        store.begin()
        with pytest.raises(Exception):  # noqa: B017 - each store has its own exception
            store.append([second])
            store.commit()
        store.rollback()
        assert store.last_number() == 1

    def test_keyed_requests_are_kept_answered_and_dropped(self, store: IChainStore) -> None:
        """An answer joins its reservation; old reservations are deleted, except of running requests."""
        store.begin()
        store.put_reservations([ReservationRow(bytes([n]), b"digest", 100 + n, None) for n in range(3)])
        store.put_results([AnswerRow(b"\x01", b"answer", 7)])
        store.put_keyed([KeyedRow(b"o", 1, 2, 3)])
        store.commit()
        assert store.reservations([b"\x00", b"\x01", b"\x07"]) == {
            b"\x00": ReservationRow(b"\x00", b"digest", 100, None),
            b"\x01": ReservationRow(b"\x01", b"digest", 101, b"answer", record=7),
        }
        assert store.read_usage([b"o", b"x"]) == {b"o": KeyedRow(b"o", 1, 2, 3)}
        while store.forget(102, [b"\x00"]):
            pass
        assert set(store.reservations([b"\x00", b"\x01", b"\x02"])) == {b"\x00", b"\x02"}

    def test_texts_of_any_characters_come_back(self, store: IChainStore) -> None:
        """A text is stored as it is, also one with NUL or with characters outside of the basic plane."""
        odd = 'a\0b \U0010fffe "\\" \u2028 \U0001f600'
        state = StateRow("suspended", "2027-01-31T00:00:00.000Z", odd, None, None)
        item = ItemRow("quote", odd, b"", 1, None, b"{}")
        store.begin()
        store.set_lifecycle(ALICE, state)
        store.put_held((item,))
        store.put_state_changes([StateChangeRow(1, 1, "quote", odd, None)])
        store.append([row(store.chain_number(ALICE), 1, 1, 0)._replace(path=f"/{odd}")])
        store.commit()
        assert store.lifecycle_row(ALICE) == state and dict(store.held_rows("quote", [odd])) == {odd: item}
        assert [each.key for each in store.state_changes(0, 9)] == [odd]
        states, held = store.reader().stored_state()
        assert dict(states) == {ALICE: state} and list(held) == [item]
        store.begin()
        store.put_held((item._replace(value=None),))
        store.commit()
        assert not store.list_items()

    def test_state_items_are_put_removed_and_expire(self, store: IChainStore) -> None:
        """Items have versions; an expired item counts as absent immediately, and is deleted later."""
        store.begin()
        rows = [
            ItemRow("quote", key, b"", 1, ends, b'{"key": 1}') for key, ends in (("a", None), ("b", 50), ("c", None))
        ]
        store.put_held(rows)
        store.put_held((ItemRow("quote", "c", b"", 2, None, None), rows[0]._replace(version=2)))
        assert store.held_rows("quote", ["a", "c", "z"]) == {"a": rows[0]._replace(version=2)}
        assert not store.held_rows("other", ["a"]) and not store.held_rows("quote", [])
        expired = store.expired_items(50, 9)
        assert list(expired) == [ItemRow("quote", "b", b"", 1, 50, b'{"key": 1}')]
        assert store.held_rows("quote", "abz") == {"a": rows[0]._replace(version=2), "b": rows[1]}
        store.put_held((expired[0]._replace(value=None),))
        store.commit()
        assert not store.expired_items(50, 9)
        assert [(item.key, item.version) for item in store.list_items()] == [("a", 2)]
        assert list(store.reader().state_items("quote")) == [{"key": 1}] and not store.reader().state_items("other")

    def test_changes_of_state_are_logged_and_read_as_they_are(self, store: IChainStore) -> None:
        """Entries keep their numbers, a baseline replaces them all, and a reader sees both tables of one moment."""
        state = StateRow("suspended", "2027-01-31T00:00:00.000Z", "why", None, None, "example.com")
        entries = [StateChangeRow(n, 1, "quote", f"q{n}", None if n == 2 else bytes([n]) * 32) for n in (1, 2, 3)]
        store.begin()
        store.set_lifecycle(ALICE, state)
        store.put_held((ItemRow("quote", "q1", b"\x01", 1, None, b"{}"),))
        store.put_state_changes(entries)
        assert store.lifecycle_row(ALICE) == state and store.lifecycle_row(BOB) is None
        store.commit()
        assert list(store.state_changes(1, 9)) == entries[1:] and store.last_state_change() == 3
        reader = store.reader()
        with reader.moment() as view:
            states, held = view.stored_state()
            assert dict(states) == {ALICE: state} and list(held) == [ItemRow("quote", "q1", b"\x01", 1, None, b"{}")]
            assert list(view.state_changes(0, 2)) == entries[:2] and not view.signed_after(0, 9)
        store.begin()
        with pytest.raises(Exception):  # noqa: B017 - each store has its own exception
            store.put_state_changes([entries[2]])
            store.commit()  # A store may wait with what it writes until here.
        store.rollback()
        store.begin()
        store.clear_state_changes()
        assert store.last_state_change() == 0
        store.put_state_changes([entries[0]])
        store.rollback()
        assert list(reader.state_changes(0, 9)) == entries
        store.begin()
        store.clear_state_changes()
        store.commit()
        assert not store.state_changes(0, 9) and store.last_state_change() == 0

    def test_records_are_read_by_their_numbers(self, store: IChainStore) -> None:
        """Records are read by number over all chains, both verified and unverified."""
        first, second, third = self.written(store, draft(), draft(HOST_CHAIN), draft())
        found = store.records_after(1, 9)
        assert [(number, each.audit_id) for number, each in found] == [(2, second.audit_id), (3, third.audit_id)]
        assert found[1][1].previous_audit_id == first.audit_id and found[0][1].chain == HOST_CHAIN
        for side in (store, store.reader()):
            rows = side.signed_after(0, 2)
            assert [(each.number, each.format, each.signed) for each in rows] == [
                (1, "jws", first.jws.encode()),
                (2, "jws", second.jws.encode()),
            ]

    def test_a_selection_narrows_an_export(self, store: IChainStore) -> None:
        """An export can be limited by chain, by caller, and by time; it is sorted by chain, oldest first."""
        for number in range(10):
            drafts = draft(ALICE, caller_id=BOB if number % 2 else ""), draft(BOB)
            self.written(store, *drafts, seconds=1_000 + number)
        reader = store.reader()
        every = list(reader.records(Selection()))
        assert [(record.chain, record.seq) for record in every] == [(c, n + 1) for c in (ALICE, BOB) for n in range(10)]
        assert verify_records(every, KEYS).ok
        for selection, expected in (
            (Selection(chain=ALICE), 10),
            (Selection(chain=ALICE, caller=BOB), 5),
            (Selection(caller=BOB), 15),
            (Selection(since=1_002_000, until=1_005_000), 6),
            (Selection(since=9_999_000), 0),
            (Selection(chain="cc" * 32), 0),
        ):
            assert len(list(reader.records(selection))) == expected, selection

    def test_a_checkpoint_covers_every_record(self, store: IChainStore) -> None:
        """The tree is stored with the records, and both sides read its tiles."""
        self.written(store, *(draft() for _ in range(300)))
        keeper = TreeKeeper(store, "agtp.test", KEY)
        keeper.load(store.begin)
        store.rollback()
        keeper.catch_up()
        newest = store.checkpoint()
        assert newest is not None and newest.size == 300 and store.reader().checkpoint() == newest
        assert store.tile(0, 0) and store.reader().tile(0, 0) == store.tile(0, 0)

    def test_the_store_comes_back_after_a_failure(self, store: IChainStore) -> None:
        """After a failure, committed data exists, other data does not, and the store accepts writes again."""
        (kept,) = self.written(store, draft())
        store.begin()
        store.append([row(store.chain_number(ALICE), 2, 2, 1)])
        store.reopen()
        assert store.last_number() == 1 and store.heads()[ALICE].audit_id.hex() == kept.audit_id
        store.probe()
        store.tidy()
        assert store.free_space() > 0 and list(store.damage()) == [] == list(store.reader().faults())
        (after,) = self.written(store, draft())
        assert [each.audit_id for each in store.reader().walk(ALICE, None, 9)] == [after.audit_id, kept.audit_id]


class DurableStoreCases(StoreCases):
    """Requirements of :class:`StoreCases`, and further ones of a store that outlives its process."""

    def test_what_was_committed_survives(self, tmp_path: Path) -> None:
        """After a restart, everything that was committed exists, and nothing else."""
        store = self.make(tmp_path)
        store.open(True)
        change = Change(kind="quote", key="q", value={"n": 1})
        first, second = self.written(store, draft(), Draft(chain=BOB, payload=draft(BOB).payload, changes=(change,)))
        store.begin()
        store.put_reservations([ReservationRow(b"n", b"d", 1, b"r")])
        store.commit()
        store.begin()
        store.append([row(store.chain_number(ALICE), 3, 2, 1)])
        store.rollback()
        store.close()
        other = self.make(tmp_path)
        reader = other.reader()
        assert [each.audit_id for each in reader.records(Selection())] == [first.audit_id, second.audit_id]
        reader.close()
        again = self.make(tmp_path)
        again.open(False)
        assert again.last_number() == 2 and set(again.heads()) == {ALICE, BOB}
        assert "q" in again.held_rows("quote", ["q"]) and set(again.reservations([b"n"])) == {b"n"}
        again.close()

    def test_a_reader_beside_the_host_sees_what_is_committed(self, store: IChainStore, tmp_path: Path) -> None:
        """A second reader sees committed records, as ``agtp audit verify`` does while the host runs."""
        (one,) = self.written(store, draft())
        reader = self.make(tmp_path).reader()
        assert [each.audit_id for each in reader.records(Selection())] == [one.audit_id]
        reader.close()

    def test_a_second_host_is_kept_out(self, tmp_path: Path) -> None:
        """
        A second host can open the store only after the first one has closed it.

        Two hosts that serve from one store carry out the same workflow: the steps of a CHAIN run twice.
        """
        first, second, third = (self.make(tmp_path) for _ in range(3))
        first.open(True)
        try:
            self.written(first, draft())
            with pytest.raises(StoreError):
                second.open(False)
            self.written(first, draft())
        finally:
            first.close()
        third.open(False)
        try:
            self.written(third, draft())
            assert third.last_number() == 3
        finally:
            third.close()

    def test_a_missing_store_is_not_made(self, tmp_path: Path) -> None:
        """A missing store is an error for a host that ran before, and for a command."""
        folder = tmp_path / "gone"
        folder.mkdir()
        with pytest.raises(StoreError):
            self.make(folder).open(False)
        with pytest.raises(StoreError):
            self.make(folder).reader()
