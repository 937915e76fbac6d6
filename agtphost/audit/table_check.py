"""
Whether the tables of a store say what was signed: records, chains, tiles, checkpoints, keyed requests.

:class:`agtphost.audit.verify.Verifier` checks signatures and links of records, and reads signed octets alone. The host
searches, counts and answers by other columns and tables. Here each of these is compared with signed octets, with the
tree over all records, or with the rows that it counts; a row that differs is a finding with its table and its key.

Theory of operation. Small state (chains, keyed requests, places of tiles) is read at one moment. Then the records are
read once, in the order of their numbers and page by page, and the tree over them grows along. A tile is compared with
the stored one as soon as it is full; the root is compared at the size of each stored checkpoint. Memory holds a head
for each chain, one tile for each level, and eight octets for each stored answer. The host may write during the check:
records and checkpoints that come later are left out.

Pure: rows come through :class:`agtphost.stores.table_interfaces.ITableRows`, with unchecked values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agtphost.audit import checkpoint
from agtphost.audit.block_check import BlockCheck
from agtphost.audit.checkpoint import Checkpoint, CheckpointError
from agtphost.audit.facet_check import FacetCheck
from agtphost.audit.keyed_check import MARGIN, KeyedCheck, keyed_of
from agtphost.audit.merkle import HASH, WIDTH, Frontier, leaf_hash
from agtphost.audit.record_check import (
    AUDIT_ID,
    CHAIN,
    ISSUED_AT,
    NUMBER,
    PREVIOUS,
    SEQ,
    Examined,
    Finding,
    RecordExaminer,
    findings_of,
)
from agtphost.audit.state_digest import statement_of
from agtphost.identity.keys import VerifyingKey
from agtphost.stores.row_shapes import find_flaw, row_name
from agtphost.stores.rows import DamagedRow
from agtphost.stores.table_interfaces import ITableRows
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID
from agtphost.vocabulary.quotas import ANSWERS

Progress = Callable[[Iterable[Sequence[Any]]], Iterable[Sequence[Any]]]
"""Passes on the rows of ``record``, and counts them for who waits."""

LISTED = 100
"""Records that are named one by one, of those that disagree with the row of their chain."""

ROOTS = 10
"""Checkpoints of another root that are named one by one: after the first, all others differ as well."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The facts that a store is compared with."""

    keys: Mapping[str, VerifyingKey] | None
    """What may have signed it; None for a host that signs nothing."""

    now: int
    """Milliseconds since the Unix epoch."""

    seen: Checkpoint | None = None
    """What the witness file has seen last."""


def check_tables(rows: ITableRows, expected: Expected, progress: Progress = lambda rows: rows) -> Iterator[Finding]:
    """Compare the tables of a store with what was signed."""
    rows.begin()
    try:
        keyed = KeyedCheck(rows, expected.keys, live_after(rows, expected))
        walk = _Walk(rows, expected, keyed)
        for part in (walk.read_moment, walk.facets.rows, keyed.reservations, keyed.uses, walk.check_places):
            yield from report_damage(part())
    finally:
        rows.end()
    yield from report_damage(walk.records(progress))


def live_after(rows: ITableRows, expected: Expected) -> int:
    """
    Return the time after which a keyed request must have been made to be certain to be there.

    The host's time does not go back where the system's clock does: the newest record tells of it.
    """
    issued_at = 0
    with suppress(DamagedRow):  # Which is found where records are read.
        newest = rows.record(rows.last_number())
        if newest is not None and type(newest[ISSUED_AT]) is int:
            issued_at = newest[ISSUED_AT]
    return max(expected.now, issued_at) - ANSWERS.lives * 1000 + MARGIN


def report_damage(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings, and one more where a table cannot be read further."""
    try:
        yield from findings
    except DamagedRow as error:
        yield Finding(error.table, error.row, error.explanation)


@dataclass(slots=True)
class _Head:
    """The newest record of a chain, so far."""

    number: int
    seq: int
    audit_ids: tuple[str, ...]
    """As its column has it, and as its octets do."""


@dataclass(slots=True)
class _Strays:
    """Records that name a row of ``chain`` and were signed for another agent."""

    count: int = 0
    listed: list[tuple[str, str]] = field(default_factory=list)
    """Number, and the agent's Agent-ID."""


class _Walk:
    """A pass over the records, with tree and checkpoints along."""

    def __init__(self, rows: ITableRows, expected: Expected, keyed: KeyedCheck) -> None:
        self._rows = rows
        self._expected = expected
        self._keyed = keyed
        self._examiner = RecordExaminer()
        self.facets = FacetCheck(rows)
        self._blocks = BlockCheck(rows, self.facets)
        self._last = 0
        self._size = 0
        self._cut = False
        self._chains: dict[int, str] = {}
        self._sound: set[int] = set()
        self._strays: dict[int, _Strays] = {}
        self._heads: dict[str, _Head] = {}
        self._found: list[Finding] = []
        self._frontier = Frontier(self._check_completed)
        self._leaves: tuple[int, bytes] = (-1, b"")
        self._roots = 0

    def read_moment(self) -> Iterator[Finding]:
        """Read how far the store goes, and its chains."""
        self._last = self._rows.last_number()
        self._size = newest = self._rows.newest_size()
        yield from self._blocks.read_moment(self._last)
        if newest > self._last:
            # Compared as far as there are records: what the newest says of the rest cannot be believed either.
            self._cut = True
            self._size = max((row[0] for row in self._rows.checkpoints(None) if row[0] <= self._last), default=0)
            yield Finding("checkpoint", str(newest), f"it covers {newest} records, and the last one is {self._last}")
            yield absent(self._last + 1, newest)
        for row in self._rows.chains():
            if flaw := find_flaw("chain", row):
                yield Finding("chain", row_name("chain", row), flaw)
            elif row[1].hex() in self._chains.values():
                yield Finding("chain", row_name("chain", row), f"agent_id is {row[1].hex()}, which another row has")
            if type(row[1]) is bytes:
                self._chains[row[0]] = row[1].hex()

    def check_places(self) -> Iterator[Finding]:
        """Yield the tiles that no tree of this size has."""
        for row in self._rows.tile_places():
            level, number = row
            if type(level) is not int or type(number) is not int or not 0 <= level < 8 or number < 0:
                yield Finding("tile", row_name("tile", row), "no tree has a tile of that level and number")
            elif number * WIDTH >= self._size >> (8 * level) and not self._cut:
                yield Finding("tile", row_name("tile", row), f"the tree of {self._size} records has no such tile")

    def records(self, progress: Progress) -> Iterator[Finding]:
        """Check every record, and the tree and the checkpoints over them."""
        checkpoints = self._checkpoints()
        expected = 1
        for row in progress(self._rows.records(None, self._last)):
            number = row[NUMBER]
            if number < 1:
                yield from findings_of(row, self._examiner.examine(row))
                continue
            if number > expected:
                yield absent(expected, number - 1)
                yield from self._fill(expected, number, checkpoints)
            examined = self._examiner.examine(row)
            yield from findings_of(row, examined)
            self.facets.take(row, examined)
            yield from self._blocks.take(row, examined)
            yield from self._place(row, examined)
            yield from checkpoints.take(examined)
            if number <= self._size:
                self._frontier.add(self._leaf(row, examined))
                yield from self._at(number, checkpoints)
            expected = number + 1
        if expected <= self._size:
            yield absent(expected, self._size)
            yield from self._fill(expected, self._size + 1, checkpoints)
        yield from self._at(self._size + 1, checkpoints)
        yield from checkpoints.name_unstated()
        yield from self._belonging()
        yield from self._blocks.finish()
        yield from self.facets.mismatches()

    # Chains

    def _place(self, row: Sequence[Any], examined: Examined) -> Iterator[Finding]:
        """Check which chain a record is in, and where."""
        payload, agent_id = examined.payload, examined.agent_id
        chain = row[CHAIN] if type(row[CHAIN]) is int else 0
        named = self._chains.get(chain)
        ids = tuple(each.hex() for each in {examined.audit_id, row[AUDIT_ID]} if type(each) is bytes)
        if payload is None or agent_id is None:
            if named is not None and type(row[SEQ]) is int:
                self._heads[named] = _Head(row[NUMBER], row[SEQ], ids)
            return
        if agent_id == named:
            self._sound.add(chain)
        elif chain:
            strays = self._strays.setdefault(chain, _Strays())
            strays.count += 1
            if len(strays.listed) < LISTED:
                strays.listed.append((row_name("record", row), agent_id))
        before = self._heads.get(agent_id) or _Head(0, 0, (ZERO_AUDIT_ID,))
        seq = before.seq + 1
        name = row_name("record", row)
        if payload.get("previous_audit_id") not in before.audit_ids:
            seq = row[SEQ] if type(row[SEQ]) is int else seq
            yield Finding("record", name, "the record that it follows in its chain is not the one before it here")
        else:
            if row[SEQ] != seq:
                yield Finding("record", name, f"seq is {row[SEQ]!r}, and its place in the chain is {seq}")
            if row[PREVIOUS] != before.number:
                yield Finding("record", name, f"previous is {row[PREVIOUS]!r}, and it follows record {before.number}")
        self._heads[agent_id] = _Head(row[NUMBER], seq, ids)
        yield from self._answer_kept(name, row[NUMBER], payload)

    def _answer_kept(self, name: str, number: int, payload: Mapping[str, Any]) -> Iterator[Finding]:
        """Check that the answer of a keyed request is still there, where it has to be."""
        said = keyed_of(payload)
        if said is None or self._keyed.is_there(number):
            return
        try:
            reserved_at = int(datetime.fromisoformat(str(said.get("reserved_at"))).timestamp() * 1000)
        except (ValueError, OverflowError):
            return
        if self._keyed.is_live(reserved_at):
            explanation = f"is not there: record {name} answered a request that was reserved at {said['reserved_at']}"
            yield Finding("reservation", f"of record {name}", explanation)

    def _belonging(self) -> Iterator[Finding]:
        """Name the rows of ``chain``, or the records, of which one has to be wrong."""
        for chain, strays in sorted(self._strays.items()):
            agents = sorted({agent_id for _, agent_id in strays.listed})
            signed_for = ", ".join(agent_id or "the host" for agent_id in agents[:3])
            if chain not in self._sound:
                found = f"agent_id is {self._chains[chain] or 'empty'}" if chain in self._chains else "is not there"
                explanation = f"{found}, and {strays.count} records that name it were signed for {signed_for}"
                yield Finding("chain", str(chain), explanation)
                if strays.count > 3:
                    continue
            for name, agent_id in strays.listed:
                yield Finding("record", name, f"chain is {chain}, and it was signed for {agent_id or 'the host'}")
            if strays.count > len(strays.listed):
                explanation = f"and {strays.count - len(strays.listed)} further records of chain {chain}"
                yield Finding("record", "(more)", explanation)

    # The tree

    def _leaf(self, row: Sequence[Any], examined: Examined) -> bytes:
        """Return the leaf hash of a record; if its row contradicts itself, the hash that the tree has."""
        column = row[AUDIT_ID] if type(row[AUDIT_ID]) is bytes else examined.audit_id
        if column == examined.audit_id:
            return leaf_hash(column)
        found = [leaf_hash(column), leaf_hash(examined.audit_id)]
        stored = self._stored_leaf(row[NUMBER])
        return stored if stored in found else found[0]

    def _stored_leaf(self, number: int) -> bytes:
        tile, at = divmod(number - 1, WIDTH)
        if self._leaves[0] != tile:
            hashes, _ = self._rows.tile(0, tile)
            self._leaves = tile, hashes if type(hashes) is bytes else b""
        return self._leaves[1][at * HASH : (at + 1) * HASH].ljust(HASH, b"\0")

    def _fill(self, first: int, end: int, checkpoints: _Checkpoints) -> Iterator[Finding]:
        """Take the leaves of records that are not there from the stored tree, so that what comes later compares."""
        for number in range(first, min(end, self._size + 1)):
            self._frontier.add(self._stored_leaf(number))
            yield from self._at(number, checkpoints)

    def _check_completed(self, level: int, number: int, hashes: bytes) -> None:
        if level < 8:
            self._compare_tile(level, number, hashes, full=True)

    def _compare_tile(self, level: int, number: int, hashes: bytes, *, full: bool) -> None:
        stored, size = self._rows.tile(level, number)
        name = f"{level} {number}"
        if type(stored) is not bytes:
            why = "is not there" if stored is None else "hashes is of the wrong type"
            self._found.append(Finding("tile", name, why))
        elif stored != hashes and (full or (size == self._size and not self._cut) or not stored.startswith(hashes)):
            at = next((at for at in range(0, len(hashes), HASH) if stored[at : at + HASH] != hashes[at : at + HASH]), 0)
            explanation = f"hashes is not that of the tree over the records, from hash {at // HASH} on"
            self._found.append(Finding("tile", name, explanation))

    def _at(self, number: int, checkpoints: _Checkpoints) -> Iterator[Finding]:
        """Compare what is stored of the tree of so many records."""
        if number == self._size:
            for level, tile, hashes in self._frontier.unfinished_tiles():
                self._compare_tile(level, tile, hashes, full=False)
        if self._found:
            yield from self._found
            self._found.clear()
        yield from checkpoints.upto(number, self._frontier)

    def _checkpoints(self) -> _Checkpoints:
        return _Checkpoints(self._rows.checkpoints(None), self._expected, self._size, self._last)


class _Checkpoints:
    """
    The stored checkpoints, each compared when the tree has its size.

    :param size: of the newest; those that come later are left out.
    :param last: number of the last record.
    """

    def __init__(self, rows: Iterator[tuple[Any, ...]], expected: Expected, size: int, last: int) -> None:
        self._rows = rows
        self._last = last
        self._expected = expected
        self._size = size
        self._next = next(rows, None)
        self._before = 0
        self._seen = False
        self._differing = 0
        self._stated = False
        self._unstated = ""

    def take(self, examined: Examined) -> Iterator[Finding]:
        """
        Note whether the next record signs the state of the tables: every checkpoint that covers it does then.

        The one before a baseline has no line with that state: a start that found none to believe has issued it.
        """
        statement = None if examined.payload is None else statement_of(examined.payload)
        if statement is not None and statement.baseline:
            self._unstated = ""
        yield from self.name_unstated()
        self._stated = self._stated or statement is not None

    def name_unstated(self) -> Iterator[Finding]:
        """Yield the checkpoint that lacks its line with the state of the tables."""
        if self._unstated:
            yield Finding("checkpoint", self._unstated, "note has no line with the digests of lifecycle and held")
            self._unstated = ""

    def upto(self, number: int, tree: Frontier) -> Iterator[Finding]:
        """
        Check the checkpoints of up to so many records.

        :param tree: over as many; beyond the newest checkpoint, over what that covers.
        """
        while self._next is not None and self._next[0] <= min(number, self._size):
            yield from self._check(self._next, tree)
            self._before = self._next[0]
            self._next = next(self._rows, None)
        seen = self._expected.seen
        if number > self._size and seen is not None and 0 < seen.size <= self._last and not self._seen:
            yield Finding("checkpoint", str(seen.size), "is not there, and the witness file has seen it")

    def _check(self, row: tuple[Any, ...], tree: Frontier) -> Iterator[Finding]:
        name = row_name("checkpoint", row)
        flaw = find_flaw("checkpoint", row)
        if flaw:
            yield Finding("checkpoint", name, flaw)
        if type(row[3]) is int and row[3] != self._before:
            explanation = f"previous is {row[3]}, and the checkpoint before it is {self._before}"
            yield Finding("checkpoint", name, explanation)
            if self._before < row[3] < row[0]:
                yield Finding("checkpoint", str(row[3]), f"is not there, and the checkpoint of {row[0]} names it")
        if type(row[2]) is not str:
            return
        try:
            found = read_note(row[2], self._expected.keys)
        except CheckpointError as error:
            yield Finding("checkpoint", name, f"note does not verify: {error}")
            return
        if found.size != row[0]:
            yield Finding("checkpoint", name, f"note is a checkpoint of {found.size} records")
            return
        keys = self._expected.keys
        if keys is not None and (line := checkpoint.find_unsigned_line(found, keys.values())):
            yield Finding("checkpoint", name, f"note has a line that the host has not signed: {line[:40]}...")
        elif self._stated and checkpoint.state_of(found, (keys or {}).values()) is None:
            self._unstated = name
        seen = self._expected.seen
        if seen is not None and seen.size == found.size:
            self._seen = True
        if tree.size == found.size and tree.root() != found.root:
            self._differing += 1
            if self._differing <= ROOTS:
                yield Finding("checkpoint", name, f"its root is not that of the first {found.size} records")


def read_note(note: str, keys: Mapping[str, VerifyingKey] | None) -> Checkpoint:
    """
    Read the note of a stored checkpoint.

    :param keys: one of them must have signed it; None where nothing is signed.
    :raises CheckpointError: it is not one of the host's.
    """
    if keys is not None:
        return checkpoint.verify(note, keys.values())
    found = checkpoint.read(note)
    if checkpoint.issue(found.origin, found.size, found.root, None).note != found.note.partition("\n\n")[0] + "\n\n":
        raise CheckpointError("the text is not as this host writes it")
    return found


def absent(first: int, last: int) -> Finding:
    """Return the finding for records whose numbers are missing."""
    if first == last:
        return Finding("record", str(first), "is not there")
    return Finding("record", f"{first} to {last}", "are not there")
