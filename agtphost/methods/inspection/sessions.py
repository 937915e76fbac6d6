"""INSPECT ``target=sessions``: sessions of all agents, and what SUSPEND has stopped, for overseers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any, Protocol

from agtphost.audit.filters import FilterError
from agtphost.audit.filters.record_filter import find_agent
from agtphost.audit.state import StateItem
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.iagtp import IAgentDirectory
from agtphost.identity.peer import Assurance
from agtphost.methods.continuation import Continuations
from agtphost.methods.inspection.call_targets import ids_of_name, known_names

PAGE = 200
"""Sessions of one answer, and suspensions."""

SAID = "Only operators see the sessions of all agents; a registrar sees those of the agents that it issued."


class ListsSessions(Protocol):
    """A table that lists sessions."""

    def list_sessions(self, agent_id: str | None) -> Iterable[tuple[str, str, str, float]]:
        """Yield Agent-ID, Session-ID, assurance and idle seconds of each active session, of one agent or of all."""


class ListsSuspensions(Protocol):
    """A table that lists suspended sessions and tasks."""

    def list_suspended(self, agent_id: str | None) -> Iterable[StateItem]:
        """Return the suspended items of one agent or of all."""


class Sessions:
    """
    Tells overseers of sessions since the host's start, and of suspensions.

    :param directory: knows the labels of agents.
    :param now: seconds since the Unix epoch.
    """

    def __init__(
        self,
        sessions: ListsSessions,
        suspensions: ListsSuspensions,
        authorization: Authorization,
        continuations: Continuations,
        directory: IAgentDirectory,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._sessions = sessions
        self._suspensions = suspensions
        self._authorization = authorization
        self._continuations = continuations
        self._directory = directory
        self._now = now

    def _find_agent(self, named: str) -> str:
        try:
            known = self._directory
            return find_agent("agent_id", named, partial(ids_of_name, known), partial(known_names, known))
        except FilterError as error:
            raise parameters.invalid("agent_id", error.explanation, error.remedy) from None

    async def read(self, context: BuiltInContext) -> Answer:
        """
        List sessions as ``{"sessions": [...], "count": N, "suspended": [...]}``, those of certified agents first.

        ``agent_id`` leaves those of one: its Agent-ID, or, for overseers, its name.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers, and the registrar of the agent that is named;
            422 for a name that no agent has, or several.
        """
        agent_id = parameters.text(context.input, "agent_id")
        if agent_id is None or not self._authorization.manages(context, agent_id):
            self._authorization.require_looking(context, SAID)
        if agent_id is not None:
            agent_id = self._find_agent(agent_id)
        limit = parameters.count(context.input, "limit", 50, PAGE)
        listed = sorted(self._sessions.list_sessions(agent_id), key=_place)
        part = self._continuations.part(context, listed, limit, _place)
        shown = [
            {
                **self._name(agent),
                "session_id": session,
                "assurance": assurance,
                "idle_seconds": round(idle, 1),
            }
            for agent, session, assurance, idle in part.items
        ]
        suspended = [
            self._suspension_to_json(item) for item in islice(self._suspensions.list_suspended(agent_id), PAGE)
        ]
        return Answer(
            result={"sessions": shown, "count": len(listed), "suspended": suspended},
            headers=part.headers,
        )

    def _name(self, agent_id: str) -> dict[str, str]:
        """Return an agent's Agent-ID, and its label where the host knows it."""
        agent = self._directory.by_id(agent_id)
        return {"agent_id": agent_id} if agent is None else {"agent_id": agent_id, "agent_label": agent.display_name}

    def _suspension_to_json(self, item: StateItem) -> dict[str, Any]:
        brief = item.brief
        return {
            **self._name(item.value.get("agent_id", item.owner)),
            f"{brief['of']}_id": brief["name"],
            "suspension_id": brief["suspension_id"],
            "resume_by": brief["resume_by"],
            "expired": bool(brief["until"] <= self._now()),
        }


def _place(entry: tuple[str, str, str, float]) -> list[Any]:
    """Order sessions of certified agents before those that strangers can make as many of as they like."""
    return [entry[2] != Assurance.CERTIFICATE.label, *entry[:3]]
