"""
Sessions and tasks: which there are, and which of them SUSPEND and ESCALATE have stopped.

A session is the caller's own identifier for a group of requests. It belongs to
the agent and the client identity that were first seen with it (core v08
section 10.5), and so does a task: an agent cannot stop another agent's work.

Sessions are kept apart by assurance: the session of an agent that its
certificate proves, and a session of the same identifier in a request that
only names the agent, are two sessions. Neither binds, evicts, suspends or
shows the other.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from agtphost.audit.lifecycle import LifecycleState
from agtphost.audit.state import StateItem, StateTable
from agtphost.errors import Refusal
from agtphost.identity.peer import Assurance, state_owners
from agtphost.vocabulary.reasons import Reason

SUSPENSION = "suspension"
"""The kind of state item that SUSPEND makes."""

ESCALATION = "escalation"
"""The kind that ESCALATE makes."""

MOST_SESSIONS = 10_000
"""Sessions of certified agents remembered; beyond, the one unused for longest is forgotten."""

MOST_UNPROVEN = 1_000
"""The same for each lower assurance: these sessions cost a caller nothing but a name."""

MOST_OF_ONE = 200
"""The same for one agent, so that none pushes out another's."""

_ENDED = None
"""The client identity of a session that ended with its agent's suspension or revocation."""


class SessionTable:
    """
    The sessions of one assurance.

    :param clock: seconds from any start.
    :param most: sessions that are remembered.
    """

    def __init__(self, clock: Callable[[], float], most: int) -> None:
        self._clock = clock
        self._most = most
        self._agents: dict[str, OrderedDict[str, float]] = {}
        self._sessions: OrderedDict[str, tuple[str, str | None]] = OrderedDict()

    def note(self, session_id: str, agent_id: str, identity: str) -> bool:
        """Note a session; return False where it belongs to another agent or identity, or has ended."""
        known = self._sessions.get(session_id)
        if known is not None:
            if known != (agent_id, identity):
                return False
            self._sessions.move_to_end(session_id)
            own = self._agents[agent_id]
            own.move_to_end(session_id)
            own[session_id] = self._clock()
            return True
        own = self._agents.setdefault(agent_id, OrderedDict())
        if len(own) >= MOST_OF_ONE:
            self._forget(next(iter(own)))
        if len(self._sessions) >= self._most:
            self._forget(next(iter(self._sessions)))
        self._sessions[session_id] = agent_id, identity
        self._agents.setdefault(agent_id, OrderedDict())[session_id] = self._clock()
        return True

    def active(self, agent_id: str, seconds: float) -> int:
        """Count an agent's sessions that were used within the last ``seconds``."""
        since = self._clock() - seconds
        return sum(1 for used in self._agents.get(agent_id, {}).values() if used >= since)

    def list_sessions(self, agent_id: str | None) -> Iterator[tuple[str, str, float]]:
        """Yield Agent-ID, Session-ID and seconds since its last use of each that goes on; of one agent or of all."""
        now = self._clock()
        for owner in self._agents if agent_id is None else (agent_id,):
            for session_id, used in self._agents.get(owner, {}).items():
                yield owner, session_id, max(now - used, 0.0)

    def knows(self, session_id: str, agent_id: str) -> bool:
        """Return whether the agent used the session, and it has not ended."""
        known = self._sessions.get(session_id)
        return known is not None and known[0] == agent_id and known[1] is not _ENDED

    def end(self, agent_id: str) -> None:
        """End every session of an agent."""
        for session_id in self._agents.pop(agent_id, ()):
            self._sessions[session_id] = agent_id, _ENDED

    def has_ended(self, session_id: str, agent_id: str) -> bool:
        """Return whether the agent's session ended with the agent; False for other callers."""
        return self._sessions.get(session_id) == (agent_id, _ENDED)

    def _forget(self, session_id: str) -> None:
        agent_id, identity = self._sessions.pop(session_id)
        if identity is _ENDED:
            return
        own = self._agents[agent_id]
        del own[session_id]
        if not own:
            del self._agents[agent_id]


class SessionRegistry:
    """
    The agents and client identities that sessions were first seen with, and their last use: by assurance.

    Without an assurance, methods use the sessions of certified agents.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._tables = {
            assurance: SessionTable(clock, MOST_SESSIONS if assurance is Assurance.CERTIFICATE else MOST_UNPROVEN)
            for assurance in Assurance
            if assurance
        }

    def note(self, session_id: str, agent_id: str, identity: str, assurance: Assurance = Assurance.CERTIFICATE) -> bool:
        """Note a session; return False where it belongs to another agent or identity, or has ended."""
        return self._tables[assurance].note(session_id, agent_id, identity)

    def active(self, agent_id: str, seconds: float) -> int:
        """Count a certified agent's sessions that were used within the last ``seconds``."""
        return self._tables[Assurance.CERTIFICATE].active(agent_id, seconds)

    def list_sessions(self, agent_id: str | None) -> Iterator[tuple[str, str, str, float]]:
        """Yield Agent-ID, Session-ID, assurance and idle seconds of each that goes on; of one agent or of all."""
        for assurance, table in self._tables.items():
            for owner, session_id, idle in table.list_sessions(agent_id):
                yield owner, session_id, assurance.label, idle

    def knows(self, session_id: str, agent_id: str, assurance: Assurance = Assurance.CERTIFICATE) -> bool:
        """Return whether the agent used the session at that assurance, and it has not ended."""
        return self._tables[assurance].knows(session_id, agent_id)

    def end(self, agent_id: str) -> None:
        """End every session in an agent's name: none of them goes on, should the agent come back."""
        for table in self._tables.values():
            table.end(agent_id)

    def has_ended(self, session_id: str, agent_id: str, assurance: Assurance = Assurance.CERTIFICATE) -> bool:
        """Return whether the caller's session ended with its agent."""
        return self._tables[assurance].has_ended(session_id, agent_id)

    def note_state(self, agent_id: str, state: LifecycleState) -> None:
        """Take notice of an agent's new lifecycle state."""
        if state.is_stopped:
            self.end(agent_id)


class Suspensions:
    """
    The sessions and tasks that are suspended or escalated, in step with the state items.

    :param held: the state items, with suspensions and escalations.
    :param now: seconds since the epoch.
    """

    def __init__(self, held: StateTable, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._suspended: dict[tuple[str, str, str], StateItem] = {}
        self._of: dict[str, int] = {}
        self._escalated: dict[tuple[str, str], dict[str, str]] = {}
        self._places: dict[str, Any] = {}
        held.watch(SUSPENSION, self._suspension)
        held.watch(ESCALATION, self._escalation)

    def __bool__(self) -> bool:
        return bool(self._suspended or self._escalated)

    def _suspension(self, key: str, item: StateItem | None) -> None:
        place = self._places.pop(f"{SUSPENSION} {key}", None)
        if place is not None:
            self._suspended.pop(place, None)
            self._of[place[0]] -= 1
            if not self._of[place[0]]:
                del self._of[place[0]]
        if item is not None and item.brief["status"] == "suspended":
            place = item.owner, item.brief["of"], item.brief["name"]
            self._places[f"{SUSPENSION} {key}"] = place
            self._suspended[place] = item
            self._of[item.owner] = self._of.get(item.owner, 0) + 1

    def _escalation(self, key: str, item: StateItem | None) -> None:
        place = self._places.pop(f"{ESCALATION} {key}", None)
        if place is not None:
            self._escalated[place].pop(key, None)
            if not self._escalated[place]:
                del self._escalated[place]
        if item is not None and item.brief["status"] != "accepted":
            place = item.owner, item.brief["task_id"]
            self._places[f"{ESCALATION} {key}"] = place
            self._escalated.setdefault(place, {})[key] = item.brief["status"]

    def count_suspended(self, owner: str) -> int:
        """Count an owner's suspensions."""
        return self._of.get(owner, 0)

    def list_suspended(self, agent_id: str | None) -> Iterator[StateItem]:
        """Yield what is suspended, of one agent's callers or of all."""
        owners = None if agent_id is None else state_owners(agent_id)
        if owners is None or any(map(self._of.get, owners)):
            yield from (item for item in self._suspended.values() if owners is None or item.owner in owners)

    def refuse(self, owner: str, session_id: str | None, task_id: str | None) -> None:
        """
        Refuse a call for a suspended session or task.

        :param owner: the caller's state owner (:func:`~agtphost.identity.peer.state_owner`).
        :raises Refusal: 409, or 408 where the time to resume it has passed.
        """
        for of, name in (("session", session_id), ("task", task_id)):
            item = self._suspended.get((owner, of, name)) if name is not None else None
            if item is not None:
                raise self._refusal(of, item)
        if task_id is None:
            return
        escalations = self._escalated.get((owner, task_id))
        if escalations:
            key, status = min(escalations.items(), key=lambda entry: entry[1] != "rejected")
            raise _refuse_escalated(task_id, key, status)

    def _refusal(self, of: str, item: StateItem) -> Refusal:
        details = {f"{of}_id": item.brief["name"], "suspension_id": item.brief["suspension_id"]}
        if item.brief["until"] <= self._now():
            return Refusal(Reason.SESSION_EXPIRED if of == "session" else Reason.TASK_EXPIRED, details=details)
        return Refusal(
            Reason.SESSION_SUSPENDED if of == "session" else Reason.TASK_SUSPENDED,
            details={**details, "resume_by": item.brief["resume_by"]},
        )


def _refuse_escalated(task_id: str, escalation_id: str, status: str) -> Refusal:
    details = {"task_id": task_id, "escalation_id": escalation_id}
    if status == "rejected":
        return Refusal(Reason.TASK_REJECTED, details=details)
    return Refusal(Reason.TASK_PAUSED, details=details)
