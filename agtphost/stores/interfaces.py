"""
What a store provides, in parts by who needs them; :mod:`agtphost.iagtp` has them all under one roof.

Identifiers are octets; rows are those of :mod:`agtphost.stores.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from zope.interface import Attribute, Interface

from agtphost.stores.lease import HostProcess, LeaseState
from agtphost.stores.record_look import never
from agtphost.stores.record_search import CountedBy, LatestRecords, RecordCounts, Search
from agtphost.stores.record_summary import RecordSummary
from agtphost.stores.rows import (
    AnswerRow,
    CheckpointRow,
    Facet,
    HeadRow,
    ItemRow,
    KeyedRow,
    RecordRow,
    ReservationRow,
    Selection,
    SignedRow,
    StateChangeRow,
    StateRow,
    StoredRecord,
)


class ITransactions(Interface):
    """
    Transactions of a store: for one thread at a time, and blocking.

    What happens between :meth:`begin` and :meth:`commit` becomes true
    together and durably, or not at all. Any exception means that the
    transaction did not happen, except one from :meth:`commit`, which
    leaves that open until :meth:`IRecordLog.holds` answers.
    """

    def begin() -> bool:
        """
        Open a transaction that excludes every other writer; True if another one wrote since the last.

        A store may learn that later: then what it is asked first, or :meth:`commit`, raises
        :class:`agtphost.stores.rows.ConflictError`, and the next call of this returns True.
        """

    def commit() -> None:
        """Make the transaction durable, or raise what is wrong with its rows if the methods that wrote them did not."""

    def rollback() -> None:
        """Forget the transaction, if there is one."""


class IRecordLog(Interface):
    """Records in their chains: they are only ever added."""

    def heads() -> dict[str, HeadRow]:
        """Return the newest record of every chain, after checking its hash."""

    def chain_number(chain: str) -> int:
        """Return the number of a chain; a new chain gets one in this transaction."""

    def last_number() -> int:
        """Return the number of the newest record of all chains; 0 if the store has no record."""

    def append(records: Sequence[RecordRow]) -> None:
        """Append records and raise if a place in a chain is already taken."""

    def holds(audit_id: bytes) -> bool:
        """Return whether the store has a record."""

    def audit_ids(after: int, limit: int) -> Sequence[bytes]:
        """Audit-IDs of the records numbered ``after + 1`` and on."""

    def records_after(after: int, limit: int) -> Sequence[tuple[int, StoredRecord]]:
        """
        Return the records from the number ``after + 1`` on, each with its number.

        :raises agtphost.stores.rows.DamagedRecord: one of them is not what was signed.
        """

    def signed_after(after: int, limit: int) -> Sequence[SignedRow]:
        """Return the octets of the records from ``after + 1`` on, unchecked, without those that cannot be read."""


class ILifecycleRows(Interface):
    """The lifecycle state of every agent."""

    def lifecycle_states() -> dict[str, StateRow]:
        """Return the lifecycle state of every agent that has one."""

    def lifecycle_status(agent_id: str) -> str | None:
        """Return the lifecycle status of one agent, with the changes of this transaction."""

    def lifecycle_row(agent_id: str) -> StateRow | None:
        """Return the lifecycle state of one agent, with the changes of this transaction."""

    def set_lifecycle(agent_id: str, state: StateRow) -> None:
        """Change one agent's state."""


class IKeyedRequests(Interface):
    """Reservations of keyed requests, their answers, and what they take."""

    def reservations(names: Sequence[bytes]) -> dict[bytes, ReservationRow]:
        """Return the reservations with these names; missing ones are left out."""

    def put_reservations(rows: Sequence[ReservationRow]) -> None:
        """Add reservations, or replace those of the same name."""

    def put_results(results: Sequence[AnswerRow]) -> None:
        """Store the answers of reservations, with the number of the record that each is written with."""

    def read_usage(owners: Iterable[bytes]) -> dict[bytes, KeyedRow]:
        """Return the space that the owners' keyed requests take; owners without any are left out."""

    def put_keyed(rows: Iterable[KeyedRow]) -> None:
        """Store the space that the owners' keyed requests take from this transaction on."""


class IItemRows(Interface):
    """The rows of state items: small durable state, each with a version."""

    def list_items() -> Sequence[ItemRow]:
        """Return every state item."""

    def held_rows(kind: str, keys: Sequence[str]) -> Mapping[str, ItemRow]:
        """Return those of these state items that there are as this transaction has them, expired or not, by key."""

    def expired_items(now: int, limit: int) -> Sequence[ItemRow]:
        """State items that have expired by ``now``, those that expired first in front."""

    def put_held(rows: Sequence[ItemRow]) -> None:
        """Add or replace state items, each once; remove those whose value is None."""


class IStateLog(Interface):
    """The log of the rows of the two state tables that each record changed: :mod:`agtphost.audit.state_keeper`."""

    def state_changes(after: int, limit: int) -> Sequence[StateChangeRow]:
        """Return the entries from the number ``after + 1`` on."""

    def last_state_change() -> int:
        """Return the number of the newest entry; 0 if there is none."""

    def put_state_changes(rows: Sequence[StateChangeRow]) -> None:
        """Append entries and raise if a number is already used."""

    def clear_state_changes() -> None:
        """Remove every entry, in front of a baseline."""


class ITreeRows(Interface):
    """The tree over all records, and its checkpoints."""

    def tile(level: int, number: int) -> bytes:
        """Return the hashes of a tile of the tree; empty if the tile does not exist yet."""

    def put_tiles(tiles: Mapping[tuple[int, int], bytes]) -> None:
        """Add or replace tiles, by level and number."""

    def checkpoint() -> CheckpointRow | None:
        """Return the newest checkpoint; None if there is none."""

    def put_checkpoint(row: CheckpointRow) -> None:
        """Add a checkpoint."""


class IStoreUpkeep(Interface):
    """Room, cleaning, and the end."""

    def damage() -> Sequence[str]:
        """
        Check the newest records and a sample of the others; return a line for each fault. The time does not grow with
        the store.
        """

    def free_space() -> int:
        """Octets left where the store grows."""

    def probe() -> None:
        """Commit a write of a size that fails while the store is full."""

    def forget(expired_before: int, running: Iterable[bytes]) -> bool:
        """
        Delete a bounded number of expired reservations, in a separate transaction.

        Expired state items are deleted by way of :meth:`IItemRows.expired_items`, in the ledger's own transactions.

        :param expired_before: reservations made before it go, but none that is ``running``.
        :return: whether there may be more.
        """

    def index_blocks() -> bool:
        """
        Write some of the blocks of facets and times by which records are counted, in a separate transaction.

        :return: whether there are more to write; False where the store counts without blocks.
        """

    def tidy() -> None:
        """Do idle work: checkpoint the write-ahead log."""

    def reopen() -> None:
        """Open the store again after a failure; what was not committed is lost."""

    def close() -> None:
        """Let go of the store."""


class ILease(Interface):
    """
    The right to write to a store that several hosts share; see :mod:`agtphost.stores.lease`.

    Its methods block, and any thread may call them. Each raises :class:`agtphost.stores.StoreError` where the store
    cannot be reached.
    """

    me = Attribute("The :class:`agtphost.stores.lease.Holder` that this host is.")

    term = Attribute("The fencing token of this host; 0 before it took the lease.")

    confirmed = Attribute(
        "When this host sent the last beat or commit that the store confirmed, in seconds of "
        ":data:`agtphost.vocabulary.times.steady`; minus infinity before the first."
    )

    clock_ahead = Attribute(
        "By how many seconds this machine's clock is ahead of the store's, as last seen; negative where it is behind."
    )

    when_superseded = Attribute("A function that is called, in any thread, once another host has taken the lease.")

    def look() -> LeaseState:
        """Return who holds the lease."""

    def take() -> bool:
        """Take the lease with a new term if it is over, or this host's own; return whether it was taken."""

    def keep(ahead: int | None = None) -> None:
        """
        Confirm the lease.

        :param ahead: whole seconds for which this host may not be able to confirm it again, as while it reads the whole
            store under the lock; a call without it does not take them back.
        :raises agtphost.stores.lease.Superseded: another host has taken it.
        """

    def report(process: HostProcess) -> None:
        """Show this process, and its state, to those who ask which hosts run on the store."""

    def read_published() -> str:
        """Return the text of :meth:`write_published`; empty if none was written."""

    def write_published(text: str) -> None:
        """
        Replace the text with the numbers of what the hosts of the store published.

        :raises agtphost.stores.lease.Superseded: another host has taken the lease; nothing was written.
        """

    def listen(wake: Callable[[], object]) -> None:
        """Call a function, in any thread, when a host may have given the lease up; a store may never call it."""

    def stop_listening() -> None:
        """Stop calling the function."""

    def give_up() -> None:
        """Give the lease up, so that another host can take it immediately; do nothing without it."""


class IRecordReader(Interface):
    """
    The reading side of a store: blocking, from any thread, and also while another process writes.

    It sees what was committed. A record that is not what was signed is :class:`agtphost.stores.DamagedRecord`, never
    missing. An Audit-ID, and the Agent-ID that names a chain, are hexadecimal text here; ``""`` is the host's chain.
    """

    def record(audit_id: str) -> StoredRecord | None:
        """Return the record with an Audit-ID; None if the store lacks it."""

    def head(chain: str) -> StoredRecord | None:
        """Return the newest record of a chain; None if the chain is empty."""

    def walk(chain: str, before_seq: int | None, limit: int) -> Sequence[StoredRecord]:
        """Records of a chain, newest first, those before ``before_seq`` where given."""

    def lifecycle(agent_id: str, limit: int) -> Sequence[StoredRecord]:
        """Lifecycle events of an agent, newest first."""

    def lifecycle_states() -> Mapping[str, StateRow]:
        """Return the lifecycle state of every agent that has one."""

    def state_items(kind: str) -> Sequence[dict[str, Any]]:
        """Return the values of the state items of a kind, by key."""

    def moment() -> AbstractContextManager[IRecordReader]:
        """Return a reader of the store as it is now, unaffected by later commits; for one thread."""

    def stored_state() -> tuple[Mapping[str, StateRow], Sequence[ItemRow]]:
        """
        Return every row of both state tables for ``agtp audit verify``; undecodable text is included, as far as
        possible.
        """

    def state_changes(after: int, limit: int) -> Sequence[StateChangeRow]:
        """Return the entries from ``after + 1`` on of the log of changes that records made to the state."""

    def signed_after(after: int, limit: int) -> Sequence[SignedRow]:
        """Return the octets of the records from ``after + 1`` on, unchecked, without those that cannot be read."""

    def chains() -> Sequence[str]:
        """Return every chain, the host's own first."""

    def records(selection: Selection, *, damaged: Callable[[str, str], None] | None = None) -> Iterator[StoredRecord]:
        """
        Records chain by chain, oldest first.

        :param damaged: takes chain and explanation of each record that is not what was signed; it is left out then.
        """

    def latest(before: int | None, limit: int, search: Search, *, stop: Callable[[], bool] = never) -> LatestRecords:
        """
        Records of all chains, newest first. A look is bounded in time, and may end before it found ``limit`` records.

        :param before: the place that the look begins below; None: at the newest.
        :param limit: how many records and damaged ones are wanted at most, from 1.
        :param stop: see :data:`agtphost.stores.record_look.Stop`.
        :raises agtphost.stores.record_look.SearchStopped: ``stop`` returned true.
        """

    def count(by: CountedBy, before: int | None, search: Search, *, stop: Callable[[], bool] = never) -> RecordCounts:
        """Count the records that a search without texts finds; counts of looks that go on from one another add up."""

    def summarize(now: int, search: Search, *, stop: Callable[[], bool] = never) -> RecordSummary:
        """
        Count the records that a search without texts finds, by slots of time and by facet, the newest first.

        A look is bounded in time; its result says how far back it came.

        :param now: the end of a range without one, in milliseconds since the Unix epoch.
        """

    def new_facets(since: int, *, stop: Callable[[], bool] = never) -> tuple[Sequence[Facet], Sequence[Facet]]:
        """
        Return the facets whose first record is not older than a time, and all others.

        :param since: in milliseconds since the Unix epoch.
        """

    def last_calls(callers: Sequence[str], *, stop: Callable[[], bool] = never) -> Mapping[str, int]:
        """Return the time of each agent's last call with proof of who it is; in milliseconds since the Unix epoch."""

    def number_of(audit_id: str) -> int | None:
        """Return the position of a record among all records, counted from 1."""

    def every_audit_id() -> Iterator[bytes]:
        """Yield the Audit-IDs of all records, in the order of their numbers."""

    def checkpoint() -> CheckpointRow | None:
        """Return the newest checkpoint of the tree over all records; None if there is none."""

    def tile(level: int, number: int) -> bytes:
        """Return a tile of the tree; empty if it does not exist."""

    def faults() -> Sequence[str]:
        """Check the whole store; return a line for each fault. ``agtp audit verify`` waits for it."""

    def close() -> None:
        """Let go of what it holds."""


class ITreeStore(ITransactions, IRecordLog, ITreeRows):
    """The store interface of the Merkle tree (:mod:`agtphost.audit.tree`)."""


class IWriterStore(ITransactions, IRecordLog, ILifecycleRows, IKeyedRequests, IItemRows, IStateLog, IStoreUpkeep):
    """The store interface for commits of record groups (:mod:`agtphost.audit.writer`)."""


class IChainStore(IWriterStore, ITreeStore):
    """
    The writing side of a store, whole.

    One store provides all of it, because one transaction spans it all: a
    record, what it changes, and the answer that is kept for its repeat.
    """

    def reader() -> IRecordReader:
        """
        Open a reader of the store.

        :raises agtphost.stores.StoreError: the store does not exist or cannot be read.
        """


class IPluggableStore(IChainStore):
    """
    A store of an operator's own package: an extension point, ``[store] plugin``, see ``docs/extending/store.rst``.

    :meth:`open` is called once, before all else but ``reader``, which commands ask without it.
    """

    def open(create: bool) -> None:
        """
        Open the store for writing; the ledger closes it.

        While one host has it open, another one must be refused: two would carry out the same workflows.

        :param create: whether a missing one is made: the host has no trace of an earlier life.
        :raises agtphost.stores.StoreError: it is missing, damaged, another's, or another host has it open.
        """
