"""
One transaction in the making: what a group of submissions and claims becomes in the store.

Theory of operation: :mod:`agtphost.audit.writer`. What a record changes in the tables of state is signed by that very
record, as the digest of both tables after it (:mod:`agtphost.audit.state_keeper`). Two kinds of change cannot be: those
that name the record they come with, whose digest would have to be in what it is a digest of, and those that come
without a record. One event of the host's own chain, the last record of the group, signs all of these together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from agtphost.audit.chain import Head, RecordSigner, Seconds, first
from agtphost.audit.drafts import (
    HOST_CHAIN,
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
from agtphost.audit.keyed import KEYED, Quotas, owner_name, reservation_name, standing_of
from agtphost.audit.lifecycle import state_after, stops
from agtphost.audit.prepared_items import whole_batch
from agtphost.audit.record_references import Unrenderable, link_row, render_body
from agtphost.audit.state_digest import MEMBER, Statement, agent_leaf, item_leaf, leaves_of
from agtphost.audit.state_item import StateItem, build_item
from agtphost.audit.state_keeper import CHANGED, Move, Tally
from agtphost.stores.interfaces import IWriterStore
from agtphost.stores.keyed_digests import answer_digest, claim_octets
from agtphost.stores.record_index import index_record
from agtphost.stores.rows import (
    AGENT,
    AnswerRow,
    ItemRow,
    RecordFormat,
    RecordKind,
    RecordRow,
    ReservationRow,
    StateChangeRow,
    StateRow,
)
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.bounds import Answers

_RECORD: Final = int(RecordKind.RECORD)
_EVENT: Final = int(RecordKind.EVENT)
_JWS: Final = int(RecordFormat.JWS)
_make: Final = tuple.__new__


class Submission:
    """A draft in a group, with its results."""

    __slots__ = ("admitted", "deferred", "draft", "held", "items", "large", "outcome", "state")

    def __init__(self, draft: Draft, deferred: Any = None) -> None:
        self.draft = draft
        self.deferred = deferred
        self.outcome: Sealed | Exception | None = None
        self.state: StateRow | None = None
        """With a lifecycle event: what the agent's state became."""
        self.admitted: Any = None
        """With changes: the room that was made for them."""
        self.large = False
        """Whether it is a separate transaction: :mod:`agtphost.audit.submission_queue`."""
        self.held: tuple[ItemRow, ...] = ()
        """With changes: what the state items became."""
        self.items: list[StateItem | None] = []
        """The same as they are kept in memory."""


class Claim:
    """A keyed request that asks to run."""

    __slots__ = ("deferred", "digest", "key", "name", "outcome")

    def __init__(self, key: ReservationKey, digest: bytes, deferred: Any = None) -> None:
        self.key = key
        self.digest = digest
        self.deferred = deferred
        self.name = reservation_name(key)
        self.outcome: Reservation | Exception | None = None


Entry = Submission | Claim


@dataclass(slots=True, kw_only=True)
class Basis:
    """The state that a transaction starts from: the writer's memory, which it does not change."""

    store: IWriterStore
    signer: RecordSigner
    server_id: str
    now: int
    """Milliseconds since the Unix epoch."""

    seconds: Seconds
    latest: int
    """When the newest record was issued, in milliseconds too."""

    last_number: int
    """Of the newest record."""

    heads: Mapping[str, Head]
    stopped: Mapping[str, StateRow]
    """Agents that are stopped."""

    running: Set[bytes]
    """Keyed requests that this process is running."""

    keep: Callable[[], int]
    """Returns the milliseconds for which a keyed request is remembered."""

    answers: Answers
    tally: Callable[[], Tally] | None
    """Makes the digests of the tables of state, which most transactions do not change; None: none are kept."""


class Group:
    """
    A transaction that is being made, for :class:`agtphost.audit.writer.GroupWriter`.

    :param basis: what it goes on from.
    """

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self._store = basis.store
        self._sign = basis.signer.sign
        self._sign_event = basis.signer.sign_event
        # The clock may go back; the signed time of later records does not, in any chain.
        self._now = basis.now
        self.issued_at = max(self._now, basis.latest)
        self._text = basis.seconds.text(self.issued_at)
        self._stopped = basis.stopped
        self.states: dict[str, StateRow] = {}
        """Lifecycle states that this transaction changes."""
        self.heads: dict[str, Head] = {}
        self.rows: list[RecordRow] = []
        self._quotas: Quotas | None = None
        self.results: list[AnswerRow] = []
        self.claimed: list[ReservationRow] = []
        self.abandoned: list[bytes] = []
        self._next = basis.last_number + 1
        self.tally: Tally | None = None
        """The digests of the tables of state after it; None: it changes none."""
        self._before: dict[tuple[str, str], ItemRow | None] = {}

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
        Check that none of these agents is stopped, in this transaction.

        :raises Stopped: one is.
        """
        for agent_id in standing:
            state = self.states.get(agent_id) or self._stopped.get(agent_id)
            if state is not None and stops(state):
                raise Stopped(agent_id, state)

    def _seal_more(self, submission: Submission, draft: Draft) -> None:
        """Seal a record together with its changes. Every step that can fail comes before the first effect."""
        self._begin_tally()
        held = self._held_rows(draft.changes)
        stored = None if draft.event is None else self._store.lifecycle_row(draft.event.agent_id)
        if draft.event is not None and not _is_current(draft.event, status := stored and stored.status):
            raise StaleLifecycle(f"the state is {status}, not {draft.event.expected_status}")
        mark = None if self.tally is None else self.tally.mark()
        try:
            heads, rows, sealed, sealed_event, body = self._seal_records(draft, held, stored)
        except BaseException:
            if self.tally is not None and mark is not None:
                self.tally.restore(mark)
            raise
        if sealed is None:  # State items alone.
            sealed = Sealed(jws="", audit_id="", issued_at=self._text)
        submission.outcome = sealed._replace(event=sealed_event, body=body)
        if draft.event is not None and sealed_event is not None:
            submission.state = state_after(draft.event, sealed_event.issued_at)
            self._store.set_lifecycle(draft.event.agent_id, submission.state)
            self.states[draft.event.agent_id] = submission.state
        held = tuple(link_row(row, change, sealed.audit_id) for row, change in zip(held, draft.changes, strict=True))
        submission.held = held
        submission.items = [
            build_item(row) if change.prepared is None else change.prepared.item
            for row, change in zip(held, draft.changes, strict=True)
        ]
        self._store.put_held(held)
        if self.tally is not None and not _signs_itself(draft):
            self.tally.unsigned += self._count_changes(draft, held, stored)
        self.heads.update(heads)
        self.rows += rows
        self._next += len(rows)

    def _seal_records(
        self, draft: Draft, held: Sequence[ItemRow], stored: StateRow | None
    ) -> tuple[dict[str, Head], list[RecordRow], Sealed | None, Sealed | None, bytes | None]:
        """Seal the records of a submission in order; if possible the last one signs what they change."""
        heads: dict[str, Head] = {}
        rows: list[RecordRow] = []
        sealed = sealed_event = body = None
        events = list(draft.events)
        last = draft.payload or None
        payload = None
        if draft.event is not None:
            agent_id, status = draft.event.agent_id, draft.event.new_status
            payload = self._event_payload(draft.event, agent_id, draft, new_status=status)
            last = last or (None if events else payload)
        payloads = [self._event_payload(event, event.chain, draft) for event in events]
        last = last or (payloads[-1] if payloads else None)
        if self.tally is not None and last is not None and _signs_itself(draft):
            entries = self._count_changes(draft, held, stored)
            if entries:
                number = self._next + (payload is not None) + len(payloads) + bool(draft.payload) - 1
                last[MEMBER] = self.tally.sign(number, entries).to_json()
        if draft.event is not None and payload is not None:
            sealed_event = self._add(heads, rows, draft.event.agent_id, payload, _EVENT)
            body = render_body(draft, sealed_event)
        for event, each in zip(events, payloads, strict=True):
            sealed = self._add(heads, rows, event.chain, each, _EVENT)
        if draft.payload:
            sealed = self._add(heads, rows, draft.chain, draft.payload, _RECORD)
        return heads, rows, sealed, sealed_event, body

    def _count_changes(self, draft: Draft, held: Sequence[ItemRow], stored: StateRow | None) -> list[StateChangeRow]:
        """Count the changes of a draft in the digests, and return the log entries for the record that signs it."""
        tally = self.tally
        assert tally is not None
        moves: list[Move] = []
        if draft.event is not None:
            agent_id = draft.event.agent_id
            after = agent_leaf(agent_id, state_after(draft.event, self._text))
            moves.append((AGENT, agent_id, None if stored is None else agent_leaf(agent_id, stored), after))
        for row, change in zip(held, draft.changes, strict=True):
            place = row.kind, row.key
            known = self._before.get(place)
            before = None if known is None else item_leaf(known)
            self._before[place] = None if row.value is None else row
            if change.prepared is not None:
                leaf: bytes | None = change.prepared.leaf
            else:
                leaf = None if row.value is None else item_leaf(row)
            moves.append((*place, before, leaf))
        return tally.change(moves, None if draft.event is not None else whole_batch(draft.changes))

    def _add(
        self, heads: dict[str, Head], rows: list[RecordRow], chain: str, payload: dict[str, object], kind: int
    ) -> Sealed:
        """Link one more record of a submission; nothing of it is in the group yet."""
        below = heads.get(chain) or self._head(chain)
        heads[chain], row, sealed = self._link(below, self._next + len(rows), payload, kind)
        rows.append(row)
        return sealed

    def _held_rows(self, changes: Sequence[Change]) -> tuple[ItemRow, ...]:
        """Return the new rows of state items; a draft names each of them once."""
        rows = []
        keys: dict[str, list[str]] = {}
        for change in changes:
            keys.setdefault(change.kind, []).append(change.key)
        found = {kind: self._store.held_rows(kind, names) for kind, names in keys.items()}
        for change in changes:
            known = self._before[change.kind, change.key] = found[change.kind].get(change.key)
            expired = known is None or (known.expires_at is not None and known.expires_at <= self._now)
            version = 0 if known is None or expired else known.version
            if change.expected is not None and change.expected != version:
                raise StaleChange(f"{change.kind} {change.key} has version {version}, not {change.expected}")
            if change.prepared is not None:
                rows.append(change.prepared.row)
                continue
            value = None if change.value is None else jsontext.encode(change.value)
            owner = bytes.fromhex(change.owner)
            rows.append(ItemRow(change.kind, change.key, owner, version + 1, change.expires_at, value))
        return tuple(rows)

    def _event_payload(
        self, event: LifecycleEvent | StreamEvent, agent_id: str, draft: Draft, **more: str
    ) -> dict[str, object]:
        """
        Return the payload of an event, flat (companion section 6.2), with the operator whose request caused it.

        :param more: the new state, of an event that changes one.
        """
        fields = {name: value for name, value in event.fields.items() if name != MEMBER}
        operator = draft.payload.get("operator")
        return {
            **({} if operator is None else {"operator": operator}),
            **fields,
            "audit_record_version": "1",
            "server_id": self._basis.server_id,
            "agent_id": agent_id,
            "event_type": event.event_type,
            **more,
            "response_id": draft.payload.get("response_id", ""),
            "status": draft.payload.get("status", 200),
        }

    def _head(self, chain: str) -> Head:
        head = self.heads.get(chain) or self._basis.heads.get(chain)
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
        facet, method, path, caller, session, task = index_record(payload)
        at = number, chain, seq + 1, digest, previous, kind, form, issued_at
        # Made without the constructors of the classes, each of which is a Python function more for each record.
        row = _make(RecordRow, (*at, facet.status, method, path, caller, octets, session, task, facet))
        below = _make(Head, (chain, number, seq + 1, audit_id, issued_at))
        return below, row, _make(Sealed, (jws, audit_id, text, None, None, number))

    # The tables of state

    def _begin_tally(self) -> None:
        """Count what changes in the tables of state from here on, if digests are kept of them."""
        if self.tally is None and self._basis.tally is not None:
            self.tally = self._basis.tally()

    def baseline(self, event_type: str, fields: Mapping[str, Any]) -> None:
        """Sign every row of state as it is, with an event of the host's chain; nothing before it counts."""
        self._begin_tally()
        tally = self.tally
        assert tally is not None
        self._store.clear_state_changes()
        entries = tally.begin_anew(leaves_of(self._store.lifecycle_states(), self._store.list_items()))
        self._add_host_event(event_type, fields, tally.sign(self._next, entries, baseline=True))

    def expire(self, rows: Sequence[ItemRow]) -> None:
        """Remove state items that have expired; the end of the group signs that."""
        self._begin_tally()
        for row in rows:
            gone = row._replace(value=None)
            if self.tally is not None:
                self.tally.unsigned += self.tally.change([(row.kind, row.key, item_leaf(row), None)])
            self._store.put_held((gone,))

    def _add_host_event(self, event_type: str, fields: Mapping[str, Any], statement: Statement) -> None:
        """Add an event to the host's own chain."""
        event = StreamEvent(chain=HOST_CHAIN, event_type=event_type, fields=fields)
        payload = self._event_payload(event, HOST_CHAIN, Draft(chain=HOST_CHAIN, payload={}))
        payload[MEMBER] = statement.to_json()
        heads: dict[str, Head] = {}
        rows: list[RecordRow] = []
        self._add(heads, rows, HOST_CHAIN, payload, _EVENT)
        self.heads.update(heads)
        self.rows += rows
        self._next += 1

    # Keyed requests

    @property
    def quotas(self) -> Quotas:
        """Return the use of keyed requests by the agents of this transaction."""
        if self._quotas is None:
            self._quotas = Quotas(self._store, self._now, self._basis.keep(), self._basis.answers)
        return self._quotas

    def _sign_answer(self, draft: Draft, key: ReservationKey) -> bytes:
        """
        Have the record sign a digest of the reservation and of the answer that is stored in it.

        :return: what is to be stored.
        """
        name = reservation_name(key)
        row = self._store.reservations((name,)).get(name) or ReservationRow(name, b"", 0, None)
        stored = self.quotas.stored_form(key, draft.result)
        said = {"digest": answer_digest(row, stored), "reserved_at": self._basis.seconds.text(row.reserved_at)}
        draft.payload["extra"] = {**draft.payload.get("extra", {}), KEYED: said}  # type: ignore[dict-item]
        return stored

    def flush(self, claims: Sequence[Claim]) -> None:
        """Write the rows of the group into the transaction, one statement per table."""
        if self.tally is not None:
            if self.tally.unsigned:
                kinds = Counter(entry.kind or "lifecycle" for entry in self.tally.unsigned)
                self._add_host_event(CHANGED, {"rows": dict(kinds)}, self.tally.sign(self._next, self.tally.unsigned))
            if self.tally.signed:
                self._store.put_state_changes(self.tally.signed)
        if claims:
            self._decide(claims, self.quotas)
        if self._quotas is not None:
            self._store.put_keyed(self._quotas.changed_rows())
        if self.claimed:
            self._store.put_reservations(self.claimed)
        if self.results:
            self._store.put_results(self.results)
        if self.rows:
            self._store.append(self.rows)

    def _decide(self, claims: Sequence[Claim], quotas: Quotas) -> None:
        known = self._store.reservations([claim.name for claim in claims])
        running = self._basis.running
        new: set[bytes] = set()
        expired = self._now - self._basis.keep()
        for claim in claims:
            row = known.get(claim.name)
            in_progress = claim.name in running or claim.name in new
            if row is None or (row.reserved_at < expired and not in_progress):
                claim.outcome = quotas.claim(claim.key, row)
                if claim.outcome is not None:
                    continue
                row = ReservationRow(claim.name, claim.digest, self._now, None, owner_name(claim.key))
                row = row._replace(seal=self._basis.signer.seal(claim_octets(row)))
                known[claim.name] = row
                new.add(claim.name)
                self.claimed.append(row)
                claim.outcome = Reservation(state=ReservationState.NEW)
            else:
                claim.outcome = standing_of(row, claim.digest, in_progress)


def _signs_itself(draft: Draft) -> bool:
    """Return whether the last record of a draft can state its changes: it exists, and no row refers to it."""
    has_record = bool(draft.payload or draft.events or draft.event is not None)
    return has_record and not any(change.linked and change.value is not None for change in draft.changes)


def _is_current(event: LifecycleEvent, status: str | None) -> bool:
    """
    Return whether an agent still has the state that a transition was decided on.

    :param status: the stored one. Where none was stored at the decision, it counted with the state of its document; the
        host may have put that on record since.
    """
    return status == event.expected_status or (
        event.expected_status is None and status == event.fields.get("previous_status")
    )
