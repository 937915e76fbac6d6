"""
The ledger: every outcome becomes a durable, signed record before it is reported.

Theory of operation. Drafts collect during one turn of the reactor and are handed to one writer thread at its end. The
thread takes everything that waits, writes it in one transaction (:mod:`agtphost.audit.writer`), and wakes the reactor
once, which fires all Deferreds. Groups have no fixed size: while one group is being committed, the next one forms, and
where many calls are open it waits for some of them (:mod:`agtphost.audit.group_timing`). The first failure makes the
ledger unhealthy: from then on everything fails immediately, until a probe write succeeds (security invariants 1 and
12). Where the disk only runs low, what handlers did by then is still written, and what is vital, such as a revocation:
that is what the space below the floor is kept for. Where that is gone too, the ballast gives back what it holds, a
piece for each write that needs it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Thread
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit import recovery
from agtphost.audit.agent_endings import AgentEndings
from agtphost.audit.apply_committed import CommitApplier
from agtphost.audit.catch_up import CatchUp
from agtphost.audit.chain import RecordSigner, Seconds
from agtphost.audit.drafts import Draft, LedgerUnavailable, Reservation, ReservationKey, Sealed
from agtphost.audit.group_timing import LedgerReactor
from agtphost.audit.interfaces import ILedger
from agtphost.audit.keyed import reservation_name
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.outage import Outage
from agtphost.audit.space import FREE_SPACE_FLOOR, Space
from agtphost.audit.state import StateFull, StateTable
from agtphost.audit.state_keeper import StateKeeper
from agtphost.audit.submission_queue import EntryCollector
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.watchers import Watcher, Watchers
from agtphost.audit.writer import Claim, Entry, GroupWriter, Submission
from agtphost.audit.writer_queue import Task, WriterQueue
from agtphost.identity.keys import Signer, SigningKey
from agtphost.stores.ballast import Ballast
from agtphost.stores.interfaces import IChainStore
from agtphost.stores.rows import ConflictError, ItemRow, StateRow
from agtphost.vocabulary.allocator import pause_collector, release_memory
from agtphost.vocabulary.bounds import Answers
from agtphost.vocabulary.foreign_errors import with_original
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID
from agtphost.vocabulary.quotas import ANSWERS

IDLE_SECONDS = 0.5
"""How long nothing may come before the log is folded into the database."""

FORGET_SECONDS = 10.0
"""How often what has expired is dropped, under load and without any."""

PROBE_SECONDS = 1.0
"""From a failure to the first probe write; doubled after each that fails."""

PROBE_SECONDS_MOST = 4.0

log = Logger()


_MAKE_ROOM = "make room there. Until then the lifecycle methods and CONFIRM are carried out, and nothing else"
_DECLINES = "the store does not take records: {why}"


@implementer(ILedger)
class Ledger:
    """
    Signs, links and stores records.

    :param store: the writing side of the store; the ledger closes it when it stops.
    :param signer: the host's signing key; None writes visibly unsigned records.
    :param reactor: schedules hand-overs and receives results.
    :param server_id: ``server_id`` of lifecycle events.
    :param lifecycle: kept in step with the committed transitions.
    :param held: kept in step with the committed changes of state items.
    :param now: the host's time, in seconds since the Unix epoch.
    :param arrival: the clock by which the arrival of calls is noted; None: the same.
    :param leaped: seconds for which answers are kept longer; see :mod:`agtphost.audit.host_clock`.
    :param keep_results: seconds for which a keyed request is remembered.
    :param free_space_floor: octets that have to stay free on the store's disk.
    :param ballast: holds space for when they are gone; None holds none.
    :param quick_space: whether the store tells without waiting what is free.
    :param probe_seconds: from a failure to the first probe write.
    :param tree: the tree over all records; None keeps none.
    :param states: signs what changes in the tables of state, and compares them with that.
    :param events: the envelope of lifecycle events, ``jws`` or ``cose``.
    :param answers: how many answers of keyed requests an agent may have, and how long.
    """

    def __init__(
        self,
        store: IChainStore,
        signer: Signer | None,
        reactor: LedgerReactor,
        *,
        server_id: str,
        lifecycle: LifecycleTable,
        held: StateTable | None = None,
        now: Callable[[], float] = time.time,
        arrival: Callable[[], float] | None = None,
        leaped: Callable[[], float] = lambda: 0.0,
        keep_results: float = 86_400.0,
        free_space_floor: int = FREE_SPACE_FLOOR,
        probe_seconds: float = PROBE_SECONDS,
        tree: TreeKeeper | None = None,
        states: StateKeeper | None = None,
        events: str = "jws",
        answers: Answers = ANSWERS,
        ballast: Ballast | None = None,
        quick_space: bool = True,
    ) -> None:
        self._store = store
        self._signer = RecordSigner(signer, events)
        self._reactor = reactor
        self._lifecycle = lifecycle
        self._held = StateTable() if held is None else held
        self._takeover = CatchUp(lifecycle, self._held, now)
        self._settling = CommitApplier(reactor.callLater, lifecycle, self._held, self._takeover)
        self.door = self._settling.door
        self._now = now
        self._arrival = arrival or now
        self._probe_seconds = probe_seconds
        self._writer = GroupWriter(
            store,
            self._signer,
            server_id=server_id,
            now=now,
            keep_results=keep_results,
            leaped=leaped,
            tree=tree,
            states=states,
            moved=self._take_over_changes,
            answers=answers,
        )
        self._space = Space(self._writer.free_space, free_space_floor, ballast, self._report, quick=quick_space)
        self._tree = tree
        self._pruning = False
        self._held.overdue = self._prune_soon
        self.healthy = False
        self._watchers = Watchers()
        self._endings = AgentEndings()
        self.when_stopped = self._endings.add
        self._queue = WriterQueue()
        self._collecting = EntryCollector(reactor, lambda entries, octets: self._queue.put((entries, octets)))
        self._thread: Thread | None = None
        self._stopped: Deferred[None] = Deferred()
        self._failed = False
        self._outage = Outage()
        self._forgot = time.monotonic()
        self._low = False
        self._probe_delay = probe_seconds
        self._stopping = False
        self._seconds = Seconds()

    # The reactor's side

    def start(self) -> None:
        """
        Read heads and lifecycle states, and start the writer thread. Blocks: call it before serving.

        :raises agtphost.stores.StoreError: see :meth:`read`.
        """
        self.read()
        self.healthy = self._space.begin()
        if not self.healthy:
            self._low = True
            log.error(_DECLINES, why=f"{self._space.shortage}, or for what is kept for a full disk; {_MAKE_ROOM}")
        self._sign_baseline()
        self._thread = Thread(target=self._run, name="agtphost-ledger", daemon=True)
        self._thread.start()

    def read(self) -> None:
        """
        Read heads, lifecycle states and state items: all of a start that the store can forbid.

        :raises agtphost.stores.StoreError: a head is damaged, the store cannot be read, or a witness contradicts it.
        """
        with pause_collector():
            states, held = recovery.read(self._store, self._writer, self._tree)
            self._lifecycle.replace(states)
            self._held.replace(held)

    def _sign_baseline(self) -> None:
        """Sign the state of a store that an earlier version made without signing its state."""
        try:
            self._writer.sign_baseline()
        except Exception as error:
            log.error("the state in the store could not be signed; the next record tries again: {why}", why=repr(error))

    def stop(self) -> Deferred[None]:
        """Write what waits, close the store, and end the thread. Afterwards everything fails."""
        if self._thread is None:
            self._stopped.callback(None)
        elif not self._stopping:
            self._collecting.hand_over_all()
            self._stopping = True
            self._queue.stop()
        self.healthy = False
        return self._stopped

    @property
    def newest(self) -> float:
        """The time of the newest record at the start, in seconds since the Unix epoch; 0 for an empty store."""
        return self._writer.newest / 1000

    @property
    def low(self) -> bool:
        """Whether space is all that is wanting: what was performed and what is vital is taken."""
        return self._low and not (self._failed or self._stopping)

    def look(self) -> None:
        """Notice a disk that others have filled up since anybody looked; see :class:`agtphost.iagtp.ILedger`."""
        if time.monotonic() > self._space.stale_from and self.healthy and not self._space.enough_now():
            self._low = True
            self._decline(self._space.shortage)
            # The writer may be waiting for something to write, and is to look for room now.
            self._queue.wake()

    def submit(self, draft: Draft) -> Deferred[Sealed]:
        """Sign, link and store one record; see :class:`agtphost.iagtp.ILedger`."""
        if not self.healthy and not ((draft.performed or draft.vital) and self.low):
            if draft.reservation is not None:
                self._writer.running.discard(reservation_name(draft.reservation))
            return fail(LedgerUnavailable("the store is down"))
        deferred: Deferred[Sealed] = Deferred()
        submission = Submission(draft, deferred)
        if draft.event is not None:
            self._endings.extend(draft)
        if draft.changes:
            try:
                submission.admitted = self._held.admit(draft.changes, proven=draft.proven)
            except StateFull as full:
                return fail(full)
            if draft.grows is not None:
                try:
                    draft.grows(submission.admitted.stored)
                except Exception as objection:
                    self._held.settle(submission.admitted)
                    return fail(objection)
            draft.changes = submission.admitted.changes
        self._collecting.add(submission, len(draft.result))
        return deferred

    def reserve(self, key: ReservationKey, digest: bytes) -> Deferred[Reservation]:
        """Durably note that a keyed request is about to run; see :class:`agtphost.iagtp.ILedger`."""
        if not self.healthy:
            return fail(LedgerUnavailable("the store is down"))
        deferred: Deferred[Reservation] = Deferred()
        self._collecting.add(Claim(key, digest, deferred), 0)
        return deferred

    def submit_undurable(self, draft: Draft) -> Sealed:
        """Sign a record marked ``durable: false``, outside every chain."""
        text = self._seconds.text(int(self._now() * 1000))
        payload = {**draft.payload, "durable": False, "issued_at": text, "previous_audit_id": ZERO_AUDIT_ID}
        signature = self._signer.sign(payload)
        sealed = Sealed(jws=signature.jws, audit_id=signature.audit_id_text, issued_at=text)
        self._watchers.undurable(draft, sealed, self._arrival())
        return sealed

    def expect(self, calls: Callable[[], int]) -> None:
        """Form groups by how many calls are open: see :mod:`agtphost.audit.group_timing`."""
        self._collecting.grouping.expected = calls

    def watch(self, watcher: Watcher) -> None:
        """Call a watcher for every group; see :class:`agtphost.iagtp.ILedger`."""
        self._watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling a watcher."""
        self._watchers.discard(watcher)

    def cosign(self, size: int, line: str) -> None:
        """Store a witness's line with the checkpoint of that size, soon; records never wait for it."""
        if self._tree is not None:
            self._tree.cosign(size, line)
            self._queue.wake()

    def call_in_writer(self, task: Task) -> None:
        """Call a function in the writer's thread, between two groups; it must not raise."""
        self._queue.call(task)

    def adopt(self, key: SigningKey) -> None:
        """Sign with another key: every record of the next group and of all after it, and checkpoints too."""
        self._writer.adopt(key)

    def _settle(self, entries: Sequence[Entry], seconds: float) -> None:
        """Fire the Deferreds of a group; what its events changed is in force before the first of them."""
        notify = partial(self._watchers.report_group, entries, self._arrival(), seconds)
        self._collecting.note_finished(entries, partial(self._settling.settle, entries, notify), seconds)

    def _settle_failed(self, entries: Sequence[Entry], error: str) -> None:
        failed = partial(self._settling.fail, entries, partial(LedgerUnavailable, error))
        self._collecting.note_finished(entries, failed)

    def _take_over_changes(self, states: dict[str, StateRow], held: Sequence[ItemRow]) -> None:
        """
        Take over, in the writer's thread, what another process wrote to the store, before the reactor gets the group.
        """
        self._report("the store was changed by another process: {why}", "what it holds is taken over")
        self._take_over(states, held, lambda: None)

    def _take_over(self, states: dict[str, StateRow], held: Sequence[ItemRow], then: Callable[[], None]) -> None:
        take_over, stops = self._settling.take_over, self._takeover.stops(states)
        told = tuple(stops.states)
        if told:
            self._reactor.callFromThread(take_over, stops, lambda: None)
        self._reactor.callFromThread(take_over, self._takeover.compare(states, held, told), then)

    def _note_recovery(self) -> None:
        """
        Note that the store takes writes again; its content is in force, because a COMMIT in doubt may have changed it.
        """
        if not self._stopping:
            self.healthy = True
        log.info("the store takes records again")

    # The writer thread's side

    def _run(self) -> None:
        try:
            tidy = True
            while True:
                group = self._queue.take(self._pause(tidy))
                if group is None:
                    if self._failed or self._low:
                        self._probe()
                    else:
                        tidy = self._tidy()
                    continue
                entries, stop = group
                if entries:
                    self._write(entries)
                    tidy = False
                    if not self._failed and time.monotonic() - self._forgot > FORGET_SECONDS:
                        self._forget()
                if self._tree is not None and self._tree.cosignatures_wait:
                    self._keep_cosignatures(self._tree)
                if self._queue.tasks:
                    self._queue.run_tasks()
                if stop:
                    break
            if not self._failed:
                self._tidy()
        finally:
            self._finish()

    def _pause(self, tidy: bool) -> float:
        """Seconds to wait for the next group."""
        if self._failed or self._low:
            return self._probe_delay
        return FORGET_SECONDS if tidy else IDLE_SECONDS

    def _write(self, entries: list[Entry]) -> None:
        if self._failed:
            self._refuse(entries, "the store is down")
            return
        began = time.perf_counter()
        try:
            if self._low:
                self._space.make_room()
            self._write_out(entries)
        except Exception as error:
            self._down(error)
            self._refuse(entries, with_original(error))
            return
        self._takeover.note_written(entries)
        self._reactor.callFromThread(self._settle, entries, time.perf_counter() - began)
        if entries[0].__class__ is Submission and entries[0].large:
            release_memory()
        if self._tree is not None and self._tree.due:
            self._checkpoint(self._tree)
        if not self._low and self._space.due() and not self._space.enough():
            self._low = True
            self._decline(self._space.shortage)

    def _write_out(self, entries: list[Entry]) -> None:
        """Write one transaction; repeat it after a conflict, or where the ballast makes room on a full disk."""
        try:
            self._writer.write(entries)
        except ConflictError:
            self._writer.write(entries)
        except Exception:
            # On a full disk, every error of the store is caused by the disk.
            if not self._space.make_room():
                raise
            self._writer.recover(probe=False)
            self._writer.write(entries)
            if not self._low:
                self._low = True
                self._decline(self._space.shortage)

    def _checkpoint(self, tree: TreeKeeper) -> None:
        """Issue a checkpoint. Records do not depend on it, so they do not fail with it."""
        try:
            tree.catch_up()
        except Exception as error:
            self._report("no checkpoint could be issued: {why}", repr(error))

    def _keep_cosignatures(self, tree: TreeKeeper) -> None:
        try:
            tree.keep_cosignatures()
        except Exception as error:
            self._report("a witness's signature could not be stored: {why}", repr(error))

    def _refuse(self, entries: list[Entry], error: str) -> None:
        self._writer.abandon(entries)
        self._reactor.callFromThread(self._settle_failed, entries, error)

    def _down(self, error: Exception) -> None:
        self._failed = True
        self._outage = Outage(error)
        self._decline(f"a transaction failed: {with_original(error)}")

    def _decline(self, why: str) -> None:
        """Become unhealthy immediately, so that no further request reaches its handler."""
        self.healthy = False
        self._probe_delay = self._probe_seconds
        self._report(_DECLINES, why)

    def _report(self, message: str, why: str) -> None:
        self._reactor.callFromThread(partial(log.error, message, why=why))

    def _probe(self) -> None:
        try:
            if not (self._space.enough() and self._space.hold_ballast()):
                raise OSError("too little space is free")
            states, held = self._writer.recover()
        except Exception as error:
            self._probe_delay = min(self._probe_delay * 2, PROBE_SECONDS_MOST)
            if self._failed and self._outage.is_news(error):
                self._report(_DECLINES, with_original(error))
            return
        self._failed = self._low = False
        self._take_over(states, held, self._note_recovery)

    def _tidy(self) -> bool:
        """Do idle work. Its failure does not fail a record; the next group shows whether the store works."""
        if self._tree is not None:
            self._checkpoint(self._tree)
        more = False
        try:
            more = self._writer.tidy()
        except Exception as error:
            self._report("the store could not be tidied: {why}", repr(error))
        if self._tree is not None:
            self._checkpoint(self._tree)  # Expired items get a record; mostly nothing has expired.
        self._forgot = time.monotonic()
        self._reactor.callFromThread(self._prune_soon)
        return not more

    def _forget(self) -> None:
        """Delete expired items, and write blocks of the index, even where the host is never idle."""
        self._forgot = time.monotonic()
        try:
            self._writer.forget()
            self._writer.index_blocks()
        except Exception as error:
            self._report("the store could not be kept in order: {why}", repr(error))
        self._reactor.callFromThread(self._prune_soon)

    def _prune_soon(self) -> None:
        if not self._pruning:
            self._pruning = True
            self._reactor.callLater(0, self._prune)

    def _prune(self) -> None:
        self._pruning = False
        if self._held.prune():
            self._prune_soon()

    def _finish(self) -> None:
        """End the thread, as asked or because of a fault."""
        self._failed = True
        self.healthy = False
        self._queue.close()
        try:
            self._store.close()
        finally:
            self._reactor.callFromThread(self._join_writer)

    def _join_writer(self) -> None:
        """Join the writer's thread and fail the entries that are left; new ones are not accepted any more."""
        self._settling.finish()
        thread: Any = self._thread
        thread.join()
        self._collecting.hand_over_all()
        while (left := self._queue.take(0)) is not None:
            self._writer.abandon(left[0])
            self._settle_failed(left[0], "the ledger has stopped")
        self._stopped.callback(None)
