"""
Which rows of `lifecycle`, `held` and `state_change` are not what signed records say; for ``agtp audit verify``.

Pure: it takes a reader, and yields findings. Each record that changed state signs a digest over its list of entries in
`state_change`, chained to the one before (:mod:`agtphost.audit.state_digest`). Lists that match are replayed, newest
entry of a row last, and the result is compared with the rows of the tables. The newest statement's digest of all rows
decides: where it holds, both tables are as they were signed, even if the log was changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import CheckpointError
from agtphost.audit.state_digest import (
    EMPTY_LOG,
    MEMBER,
    Leaves,
    RowSetHash,
    Statement,
    extend_log,
    leaves_of,
    statement_of,
)
from agtphost.identity import envelope
from agtphost.identity.jws import JWSError
from agtphost.stores.interfaces import IRecordReader
from agtphost.stores.record_search import traces
from agtphost.stores.row_shapes import find_flaw
from agtphost.stores.rows import AGENT, DamagedRow, SignedRow, StateChangeRow

PAGE = 500
"""Rows of one read."""

NAMED = 1_000
"""Missing numbers of one gap that are named one by one."""

Finding = tuple[str, str, str]
"""Table, row, and what is wrong with it."""

_TRACES = (*traces(MEMBER), MEMBER.encode())

LIFECYCLE, HELD, LOG = "lifecycle", "held", "state_change"


class _Log(Protocol):
    """The source of the log of changes."""

    def state_changes(self, after: int, limit: int) -> Sequence[StateChangeRow]:
        """Return the entries numbered ``after + 1`` and on."""


def mentions(signed: bytes) -> bool:
    """Return whether the octets of a record may contain a statement of state; this skips most records quickly."""
    return any(trace in signed for trace in _TRACES)


def read_statement(form: str, signed: bytes) -> Statement | None:
    """Return what a record says of the tables, its signature not looked at; None where it says nothing."""
    try:
        return statement_of(envelope.parse_unverified(form, signed))
    except (JWSError, ValueError):
        return None


def _entries(store: _Log) -> Iterator[StateChangeRow]:
    after = -(2**63)
    while rows := store.state_changes(after, PAGE):
        yield from rows
        after = rows[-1].number


def replay_log(store: _Log) -> Leaves:
    """Return the leaves that result from the log of changes, signed or not."""
    leaves: Leaves = {}
    for _, _, kind, key, leaf in _entries(store):
        _replay(leaves, kind, key, leaf)
    return leaves


def _replay(leaves: Leaves, kind: str, key: str, leaf: bytes | None) -> None:
    if leaf is None:
        leaves.pop((kind, key), None)
    else:
        leaves[kind, key] = leaf


def differences(expected: Leaves, found: Leaves) -> Iterator[Finding]:
    """Yield the rows that are not as expected."""
    for place in sorted(expected.keys() | found.keys()):
        if place not in found:
            yield (*_row_place(place), "was deleted")
        elif place not in expected:
            yield (*_row_place(place), "was added, and no record says so")
        elif expected[place] != found[place]:
            yield (*_row_place(place), "was changed, and no record says so")


def _row_place(place: tuple[str, str]) -> tuple[str, str]:
    kind, key = place
    return (LIFECYCLE, key or "(empty)") if kind == AGENT else (HELD, f"{kind} {key}")


@dataclass(slots=True)
class _Signed:
    """The statements of the records since the newest baseline."""

    statements: list[tuple[int, Statement]] = field(default_factory=list)

    def take(self, row: SignedRow) -> None:
        """Take the next record, and keep its statement if it has one."""
        if not isinstance(row.signed, bytes):
            return  # The walk over the records names it.
        statement = read_statement(row.format, row.signed) if mentions(row.signed) else None
        if statement is None:
            return
        if statement.baseline:
            self.statements.clear()
        self.statements.append((row.number, statement))


def findings(reader: IRecordReader) -> Iterator[Finding]:
    """
    Yield each row of the three tables that is not what was signed.

    Records are believed here: whether they are what was signed is the walk's question, which names each that is not.
    """
    with reader.moment() as view:
        signed = _Signed()
        after = 0
        while rows := view.signed_after(after, PAGE):
            for row in rows:
                signed.take(row)
            after = rows[-1].number
        try:
            states, held = view.stored_state()
        except DamagedRow as error:
            yield error.table, error.row, error.explanation
            return
        found = leaves_of(states, held)
        if not signed.statements:
            yield from _check_unsigned(view, found)
            return
        log = _Replay(signed.statements)
        yield from log.run(_entries(view))
    rows_hash = RowSetHash()
    rows_hash.add_all(found.values())
    if rows_hash.digest() == signed.statements[-1][1].digest:
        return
    count = 0
    for table, name, why in differences(log.leaves, found):
        count += 1
        place = (AGENT, name.replace("(empty)", "")) if table == LIFECYCLE else tuple(name.split(" ", 1))
        unsure = place in log.doubtful or (log.incomplete and why.startswith("was added"))
        yield table, name, f"{why}; or its entry in {LOG} was, which does not hold" if unsure else why
    if not count:
        yield f"{LIFECYCLE} or {HELD}", "-", "the rows are not those that were signed; which one is unknown"


def _check_unsigned(view: IRecordReader, found: Leaves) -> Iterator[Finding]:
    """Check a store without signed statements by the statement of its newest checkpoint, if that has one."""
    for entry in _entries(view):
        yield LOG, f"number {entry.number}", "was added: no record has signed any change"
    try:
        newest = view.checkpoint()
        said = None if newest is None else checkpoint.state_of(checkpoint.read(newest.note), ())
    except (CheckpointError, DamagedRow):
        said = None  # That row is another check's to name.
    if said is None:
        return  # From before there were statements: the next start signs what is there.
    rows = RowSetHash()
    rows.add_all(found.values())
    if rows.digest() != said[0]:
        for place in sorted(found):
            yield (*_row_place(place), "was added, and no record says so")


class _Replay:
    """
    Compares the log of changes with the statements, and replays it.

    :param statements: with the numbers of their records, oldest first.
    """

    def __init__(self, statements: list[tuple[int, Statement]]) -> None:
        self._statements = statements
        self._of_record: dict[int, list[StateChangeRow]] = {}
        self._last = 0
        self.leaves: Leaves = {}
        self.doubtful: set[tuple[str, str]] = set()
        """Rows whose newest entry is in a list that is not what was signed."""
        self.incomplete = False
        """Whether entries are missing; their rows are then unknown."""

    def run(self, entries: Iterator[StateChangeRow]) -> Iterator[Finding]:
        """Yield what is wrong with the log."""
        yield from self._collect(entries)
        wrong: set[int] = set()
        log, highest = EMPTY_LOG, 0
        for record, statement in self._statements:
            own = self._of_record.get(record, [])
            before = EMPTY_LOG if statement.baseline else log
            if extend_log(before, own) != statement.log:
                wrong.add(record)
                yield LOG, self._place_of(own, highest), f"the entries of record {record} are not those that it signed"
            highest = max(highest, *(entry.number for entry in own)) if own else highest
            log = statement.log
        known = {record for record, _ in self._statements}
        for record, own in sorted(self._of_record.items()):
            if record not in known:
                wrong.add(record)
                yield LOG, _rows_of(own), f"was added: record {record} signs no change"
        self.incomplete = self.incomplete or bool(wrong)
        for entry in sorted(entry for own in self._of_record.values() for entry in own):
            place = entry.kind, entry.key
            if entry.record in wrong:
                self.doubtful.add(place)
            else:
                self.doubtful.discard(place)
            _replay(self.leaves, *place, entry.leaf)

    def _place_of(self, own: Sequence[StateChangeRow], highest: int) -> str:
        """
        Return the entries that a record's list is made of; where the list may have gone on, the number from which on.
        """
        first = own[0].number if own else highest + 1
        last = own[-1].number if own else highest
        return _rows_of(own) if last < self._last else f"numbers from {first} on"

    def _collect(self, entries: Iterator[StateChangeRow]) -> Iterator[Finding]:
        expected = 1
        for entry in entries:
            if flaw := find_flaw(LOG, entry):
                self.incomplete = True
                yield LOG, f"number {entry.number}", flaw
                expected = max(entry.number + 1, expected)
                continue
            if entry.number > expected:
                yield from _gap(expected, entry.number - 1)
            elif entry.number < expected:
                yield LOG, f"number {entry.number}", "was added: numbers begin with 1"
                continue
            expected = max(entry.number + 1, expected)
            self._last = entry.number
            self._of_record.setdefault(entry.record, []).append(entry)


def _rows_of(own: Sequence[StateChangeRow]) -> str:
    if not own:
        return "numbers that are missing"
    numbers = [entry.number for entry in own]
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"numbers {numbers[0]} to {numbers[-1]}"
    shown = ", ".join(map(str, numbers[:NAMED]))
    return f"number {shown}" if len(numbers) == 1 else f"numbers {shown}"


def _gap(first: int, last: int) -> Iterator[Finding]:
    if last - first >= NAMED:
        yield LOG, f"numbers {first} to {last}", "were deleted"
        return
    for number in range(first, last + 1):
        yield LOG, f"number {number}", "was deleted"
