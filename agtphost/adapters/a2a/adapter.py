"""A2A on EXECUTE: core v08 sections 7.2.8 and 8.4, adapters section 1.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.adapters.a2a import relay
from agtphost.adapters.a2a.agent import CARD, A2AAgent
from agtphost.adapters.a2a.bindings import ACTIONS, PAYLOAD_TYPE, bindings_of, offered
from agtphost.adapters.a2a.card import Card
from agtphost.adapters.a2a.dialects import Operation
from agtphost.adapters.a2a.tasks import state_of, task_in
from agtphost.contract.binding import Binding, Resolution
from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.iagtp import IPayloadAdapter
from agtphost.upstream.approval import Approve, approve_binding
from agtphost.upstream.cancellation import AlreadyOver
from agtphost.upstream.failures import ErrorAnswer
from agtphost.upstream.ownership import OwnedTask, TaskOwnership
from agtphost.upstream.supervision import State
from agtphost.vocabulary.a2a_errors import TASK_NOT_CANCELABLE, TASK_NOT_FOUND
from agtphost.vocabulary.reasons import Reason

APPROVE = "a2a.card.approve"
"""For operators; listed nowhere."""


@implementer(IPayloadAdapter)
class A2AAdapter:
    """
    Carries calls to A2A agents.

    :param agents: the hosted ones; their order decides nothing.
    :param authorization: tells who may approve what changed.
    :param links: which of their tasks are whose.
    """

    name = "a2a"
    payload_types = frozenset({PAYLOAD_TYPE})

    def __init__(
        self,
        agents: Iterable[A2AAgent],
        links: TaskOwnership,
        authorization: Authorization | None = None,
    ) -> None:
        self._agents = {agent.settings.name: agent for agent in agents}
        self._links = links
        self._bindings = {name: bindings_of(agent, links) for name, agent in self._agents.items()}
        authorization = authorization or Authorization()
        self._approving = {name: _approving(agent, authorization) for name, agent in self._agents.items()}
        for name, agent in self._agents.items():
            agent.on_card = self._renewal(name)

    @property
    def agents(self) -> Mapping[str, A2AAgent]:
        """The hosted agents by name."""
        return self._agents

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        """
        Find the agent that a path or payload names.

        :raises Refusal: 404 no such agent; 409 several, and none is named; 422 no such action, or no object.
        """
        if payload is None:
            payload = {}
        if not isinstance(payload, dict):
            raise Refusal(
                Reason.INVALID_PAYLOAD,
                "The payload of an A2A action is an object.",
                remedy='Such as {"agent": "NAME", "message": {"parts": [{"text": "..."}]}}.',
            )
        if action == APPROVE:
            return Resolution(binding=self._approving[self._named(payload, server)], input=payload)
        if action not in ACTIONS and action not in relay.ACTIONS:
            raise Refusal(
                Reason.UNKNOWN_ACTION,
                "A2A payloads carry no such action.",
                details={"supported_actions": list(ACTIONS)},
            )
        return Resolution(binding=self._bindings[self._named(payload, server)][action], input=payload)

    def tools(self) -> list[Binding]:
        """Every action that can be called now, by agent."""
        return [
            self._bindings[name][action]
            for name, agent in sorted(self._agents.items())
            if agent.state in (State.UP, State.IDLE)
            for action in offered(agent)
        ]

    def hosted(self) -> Sequence[Mapping[str, object]]:
        """``hosted_protocols`` entries: AGTP-API section 8.6."""
        entries: list[Mapping[str, object]] = []
        for name, agent in sorted(self._agents.items()):
            entry: dict[str, object] = {
                "protocol": "A2A",
                "method": "EXECUTE",
                "path": f"/a2a/{name}",
                "name": name,
                **agent.snapshot().told(),
                "changed_card": agent.candidate is not None,
            }
            if agent.card is not None:
                entry["version"] = agent.card.interface.version
                entry["skills"] = list(agent.card.skills)
                entry["card_sha256"] = agent.card.digest
                entry["card_trust"] = agent.card.trust
            entries.append(entry)
        return entries

    def definition(self, upstream: str, name: str) -> Mapping[str, Any] | None:
        """The approved and the present card of an agent; None where there is none."""
        agent = self._agents.get(upstream)
        if agent is None or name != CARD:
            return None
        card = agent.candidate or agent.card
        return agent.pins.shown(CARD, None if card is None else card.pinned)

    def upstreams(self) -> Sequence[Mapping[str, object]]:
        """Everything there is to know of each agent, for operators."""
        return [_full(agent) for _, agent in sorted(self._agents.items())]

    async def end(self, link: OwnedTask) -> str:
        """
        Cancel a task upstream, whoever began it; its state afterwards.

        :raises UpstreamFailure: for every other outcome; :class:`AlreadyOver` where there is nothing to cancel.
        """
        agent = self._agents.get(link.upstream)
        if agent is None:
            raise AlreadyOver("the upstream is no longer configured")
        try:
            result = await agent.ask(Operation.CANCEL, {"id": link.remote_id}, agent.settings.timeout)
        except ErrorAnswer as error:
            if error.error.get("code") in (TASK_NOT_FOUND, TASK_NOT_CANCELABLE):
                raise AlreadyOver(str(error)) from None
            raise
        return state_of(task_in(result))

    def _renewal(self, name: str) -> Any:
        def renew(card: Card) -> None:
            self._bindings[name] = bindings_of(self._agents[name], self._links)

        return renew

    def _named(self, payload: Mapping[str, Any], server: str | None) -> str:
        given = payload.get("agent")
        named = server if server is not None else given if isinstance(given, str) else None
        if named is None and len(self._agents) == 1:
            return next(iter(self._agents))
        if named is None:
            raise Refusal(
                Reason.AMBIGUOUS_AGENT,
                "This host has several A2A agents, and the request names none.",
                remedy="Name one as payload.agent, or in the path: /a2a/NAME.",
                details={"candidates": sorted(self._agents)},
            )
        if named not in self._agents:
            raise Refusal(Reason.UNKNOWN_A2A_AGENT, details={"a2a_agents": sorted(self._agents)})
        return named


def _full(agent: A2AAgent) -> dict[str, object]:
    card, candidate = agent.card, agent.candidate
    return {
        **agent.snapshot().full(),
        "version": None if card is None else card.interface.version,
        "approved": {"card": agent.pins.approved(CARD)},
        "waiting_for_approval": {} if candidate is None else {"card": candidate.digest},
    }


def _approving(agent: A2AAgent, authorization: Authorization) -> Binding:
    name = agent.settings.name

    def waiting() -> Mapping[str, str]:
        return {} if agent.candidate is None else {CARD: agent.candidate.digest}

    return approve_binding(APPROVE, f"/a2a/{name}", Approve("a2a", name, agent.pins, waiting, authorization))
