"""A store that is gone with the process: for tests, and for a host that is only tried out."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from operator import itemgetter
from typing import Any

from zope.interface import implementer

from agtphost.stores.interfaces import IChainStore, IRecordReader
from agtphost.stores.keyed_digests import sealed_use
from agtphost.stores.record_index import RecordIndex
from agtphost.stores.record_look import Stop, count_key, never
from agtphost.stores.record_search import CountedBy, LatestRecords, RecordCounts, Search
from agtphost.stores.record_summary import RecordSummary, Slot, slot_width
from agtphost.stores.rows import (
    AnswerRow,
    CheckpointRow,
    DamagedRecord,
    Facet,
    HeadRow,
    ItemRow,
    KeyedRow,
    RecordFormat,
    RecordKind,
    RecordRow,
    ReservationRow,
    Selection,
    SignedRow,
    StateChangeRow,
    StateRow,
    StoredRecord,
    StoreError,
)
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID


@implementer(IChainStore, IRecordReader)
class MemoryStore:
    """
    Keeps everything in dictionaries, under the rules of the SQLite schema.

    A transaction notes how to undo each of its steps. It is also its own
    reading side; readers see only what is committed, since they wait for the
    transaction to end.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._undo: list[Callable[[], object]] | None = None
        self._numbers: dict[str, int] = {}
        self._chains: dict[int, list[RecordRow]] = {}
        self._by_audit_id: dict[bytes, RecordRow] = {}
        self._by_number: dict[int, RecordRow] = {}
        self._states: dict[str, StateRow] = {}
        self._held: dict[tuple[str, str], ItemRow] = {}
        self._state_changes: dict[int, StateChangeRow] = {}
        self._tiles: dict[tuple[int, int], bytes] = {}
        self._checkpoints: dict[int, CheckpointRow] = {}
        self._reservations: dict[bytes, ReservationRow] = {}
        self._keyed: dict[bytes, KeyedRow] = {}

    def reader(self) -> MemoryStore:
        """Return the reader of this store."""
        return self

    # Transactions

    def begin(self) -> bool:
        self._lock.acquire()
        self._undo = []
        return False

    def commit(self) -> None:
        self._end()

    def rollback(self) -> None:
        if self._undo is not None:
            for step in reversed(self._undo):
                step()
            self._end()

    def _end(self) -> None:
        self._undo = None
        self._lock.release()

    def _undo_log(self) -> list[Callable[[], object]]:
        if self._undo is None:
            raise StoreError("no transaction is open")
        return self._undo

    # Chains

    def heads(self) -> dict[str, HeadRow]:
        found = {}
        for chain, number in self._numbers.items():
            if self._chains[number]:
                row = self._chains[number][-1]
                self._to_stored_record(row)
                found[chain] = HeadRow(number, row.number, row.seq, row.audit_id, row.issued_at)
        return found

    def damage(self) -> list[str]:
        return []

    def chain_number(self, chain: str) -> int:
        number = self._numbers.get(chain)
        if number is None:
            bytes.fromhex(chain)
            undo = self._undo_log()
            number = self._numbers[chain] = len(self._numbers) + 1
            self._chains[number] = []
            undo.append(lambda: (self._numbers.pop(chain), self._chains.pop(number)))
        return number

    def last_number(self) -> int:
        return len(self._by_number)

    def append(self, records: Sequence[RecordRow]) -> None:
        for row in records:
            self._append(row)

    def _append(self, row: RecordRow) -> None:
        undo = self._undo_log()
        chain = self._chains.get(row.chain)
        if chain is None:
            raise StoreError("the chain does not exist")
        taken = row.number in self._by_number or row.audit_id in self._by_audit_id
        if taken or row.seq != len(chain) + 1 or row.previous != (chain[-1].number if chain else 0):
            raise StoreError("that place in the chain is taken")
        chain.append(row)
        self._by_audit_id[row.audit_id] = row
        self._by_number[row.number] = row
        undo += (
            chain.pop,
            lambda: self._by_audit_id.pop(row.audit_id),
            lambda: self._by_number.pop(row.number),
        )

    def records_after(self, after: int, limit: int) -> list[tuple[int, StoredRecord]]:
        last = min(after + limit, len(self._by_number))
        return [(number, self._to_stored_record(self._by_number[number])) for number in range(after + 1, last + 1)]

    def signed_after(self, after: int, limit: int) -> list[SignedRow]:
        """Octets of records by their numbers, unchecked."""
        last = min(after + limit, len(self._by_number))
        rows = [self._by_number[number] for number in range(after + 1, last + 1)]
        return [SignedRow(row.number, RecordFormat(row.format).label, row.signed) for row in rows]

    def holds(self, audit_id: bytes) -> bool:
        return audit_id in self._by_audit_id

    # Lifecycle

    def lifecycle_states(self) -> dict[str, StateRow]:
        return dict(self._states)

    def lifecycle_status(self, agent_id: str) -> str | None:
        state = self._states.get(agent_id)
        return None if state is None else state.status

    def lifecycle_row(self, agent_id: str) -> StateRow | None:
        return self._states.get(agent_id)

    def set_lifecycle(self, agent_id: str, state: StateRow) -> None:
        undo = self._undo_log()
        before = dict(self._states)
        self._states[agent_id] = state
        undo.append(lambda: setattr(self, "_states", before))

    # State items

    def list_items(self) -> list[ItemRow]:
        return [row for _, row in sorted(self._held.items())]

    def held_rows(self, kind: str, keys: Sequence[str]) -> dict[str, ItemRow]:
        return {key: row for key in keys if (row := self._held.get((kind, key))) is not None}

    def expired_items(self, now: int, limit: int) -> list[ItemRow]:
        expired = [row for row in self._held.values() if row.expires_at is not None and row.expires_at <= now]
        return sorted(expired, key=lambda row: (row.expires_at, row.kind, row.key))[:limit]

    def put_held(self, rows: Sequence[ItemRow]) -> None:
        undo = self._undo_log()
        for row in rows:
            key = row.kind, row.key
            before = self._held.get(key)
            self._place(key, None if row.value is None else row)
            undo.append(partial(self._place, key, before))

    def _place(self, key: tuple[str, str], row: ItemRow | None) -> None:
        if row is None:
            self._held.pop(key, None)
        else:
            self._held[key] = row

    # What changed in these

    def state_changes(self, after: int, limit: int) -> list[StateChangeRow]:
        """Return entries of the log of state changes."""
        numbers = sorted(number for number in self._state_changes if number > after)
        return [self._state_changes[number] for number in numbers[:limit]]

    def last_state_change(self) -> int:
        return max(self._state_changes, default=0)

    def put_state_changes(self, rows: Sequence[StateChangeRow]) -> None:
        undo = self._undo_log()
        for row in rows:
            if row.number in self._state_changes:
                raise StoreError(f"the state change {row.number} is there already")
            self._state_changes[row.number] = row
            undo.append(partial(self._state_changes.pop, row.number))

    def clear_state_changes(self) -> None:
        undo = self._undo_log()
        before = self._state_changes
        self._state_changes = {}
        undo.append(lambda: setattr(self, "_state_changes", before))

    @contextmanager
    def moment(self) -> Iterator[MemoryStore]:
        """Yield a reader; no transaction begins while it is used."""
        with self._lock:
            yield self

    def stored_state(self) -> tuple[dict[str, StateRow], list[ItemRow]]:
        """Return every lifecycle state and every state item, for the check of their digest."""
        with self._lock:
            return self.lifecycle_states(), self.list_items()

    # The tree over all records

    def audit_ids(self, after: int, limit: int) -> list[bytes]:
        last = min(after + limit, len(self._by_number))
        return [self._by_number[number].audit_id for number in range(after + 1, last + 1)]

    def tile(self, level: int, number: int) -> bytes:
        return self._tiles.get((level, number), b"")

    def put_tiles(self, tiles: Mapping[tuple[int, int], bytes]) -> None:
        undo = self._undo_log()
        before = dict(self._tiles)
        self._tiles.update(tiles)
        undo.append(lambda: setattr(self, "_tiles", before))

    def checkpoint(self) -> CheckpointRow | None:
        return self._checkpoints[max(self._checkpoints)] if self._checkpoints else None

    def put_checkpoint(self, row: CheckpointRow) -> None:
        undo = self._undo_log()
        before = dict(self._checkpoints)
        self._checkpoints[row.size] = row
        undo.append(lambda: setattr(self, "_checkpoints", before))

    def number_of(self, audit_id: str) -> int | None:
        """Return the position of a record among all records, counted from 1."""
        row = self._by_audit_id.get(bytes.fromhex(audit_id))
        return None if row is None else row.number

    # Reservations

    def reservations(self, names: Sequence[bytes]) -> dict[bytes, ReservationRow]:
        return {name: self._reservations[name] for name in names if name in self._reservations}

    def put_reservations(self, rows: Sequence[ReservationRow]) -> None:
        undo = self._undo_log()
        before = dict(self._reservations)
        self._reservations.update((row.name, row) for row in rows)
        undo.append(lambda: setattr(self, "_reservations", before))

    def put_results(self, results: Sequence[AnswerRow]) -> None:
        blank = ReservationRow(b"", b"", 0, None)
        self.put_reservations(
            [
                self._reservations.get(name, blank)._replace(name=name, result=result, record=record)
                for name, result, record in results
            ]
        )

    def read_usage(self, owners: Iterable[bytes]) -> dict[bytes, KeyedRow]:
        return {owner: self._keyed[owner] for owner in owners if owner in self._keyed}

    def put_keyed(self, rows: Iterable[KeyedRow]) -> None:
        undo = self._undo_log()
        before = dict(self._keyed)
        self._keyed.update((row.owner, row) for row in rows)
        undo.append(lambda: setattr(self, "_keyed", before))

    # Upkeep

    def free_space(self) -> int:
        return sys.maxsize

    def probe(self) -> None:
        """Memory takes writes as long as there is a process."""

    def forget(self, expired_before: int, running: Iterable[bytes]) -> bool:
        kept = set(running)
        with self._lock:
            for name, row in list(self._reservations.items()):
                if row.reserved_at < expired_before and name not in kept:
                    del self._reservations[name]
                    self._uncount(row)
        return False

    def _uncount(self, row: ReservationRow) -> None:
        for owner in (row.owner, b"") if row.owner else ():
            use = self._keyed.get(owner or b"")
            if use is not None:
                octets, since = max(use.octets - len(row.result or b""), 0), max(use.since, row.reserved_at)
                self._keyed[use.owner] = sealed_use(use._replace(keys=use.keys - 1, octets=octets, since=since))
                if use.keys <= 1:
                    del self._keyed[use.owner]

    def index_blocks(self) -> bool:
        return False

    def tidy(self) -> None:
        """Do nothing, because a store in memory has no log."""

    def reopen(self) -> None:
        self.rollback()

    def close(self) -> None:
        """Return without doing anything, because a store in memory has no files."""

    # Reading

    def _to_stored_record(self, row: RecordRow) -> StoredRecord:
        if sha256(row.signed).digest() != row.audit_id:
            raise DamagedRecord(f"record {row.seq} is not what was signed ({row.audit_id.hex()})")
        chain = next(name for name, number in self._numbers.items() if number == row.chain)
        return StoredRecord(
            chain=chain,
            seq=row.seq,
            audit_id=row.audit_id.hex(),
            previous_audit_id=self._by_number[row.previous].audit_id.hex() if row.previous else ZERO_AUDIT_ID,
            kind=RecordKind(row.kind).label,
            format=RecordFormat(row.format).label,
            signed=row.signed,
        )

    def _rows(self, chain: str) -> list[RecordRow]:
        with self._lock:
            return list(self._chains.get(self._numbers.get(chain, 0), ()))

    def record(self, audit_id: str) -> StoredRecord | None:
        """Return the record with an Audit-ID; None if the store lacks it."""
        with self._lock:
            row = self._by_audit_id.get(bytes.fromhex(audit_id))
            return None if row is None else self._to_stored_record(row)

    def head(self, chain: str) -> StoredRecord | None:
        """Return the newest record of a chain; None if the chain is empty."""
        newest = self.walk(chain, None, 1)
        return newest[0] if newest else None

    def walk(self, chain: str, before_seq: int | None, limit: int) -> list[StoredRecord]:
        """Records of a chain, newest first."""
        rows = [row for row in reversed(self._rows(chain)) if before_seq is None or row.seq < before_seq]
        return [self._to_stored_record(row) for row in rows[:limit]]

    def lifecycle(self, agent_id: str, limit: int) -> list[StoredRecord]:
        """Lifecycle events of an agent, newest first."""
        rows = [row for row in reversed(self._rows(agent_id)) if row.kind == RecordKind.EVENT]
        return [self._to_stored_record(row) for row in rows[:limit]]

    def chains(self) -> list[str]:
        """Return every chain, the host's own first."""
        return sorted(self._numbers)

    def state_items(self, kind: str) -> list[dict[str, Any]]:
        """Return the values of the state items of a kind, by key."""
        return [jsontext.decode(row.value) for row in self.list_items() if row.kind == kind and row.value is not None]

    def every_audit_id(self) -> Iterator[bytes]:
        """Yield the Audit-IDs of all records, in the order of their numbers."""
        yield from self.audit_ids(0, self.last_number())

    def records(
        self, selection: Selection, *, page: int = 0, damaged: Callable[[str, str], None] | None = None
    ) -> Iterator[StoredRecord]:
        """Records chain by chain, oldest first; ``page`` has no meaning here."""
        caller = None if selection.caller is None else bytes.fromhex(selection.caller)
        for chain in self.chains() if selection.chain is None else [selection.chain]:
            for row in self._rows(chain):
                early = selection.since is not None and row.issued_at < selection.since
                late = selection.until is not None and row.issued_at >= selection.until
                if early or late or (caller is not None and row.caller != caller):
                    continue
                try:
                    found = self._to_stored_record(row)
                except DamagedRecord as error:
                    if damaged is None:
                        raise
                    damaged(chain, str(error))
                else:
                    yield found

    def latest(self, before: int | None, limit: int, search: Search, *, stop: Stop = never) -> LatestRecords:
        """Records of all chains, newest first."""
        found: list[tuple[int, StoredRecord]] = []
        damaged: list[tuple[int, str]] = []
        with self._lock:
            at, newest = self._highest(before), self._highest(None)
            while at > 1 and len(found) + len(damaged) < limit:
                at -= 1
                row = self._by_number[at]
                if not self._has(row, search):
                    continue
                try:
                    record = self._to_stored_record(row)
                except DamagedRecord as error:
                    damaged.append((at, str(error)))
                else:
                    if search.says(record):
                        found.append((at, record))
            reached = self._by_number[at].issued_at if 1 < at < newest else None
        return LatestRecords(records=found, damaged=damaged, before=at if at > 1 else None, reached=reached)

    def count(self, by: CountedBy, before: int | None, search: Search, *, stop: Stop = never) -> RecordCounts:
        """Count the records of all chains that a search finds."""
        counts: Counter[str] = Counter()
        with self._lock:
            for at in range(1, self._highest(before)):
                row = self._by_number[at]
                if self._has(row, search):
                    counts[count_key(row.facet, row.issued_at, by)] += 1
        return RecordCounts(counts=counts, before=None)

    def summarize(self, now: int, search: Search, *, stop: Stop = never) -> RecordSummary:
        """Count the records of all chains that a search finds, by time and facet."""
        with self._lock:
            rows = [self._by_number[at] for at in range(1, len(self._by_number) + 1)]
        until = now if search.until is None else search.until
        first = rows[0].issued_at if rows else until
        since = min(first, until - 1) if search.since is None else search.since
        width = slot_width(since, until, len({row.facet for row in rows}))
        found = [row for row in rows if self._has(row, search) and since <= row.issued_at < until]
        begins = range(since // width * width, until, width) if since < until else ()
        records, events, refused = (
            Counter(row.issued_at // width * width for row in found if counts(row.facet))
            for counts in (lambda facet: True, lambda facet: facet.is_event, lambda facet: facet.is_refusal)
        )
        slots = [
            Slot(begin=begin, records=records[begin], events=events[begin], refused=refused[begin]) for begin in begins
        ]
        facets = Counter(row.facet for row in found)
        return RecordSummary(since=since, until=until, width=width, slots=slots, facets=facets, is_complete=True)

    def new_facets(self, since: int, *, stop: Stop = never) -> tuple[Sequence[Facet], Sequence[Facet]]:
        """Return the facets whose first record is not older than a time, and all others."""
        first: dict[Facet, int] = {}
        with self._lock:
            for at in range(1, len(self._by_number) + 1):
                first.setdefault(self._by_number[at].facet, self._by_number[at].issued_at)
        new = [facet for facet, issued_at in first.items() if issued_at >= since]
        return new, [facet for facet, issued_at in first.items() if issued_at < since]

    def last_calls(self, callers: Sequence[str], *, stop: Stop = never) -> Mapping[str, int]:
        """Return when each of these agents called last."""
        with self._lock:
            calls = [(row.facet.caller_id, row.issued_at) for row in self._by_number.values()]
        return {caller: issued_at for caller, issued_at in sorted(calls, key=itemgetter(1)) if caller in callers}

    def _highest(self, before: int | None) -> int:
        newest = len(self._by_number) + 1
        return newest if before is None else min(before, newest)

    @staticmethod
    def _has(row: RecordRow, search: Search) -> bool:
        early = search.since is not None and row.issued_at < search.since
        late = search.until is not None and row.issued_at >= search.until
        index = RecordIndex(row.facet, row.method, row.path, row.caller, row.session, row.task)
        return not (early or late) and search.matches_index(index)

    def faults(self) -> list[str]:
        """Memory has no file to be damaged."""
        return []
