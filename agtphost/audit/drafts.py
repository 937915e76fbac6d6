"""
What the dispatcher hands to the ledger, and what it gets back.

A draft is one record that is not yet linked, timed and signed. The ledger adds
``issued_at`` and ``previous_audit_id``, signs, and stores the record together
with everything that must become true with it: a lifecycle change and the
result of a keyed request, in one transaction (security invariant 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from agtphost.stores.rows import StateRow
from agtphost.stores.rows import StoredRecord as StoredRecord

if TYPE_CHECKING:
    from agtphost.audit.state_item import PreparedItem

HOST_CHAIN = ""
"""The chain of refusals and server-level answers: the host's own."""


class LedgerUnavailable(Exception):
    """The record could not be made durable; the message says why, for the log."""


class StaleLifecycle(Exception):
    """The agent's lifecycle state changed between the decision and the commit."""


class Stopped(StaleLifecycle):
    """
    An agent that a draft is about is stopped in the transaction that was to write it.

    :param agent_id: one of :attr:`Draft.standing`.
    :param state: its state in that transaction.
    """

    def __init__(self, agent_id: str, state: StateRow) -> None:
        super().__init__(f"the agent {agent_id} is {state.status} since {state.since}")
        self.agent_id = agent_id
        self.state = state


class StaleChange(Exception):
    """A state item changed between the decision and the commit; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A state item to put or remove in the same transaction as a record: see :mod:`agtphost.audit.state`."""

    kind: str
    """What it is: ``escalation``, ``proposal``, ``contract`` ..."""

    key: str
    """Unique within its kind."""

    value: Mapping[str, Any] | None
    """JSON; None removes the item."""

    owner: str = ""
    """Agent-ID of the agent it belongs to; empty where it is the host's."""

    expires_at: int | None = None
    """Milliseconds since the Unix epoch from when on it counts as absent; None for never."""

    expected: int | None = None
    """The version this was decided on, 0 for an absent item; None where any will do."""

    octets: int = 0
    """Of the JSON of ``value``, where that was measured already, and is not too deep; 0: the ledger looks."""

    prepared: PreparedItem | None = None
    """What is stored, where that was computed before the transaction; None: the ledger computes it."""

    linked: str = ""
    """The member of ``value`` that gets the Audit-ID of the record it changes with; empty: none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """An event of a lifecycle stream that changes no agent's state, such as ``rcns_contract_revoked``."""

    chain: str
    """The Agent-ID whose stream it belongs to, or :data:`HOST_CHAIN`."""

    event_type: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the signed payload."""


@dataclass(slots=True, kw_only=True)
class LifecycleEvent:
    """A transition to be signed into an agent's stream and chain: core v08 section 7.2.14."""

    agent_id: str
    event_type: str
    """``agent-genesis-issued``, ``agent-lifecycle-suspended`` and so on (companion section 6.1)."""

    expected_status: str | None
    """The stored state this transition was decided on; None where no state was stored yet."""

    new_status: str
    fields: dict[str, object]
    """Further members of the signed payload: ``previous_status``, ``reason``, ``actor`` ..."""

    org_domain: str | None = None
    """The domain whose end causes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationKey:
    """The key of one keyed request: core v08 section 5.5, Idempotency-Key."""

    agent_id: str
    key: str
    sure: bool = True
    """Whether the caller has proven who it is: others may have few."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """An Attribution-Record before it is linked and signed."""

    chain: str
    """Agent-ID of the responding agent, or :data:`HOST_CHAIN`."""

    payload: dict[str, object]
    """
    The members of companion section 5.2 except ``issued_at`` and ``previous_audit_id``.

    Empty for what the host itself has to say outside any call: then only ``events`` and ``changes`` are written.
    """

    event: LifecycleEvent | None = None
    """Committed just before this record, in the same transaction."""

    render: Callable[[Sealed], bytes] | None = None
    """With ``event``: builds the response body from the sealed event; the ledger sets ``result_hash``."""

    reservation: ReservationKey | None = None
    """The keyed request that this record answers; its result is stored in the same transaction."""

    result: bytes = b""
    """With ``reservation``: the octets a repeat of the request is answered from."""

    changes: tuple[Change, ...] = ()
    """State items that change with it, all or none."""

    events: tuple[StreamEvent, ...] = ()
    """Committed just before this record, in the same transaction."""

    standing: tuple[str, ...] = ()
    """
    Agent-IDs of those who may not be stopped where this is written: caller and addressee of what succeeded.

    Empty for refusals; without the addressee for methods that reach stopped agents.
    """

    proven: bool = True
    """Whether its caller is surely who it says: others have small shares of what is held."""

    performed: bool = False
    """Whether a handler ran: then this is also written while little space is left on the disk."""

    vital: bool = False
    """Whether it is written even when the disk is low, into the space that is kept free for that."""

    caller: str = ""
    """The caller's label, for the watchers of records: the record itself has the Agent-ID."""

    called: str = ""
    """What was called, as counters know it: a name that no caller chose; empty where nothing was found."""

    rule: Callable[[], object] | None = None
    """Of a refusal: finds the line of a file that decided, for the watchers of records; None where no file did."""

    began: float | None = None
    """When the call came in that this record ends, in seconds since the Unix epoch; None where it ends none."""

    grows: Callable[[int], None] | None = None
    """
    Called with the octets that :attr:`changes` add to the store, once there is room for them and before anything is
    written; the draft fails with the exception that it raises.
    """

    inner: bool = False
    """Whether this host made the call itself, and goes on as soon as the record is written."""


class Sealed(NamedTuple):
    """A signed record."""

    jws: str
    """JWS Compact: the Attribution-Record header."""

    audit_id: str
    """SHA-256 of the ASCII ``jws``, hex."""

    issued_at: str
    """RFC 3339 UTC, as in the record."""

    event: Sealed | None = None
    """The lifecycle event committed with it."""

    body: bytes | None = None
    """What ``render`` built."""

    number: int = 0
    """Its place among all records, counted from 1; 0 outside every chain."""


class ReservationState(Enum):
    """The results of :meth:`~agtphost.iagtp.ILedger.reserve`."""

    NEW = "new"
    """Reserved just now, durably: run the handler."""

    RUNNING = "running"
    """This process is running it at the moment."""

    IN_DOUBT = "in doubt"
    """An earlier process died while running it: its effects are unknown, it is never run again."""

    DONE = "done"
    """``Reservation.result`` holds the answer."""

    MISMATCH = "mismatch"
    """The key was used for another request."""

    FULL = "full"
    """The agent has as many keys, or as many octets of answers, as are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The answer to a reservation."""

    state: ReservationState
    result: bytes = b""
    unit: str = ""
    """With FULL: ``keys`` or ``octets``; how many may be kept, and seconds until some may have expired."""

    limit: int = 0
    retry_after: int = 0
