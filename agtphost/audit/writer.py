"""
The writer thread's work: everything that waits becomes one transaction.

Theory of operation. A group is a list of submissions (records) and claims
(reservations of keyed requests). :meth:`GroupWriter.write` opens a
transaction that excludes every other writer, and only then links and signs,
so that no head can move in between. Each entry either takes its place or
fails alone, leaving nothing behind; then all records go in with one
INSERT, and one COMMIT makes the group durable. What is in memory (the heads,
and who is stopped) moves when the COMMIT is through, never before. If anything
fails, the whole group fails, and memory is read again from the store.

Nothing is sealed for who is stopped: a draft says whose standing it needs, and
fails where one of these agents is stopped in the transaction, be it by an entry
just before it. What the gates saw a moment ago does not matter any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from agtphost.audit.chain import Head, RecordSigner, Seconds, head_of_row
from agtphost.audit.keyed import reservation_name
from agtphost.audit.lifecycle import stops
from agtphost.audit.state_keeper import StateKeeper
from agtphost.audit.transaction import Basis, Group
from agtphost.audit.transaction import Claim as Claim
from agtphost.audit.transaction import Entry as Entry
from agtphost.audit.transaction import Submission as Submission
from agtphost.audit.tree import TreeKeeper
from agtphost.identity.keys import SigningKey, fastest_signer
from agtphost.stores.interfaces import IWriterStore
from agtphost.stores.rows import ItemRow, StateRow
from agtphost.vocabulary.bounds import Answers
from agtphost.vocabulary.quotas import ANSWERS

EXPIRED_AT_ONCE = 1_000
"""State items that expire in one transaction."""

EXPIRY_SECONDS = 10.0
"""Between two looks for such in idle moments: each that finds some writes a record."""


class GroupWriter:
    """
    Writes groups to one store; used by one thread at a time.

    :param store: its writing side.
    :param signer: signs the records.
    :param server_id: ``server_id`` of lifecycle events.
    :param now: seconds since the Unix epoch.
    :param keep_results: seconds for which a keyed request is remembered.
    :param leaped: seconds for which it is remembered longer, as the clock may have gone ahead by so much.
    :param tree: kept in step with what is written.
    :param states: signs the changes of the state tables, and compares the tables with that; None: this is not done.
    :param moved: called with the content of the store after another writer has changed it.
    :param answers: how many of them an agent may have, and how long.
    """

    def __init__(
        self,
        store: IWriterStore,
        signer: RecordSigner,
        *,
        server_id: str,
        now: Callable[[], float] = time.time,
        keep_results: float = 86_400.0,
        leaped: Callable[[], float] = lambda: 0.0,
        tree: TreeKeeper | None = None,
        states: StateKeeper | None = None,
        moved: Callable[[dict[str, StateRow], Sequence[ItemRow]], object] = lambda states, held: None,
        answers: Answers = ANSWERS,
    ) -> None:
        self._answers = answers
        self._store = store
        self._tree = tree
        self.states = states
        if tree is not None and states is not None:
            tree.state = states.statement_octets
        self._unread = False
        self._expired_at = -EXPIRY_SECONDS
        self._moved = moved
        self._signer = signer
        self._server_id = server_id
        self._now = now
        self._keep_for, self._leaped = keep_results, leaped
        self._seconds = Seconds()
        self._successor: SigningKey | None = None
        self._heads: dict[str, Head] = {}
        self._last_number = 0
        self._latest = 0  # the newest record's issued_at
        self._stopped: dict[str, StateRow] = {}
        self.running: set[bytes] = set()
        """Keyed requests that this process is running; the store knows them as unanswered."""

    def load(self) -> tuple[dict[str, StateRow], Sequence[ItemRow]]:
        """
        Read the heads, and who is stopped: once, at start and after a failure.

        :return: the stored lifecycle states, and the state items.
        :raises agtphost.stores.rows.StoreError: a head is damaged, or the state is not what was signed.
        """
        self._store.begin()
        try:
            return self._read()
        finally:
            self._store.rollback()

    def begin(self) -> None:
        """
        Open a transaction. Memory then has the content of the store, even if another process wrote it.

        The lock on the state directory keeps other hosts away; this check is for programs that ignore the lock.

        :raises agtphost.stores.rows.StoreError: the store was changed into one that contradicts its own checkpoint, or
            what was signed.
        """
        # A refused caller tries again, but the store reports only once that it was changed.
        if self._store.begin() or self._unread:
            self._unread = True
            self._moved(*self._read())

    def _read(self) -> tuple[dict[str, StateRow], Sequence[ItemRow]]:
        self._heads = {chain: head_of_row(row) for chain, row in self._store.heads().items()}
        self._last_number = self._store.last_number()
        self._latest = max((head.issued_at for head in self._heads.values()), default=0)
        if self._tree is not None:
            self._tree.load(self.begin)
        states, held = self._store.lifecycle_states(), self._store.list_items()
        if self.states is not None:
            # Before any row is trusted: only this protects grants, pins and revocations. Their users ask the tables in
            # memory, which only this and the ledger's own commits fill.
            self.states.load(states, held, self._last_number)
        self._stopped = {agent_id: row for agent_id, row in states.items() if stops(row)}
        self._unread = False
        return states, held

    def list_items(self) -> Sequence[ItemRow]:
        """Return every state item of the store."""
        return self._store.list_items()

    def adopt(self, key: SigningKey) -> None:
        """Sign with another key from the next group on; called by any thread."""
        self._successor = key

    def _turn(self, key: SigningKey) -> None:
        self._successor = None
        self._signer.adopt(fastest_signer(key))
        if self._tree is not None:
            self._tree.adopt(key)

    def write(self, entries: Sequence[Entry]) -> None:
        """
        Make a group durable and set each entry's ``outcome``.

        An outcome is an exception where that entry alone could not be written.

        :raises Exception: the store's error; nothing was written, no outcome holds.
        """
        store = self._store
        if (successor := self._successor) is not None:
            self._turn(successor)
        try:
            self.begin()
            group = self._group()
            for entry in entries:
                if entry.__class__ is Submission:
                    group.seal(entry)
            group.flush([entry for entry in entries if entry.__class__ is Claim])
        except BaseException:
            store.rollback()
            raise
        self._commit(group)
        self._adopt_group(group)

    def _group(self) -> Group:
        """Begin a transaction, with the baseline of the state first if the store has none."""
        group = Group(
            Basis(
                store=self._store,
                signer=self._signer,
                server_id=self._server_id,
                now=self.milliseconds(),
                seconds=self._seconds,
                latest=self._latest,
                last_number=self._last_number,
                heads=self._heads,
                stopped=self._stopped,
                running=self.running,
                keep=self._keep,
                answers=self._answers,
                tally=None if self.states is None else self.states.tally,
            )
        )
        if self.states is not None and self.states.pending is not None:
            group.baseline(*self.states.pending)
        return group

    def sign_baseline(self) -> None:
        """
        Sign the state of a store that was never signed; do nothing otherwise.

        :raises Exception: the store's error; the next group tries again.
        """
        if self.states is not None and self.states.pending is not None:
            self.write([])

    def _adopt_group(self, group: Group) -> None:
        """Adopt a committed group: memory then has the content of the store."""
        self._heads.update(group.heads)
        self._last_number += len(group.rows)
        self._latest = group.issued_at
        if self.states is not None:
            self.states.adopt(group.tally, self._last_number)
        for agent_id, state in group.states.items():
            if stops(state):
                self._stopped[agent_id] = state
            else:
                self._stopped.pop(agent_id, None)
        if self._tree is not None:
            self._tree.note([row.audit_id for row in group.rows])
        if group.results or group.abandoned:
            self.running.difference_update(answer.name for answer in group.results)
            self.running.difference_update(group.abandoned)
        self.running.update(row.name for row in group.claimed)

    def _commit(self, group: Group) -> None:
        try:
            self._store.commit()
        except Exception:
            if not (group.rows or group.claimed):
                self._store.rollback()
                raise
            # The answer to COMMIT may be lost although it was done: only the store can tell. Where it can't, what
            # failed first says more.
            with suppress(Exception):
                self._store.reopen()
                if self._is_stored(group):
                    return
            raise

    def _is_stored(self, group: Group) -> bool:
        """Return whether a group is in the store, by its last record or by its claims; if not, it never will be."""
        if group.rows:
            return self._store.holds(group.rows[-1].audit_id)
        # No record has this identifier. The question ends what may still arrive of the group.
        self._store.holds(bytes(32))
        try:
            self._unread = self._store.begin() or self._unread
            stored = self._store.reservations([claim.name for claim in group.claimed])
        finally:
            self._store.rollback()
        return all(stored.get(claim.name) == claim for claim in group.claimed)

    def abandon(self, entries: Sequence[Entry]) -> None:
        """
        Give up entries that could not be written: whether their keyed requests took effect is in doubt from now on.
        """
        for entry in entries:
            if isinstance(entry, Submission) and entry.draft.reservation is not None:
                self.running.discard(reservation_name(entry.draft.reservation))

    def recover(self, *, probe: bool = True) -> tuple[dict[str, StateRow], Sequence[ItemRow]]:
        """
        After a failure: start over with what the store holds, if it takes writes again.

        :param probe: whether to try that first.
        :return: the stored lifecycle states, and the state items.
        :raises Exception: it does not, or the state is not what was signed.
        """
        self._store.reopen()
        if probe:
            self._store.probe()
        return self.load()

    def free_space(self) -> int:
        """Octets left where the store grows."""
        return self._store.free_space()

    def tidy(self) -> bool:
        """Do idle work: forget old keyed requests, write blocks of the index, and checkpoint the write-ahead log."""
        more = self.forget(idle=True)
        more = self._store.index_blocks() or more
        self._store.tidy()
        return more

    def index_blocks(self) -> None:
        """Write a few blocks of the index while the host is busy."""
        self._store.index_blocks()

    def forget(self, *, idle: bool = False) -> bool:
        """
        Drop some of what has expired.

        :param idle: whether this is asked in each idle moment: then state items are looked for now and then.
        :return: whether there may be more.
        """
        now = self.milliseconds()
        more = self._store.forget(now - self._keep(), self.running)
        if idle and self.states is not None and time.monotonic() - self._expired_at < EXPIRY_SECONDS:
            return more
        self._expired_at = time.monotonic()
        return self._expire(now) or more

    def _expire(self, now: int) -> bool:
        """Remove state items that have expired, signed as every other change is; whether there may be more."""
        if not self._store.expired_items(now, 1):
            return False
        try:
            self.begin()
            group = self._group()
            gone = self._store.expired_items(now, EXPIRED_AT_ONCE)
            group.expire(gone)
            group.flush(())
        except BaseException:
            self._store.rollback()
            raise
        self._commit(group)
        self._adopt_group(group)
        return len(gone) == EXPIRED_AT_ONCE

    @property
    def newest(self) -> int:
        """The time of the newest record, in milliseconds since the Unix epoch; 0 in an empty store."""
        return self._latest

    def _keep(self) -> int:
        """Return the milliseconds of the host's time for which a keyed request is remembered."""
        return int((self._keep_for + self._leaped()) * 1000)

    def milliseconds(self) -> int:
        """Return the host's time, in milliseconds since the Unix epoch."""
        return int(self._now() * 1000)
