"""What the ledger promises to the dispatcher, and what the ledger asks of a witness."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from zope.interface import Attribute, Interface

from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.drafts import Change, Draft, Reservation, ReservationKey, Sealed
from agtphost.audit.observed_records import ObservedGroup, ObservedRecord


class ILedger(Interface):
    """
    Seals and stores records; the only writer of chains.

    Promises that a Sealed it returns is on disk. Does not promise order
    between drafts submitted to different chains.
    """

    healthy = Attribute("bool: False from the first failed commit until a later one succeeds")
    low = Attribute("bool: whether it is not healthy for want of space alone, and takes what is vital")
    door = Attribute("Door: where calls wait while what another process wrote is taken over in more than one turn")

    def look() -> None:
        """
        Update :attr:`healthy`, whether a record can be kept now, if the disk was not checked for a moment.

        The gates call it before each handler; it does not wait.
        """

    def submit(draft: Draft) -> Awaitable[Sealed]:
        """
        Sign, link and store one record in the next group commit.

        :raises agtphost.audit.drafts.LedgerUnavailable: nothing was stored, or that is unknown.
        :raises agtphost.audit.drafts.StaleLifecycle: the agent's state is not the expected one any more.
        :raises agtphost.audit.drafts.StaleChange: a state item does not have the expected version any more.
        """

    def submit_undurable(draft: Draft) -> Sealed:
        """Sign a record marked ``durable: false``, outside every chain, for the answer that says the store is down."""

    def reserve(key: ReservationKey, digest: bytes) -> Awaitable[Reservation]:
        """Durably note that a keyed request is about to run, or report what is known of it."""

    def when_stopped(ending: Callable[[str], Sequence[Change]]) -> None:
        """
        Have state items change in the transaction that stops an agent.

        :param ending: called with the Agent-ID when an event that stops the agent is submitted; returns the changes.
        """

    def watch(watcher: Callable[[ObservedGroup], object]) -> None:
        """
        Call a watcher for every group once it is on disk, and for each record that is signed outside every chain.

        It is called in the reactor's thread, after the callers that wait for the records, and must not wait itself. One
        that raises is dropped, and logged. It is not called for a group that failed.
        """

    def unwatch(watcher: Callable[[ObservedGroup], object]) -> None:
        """Stop calling a watcher; an unknown one is ignored."""

    def cosign(size: int, line: str) -> None:
        """
        Store the signature line of a witness with the checkpoint of that size, soon; records never wait for it.
        """


class IWitness(Interface):
    """Remembers the last checkpoint somewhere that is not the store."""

    name = Attribute("str: what it is called in messages")
    always = Attribute("bool: whether it must have seen something wherever the store has a checkpoint")
    remedy = Attribute("str: what an operator does who goes on knowingly with a store that contradicts it")

    def last() -> Checkpoint | None:
        """
        Return the last checkpoint it saw; None where it saw none.

        :raises agtphost.stores.StoreError: what it has cannot be read or believed.
        """

    def saw(issued: Checkpoint) -> None:
        """
        Take note of a checkpoint that the store has durably.

        :raises OSError: it could not.
        """


class IRemoteWitness(IWitness):
    """A witness that gets checkpoints over a network, some time after they were made."""

    age = Attribute("float: seconds for which a checkpoint waits for it; 0 where none does")
    known_keys = Attribute("Sequence[VerifyingKey]: the keys that it may cosign with, as far as they are known now")


class IRecordObserver(Interface):
    """
    Sees every record that was committed, once it is on disk: for an index, a metric, a copy elsewhere.

    An extension point: ``[[observer]]``, see ``docs/extending/observer.rst``. It is called in the order of commits,
    after the caller has its answer, and can change nothing. One that is slow misses records; all are in the store.
    """

    def saw(record: ObservedRecord) -> Awaitable[None] | None:
        """
        Take note of a record.

        :return: None, or a Deferred or coroutine; the next record comes when it has ended.
        """
