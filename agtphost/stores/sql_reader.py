"""
The reading side of a store in an SQL database: paged, and every record hashed again.

A record whose octets are not those that were signed is an error; it is never reported as missing and never returned
(T-RB-10). Statements have ``?`` for parameters; a database with another notation translates them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from agtphost.stores.known_facets import KnownFacets
from agtphost.stores.record_look import RecordLook, Stop, never
from agtphost.stores.record_rows import RECORD, check_record
from agtphost.stores.record_search import CountedBy, LatestRecords, RecordCounts, Search
from agtphost.stores.record_summary import RecordSummary, SummaryLook
from agtphost.stores.row_shapes import COLUMNS, check_row, row_name
from agtphost.stores.rows import (
    CheckpointRow,
    DamagedRecord,
    DamagedRow,
    Facet,
    Selection,
    StateRow,
    StoredRecord,
)
from agtphost.vocabulary import jsontext

_T = TypeVar("_T")

OnDamage = Callable[[str, str], None]
"""Takes chain and explanation."""

PAGE = 500
"""Records of one read: short reads let the log be folded into the database."""


def read_tile(execute: Callable[..., Any], level: int, number: int) -> bytes:
    """Return the hashes of one tile of the tree over all records; empty if the tile does not exist yet."""
    row = execute("SELECT hashes FROM tile WHERE level = ? AND number = ?", (level, number)).fetchone()
    if row is None:
        return b""
    check_row("tile", (level, number, row[0]))
    return bytes(row[0])


def read_checkpoint(execute: Callable[..., Any]) -> CheckpointRow | None:
    """Return the newest checkpoint; None if there is none."""
    row = execute("SELECT size, issued_at, note, previous FROM checkpoint ORDER BY size DESC LIMIT 1").fetchone()
    if row is None:
        return None
    check_row("checkpoint", row)
    return CheckpointRow(*row)


def read_records(execute: Callable[..., Any], after: int, limit: int) -> list[tuple[int, StoredRecord]]:
    """
    Records by their numbers.

    :raises DamagedRecord: one of them is not what was signed.
    """
    rows = execute(f"{RECORD} WHERE r.number > ? ORDER BY r.number LIMIT ?", (after, limit)).fetchall()
    return [(row[10], check_record(row)) for row in rows]


def _value_of(row: Sequence[Any]) -> dict[str, Any]:
    """Return the value of a stored state item."""
    check_row("held", row)
    try:
        value: dict[str, Any] = jsontext.decode(row[5])
    except ValueError as error:
        raise DamagedRow("held", row_name("held", row), f"value is not JSON: {error}") from None
    return value


class SqlRecordReader(ABC):
    """Reads that every SQL database answers alike."""

    find: ClassVar[str]
    """Statement that finds the number of the record with an Audit-ID, which is given twice."""

    among: ClassVar[str]
    """Condition that a number is one of a list, which is the parameter that :meth:`to_list` makes."""

    indexed: ClassVar[str] = "record"
    """Where a search finds records: a table, or a query in parentheses."""

    known_facets: KnownFacets
    """The facets that were read already."""

    @abstractmethod
    def to_list(self, numbers: Sequence[int]) -> object:
        """Return the parameter for :attr:`among`."""

    @abstractmethod
    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement and return its rows."""

    @abstractmethod
    def _read(self, read: Callable[[Callable[..., Any]], _T]) -> _T:
        """Call a function with the ``execute`` of a connection, and return its result."""

    def _salvage_page(
        self, chain: str, after: int, page: int, damaged: OnDamage, error: DamagedRecord
    ) -> tuple[list[Any], int]:
        """
        Return the readable rows of a page of records that cannot be read as a whole, and the last place that was read.
        """
        raise error

    def record(self, audit_id: str) -> StoredRecord | None:
        """
        Return the record with an Audit-ID; None if the store lacks it.

        :raises DamagedRecord: it is there, and not what was signed.
        """
        octets = bytes.fromhex(audit_id)
        rows = self._rows(f"{RECORD} WHERE r.number = ({self.find})", (octets, octets))
        return check_record(rows[0]) if rows else None

    def walk(self, chain: str, before_seq: int | None, limit: int) -> list[StoredRecord]:
        """
        Records of a chain, newest first.

        :raises DamagedRecord: one of them is not what was signed.
        """
        before = 2**62 if before_seq is None else before_seq
        rows = self._rows(
            f"{RECORD} WHERE c.agent_id = ? AND r.seq < ? ORDER BY r.seq DESC LIMIT ?",
            (bytes.fromhex(chain), before, limit),
        )
        return [check_record(row) for row in rows]

    def head(self, chain: str) -> StoredRecord | None:
        """
        Return the newest record of a chain; None if the chain is empty.

        :raises DamagedRecord: it is not what was signed.
        """
        newest = self.walk(chain, None, 1)
        return newest[0] if newest else None

    def lifecycle(self, agent_id: str, limit: int) -> list[StoredRecord]:
        """
        Lifecycle events of an agent, newest first.

        :raises DamagedRecord: one of them is not what was signed.
        """
        rows = self._rows(
            f"{RECORD} WHERE c.agent_id = ? AND r.kind = 1 ORDER BY r.seq DESC LIMIT ?",
            (bytes.fromhex(agent_id), limit),
        )
        return [check_record(row) for row in rows]

    def lifecycle_states(self) -> dict[str, StateRow]:
        """Return the stored lifecycle state of every agent that has one."""
        rows = self._rows("SELECT agent_id, status, since, reason, successor, deadline, org_domain FROM lifecycle")
        for row in rows:
            check_row("lifecycle", row)
        return {row[0].hex(): StateRow(*row[1:]) for row in rows}

    def state_items(self, kind: str) -> list[dict[str, Any]]:
        """Return the state items of a kind, by key."""
        rows = self._rows(f"SELECT {COLUMNS['held']} FROM held WHERE kind = ? ORDER BY key", (kind,))
        return [_value_of(row) for row in rows]

    def chains(self) -> list[str]:
        """Return every chain, the host's own first."""
        rows = self._rows(f"SELECT {COLUMNS['chain']} FROM chain")
        for row in rows:
            check_row("chain", row)
        return sorted(agent_id.hex() for _, agent_id in rows)

    def records(
        self, selection: Selection, *, page: int = PAGE, damaged: OnDamage | None = None
    ) -> Iterator[StoredRecord]:
        """
        Records chain by chain, oldest first, read page by page.

        :param damaged: takes chain and explanation of each record that is not what was signed; it is left out then.
        :raises DamagedRecord: at the first such record, if ``damaged`` is not given.
        """
        chains = self.chains() if selection.chain is None else [selection.chain]
        for chain in chains:
            yield from self._chain(chain, selection, page, damaged)

    def _chain(self, chain: str, selection: Selection, page: int, damaged: OnDamage | None) -> Iterator[StoredRecord]:
        after = 0 if selection.since is None else self._first_since(chain, selection.since) - 1
        caller = None if selection.caller is None else bytes.fromhex(selection.caller)
        while True:
            try:
                rows = self._rows(
                    f"{RECORD} WHERE c.agent_id = ? AND r.seq > ? ORDER BY r.seq LIMIT ?",
                    (bytes.fromhex(chain), after, page),
                )
            except DamagedRecord as error:
                if damaged is None:
                    raise
                # Again, one by one: it is of use to know which.
                rows, last = self._salvage_page(chain, after, page, damaged, error)
                if last == after:
                    return
            else:
                last = rows[-1][1] if rows else after
            if last == after:
                return
            for row in rows:
                if selection.until is not None and type(row[7]) is int and row[7] >= selection.until:
                    return
                if caller is not None and type(row[8]) is bytes and row[8] != caller:
                    continue
                try:
                    found = check_record(row)
                except DamagedRecord as error:
                    if damaged is None:
                        raise
                    damaged(chain, str(error))
                else:
                    yield found
            after = last

    def _first_since(self, chain: str, since: int) -> int:
        """Return the first place in a chain issued at ``since`` or later: times never go back within a chain."""
        low, high = 1, self._length(chain) + 1
        while low < high:
            middle = (low + high) // 2
            rows = self._rows(
                "SELECT r.issued_at, r.number FROM record r JOIN chain c ON c.number = r.chain "
                "WHERE c.agent_id = ? AND r.seq >= ? ORDER BY r.seq LIMIT 1",
                (bytes.fromhex(chain), middle),
            )
            if rows and type(rows[0][0]) is not int:
                raise DamagedRow("record", str(rows[0][1]), "issued_at is of the wrong type")
            if rows and rows[0][0] < since:
                low = middle + 1
            else:
                high = middle
        return low

    def _length(self, chain: str) -> int:
        newest = self.head(chain)
        return 0 if newest is None else newest.seq

    def latest(self, before: int | None, limit: int, search: Search, *, stop: Stop = never) -> LatestRecords:
        """
        Records of all chains, newest first.

        :raises DamagedRecord: a page of the database is damaged.
        """
        return RecordLook(self, search, before, stop).latest(limit)

    def count(self, by: CountedBy, before: int | None, search: Search, *, stop: Stop = never) -> RecordCounts:
        """
        Count the records of all chains that a search finds.

        :raises DamagedRecord: a page of the database is damaged.
        """
        return RecordLook(self, search, before, stop).count(by)

    def summarize(self, now: int, search: Search, *, stop: Stop = never) -> RecordSummary:
        """
        Count the records of all chains that a search finds, by time and facet.

        :raises DamagedRecord: a page of the database is damaged.
        """
        return SummaryLook(self, search, None, stop).summarize(now)

    def new_facets(self, since: int, *, stop: Stop = never) -> tuple[Sequence[Facet], Sequence[Facet]]:
        """
        Return the facets whose first record is not older than a time, and all others.

        :raises DamagedRecord: a page of the database is damaged.
        """
        return SummaryLook(self, Search(since=since), None, stop).new_facets()

    def last_calls(self, callers: Sequence[str], *, stop: Stop = never) -> Mapping[str, int]:
        """
        Return when each of these agents called last.

        :raises DamagedRecord: a page of the database is damaged.
        """
        return SummaryLook(self, Search(), None, stop).last_calls(callers)

    def number_of(self, audit_id: str) -> int | None:
        """Return the position of a record among all records, counted from 1."""
        octets = bytes.fromhex(audit_id)
        rows = self._rows(self.find, (octets, octets))
        return int(rows[0][0]) if rows else None

    def checkpoint(self) -> CheckpointRow | None:
        """Return the newest checkpoint of the tree over all records; None if there is none."""
        return self._read(read_checkpoint)

    def every_audit_id(self, *, page: int = PAGE) -> Iterator[bytes]:
        """Yield the Audit-IDs of all records as stored, in the order of their numbers."""
        after = 0
        statement = "SELECT number, audit_id FROM record WHERE number > ? ORDER BY number LIMIT ?"
        while rows := self._rows(statement, (after, page)):
            for number, audit_id in rows:
                if type(audit_id) is not bytes:
                    raise DamagedRow("record", str(number), "audit_id is of the wrong type")
                yield audit_id
            after = rows[-1][0]

    def tile(self, level: int, number: int) -> bytes:
        """Return a tile of the tree."""
        return self._read(lambda execute: read_tile(execute, level, number))
