"""One contract for every store: the cases that packages of stores run too, for the project's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from zope.interface import implementer
from zope.interface.verify import verifyObject

from agtphost.audit.verify import verify_records
from agtphost.iagtp import IPluggableStore, IRecordReader, IRecordStore
from agtphost.stores import MemoryStore, OffReactorRecords, Selection, SQLiteStore, open_reader, open_store
from agtphost.stores.rows import ItemRow, RecordRow
from agtphost.stores.settings import locate_url
from agtphost.testing.stores import ALICE, KEYS, DurableStoreCases, StoreCases, draft, row
from tests.rows import each_row


@implementer(IPluggableStore)
class Memory(MemoryStore):
    """In the shape of a plugin."""

    def open(self, create: bool) -> None:
        pass


@implementer(IPluggableStore)
class File:
    """A database file in the shape of a plugin, with the lock that a host takes."""

    def __init__(self, folder: Path) -> None:
        self._url = f"sqlite:{folder / 'records.sqlite3'}"
        self._lock = locate_url(self._url).lock(folder)
        self._store: SQLiteStore | None = None

    def open(self, create: bool) -> None:
        self._lock.acquire()
        try:
            self._store = open_store(self._url, create=create)
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        assert self._store is not None
        self._store.close()
        self._lock.release()

    def reader(self) -> IRecordReader:
        return open_reader(self._url)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class TestMemoryStore(StoreCases):
    def make(self, folder: Path) -> IPluggableStore:
        return Memory()


class TestSQLiteStore(DurableStoreCases):
    def make(self, folder: Path) -> IPluggableStore:
        return File(folder)

    def test_many_rows_at_once(self, store: Any) -> None:
        """A group larger than one statement's rows is still one transaction, in order."""
        outcomes = self.written(store, *[draft() for _ in range(300)])
        records = list(store.reader().records(Selection(), page=70))
        assert [record.audit_id for record in records] == [each.audit_id for each in outcomes]
        assert verify_records(records, KEYS).ok


class Leaky(Memory):
    """Rolls nothing back."""

    def rollback(self) -> None:
        if self._undo is not None:
            self._end()


class Forking(Memory):
    """Takes any record in any place."""

    def append(self, records: Sequence[RecordRow]) -> None:
        self._by_number.update((each.number, each) for each in records)


class Hasty(Memory):
    """Drops what still runs."""

    def forget(self, expired_before: int, running: Iterable[bytes]) -> bool:
        return super().forget(expired_before, ())


class Forgetful(Memory):
    """Keeps what a baseline was to replace."""

    def clear_state_changes(self) -> None:
        pass


class Timeless(Memory):
    """Takes no notice of what has expired."""

    def expired_items(self, now: int, limit: int) -> list[ItemRow]:
        return super().expired_items(0, limit)


@each_row(
    ("defective", "case"),
    [
        (Leaky, lambda cases, store: cases.test_a_rolled_back_transaction_leaves_nothing(store)),
        (Forking, lambda cases, store: cases.test_a_chain_cannot_fork(store, row(1, 2, 1, 1))),
        (Hasty, lambda cases, store: cases.test_keyed_requests_are_kept_answered_and_dropped(store)),
        (Forgetful, lambda cases, store: cases.test_changes_of_state_are_logged_and_read_as_they_are(store)),
        (Timeless, lambda cases, store: cases.test_state_items_are_put_removed_and_expire(store)),
        (Leaky, lambda cases, store: cases.test_the_store_comes_back_after_a_failure(store)),
    ],
)
def test_a_defective_store_is_noticed(
    defective: type[Memory], case: Callable[[StoreCases, IPluggableStore], None]
) -> None:
    """The control: each of these fails its case, and a sound store passes it."""
    case(TestMemoryStore(), Memory())
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        case(TestMemoryStore(), defective())


def test_reads_off_the_reactor_give_the_same_answers() -> None:
    """The asynchronous side runs every read where it is told to."""
    store = Memory()
    (one,) = StoreCases.written(store, draft())
    ran: list[str] = []

    def run(function: object, *args: object) -> Deferred[object]:
        ran.append(function.__name__)  # type: ignore[attr-defined]
        return maybeDeferred(function, *args)  # type: ignore[arg-type]

    records = OffReactorRecords(store.reader(), run)
    assert verifyObject(IRecordStore, records)
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


class Unlocked(File):
    """Lets every host in."""

    def open(self, create: bool) -> None:
        self._store = open_store(self._url, create=create)


def test_a_store_that_lets_two_hosts_in_is_noticed(tmp_path: Path) -> None:
    """The control: without a lock the case of the contract fails."""

    class Cases(TestSQLiteStore):
        def make(self, folder: Path) -> IPluggableStore:
            return Unlocked(folder)

    with pytest.raises(pytest.fail.Exception):
        Cases().test_a_second_host_is_kept_out(tmp_path)
