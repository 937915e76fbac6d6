"""INSPECT ``target=agents`` and ``target=chains``: everyone that the host knows, for those who look after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from agtphost.audit.drafts import HOST_CHAIN
from agtphost.audit.lifecycle import LifecycleState
from agtphost.dispatch.scope_records import ScopeRecords
from agtphost.handlers import parameters
from agtphost.handlers.authorization import INSPECT_ALL, Authorization, is_registrar
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.handlers.operators import OperatorAction
from agtphost.iagtp import IRecordStore
from agtphost.identity.agents import Agent
from agtphost.methods.continuation import Continuations
from agtphost.methods.rights import describe_statement

PAGE = 200
DAY = 86_400.0

SESSION_SECONDS = 1_800.0
"""A session counts that was used within the last half hour."""


class CountsSessions(Protocol):
    """A table of sessions that can count those of an agent."""

    def active(self, agent_id: str, seconds: float) -> int:
        """Return how many sessions of an agent were used within the last ``seconds``."""


class KnownAgents:
    """
    Tells of agents: all of them to overseers, and to a registrar its own.

    :param known: every agent that the host knows.
    :param states: the present state of each.
    :param statements: the statements of issuers about their agents' scopes.
    :param keys: names of the HTTP clients that call as an agent, by its label or Agent-ID.
    """

    def __init__(
        self,
        known: Callable[[], Sequence[Agent]],
        states: Callable[[Agent], LifecycleState],
        sessions: CountsSessions,
        authorization: Authorization,
        continuations: Continuations,
        keys: Mapping[str, Sequence[str]],
        statements: ScopeRecords,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._known = known
        self._states = states
        self._sessions = sessions
        self._authorization = authorization
        self._continuations = continuations
        self._keys = keys
        self._statements = statements
        self._now = now

    async def read(self, context: BuiltInContext) -> Answer:
        """
        List agents as ``{"agents": [...], "count": N}`` by name.

        The filter ``agent_id`` selects one; ``name`` selects those whose name contains it.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers and registrars.
        """
        shown = list(self._visible_agents(context))
        named, wanted = parameters.text(context.input, "name"), parameters.text(context.input, "agent_id")
        if wanted:
            shown = [agent for agent in shown if agent.agent_id == wanted]
        elif named:
            shown = [agent for agent in shown if named.lower() in agent.name.lower()]
        shown.sort(key=_place)
        part = self._continuations.part(context, shown, parameters.count(context.input, "limit", 50, PAGE), _place)
        return Answer(
            result={"agents": [self._entry(context, agent) for agent in part.items], "count": len(shown)},
            headers=part.headers,
        )

    def _visible_agents(self, context: BuiltInContext) -> Iterable[Agent]:
        if self._authorization.looks(context):
            return self._known()
        own = [agent for agent in self._known() if is_registrar(context.peer, agent)]
        if not own:
            raise self._authorization.refuse(
                context,
                OperatorAction.READ,
                "Only operators see all agents and their states; a registrar sees the agents that it issued.",
                INSPECT_ALL,
            )
        return own

    def _entry(self, context: BuiltInContext, agent: Agent) -> dict[str, Any]:
        state, certificate = self._states(agent), agent.certificate
        left = None if certificate is None else round((certificate.valid_to - self._now()) / DAY, 1)
        return {
            "agent_id": agent.agent_id,
            "name": agent.name,
            "display_name": agent.display_name,
            "description": agent.description,
            "hosted": agent.hosted,
            "owner_id": agent.owner_id,
            "scopes": sorted(agent.scopes),
            "scope_statement": describe_statement(self._statements, agent),
            "status": state.status.value,
            "since": state.since,
            "reason": state.reason,
            "successor_agent_id": state.successor,
            "certificate_days": left,
            "sessions": self._sessions.active(agent.agent_id, SESSION_SECONDS),
            "http_clients": [*self._keys.get(agent.name, ()), *self._keys.get(agent.agent_id, ())],
            "registrar": is_registrar(context.peer, agent),
            "may_change": self._authorization.manages(context, agent.agent_id, OperatorAction.LIFECYCLE),
        }


def _place(agent: Agent) -> list[str]:
    return [agent.name, agent.agent_id]


class Chains:
    """
    Tells overseers of the chains and their heads: the host's own, and one of each hosted agent.

    :param hosted: the agents that answer here.
    """

    def __init__(
        self, records: IRecordStore, hosted: Callable[[], Sequence[Agent]], authorization: Authorization
    ) -> None:
        self._records = records
        self._hosted = hosted
        self._authorization = authorization

    async def read(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        List chains as ``{"chains": [...]}``, with name, length and newest record of each.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers.
        """
        self._authorization.require_looking(context, "Only operators see the chains of all agents.")
        hosted = self._hosted()
        named = [("host", HOST_CHAIN), *((agent.display_name, agent.agent_id) for agent in hosted[: PAGE - 1])]
        chains = []
        for name, chain in named:
            head = await self._records.head(chain)
            known = {} if head is None else {"audit_id": head.audit_id, "seq": head.seq, "kind": head.kind}
            chains.append({"name": name, "agent_id": chain, **known})
        return {"chains": chains, "count": len(hosted) + 1}
