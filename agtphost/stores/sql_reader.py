"""
The reading side of a store in an SQL database: paged, and every record hashed again.

A record whose octets are not those that were signed is an error; it is never reported as missing and never returned
(T-RB-10). Statements have ``?`` for parameters; a database with another notation translates them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, ClassVar, TypeVar

from agtphost.audit.drafts import StoredRecord
from agtphost.stores.record_search import LatestRecords, Search
from agtphost.stores.row_shapes import COLUMNS, check_row, row_name
from agtphost.stores.rows import (
    CheckpointRow,
    DamagedRecord,
    DamagedRow,
    RecordFormat,
    RecordKind,
    Selection,
    StateRow,
)
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID
from agtphost.vocabulary.status import Status

_T = TypeVar("_T")

OnDamage = Callable[[str, str], None]
"""Takes chain and explanation."""

PAGE = 500
"""Records of one read: short reads let the log be folded into the database."""

RECORD = """
    SELECT c.agent_id, r.seq, r.audit_id, p.audit_id, r.kind, r.format, r.signed,
        r.issued_at, r.caller, r.previous, r.number
    FROM record r JOIN chain c ON c.number = r.chain LEFT JOIN record p ON p.number = r.previous
"""
"""Rows that :func:`_check_record` takes; conditions are added to it."""


def read_tile(execute: Callable[..., Any], level: int, number: int) -> bytes:
    """The hashes of one tile of the tree over all records; empty where there is none."""
    row = execute("SELECT hashes FROM tile WHERE level = ? AND number = ?", (level, number)).fetchone()
    if row is None:
        return b""
    check_row("tile", (level, number, row[0]))
    return bytes(row[0])


def read_checkpoint(execute: Callable[..., Any]) -> CheckpointRow | None:
    """The newest checkpoint."""
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
    return [(row[10], _check_record(row)) for row in rows]


def _conditions(search: Search, contains: str) -> tuple[str, list[Any]]:
    """
    Return the SQL conditions and parameters for the parts of a search that are columns. ``+`` keeps the database from
    using an index: rows are read by number alone.
    """
    asked: tuple[tuple[str, Any], ...] = (
        ("+r.chain = (SELECT number FROM chain WHERE agent_id = ?)", _octets(search.chain)),
        ("r.caller = ?", _octets(search.caller)),
        ("r.method = ?", search.method),
        ("r.path = ?", search.path),
        ("r.status = ?", search.status),
    )
    if search.needs_signed_octets:
        asked = (*asked, ("r.kind = ?", int(RecordKind.RECORD)))
    if search.reason is not None:
        # A refusal never has status 200, and most records have it.
        asked = (*asked, ("r.status <> ?", int(Status.OK)))
    used = [(text, value) for text, value in asked if value is not None]
    texts, values = [text for text, _ in used], [value for _, value in used]
    for traces in search.traces:
        # The database looks through the octets faster than they can be decoded here.
        texts.append(f"({' OR '.join(contains for _ in traces)})")
        values += traces
    return "".join(f" AND {text}" for text in texts), values


def _octets(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


_CHECKED = (
    *("chain", "seq", "audit_id", "previous", "kind", "format", "signed", "issued_at", "caller"),
    *("number of the record before", "number"),
)
_CHECKED_TYPES = (bytes, int, bytes, bytes, int, int, bytes, int, bytes, int, int)
"""Of the columns of :data:`RECORD`."""


def _check_record(row: Sequence[Any]) -> StoredRecord:
    chain, seq, audit_id, previous, kind, form, signed = row[:7]
    for name, value, expected in zip(_CHECKED, row, _CHECKED_TYPES, strict=True):
        if type(value) is not expected and not (name == "previous" and value is None):
            raise DamagedRow("record", str(row[10]), f"{name} is of the wrong type")
    if sha256(signed).digest() != audit_id:
        raise DamagedRecord(f"record {seq} of chain {chain.hex()!r} is not what was signed")
    if (previous is None) != (row[9] == 0):
        raise DamagedRecord(f"record {seq} of chain {chain.hex()!r} has lost its predecessor")
    try:
        kind, form = RecordKind(kind), RecordFormat(form)
    except ValueError as error:
        raise DamagedRecord(f"record {seq} of chain {chain.hex()!r}: {error}") from None
    return StoredRecord(
        chain=chain.hex(),
        seq=seq,
        audit_id=audit_id.hex(),
        previous_audit_id=ZERO_AUDIT_ID if previous is None else previous.hex(),
        kind=kind.label,
        format=form.label,
        signed=signed,
    )


def _value_of(row: Sequence[Any]) -> dict[str, Any]:
    """The value of a state item."""
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

    contains: ClassVar[str]
    """Condition that the signed octets of a record contain those of a parameter."""

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
        The record of an Audit-ID.

        :raises DamagedRecord: it is there, and not what was signed.
        """
        octets = bytes.fromhex(audit_id)
        rows = self._rows(f"{RECORD} WHERE r.number = ({self.find})", (octets, octets))
        return _check_record(rows[0]) if rows else None

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
        return [_check_record(row) for row in rows]

    def head(self, chain: str) -> StoredRecord | None:
        """
        The newest record of a chain.

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
        return [_check_record(row) for row in rows]

    def lifecycle_states(self) -> dict[str, StateRow]:
        """The stored state of every agent that has one."""
        rows = self._rows("SELECT agent_id, status, since, reason, successor, deadline, org_domain FROM lifecycle")
        for row in rows:
            check_row("lifecycle", row)
        return {row[0].hex(): StateRow(*row[1:]) for row in rows}

    def state_items(self, kind: str) -> list[dict[str, Any]]:
        """The state items of a kind, by key."""
        rows = self._rows(f"SELECT {COLUMNS['held']} FROM held WHERE kind = ? ORDER BY key", (kind,))
        return [_value_of(row) for row in rows]

    def chains(self) -> list[str]:
        """Every chain, the host's own first."""
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
                    found = _check_record(row)
                except DamagedRecord as error:
                    if damaged is None:
                        raise
                    damaged(chain, str(error))
                else:
                    yield found
            after = last

    def _first_since(self, chain: str, since: int) -> int:
        """The first place in a chain issued at ``since`` or later: times never go back within a chain."""
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

    def latest(self, before: int | None, limit: int, search: Search, *, page: int = PAGE) -> LatestRecords:
        """
        Records of all chains, newest first.

        :raises DamagedRecord: a page of the database is damaged.
        """
        newest = self._rows("SELECT coalesce(max(number), 0) FROM record")[0][0]
        at = newest + 1 if before is None else min(before, newest + 1)
        last = max(at - search.reach, 1)
        conditions, values = _conditions(search, self.contains)
        statement = f"{RECORD} WHERE r.number < ? AND r.number >= ?{conditions} ORDER BY r.number DESC LIMIT ?"
        found: list[tuple[int, StoredRecord]] = []
        damaged: list[tuple[int, str]] = []
        while at > last and (wanted := limit - len(found) - len(damaged)) > 0:
            most = page if search.needs_signed_octets and not search.traces else min(page, wanted)
            rows = self._rows(statement, (at, last, *values, most))
            for row in rows:
                at = row[10]
                try:
                    record = _check_record(row)
                except DamagedRecord as error:
                    damaged.append((at, str(error)))
                else:
                    if search.says(record):
                        found.append((at, record))
                if len(found) + len(damaged) == limit:
                    break
            else:
                if len(rows) < most:
                    at = last
        return LatestRecords(records=found, damaged=damaged, before=at if at > 1 else None)

    def number_of(self, audit_id: str) -> int | None:
        """The place of a record among all records, counted from 1."""
        octets = bytes.fromhex(audit_id)
        rows = self._rows(self.find, (octets, octets))
        return int(rows[0][0]) if rows else None

    def checkpoint(self) -> CheckpointRow | None:
        """The newest checkpoint of the tree over all records."""
        return self._read(read_checkpoint)

    def every_audit_id(self, *, page: int = PAGE) -> Iterator[bytes]:
        """The Audit-IDs of all records, as stored, in the order in which the store numbered them."""
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
