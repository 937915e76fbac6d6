"""
Keeps the digest of the tables of state, and compares them with what was signed.

Theory of operation. Two tables decide: `lifecycle` says who is stopped, and `held` has approvals, grants, pins,
contracts and every other state item. Each record that is committed with a change of them signs the digest of all their
rows as they are after it (:mod:`agtphost.audit.state_digest`), and a digest over the log of changes, whose entries
`state_change` keeps. Each checkpoint has a line with both, so the newest statement is found without going through the
records: it is that of the newest believable checkpoint, in the store or in the witness file, or that of a record behind
it. Those few records are verified one by one. So a row that was changed, deleted or brought back from an older copy by
anything but the ledger contradicts a signature: a start is refused, and so is every transaction after another process
wrote to the store. The log of changes is not believed by a start; with it, `agtp audit verify` names the rows.

A store from before these statements has no such line and no such record anywhere. Its present rows are signed once, as
a baseline. What was changed in it before cannot be noticed; a store that merely lost its lines is not taken for one, as
long as one record or the witness file has a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import CheckpointError
from agtphost.audit.state_check import differences, mentions, read_statement, replay_log
from agtphost.audit.state_digest import EMPTY_LOG, Leaves, RowSetHash, Statement, extend_log, leaves_of
from agtphost.audit.verify import Verifier
from agtphost.identity.keys import VerifyingKey
from agtphost.stores.interfaces import IChainStore
from agtphost.stores.rows import ItemRow, StateChangeRow, StateRow, StoreError

BASELINE = "state-baseline"
"""The event that signs the rows of a store from before there were statements."""

ACCEPTED = "state-accepted"
"""The event that signs rows which contradicted the newest statement, as the operator asked for."""

CHANGED = "state-changed"
"""The event that signs changes that belong to no other record."""

PAGE = 500
"""Records of one read."""

MOST_CHANGES = 2**62
"""The highest number of an entry: a higher one was written by another process, to leave no numbers for the host."""

SHOWN = 3
"""Rows that a refused start names."""

RECORDED = 100
"""Rows that an acceptance names on record."""


Move = tuple[str, str, bytes | None, bytes | None]
"""Kind and key of a row, its leaf before a change, and its leaf after it: None where the row does not exist."""


class StateContradiction(StoreError):
    """The tables of state are not those that were signed."""


class Tally:
    """
    The digests of the two tables as a transaction in the making leaves them.

    :param rows: the digest of the tables before it.
    :param log: the digest of the log of changes before it.
    :param number: of the newest entry of that log.
    """

    def __init__(self, rows: RowSetHash, log: bytes, number: int) -> None:
        self.rows = rows
        self.log = log
        self.number = number
        self.unsigned: list[StateChangeRow] = []
        """Entries that wait for the event at the end of the group."""
        self.signed: list[StateChangeRow] = []
        """Entries to be stored."""

    def mark(self) -> tuple[RowSetHash, bytes, int, int, int]:
        """Return what :meth:`restore` takes."""
        return self.rows.copy(), self.log, self.number, len(self.unsigned), len(self.signed)

    def restore(self, mark: tuple[RowSetHash, bytes, int, int, int]) -> None:
        """Forget what came after a mark: a draft that could not be sealed."""
        self.rows, self.log, self.number, unsigned, signed = mark
        del self.unsigned[unsigned:], self.signed[signed:]

    def change(self, moves: Iterable[Move], together: RowSetHash | None = None) -> list[StateChangeRow]:
        """
        Count rows that become others.

        :param together: the digest of all rows that they become, where it is known.
        :return: their entries of the log.
        """
        entries, added = [], []
        for kind, key, before, after in moves:
            if before == after:
                if together is not None and before is not None:
                    self.rows.remove(before)  # It is among those that are added together.
                continue
            if before is not None:
                self.rows.remove(before)
            if after is not None:
                added.append(after)
            self.number += 1
            entries.append(StateChangeRow(self.number, 0, kind, key, after))
        if together is not None:
            self.rows.merge(together)
        elif len(added) == 1:
            self.rows.add(added[0])
        elif added:
            self.rows.add_all(added)
        return entries

    def sign(self, record: int, entries: Iterable[StateChangeRow], *, baseline: bool = False) -> Statement:
        """Return what the record of that number says, and note its entries."""
        named = [entry._replace(record=record) for entry in entries]
        self.signed += named
        self.log = extend_log(self.log, named)
        return Statement(self.rows.digest(), self.log, baseline)

    def begin_anew(self, leaves: Leaves) -> list[StateChangeRow]:
        """Return the entries of a baseline: every row there is."""
        self.rows, self.log = RowSetHash(), EMPTY_LOG
        self.rows.add_all(leaves.values())
        entries = [StateChangeRow(n, 0, *place, leaf) for n, (place, leaf) in enumerate(sorted(leaves.items()), 1)]
        self.number = len(entries)
        return entries


class StateKeeper:
    """
    The digest of one store's tables of state; used by the ledger's thread.

    :param store: where the tables, the records and the checkpoints are.
    :param keys: returns those that may have signed the newest records and checkpoints; none for a host that does not
        sign.
    :param notes: further checkpoints of this store, such as that of the witness file.
    :param accept: whether rows that contradict what was signed are signed anew instead of refused.
    """

    def __init__(
        self,
        store: IChainStore,
        keys: Callable[[], Sequence[VerifyingKey]],
        notes: Callable[[], Iterable[str]] = tuple,
        *,
        accept: bool = False,
    ) -> None:
        self._store = store
        self._keys = keys
        self._notes = notes
        self._accept = accept
        self._rows = RowSetHash()
        self._log = EMPTY_LOG
        self._number = 0
        self._records: int | None = None
        self.pending: tuple[str, dict[str, Any]] | None = None
        """Type and fields of an event with a baseline, to be written before anything else."""

    def load(self, states: Mapping[str, StateRow], held: Iterable[ItemRow], records: int) -> None:
        """
        Compare the rows of a store with what was signed: at start, after a failure, and after another process wrote.

        :param records: how many the store has.
        :raises StateContradiction: they are not the same.
        :raises StoreError: the signed state cannot be determined.
        """
        if self._records is not None and records < self._records:
            raise StoreError(f"the store has {records} records, and had {self._records}: another process removed some")
        leaves = leaves_of(states, held)
        rows = RowSetHash()
        rows.add_all(leaves.values())
        pending: tuple[str, dict[str, Any]] | None = None
        try:
            signed = self._newest(records)
        except StoreError as error:
            if not self._accept:
                raise
            pending = ACCEPTED, {"found": rows.digest().hex(), "unbelieved": str(error)}
            signed = Statement(rows.digest(), EMPTY_LOG)
        if signed is None:
            if leaves or records:
                agents = sum(1 for kind, _ in leaves if not kind)
                pending = BASELINE, {"agents": agents, "items": len(leaves) - agents}
            signed = Statement(rows.digest(), EMPTY_LOG)
        elif signed.digest != rows.digest():
            pending = self._accept_contradiction(signed, rows, leaves)
        number = self._store.last_state_change()
        if number > MOST_CHANGES and pending is None:
            if not self._accept:
                raise StateContradiction(
                    f"state_change has an entry with the number {number}, which the host did not write, and no room "
                    "for further ones. Remove it, or run `agtp audit accept-store`, which begins a new list"
                )
            pending = ACCEPTED, {"found": rows.digest().hex(), "unbelieved": f"state_change: number {number}"}
        self._rows, self._log, self._number = rows, signed.log, number
        self._records, self.pending = (None if pending else records), pending

    def _accept_contradiction(self, signed: Statement, rows: RowSetHash, leaves: Leaves) -> tuple[str, dict[str, Any]]:
        """
        Return the event that accepts it, where that was asked for.

        :raises StateContradiction: it was not.
        """
        wrong = [f"{table}: {row} {why}" for table, row, why in differences(replay_log(self._store), leaves)]
        if not self._accept:
            more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
            named = "; ".join(wrong[:SHOWN]) + more if wrong else "lifecycle or held: which row is unknown"
            raise StateContradiction(
                f"the state in the store is not what the newest records signed: {named}. Something else than the host "
                "changed it. `agtp audit verify` names every row; restore the store from a backup, or run "
                "`agtp audit accept-store` to go on with these rows knowingly"
            )
        fields = {"signed": signed.digest.hex(), "found": rows.digest().hex(), "rows": wrong[:RECORDED]}
        return ACCEPTED, {**fields, "differing": len(wrong)}

    def statement_octets(self) -> tuple[bytes, bytes] | None:
        """Return the digests that a checkpoint is to have; None as long as a baseline is missing."""
        return None if self.pending or self._records is None else (self._rows.digest(), self._log)

    # What the writer calls

    def tally(self) -> Tally:
        """Return what the next transaction counts with."""
        return Tally(self._rows.copy(), self._log, self._number)

    def adopt(self, tally: Tally | None, records: int) -> None:
        """
        Adopt the digests of a committed transaction, after which the store has so many records.

        :param tally: None: the transaction changed nothing that is counted.
        """
        self._records = records
        if tally is not None:
            self._rows, self._log, self._number = tally.rows, tally.log, tally.number
            self.pending = None

    # What was signed

    def _newest(self, records: int) -> Statement | None:
        """Return the newest signed statement of the state; None if nothing was ever signed."""
        anchors = [anchor for anchor in self._anchors() if anchor[0] <= records]
        if not anchors:
            return self._newest_anywhere()
        size, statement = max(anchors, key=lambda anchor: anchor[0])
        return self._newest_behind(size) or statement

    def _anchors(self) -> Iterable[tuple[int, Statement]]:
        """Yield numbers of records after which the state of the tables is known, with that state."""
        if self._records is not None:
            # What this process wrote itself, or compared.
            yield self._records, Statement(self._rows.digest(), self._log)
            return
        row, keys = self._store.checkpoint(), self._keys()
        for note in (*(() if row is None else (row.note,)), *self._notes()):
            try:
                found = checkpoint.verify(note, keys) if keys else checkpoint.read(note)
            except CheckpointError:
                continue
            said = checkpoint.state_of(found, keys)
            if said is not None:
                yield found.size, Statement(*said)

    def _newest_behind(self, after: int) -> Statement | None:
        """
        Return the newest statement among the records after a checkpoint, and verify each of these records.

        :raises StoreError: one of them is not to be believed.
        """
        verifier = self._verifier()
        newest = None
        while rows := self._store.records_after(after, PAGE):
            for _, record in rows:
                verifier.add(record)
                if mentions(record.signed):
                    newest = read_statement(record.format, record.signed) or newest
            after = rows[-1][0]
        self._require_sound(verifier)
        return newest

    def _newest_anywhere(self) -> Statement | None:
        """
        Return the newest statement of all records, if no checkpoint tells where to begin; only that one is verified.

        That happens once for a store older than statements, and for a host without witness file at each start until its
        first checkpoint.
        """
        after, newest = 0, 0
        while rows := self._store.signed_after(after, PAGE):
            for number, form, signed in rows:
                if mentions(signed) and read_statement(form, signed) is not None:
                    newest = number
            after = rows[-1].number
        if not newest:
            return None
        ((_, record),) = self._store.records_after(newest - 1, 1)
        verifier = self._verifier()
        verifier.add(record)
        self._require_sound(verifier)
        return read_statement(record.format, record.signed)

    def _verifier(self) -> Verifier:
        keys = self._keys()
        return Verifier({key.kid: key for key in keys}, allow_unsigned=not keys, whole=False)

    @staticmethod
    def _require_sound(verifier: Verifier) -> None:
        faults = verifier.finish().faults
        if faults:
            raise StoreError(
                f"the newest records, which no checkpoint covers, do not verify, so the state that they signed is "
                f"unknown: {faults[0]}. `agtp audit verify` lists all that is wrong; restore the store from a backup"
            )
