"""
Keeps the Merkle tree over all records in step with them, and issues its checkpoints.

Theory of operation. The tree follows the records; it is never on their way. The ledger's thread adds the Audit-IDs of
each committed group to the tree in memory, and now and then (when it is idle, after :data:`MOST_WAITING` records, or
after :data:`SECONDS` under load) one transaction stores the tiles that changed and a signed checkpoint. What was not
added when the process ended is read from the store at the next start. Each checkpoint then goes to the witnesses,
outside the database: so a database that lost its end, or was replaced by an older copy, contradicts them and is refused
at the next start. Witnesses' signatures come back through a queue, and are stored with the checkpoint.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

from agtphost.audit import checkpoint, cosignature
from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.interfaces import IWitness
from agtphost.audit.merkle import EMPTY_ROOT, Growth, Tree
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.stores.interfaces import ITreeStore
from agtphost.stores.rows import CheckpointRow, StoreError
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.lru import keep

MOST_WAITING = 8_192
"""Records after which a checkpoint is made in any case: it takes about a millisecond."""

SECONDS = 2.0
"""After which one is made where the ledger is never idle: a reader who only polls makes records, too."""

READ_AT_ONCE = 8_192
"""Audit-IDs of one read at start."""

RECENT = 64
"""Checkpoints that a cosignature can still be added to: a witness answers the newest, or one a little older."""


class TreeKeeper:
    """
    The tree of one store; used by the ledger's thread.

    :param store: where records, tiles and checkpoints are.
    :param origin: the host's ``server_id``.
    :param key: signs checkpoints; None leaves them unsigned, like the records.
    :param witnesses: get each checkpoint, and are asked at a start.
    :param now: seconds since the Unix epoch.
    :param traces: files that show that this host has had a store before.
    :param keys: what may have signed the checkpoints that are stored; without any, the public half of ``key``.
    """

    def __init__(
        self,
        store: ITreeStore,
        origin: str,
        key: SigningKey | None,
        witnesses: Sequence[IWitness] = (),
        now: Callable[[], float] = time.time,
        traces: Sequence[Path] = (),
        keys: Sequence[VerifyingKey] = (),
    ) -> None:
        self._traces = traces
        self.keys = keys or (() if key is None else (key.public,))
        self._store = store
        self._origin = origin
        # Both lines of a checkpoint are signed with one key, even if the host's changes between them.
        self._key = None if key is None else key.snapshot()
        self._witnesses = tuple(witnesses)
        self._now = now
        self._size = 0
        self._growth = Growth(store.tile, 0)
        self._last = 0.0
        self._since = 0.0  # when the first record came that no checkpoint covers
        self._recent: OrderedDict[int, CheckpointRow] = OrderedDict()
        self._cosignatures: SimpleQueue[tuple[int, str]] = SimpleQueue()
        self._cosigned_size = 0
        self._begin: Callable[[], object] = store.begin
        self.state: Callable[[], tuple[bytes, bytes] | None] = lambda: None
        """Digests of the tables of state, for checkpoints: :mod:`agtphost.audit.state_keeper`."""

        self.cosigned = ""
        """The newest checkpoint that a witness cosigned, with all its lines; read by any thread."""

    @property
    def records(self) -> int:
        """Return how many records the store has; read by any thread."""
        return self._growth.size

    def checkpoint_age(self) -> float | None:
        """Seconds for which a record waits that no checkpoint covers; 0 where none does, None where none is there."""
        if self._growth.size == self._size:
            return 0.0 if self._size else None
        return max(self._now() - self._since, 0.0)

    def add_witnesses(self, witnesses: Sequence[IWitness]) -> None:
        """Give each further checkpoint to these witnesses too; called before the ledger starts, which asks them."""
        self._witnesses = (*self._witnesses, *witnesses)

    def adopt(self, key: SigningKey) -> None:
        """Sign checkpoints with another key from now on."""
        self._key = key.snapshot()

    def load(self, begin: Callable[[], object] | None = None) -> None:
        """
        Find out how far the tree goes, and which records it lacks.

        :param begin: opens a transaction, and calls this first where another writer has changed the store.
        :raises agtphost.stores.StoreError: the store contradicts its own checkpoint or a witness.
        """
        if begin is not None:
            self._begin = begin
        row = self._store.checkpoint()
        self._size = 0 if row is None else row.size
        if row is not None:
            self._remember(row)
        self._growth = Growth(self._store.tile, self._size)
        while entries := self._store.audit_ids(self._growth.size, READ_AT_ONCE):
            self.note(entries)
        self._last = self._now()
        records = self._store.last_number()
        if self._growth.size != records:
            raise StoreError(
                f"the store has {records} records, and its tree {self._growth.size}: records are missing, or were "
                "added without the host. `agtp audit verify` names what is wrong; restore the store from a backup"
            )

    def check_witnesses(self) -> None:
        """
        Compare what the witnesses saw last with the store.

        :raises agtphost.stores.StoreError: the store is shorter than that, or another one.
        """
        for witness in self._witnesses:
            self.check_witness(witness)

    def check_witness(self, witness: IWitness) -> None:
        """
        Compare what one witness saw last with the store.

        :raises agtphost.stores.StoreError: the store is shorter than that, or another one.
        """
        seen = witness.last()
        if seen is not None:
            self._check(seen, witness.name, witness.remedy)
        elif witness.always and self._size:
            raise StoreError(
                f"{witness.name} is not there, and the store has a checkpoint of {self._size} records: who took it "
                f"away may have put an older copy of the store in place. Bring it back; to go on with this store "
                f"knowingly, {witness.remedy}"
            )
        elif witness.always and self._traces:
            raise StoreError(
                f"{witness.name} is not there, the store has no checkpoint, and {self._traces[0]} shows that this "
                "host has run before: its records were taken away with the witness file. Bring back both; to go "
                f"on with this store knowingly, {witness.remedy}"
            )
        elif witness.always:
            # Of nothing, before the first record is: from now on its absence says something.
            self._note_first(witness)

    def _note_first(self, witness: IWitness) -> None:
        try:
            witness.saw(checkpoint.issue(self._origin, 0, EMPTY_ROOT, self._key, self.state()))
        except OSError as error:
            raise StoreError(f"{witness.name} cannot be written: {explain(error)}") from error

    def _check(self, seen: Checkpoint, name: str, remedy: str) -> None:
        held = self._growth.size
        if seen.size > held:
            raise StoreError(
                f"the store has {held} records, but {name} has seen a checkpoint of {seen.size}: records are missing, "
                f"or an older copy was restored. Bring the newer database back; to go on with this one knowingly, "
                f"{remedy}"
            )
        self.catch_up()
        if seen.size and Tree(self._store.tile, seen.size).root() != seen.root:
            raise StoreError(
                f"the first {seen.size} records are not those that {name} has seen: the store was changed or replaced. "
                f"Restore it from a backup; to go on with this one knowingly, {remedy}"
            )

    def note(self, audit_ids: Sequence[bytes]) -> None:
        """Records that were just committed, in the order of their numbers."""
        if self._growth.size == self._size:
            self._since = self._now()
        self._growth.extend(audit_ids)

    @property
    def due(self) -> bool:
        """Whether a checkpoint is to be made although the ledger is busy."""
        waiting = self._growth.size - self._size
        return waiting >= MOST_WAITING or (waiting > 0 and self._now() - self._last >= SECONDS)

    def catch_up(self) -> Checkpoint | None:
        """
        Add what waits to the tree, and issue a checkpoint; None where nothing waits.

        :raises Exception: the store's error; the tree is as it was.
        """
        if self._growth.size == self._size:
            return None
        store = self._store
        try:
            self._begin()
            size = self._growth.size
            if size == self._size:  # Another process has issued it by now.
                store.rollback()
                return None
            newest = store.checkpoint()
            if (0 if newest is None else newest.size) != self._size:
                # Tiles made from here would cut off what another process added.
                raise StoreError(
                    f"the store has a checkpoint that this host did not write: {newest}. Another process writes to it: "
                    "stop that one, then start this host again"
                )
            store.put_tiles(self._growth.changed_tiles())
            issued = checkpoint.issue(self._origin, size, Tree(store.tile, size).root(), self._key, self.state())
            row = CheckpointRow(size, int(self._now() * 1000), issued.note, self._size)
            store.put_checkpoint(row)
            store.commit()
        except BaseException:
            store.rollback()
            raise
        self._size = size
        self._growth = Growth(store.tile, size)
        self._last = self._now()
        self._remember(row)
        for witness in self._witnesses:
            witness.saw(issued)
        return issued

    def _remember(self, row: CheckpointRow) -> None:
        keep(self._recent, row.size, row, RECENT)

    # Cosignatures

    def cosign(self, size: int, line: str) -> None:
        """Have a witness's line stored with the checkpoint of that size; called by any thread."""
        self._cosignatures.put((size, line))

    @property
    def cosignatures_wait(self) -> bool:
        """Whether :meth:`keep_cosignatures` has something to do."""
        return not self._cosignatures.empty()

    def keep_cosignatures(self) -> None:
        """
        Store the lines that came in. Lines for a forgotten checkpoint are ignored.

        :raises Exception: the store's error; the lines are lost, and the next checkpoint gets others.
        """
        changed: dict[int, CheckpointRow] = {}
        while True:
            try:
                size, line = self._cosignatures.get_nowait()
            except Empty:
                break
            row = changed.get(size) or self._recent.get(size)
            if row is not None:
                changed[size] = row._replace(note=cosignature.with_line(row.note, line))
        if not changed:
            return
        try:
            self._begin()
            for row in changed.values():
                self._store.put_checkpoint(row)
            self._store.commit()
        except BaseException:
            self._store.rollback()
            raise
        for size in sorted(changed):
            self._recent[size] = changed[size]
            if size >= self._cosigned_size:
                self._cosigned_size, self.cosigned = size, changed[size].note
