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
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.lifecycle import LifecycleState
from agtphost.audit.state import StateItem, StateTable
from agtphost.errors import Refusal
from agtphost.identity.peer import Assurance, state_owners
from agtphost.vocabulary.quotas import SESSION
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

REMOVALS = 20
"""Items of evicted sessions that are removed with the item of a new one, at most."""

_ENDED = None
"""The client identity of a session that ended with its agent's suspension or revocation."""


class Session:
    """A session of an agent."""

    __slots__ = ("agent_id", "identity", "needs_item", "session_id", "used")

    def __init__(self, session_id: str, agent_id: str, identity: str | None, used: float | None) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.identity = identity
        """The client identity that it is bound to; None where it ended with its agent."""

        self.used = used
        """When it was last used, by the table's clock; None: not since the host started."""

        self.needs_item = False
        """Whether the next record of a call in it has to put its state item."""

    def opening(self) -> Change:
        """Return the change that records whose the session is."""
        return Change(kind=SESSION, key=self.session_id, value={"identity": self.identity}, owner=self.agent_id)

    def ending(self) -> Change:
        """Return the change that records that the session ended with its agent."""
        return Change(kind=SESSION, key=self.session_id, value={"ended": True}, owner=self.agent_id)


class SessionTable:
    """
    The sessions of one assurance, in memory.

    :param clock: seconds from any start.
    :param most: sessions that are remembered.
    """

    durable = False

    def __init__(self, clock: Callable[[], float], most: int) -> None:
        self._clock = clock
        self._most = most
        self._agents: dict[str, OrderedDict[str, Session]] = {}
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def note(self, session_id: str, agent_id: str, identity: str) -> Session | None:
        """Note a session; return None where it belongs to another agent or identity, or has ended."""
        session = self._sessions.get(session_id)
        if session is None:
            session = Session(session_id, agent_id, identity, self._clock())
            session.needs_item = self.durable
            self._add(session)
            return session
        if session.identity != identity or session.agent_id != agent_id:
            return None
        self._sessions.move_to_end(session_id)
        self._agents[agent_id].move_to_end(session_id)
        session.used = self._clock()
        return session

    def active(self, agent_id: str, seconds: float) -> int:
        """Count an agent's sessions that were used within the last ``seconds``."""
        since = self._clock() - seconds
        own: Mapping[str, Session] = self._agents.get(agent_id, {})
        return sum(1 for session in own.values() if session.used is not None and session.used >= since)

    def list_sessions(self, agent_id: str | None) -> Iterator[tuple[str, str, float]]:
        """
        Yield Agent-ID, Session-ID and seconds since its last use of each that goes on; of one agent or of all.

        Sessions that were not used since the host started are left out.
        """
        now = self._clock()
        for owner in self._agents if agent_id is None else (agent_id,):
            for session_id, session in self._agents.get(owner, {}).items():
                if session.used is not None:
                    yield owner, session_id, max(now - session.used, 0.0)

    def knows(self, session_id: str, agent_id: str) -> bool:
        """Return whether the agent used the session, and it has not ended."""
        session = self._sessions.get(session_id)
        return session is not None and session.agent_id == agent_id and session.identity is not _ENDED

    def end(self, agent_id: str) -> None:
        """End every session of an agent."""
        for session in self._agents.pop(agent_id, {}).values():
            session.identity, session.needs_item = _ENDED, False

    def has_ended(self, session_id: str, agent_id: str) -> bool:
        """Return whether the agent's session ended with the agent; False for other callers."""
        session = self._sessions.get(session_id)
        return session is not None and session.agent_id == agent_id and session.identity is _ENDED

    def _add(self, session: Session) -> None:
        if session.identity is not _ENDED:
            own: Mapping[str, Session] = self._agents.get(session.agent_id, {})
            if len(own) >= MOST_OF_ONE:
                self._evict(next(iter(own)))
        if len(self._sessions) >= self._most:
            self._evict(next(iter(self._sessions)))
        self._sessions[session.session_id] = session
        if session.identity is not _ENDED:
            self._agents.setdefault(session.agent_id, OrderedDict())[session.session_id] = session

    def _evict(self, session_id: str) -> None:
        self._forget(session_id)

    def _forget(self, session_id: str) -> None:
        session = self._sessions.pop(session_id)
        if session.identity is _ENDED:
            return
        own = self._agents[session.agent_id]
        del own[session_id]
        if not own:
            del self._agents[session.agent_id]


class DurableSessionTable(SessionTable):
    """
    The sessions of certified agents, in step with their state items.

    The item of a session is put with the record of the first call in it that succeeded: the ledger seals no such record
    after the event that stopped the caller, so no item is put for a session that had to end. The event itself takes the
    changes of :meth:`endings` along. An eviction only takes place in memory; its item is removed with the item of a
    later session.

    :param held: the state items.
    """

    durable = True

    def __init__(self, clock: Callable[[], float], most: int, held: StateTable) -> None:
        super().__init__(clock, most)
        self._evicted: dict[str, str] = {}
        """Owners of items whose session was evicted, by Session-ID."""

        held.watch(SESSION, self._follow)

    def changes(self, session: Session) -> tuple[Change, ...]:
        """Return the changes for the record of a call in a session; none where its item is durable."""
        if not session.needs_item:
            return ()
        gone = islice(self._evicted.items(), REMOVALS)
        removals = (Change(kind=SESSION, key=key, value=None, owner=owner) for key, owner in gone)
        return (*removals, session.opening())

    def endings(self, agent_id: str) -> tuple[Change, ...]:
        """Return the changes for the event that stops an agent."""
        return tuple(session.ending() for session in self._agents.get(agent_id, {}).values())

    def _add(self, session: Session) -> None:
        self._evicted.pop(session.session_id, None)  # Its item will be replaced.
        super()._add(session)

    def _evict(self, session_id: str) -> None:
        session = self._sessions[session_id]
        if not session.needs_item:
            self._evicted[session_id] = session.agent_id
        self._forget(session_id)

    def _follow(self, key: str, item: StateItem | None) -> None:
        """Take over what the store says of a session, after a commit or at start."""
        session = self._sessions.get(key)
        if item is None:
            self._evicted.pop(key, None)
            if session is not None and session.identity is not _ENDED:
                session.needs_item = True
            return
        identity, used = item.value.get("identity", _ENDED), None
        if session is None:
            if key in self._evicted:
                return
        elif session.agent_id == item.owner and session.identity in (identity, _ENDED):
            session.needs_item = False
            return
        elif session.needs_item:
            return  # A session that took its place; its own item replaces this one.
        else:
            used = session.used
            self._forget(key)
        self._add(Session(key, item.owner, identity, used))


class SessionRegistry:
    """
    The agents and client identities that sessions were first seen with, and their last use: by assurance.

    Without an assurance, methods use the sessions of certified agents.

    :param held: the state items, where the sessions of certified agents are kept; None: in memory alone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, held: StateTable | None = None) -> None:
        self._certified = DurableSessionTable(clock, MOST_SESSIONS, StateTable() if held is None else held)
        self.tables: dict[Assurance, SessionTable] = {
            assurance: self._certified if assurance is Assurance.CERTIFICATE else SessionTable(clock, MOST_UNPROVEN)
            for assurance in Assurance
            if assurance
        }

    def note(
        self, session_id: str, agent_id: str, identity: str, assurance: Assurance = Assurance.CERTIFICATE
    ) -> Session | None:
        """Note a session; return None where it belongs to another agent or identity, or has ended."""
        return self.tables[assurance].note(session_id, agent_id, identity)

    def changes(self, session: Session) -> tuple[Change, ...]:
        """Return the changes for the record of a call that succeeded in a session of a certified agent."""
        return self._certified.changes(session)

    def endings(self, agent_id: str) -> tuple[Change, ...]:
        """Return the changes for the event that stops an agent: its certified sessions end in that transaction."""
        return self._certified.endings(agent_id)

    def active(self, agent_id: str, seconds: float) -> int:
        """Count a certified agent's sessions that were used within the last ``seconds``."""
        return self._certified.active(agent_id, seconds)

    def list_sessions(self, agent_id: str | None) -> Iterator[tuple[str, str, str, float]]:
        """Yield Agent-ID, Session-ID, assurance and idle seconds of each that goes on; of one agent or of all."""
        for assurance, table in self.tables.items():
            for owner, session_id, idle in table.list_sessions(agent_id):
                yield owner, session_id, assurance.label, idle

    def knows(self, session_id: str, agent_id: str, assurance: Assurance = Assurance.CERTIFICATE) -> bool:
        """Return whether the agent used the session at that assurance, and it has not ended."""
        return self.tables[assurance].knows(session_id, agent_id)

    def end(self, agent_id: str) -> None:
        """End every session in an agent's name: none of them goes on, should the agent come back."""
        for table in self.tables.values():
            table.end(agent_id)

    def has_ended(self, session_id: str, agent_id: str, assurance: Assurance = Assurance.CERTIFICATE) -> bool:
        """Return whether the caller's session ended with its agent."""
        return self.tables[assurance].has_ended(session_id, agent_id)

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
