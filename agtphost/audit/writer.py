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
from typing import Any, Final

from agtphost.audit.chain import Head, RecordSigner, Seconds, first, head_of_row, index_columns
from agtphost.audit.drafts import (
    Change,
    Draft,
    LedgerUnavailable,
    LifecycleEvent,
    Reservation,
    ReservationKey,
    ReservationState,
    Sealed,
    StaleChange,
    StaleLifecycle,
    Stopped,
    StreamEvent,
)
from agtphost.audit.items import StateItem, made
from agtphost.audit.keyed import KEYED, Quotas, owner_name, reservation_name, standing_of
from agtphost.audit.lifecycle import state_after, stops
from agtphost.audit.rendering import Unrenderable, linked, rendered
from agtphost.audit.tree import TreeKeeper
from agtphost.identity.keys import SigningKey, fastest_signer
from agtphost.stores.interfaces import IWriterStore
from agtphost.stores.keyed_digests import answer_digest, claim_octets
from agtphost.stores.rows import AnswerRow, ItemRow, RecordFormat, RecordKind, RecordRow, ReservationRow, StateRow
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.bounds import Answers
from agtphost.vocabulary.holdings import ANSWERS

_RECORD: Final = int(RecordKind.RECORD)
_EVENT: Final = int(RecordKind.EVENT)
_JWS: Final = int(RecordFormat.JWS)


class Submission:
    """One draft on its way through a group."""

    __slots__ = ("admitted", "deferred", "draft", "held", "items", "outcome", "state")

    def __init__(self, draft: Draft, deferred: Any = None) -> None:
        self.draft = draft
        self.deferred = deferred
        self.outcome: Sealed | Exception | None = None
        self.state: StateRow | None = None
        """With a lifecycle event: what the agent's state became."""
        self.admitted: Any = None
        """With changes: the room that was made for them."""
        self.held: tuple[ItemRow, ...] = ()
        """With changes: what the state items became."""
        self.items: list[StateItem | None] = []
        """The same as they are kept in memory."""


class Claim:
    """One keyed request that asks to run."""

    __slots__ = ("deferred", "digest", "key", "name", "outcome")

    def __init__(self, key: ReservationKey, digest: bytes, deferred: Any = None) -> None:
        self.key = key
        self.digest = digest
        self.deferred = deferred
        self.name = reservation_name(key)
        self.outcome: Reservation | Exception | None = None


Entry = Submission | Claim


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
    :param moved: told of what the store holds where another writer has changed it.
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
        moved: Callable[[dict[str, StateRow], Sequence[ItemRow]], object] = lambda states, held: None,
        answers: Answers = ANSWERS,
    ) -> None:
        self._answers = answers
        self._store = store
        self._tree = tree
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

    def load(self) -> dict[str, StateRow]:
        """
        Read the heads, and who is stopped: once, at start and after a failure.

        :return: the stored lifecycle states.
        :raises StoreError: a head is damaged.
        """
        self._store.begin()
        try:
            return self._read()
        finally:
            self._store.rollback()

    def begin(self) -> None:
        """
        Open a transaction. What is in memory is then what the store holds, whoever wrote it.

        The lock on the state directory keeps other hosts away; this is for what does not ask for it.

        :raises StoreError: the store was changed into one that contradicts its own checkpoint.
        """
        if self._store.begin():
            states = self._read()
            self._moved(states, self._store.held())

    def _read(self) -> dict[str, StateRow]:
        self._heads = {chain: head_of_row(row) for chain, row in self._store.heads().items()}
        self._last_number = self._store.last_number()
        self._latest = max((head.issued_at for head in self._heads.values()), default=0)
        if self._tree is not None:
            self._tree.load(self.begin)
        states = self._store.lifecycle_states()
        self._stopped = {agent_id: row for agent_id, row in states.items() if stops(row)}
        return states

    def held(self) -> Sequence[ItemRow]:
        """Every state item of the store."""
        return self._store.held()

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

        :raises Exception: whatever the store raised: nothing was written, no outcome holds.
        """
        store = self._store
        if (successor := self._successor) is not None:
            self._turn(successor)
        try:
            self.begin()
            group = _Group(self)
            for entry in entries:
                if entry.__class__ is Submission:
                    group.seal(entry)
            group.flush([entry for entry in entries if entry.__class__ is Claim])
        except BaseException:
            store.rollback()
            raise
        self._commit(group)
        self._heads.update(group.heads)
        self._last_number += len(group.rows)
        self._latest = group.issued_at
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

    def _commit(self, group: _Group) -> None:
        try:
            self._store.commit()
        except Exception:
            # The answer to COMMIT may be lost although it was done: only the store can tell.
            if not group.rows:
                self._store.rollback()
                raise
            self._store.reopen()
            if not self._store.holds(group.rows[-1].audit_id):
                raise

    def abandon(self, entries: Sequence[Entry]) -> None:
        """These could not be written: whether their keyed requests took effect is in doubt from now on."""
        for entry in entries:
            if isinstance(entry, Submission) and entry.draft.reservation is not None:
                self.running.discard(reservation_name(entry.draft.reservation))

    def recover(self, *, probe: bool = True) -> dict[str, StateRow]:
        """
        After a failure: start over with what the store holds, if it takes writes again.

        :param probe: whether to try that first.
        :return: the stored lifecycle states.
        :raises Exception: it does not.
        """
        self._store.reopen()
        if probe:
            self._store.probe()
        return self.load()

    def free_space(self) -> int:
        """Octets left where the store grows."""
        return self._store.free_space()

    def tidy(self) -> bool:
        """Idle work: forget old keyed requests, and fold the log into the database."""
        more = self.forget()
        self._store.tidy()
        return more

    def forget(self) -> bool:
        """Drop some of what has expired; whether there may be more."""
        now = self.milliseconds()
        return self._store.forget(now - self._keep, self.running, now)

    @property
    def newest(self) -> int:
        """When the newest record was signed, in milliseconds since the Unix epoch; 0 where there is none."""
        return self._latest

    @property
    def _keep(self) -> int:
        """Milliseconds of the host's time for which a keyed request is remembered."""
        return int((self._keep_for + self._leaped()) * 1000)

    def milliseconds(self) -> int:
        """The host's time, in milliseconds since the Unix epoch."""
        return int(self._now() * 1000)


class _Group:
    """One transaction in the making; a friend of :class:`GroupWriter`."""

    def __init__(self, writer: GroupWriter) -> None:
        self._writer = writer
        self._store = writer._store
        self._sign = writer._signer.sign
        self._sign_event = writer._signer.sign_event
        # The clock may go back; the signed time of what comes later does not, in whichever chain it is.
        self._now = writer.milliseconds()
        self.issued_at = max(self._now, writer._latest)
        self._text = writer._seconds.text(self.issued_at)
        self._stopped = writer._stopped
        self.states: dict[str, StateRow] = {}
        """Lifecycle states that this transaction changes."""
        self.heads: dict[str, Head] = {}
        self.rows: list[RecordRow] = []
        self._quotas: Quotas | None = None
        self.results: list[AnswerRow] = []
        self.claimed: list[ReservationRow] = []
        self.abandoned: list[bytes] = []
        self._next = writer._last_number + 1

    # Records

    def seal(self, submission: Submission) -> None:
        """Give one draft its place, or note on it why it has none; then nothing of it stays."""
        draft = submission.draft
        stored = b""
        try:
            if draft.standing and (self.states or self._stopped):
                self._require(draft.standing)
            if draft.reservation is not None:
                stored = self._sign_answer(draft, draft.reservation)
            if draft.changes or draft.events or draft.event is not None:
                self._seal_more(submission, draft)
            else:
                chain = draft.chain
                head, row, submission.outcome = self._link(self._head(chain), self._next, draft.payload)
                self.heads[chain] = head
                self.rows.append(row)
                self._next += 1
        except (StaleLifecycle, StaleChange) as error:
            submission.outcome = error
            return
        except (ValueError, TypeError, RecursionError, Unrenderable) as error:
            submission.outcome = LedgerUnavailable(f"the record cannot be written: {error}")
            if draft.reservation is not None:
                self.abandoned.append(reservation_name(draft.reservation))
            return
        if draft.reservation is not None:
            assert isinstance(submission.outcome, Sealed)
            self.quotas.count_answer(draft.reservation, stored)
            self.results.append(AnswerRow(reservation_name(draft.reservation), stored, submission.outcome.number))

    def _require(self, standing: Sequence[str]) -> None:
        """
        In this transaction, none of these agents is stopped.

        :raises Stopped: one is.
        """
        for agent_id in standing:
            state = self.states.get(agent_id) or self._stopped.get(agent_id)
            if state is not None and stops(state):
                raise Stopped(agent_id, state)

    def _seal_more(self, submission: Submission, draft: Draft) -> None:
        """A record with what becomes true along with it. Whatever can fail comes before the first effect."""
        held = self._held_rows(draft.changes)
        heads: dict[str, Head] = {}
        rows: list[RecordRow] = []
        sealed_event = body = sealed = None
        if draft.event is not None:
            stored = self._store.lifecycle_status(draft.event.agent_id)
            if stored != draft.event.expected_status:
                raise StaleLifecycle(f"the state is {stored}, not {draft.event.expected_status}")
            agent_id, status = draft.event.agent_id, draft.event.new_status
            payload = self._event_payload(draft.event, agent_id, draft, new_status=status)
            sealed_event = self._add(heads, rows, draft.event.agent_id, payload, _EVENT)
            body = rendered(draft, sealed_event)
        for event in draft.events:
            sealed = self._add(heads, rows, event.chain, self._event_payload(event, event.chain, draft), _EVENT)
        if draft.payload:
            sealed = self._add(heads, rows, draft.chain, draft.payload, _RECORD)
        if sealed is None:  # State items alone.
            sealed = Sealed(jws="", audit_id="", issued_at=self._text)
        submission.outcome = sealed._replace(event=sealed_event, body=body)
        if draft.event is not None and sealed_event is not None:
            submission.state = state_after(draft.event, sealed_event)
            self._store.set_lifecycle(draft.event.agent_id, submission.state)
            self.states[draft.event.agent_id] = submission.state
        held = tuple(linked(row, change, sealed.audit_id) for row, change in zip(held, draft.changes, strict=True))
        submission.held, submission.items = held, list(map(made, held))
        for row in held:
            self._store.put_held(row)
        self.heads.update(heads)
        self.rows += rows
        self._next += len(rows)

    def _add(
        self, heads: dict[str, Head], rows: list[RecordRow], chain: str, payload: dict[str, object], kind: int
    ) -> Sealed:
        """Link one more record of a submission; nothing of it is in the group yet."""
        below = heads.get(chain) or self._head(chain)
        heads[chain], row, sealed = self._link(below, self._next + len(rows), payload, kind)
        rows.append(row)
        return sealed

    def _held_rows(self, changes: Sequence[Change]) -> tuple[ItemRow, ...]:
        """What state items become; a draft names each of them once."""
        rows = []
        for change in changes:
            version = self._store.held_version(change.kind, change.key, self._now)
            if change.expected is not None and change.expected != version:
                raise StaleChange(f"{change.kind} {change.key} has version {version}, not {change.expected}")
            value = None if change.value is None else jsontext.encode(change.value)
            owner = bytes.fromhex(change.owner)
            rows.append(ItemRow(change.kind, change.key, owner, version + 1, change.expires_at, value))
        return tuple(rows)

    def _event_payload(
        self, event: LifecycleEvent | StreamEvent, agent_id: str, draft: Draft, **more: str
    ) -> dict[str, object]:
        """Companion section 6.2, flat; only an event that changes a state has ``more``, the new one."""
        return {
            **event.fields,
            "audit_record_version": "1",
            "server_id": self._writer._server_id,
            "agent_id": agent_id,
            "event_type": event.event_type,
            **more,
            "response_id": draft.payload.get("response_id", ""),
            "status": draft.payload.get("status", 200),
        }

    def _head(self, chain: str) -> Head:
        head = self.heads.get(chain) or self._writer._heads.get(chain)
        if head is None:
            head = self.heads[chain] = first(self._store.chain_number(chain))
        return head

    def _link(
        self, head: Head, number: int, payload: dict[str, object], kind: int = _RECORD
    ) -> tuple[Head, RecordRow, Sealed]:
        """Sign ``payload`` as the successor of ``head``. Changes nothing but the payload."""
        chain, previous, seq, previous_audit_id, _ = head
        issued_at, text = self.issued_at, self._text
        payload["issued_at"] = text
        payload["previous_audit_id"] = previous_audit_id
        form = _JWS
        if kind == _RECORD:
            jws, octets, digest, audit_id = self._sign(payload)
        else:
            (jws, octets, digest, audit_id), signed_as = self._sign_event(payload)
            form = int(signed_as)
        row = RecordRow(
            number, chain, seq + 1, digest, previous, kind, form, issued_at, *index_columns(payload), octets
        )
        return Head(chain, number, seq + 1, audit_id, issued_at), row, Sealed(jws, audit_id, text, number=number)

    # Keyed requests

    @property
    def quotas(self) -> Quotas:
        """What the agents of this transaction have used."""
        if self._quotas is None:
            writer = self._writer
            self._quotas = Quotas(self._store, self._now, writer._keep, writer._answers)
        return self._quotas

    def _sign_answer(self, draft: Draft, key: ReservationKey) -> bytes:
        """
        Have the record sign a digest of the reservation and of the answer that is stored in it.

        :return: what is to be stored.
        """
        name = reservation_name(key)
        row = self._store.reservations((name,)).get(name) or ReservationRow(name, b"", 0, None)
        stored = self.quotas.stored_form(key, draft.result)
        said = {"digest": answer_digest(row, stored), "reserved_at": self._writer._seconds.text(row.reserved_at)}
        draft.payload["extra"] = {**draft.payload.get("extra", {}), KEYED: said}  # type: ignore[dict-item]
        return stored

    def flush(self, claims: Sequence[Claim]) -> None:
        """Everything into the transaction, one statement per table."""
        if claims:
            self._decide(claims, self.quotas)
        if self._quotas is not None:
            self._store.put_keyed(self._quotas.changed())
        if self.claimed:
            self._store.put_reservations(self.claimed)
        if self.results:
            self._store.put_results(self.results)
        if self.rows:
            self._store.append(self.rows)

    def _decide(self, claims: Sequence[Claim], quotas: Quotas) -> None:
        known = self._store.reservations([claim.name for claim in claims])
        running = self._writer.running
        new: set[bytes] = set()
        expired = self._now - self._writer._keep
        for claim in claims:
            row = known.get(claim.name)
            in_progress = claim.name in running or claim.name in new
            if row is None or (row.reserved_at < expired and not in_progress):
                claim.outcome = quotas.claim(claim.key, row)
                if claim.outcome is not None:
                    continue
                row = ReservationRow(claim.name, claim.digest, self._now, None, owner_name(claim.key))
                row = row._replace(seal=self._writer._signer.seal(claim_octets(row)))
                known[claim.name] = row
                new.add(claim.name)
                self.claimed.append(row)
                claim.outcome = Reservation(state=ReservationState.NEW)
            else:
                claim.outcome = standing_of(row, claim.digest, in_progress)
