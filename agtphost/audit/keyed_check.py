"""Whether the rows of ``reservation`` and ``keyed`` are what the host signed, and agree with each other."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from agtphost.audit.keyed import ALL, KEYED
from agtphost.audit.record_check import SIGNED, Finding, RecordExaminer
from agtphost.identity.keys import VerifyingKey
from agtphost.stores.keyed_digests import answer_digest, claim_octets, use_digest
from agtphost.stores.row_shapes import find_flaw, row_name
from agtphost.stores.rows import KeyedRow, ReservationRow
from agtphost.stores.table_interfaces import ITableRows

MARGIN = 60_000
"""Milliseconds before its time that a reservation may be gone already: clocks are read more than once."""


class KeyedCheck:
    """
    Compares keyed requests with the records that answered them.

    :param rows: of the store, at one moment.
    :param keys: what may have signed a claim; None on a host that signs nothing.
    :param live_after: milliseconds since the Unix epoch: what was reserved after that must still be there.
    """

    def __init__(self, rows: ITableRows, keys: Mapping[str, VerifyingKey] | None, live_after: int) -> None:
        self._rows = rows
        self._keys = keys
        self._live_after = live_after
        self._answered = array("q")
        self._examiner = RecordExaminer()

    def is_there(self, record: int) -> bool:
        """Return whether a stored reservation names this record as its answer."""
        at = bisect_left(self._answered, record)
        return at < len(self._answered) and self._answered[at] == record

    def is_live(self, reserved_at: int) -> bool:
        """Return whether a reservation of that time must still be stored."""
        return reserved_at > self._live_after

    def reservations(self) -> Iterator[Finding]:
        """Check every reservation alone and against its record."""
        numbers: list[int] = []
        unsealed, first_sealed = False, 2**63
        for row in self._rows.reservations():
            name = row_name("reservation", row)
            if flaw := find_flaw("reservation", row):
                yield Finding("reservation", name, flaw)
            if any(type(row[at]) is not kind for at, kind in ((0, bytes), (1, bytes), (2, int), (5, bytes), (6, int))):
                continue
            found = ReservationRow(*row)
            if found.record > 0:
                numbers.append(found.record)
            if found.seal:
                first_sealed = min(first_sealed, found.reserved_at)
            else:
                unsealed = True
            if why := self._fault_of(found):
                yield Finding("reservation", name, why)
        self._answered = array("q", sorted(numbers))
        if unsealed and first_sealed < 2**63:
            for row in self._rows.reservations():
                if row[5] == b"" and type(row[2]) is int and row[2] > first_sealed:
                    explanation = "seal is empty, and requests that were claimed before it have one"
                    yield Finding("reservation", row_name("reservation", row), explanation)

    def _fault_of(self, row: ReservationRow) -> str:
        owner, result = row.owner, row.result
        if not (owner is None or type(owner) is bytes) or not (result is None or type(result) is bytes):
            return ""  # Its shape was reported.
        if row.seal and not self._seal_holds(row):
            return "seal is not the host's over name, digest, reserved_at and owner"
        if result is None:
            return "" if row.record == 0 else f"record is {row.record}, and the answer is missing"
        if row.record == 0:
            return "" if not row.seal else "record is 0, and there is an answer"
        return self._answer_fault(row, result)

    def _seal_holds(self, row: ReservationRow) -> bool:
        octets = claim_octets(row)
        if self._keys is None:
            return row.seal == sha256(octets).digest()
        return len(row.seal) == 64 and any(key.verify(row.seal, octets) for key in self._keys.values())

    def _answer_fault(self, row: ReservationRow, result: bytes) -> str:
        stored = self._rows.record(row.record)
        if stored is None or type(stored[SIGNED]) is not bytes:
            return f"record is {row.record}, which is not there"
        said = keyed_of(self._examiner.examine(stored).payload)
        if said is None:
            return f"record is {row.record}, which answered no keyed request"
        if said.get("digest") != answer_digest(row, result):
            return f"record {row.record} has signed another digest of this row, with its result"
        return ""

    # What they take

    def uses(self) -> Iterator[Finding]:
        """Check the recorded use of each agent's keyed requests against the real one."""
        every: tuple[Any, ...] | None = None
        keys, octets, oldest, sealed = 0, 0, None, False
        counted = _owners(self._rows.keyed_sums(self._live_after))
        sums = next(counted, None)
        for row in self._rows.keyed_rows():
            if flaw := find_flaw("keyed", row):
                yield Finding("keyed", row_name("keyed", row), flaw)
            if type(row[0]) is not bytes:
                continue
            if row[0] == ALL:
                every = row
                continue
            while sums is not None and sums[0] < row[0]:
                yield _missing_row(sums)
                keys, octets, oldest, sealed = _add_sums(sums, keys, octets, oldest, sealed)
                sums = next(counted, None)
            if sums is not None and sums[0] == row[0]:
                yield from self._compare(row, *sums[1:])
                keys, octets, oldest, sealed = _add_sums(sums, keys, octets, oldest, sealed)
                sums = next(counted, None)
            else:
                yield from self._compare(row, 0, 0, None, False)
        while sums is not None:
            yield _missing_row(sums)
            keys, octets, oldest, sealed = _add_sums(sums, keys, octets, oldest, sealed)
            sums = next(counted, None)
        if every is not None:
            yield from self._compare(every, keys, octets, oldest, sealed)
        elif keys:
            yield Finding("keyed", "(empty)", f"is not there, and there are {keys} reservations to count")

    @staticmethod
    def _compare(row: Any, keys: int, octets: int, oldest: int | None, sealed: bool) -> Iterator[Finding]:
        name = row_name("keyed", row)
        if row[1] != keys:
            yield Finding("keyed", name, f"keys is {row[1]!r}, and there are {keys} reservations to count")
        if row[2] != octets:
            yield Finding("keyed", name, f"octets is {row[2]!r}, and the answers of its reservations have {octets}")
        if type(row[3]) is int and oldest is not None and row[3] > oldest:
            yield Finding("keyed", name, f"since is {row[3]}, and one of its reservations was made at {oldest}")
        if find_flaw("keyed", row):
            return
        if row[4] == b"":
            if sealed:
                yield Finding("keyed", name, "digest is empty, and its reservations are sealed")
        elif row[4] != use_digest(KeyedRow(*row)):
            yield Finding("keyed", name, "digest is not that of the other columns")


def keyed_of(payload: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what a record says of the reservation that it answered; None where it answered none."""
    extra = None if payload is None else payload.get("extra")
    found = extra.get(KEYED) if isinstance(extra, dict) else None
    return found if isinstance(found, dict) else None


def _owners(sums: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Leave out rows whose owner is of a wrong type: their reservations are findings themselves."""
    return (row for row in sums if type(row[0]) is bytes)


def _missing_row(sums: tuple[Any, ...]) -> Finding:
    return Finding("keyed", sums[0].hex() or "(empty)", f"is not there, and there are {sums[1]} reservations to count")


def _add_sums(
    sums: tuple[Any, ...], keys: int, octets: int, oldest: int | None, sealed: bool
) -> tuple[int, int, int | None, bool]:
    made = sums[3] if type(sums[3]) is int else None
    first = made if oldest is None else oldest if made is None else min(made, oldest)
    return keys + sums[1], octets + sums[2], first, sealed or bool(sums[4])
