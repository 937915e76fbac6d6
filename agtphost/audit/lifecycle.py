"""
An agent's lifecycle: the states, the table of transitions, and what every request asks.

Core v08 sections 7.2.14 to 7.2.18; the table is companion section 6.3, with
the cells that the drafts leave open closed on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from agtphost.audit.drafts import LifecycleEvent
from agtphost.audit.leases import Leasing
from agtphost.stores.rows import StateRow
from agtphost.vocabulary.reasons import Reason

if TYPE_CHECKING:
    from agtphost.identity.agents import Agent


class LifecycleStatus(Enum):
    """The four states of core v08 section 6.3; the values are the normative words."""

    ACTIVE = "active"
    """Serves and calls."""

    SUSPENDED = "suspended"
    """Refused with 503 until it is reinstated."""

    DEPRECATED = "deprecated"
    """Serves and calls as before, and says that it will go."""

    RETIRED = "retired"
    """Refused with 410, permanently."""


class EventType(Enum):
    """``event_type`` of lifecycle events: core v08 section 7.2.14."""

    GENESIS_ISSUED = "agent-genesis-issued"
    """The first ACTIVATE of an agent."""

    REINSTATED = "agent-lifecycle-reinstated"
    """REINSTATE, and every later ACTIVATE."""

    SUSPENDED = "agent-lifecycle-suspended"
    """DEACTIVATE."""

    DEPRECATED = "agent-lifecycle-deprecated"
    """DEPRECATE."""

    REVOKED = "agent-genesis-revoked"
    """REVOKE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleState:
    """The lifecycle state of an agent."""

    status: LifecycleStatus

    since: str = ""
    """When it got there, RFC 3339; empty where no transition was ever recorded."""

    reason: str | None = None
    """What the event that led here gave as its reason."""

    successor: str | None = None
    """Agent-ID of the successor, where DEPRECATE named one."""

    deadline: str | None = None
    """``migration_deadline`` of DEPRECATE, RFC 3339."""

    recorded: bool = False
    """Whether an event says so; otherwise only the Identity Document does."""

    org_domain: str | None = None
    """The domain whose end led here."""

    @property
    def is_lapsed(self) -> bool:
        """
        Whether the agent is deprecated because its ``org_domain`` has expired.

        Other deprecated agents continue to serve. One that was suspended first, because its domain was not renewed,
        must not come back to service by its deprecation.
        """
        return self.status is LifecycleStatus.DEPRECATED and self.org_domain is not None

    @property
    def is_stopped(self) -> bool:
        """Whether the agent neither serves nor calls."""
        return self.status is LifecycleStatus.SUSPENDED or self.status is LifecycleStatus.RETIRED or self.is_lapsed


@dataclass(frozen=True, slots=True)
class Transition:
    """The method changes the state, and an event records it."""

    event: EventType
    new: LifecycleStatus

    @property
    def event_type(self) -> str:
        """The ``event_type`` member."""
        return self.event.value


@dataclass(frozen=True, slots=True)
class Noop:
    """200 with ``noop: true``: the agent is already there, and no event is recorded."""


@dataclass(frozen=True, slots=True)
class TransitionRefused:
    """A refusal with 422: the transition is not in the table."""

    reason: Reason
    explanation: str | None = None


Decision = Transition | Noop | TransitionRefused

_ISSUED = Transition(EventType.GENESIS_ISSUED, LifecycleStatus.ACTIVE)
_REINSTATED = Transition(EventType.REINSTATED, LifecycleStatus.ACTIVE)
_SUSPENDED = Transition(EventType.SUSPENDED, LifecycleStatus.SUSPENDED)
_DEPRECATED = Transition(EventType.DEPRECATED, LifecycleStatus.DEPRECATED)
_REVOKED = Transition(EventType.REVOKED, LifecycleStatus.RETIRED)
_NOOP = Noop()
_RETIRED = TransitionRefused(Reason.AGENT_RETIRED, "The agent was revoked. This is final.")
_NEVER_ACTIVE = TransitionRefused(Reason.AGENT_NEVER_ACTIVATED, "The agent was never activated.")
_SUSPENDED_NOW = TransitionRefused(
    Reason.AGENT_SUSPENDED, "The agent is suspended; deprecating it would resume its traffic. REINSTATE comes first."
)
_NO_GENESIS = TransitionRefused(
    Reason.GENESIS_NOT_LOADED, "No Genesis of the agent is loaded, so it cannot become active."
)

TRANSITIONS: Mapping[tuple[LifecycleStatus | None, str], Decision] = {
    # None: loaded, suspended by its document, and without any history.
    (None, "ACTIVATE"): _ISSUED,
    (None, "DEACTIVATE"): _NOOP,
    (None, "REINSTATE"): _NEVER_ACTIVE,
    (None, "REVOKE"): _REVOKED,
    (None, "DEPRECATE"): _NEVER_ACTIVE,
    (LifecycleStatus.ACTIVE, "ACTIVATE"): _NOOP,
    (LifecycleStatus.ACTIVE, "DEACTIVATE"): _SUSPENDED,
    (LifecycleStatus.ACTIVE, "REINSTATE"): _NOOP,
    (LifecycleStatus.ACTIVE, "REVOKE"): _REVOKED,
    (LifecycleStatus.ACTIVE, "DEPRECATE"): _DEPRECATED,
    (LifecycleStatus.SUSPENDED, "ACTIVATE"): _REINSTATED,
    (LifecycleStatus.SUSPENDED, "DEACTIVATE"): _NOOP,
    (LifecycleStatus.SUSPENDED, "REINSTATE"): _REINSTATED,
    (LifecycleStatus.SUSPENDED, "REVOKE"): _REVOKED,
    (LifecycleStatus.SUSPENDED, "DEPRECATE"): _SUSPENDED_NOW,
    (LifecycleStatus.DEPRECATED, "ACTIVATE"): _REINSTATED,
    # "Already in a non-Active state", by the letter of core v08 section 7.2.15.
    (LifecycleStatus.DEPRECATED, "DEACTIVATE"): _NOOP,
    (LifecycleStatus.DEPRECATED, "REINSTATE"): _REINSTATED,
    (LifecycleStatus.DEPRECATED, "REVOKE"): _REVOKED,
    (LifecycleStatus.DEPRECATED, "DEPRECATE"): _NOOP,
    (LifecycleStatus.RETIRED, "ACTIVATE"): _RETIRED,
    (LifecycleStatus.RETIRED, "DEACTIVATE"): _NOOP,
    (LifecycleStatus.RETIRED, "REINSTATE"): _RETIRED,
    (LifecycleStatus.RETIRED, "REVOKE"): _NOOP,
    (LifecycleStatus.RETIRED, "DEPRECATE"): _RETIRED,
}
"""The whole machine: from where, by which method, to what."""


def decide(state: LifecycleState, method: str, *, genesis_loaded: bool) -> Decision:
    """
    Return what a lifecycle method does to an agent.

    :param state: its present state.
    :param method: ACTIVATE, DEACTIVATE, REINSTATE, REVOKE or DEPRECATE.
    :param genesis_loaded: without a Genesis an agent cannot become active (companion section 6.3).
    """
    fresh = not state.recorded and state.status is LifecycleStatus.SUSPENDED
    decision = TRANSITIONS[None if fresh else state.status, method]
    to_active = isinstance(decision, Transition) and decision.new is LifecycleStatus.ACTIVE
    return _NO_GENESIS if to_active and not genesis_loaded else decision


_DECLARED = {status.value: LifecycleState(status=status) for status in LifecycleStatus}


class LifecycleTable:
    """
    The stored states in memory: what every request asks about its caller and its addressee.

    The ledger replaces an entry in the reactor's thread once the event is on
    disk, and before the caller learns of it, so the very next request of
    every open connection sees the change (T-LC-70).
    """

    def __init__(self) -> None:
        self._states: dict[str, LifecycleState] = {}
        self._watchers: list[Callable[[str, LifecycleState], None]] = []
        self.leasing = Leasing()

    def watch(self, watcher: Callable[[str, LifecycleState], None]) -> None:
        """
        Have ``watcher`` called with an agent's ID and its new state, whenever it changes.

        As long as the lease lives that :attr:`leasing` is filling; without one, as long as this table.
        """
        self._watchers.append(watcher)
        self.leasing.note_entry(lambda: self._watchers.remove(watcher))

    def _notify_watchers(self, agent_id: str, state: LifecycleState) -> None:
        for watcher in tuple(self._watchers):
            watcher(agent_id, state)

    def replace(self, rows: Mapping[str, StateRow]) -> None:
        """Take over everything that the store says, at start."""
        before, self._states = self._states, {agent_id: state_of_row(row) for agent_id, row in rows.items()}
        for agent_id, state in self._states.items():
            if state != before.get(agent_id):
                self._notify_watchers(agent_id, state)

    def snapshot(self) -> dict[str, LifecycleState]:
        """Return the stored states of all agents, as they are at one moment; for any thread."""
        return self._states.copy()

    def apply(self, agent_id: str, row: StateRow | None) -> None:
        """Apply one committed transition; None: the agent's state is not stored any more."""
        if row is None:
            self._states.pop(agent_id, None)
            return
        state = self._states[agent_id] = state_of_row(row)
        self._notify_watchers(agent_id, state)

    def find_recorded(self, agent_id: str) -> LifecycleState | None:
        """Return the stored state; None where no event was ever recorded."""
        return self._states.get(agent_id)

    def state_of(self, agent: Agent) -> LifecycleState:
        """Return the present state of an agent: the stored one, or what its Identity Document declares."""
        return self._states.get(agent.agent_id) or _DECLARED[agent.document_status]


def stops(row: StateRow) -> bool:
    """Return whether a stored state keeps its agent from serving and calling, as :attr:`LifecycleState.is_stopped`."""
    return row.status != LifecycleStatus.ACTIVE.value and state_of_row(row).is_stopped


def state_of_row(row: StateRow) -> LifecycleState:
    """Return a stored lifecycle state in the form that the gates read."""
    return LifecycleState(
        status=LifecycleStatus(row.status),
        since=row.since,
        reason=row.reason,
        successor=row.successor,
        deadline=row.deadline,
        recorded=True,
        org_domain=row.org_domain,
    )


def state_after(event: LifecycleEvent, issued_at: str) -> StateRow:
    """Return the row of an agent's state after an event with that time."""

    def text(name: str) -> str | None:
        value = event.fields.get(name)
        return value if isinstance(value, str) else None

    return StateRow(
        event.new_status,
        issued_at,
        text("reason"),
        text("successor_agent_id"),
        text("migration_deadline"),
        event.org_domain,
    )
