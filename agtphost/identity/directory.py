"""The directory of the agents that a host knows: those it hosts, and those it admits as callers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zope.interface import Attribute, Interface, implementer

from agtphost.identity.agents import Agent
from agtphost.vocabulary.display_names import find_shared_names


class IAgentDirectory(Interface):
    """The agents this host knows: those it hosts, and those it admits as callers."""

    only: Agent | None = Attribute("The only hosted agent; None where there are more, or none.")

    def by_id(agent_id: str) -> Agent | None:
        """Return the agent of that Agent-ID."""

    def by_name(name: str) -> Agent | None:
        """Return the hosted agent of that label."""

    def list_hosted() -> Sequence[Agent]:
        """Return the hosted agents in label order."""

    def list_known() -> Sequence[Agent]:
        """Return all agents: those that are hosted, and those that only call."""


@implementer(IAgentDirectory)
class AgentDirectory:
    """
    Agents by identifier and label.

    :param agents: in any order; an agent that is hosted and known as a caller too counts as hosted.
    :raises ValueError: if two hosted agents have one label; :func:`~agtphost.identity.agents.distinct` tells
        beforehand.
    """

    def __init__(self, agents: Iterable[Agent]) -> None:
        self._by_id: dict[str, Agent] = {}
        self._withdrawn: frozenset[str] = frozenset()
        self.only: Agent | None = None
        """The only hosted agent; None where there are more, or none."""

        self.admit(agents)

    def admit(self, agents: Iterable[Agent]) -> None:
        """
        Take up further agents; from now on they can call and be called.

        :raises ValueError: if two hosted agents would have one label; then nothing has changed.
        """
        known = dict(self._by_id)
        for agent in agents:
            if agent.hosted or agent.agent_id not in known:
                known[agent.agent_id] = agent
        self._index(known)

    def replace(self, agent: Agent) -> bool:
        """
        Put an agent in the place of the one with its Agent-ID, which has the same label.

        :return: whether there was one; otherwise nothing has changed.
        """
        if agent.agent_id not in self._by_id:
            return False
        self._index({**self._by_id, agent.agent_id: agent})
        return True

    def _index(self, known: dict[str, Agent]) -> None:
        known = _mark_shared_names(known)
        hosted = tuple(sorted((a for a in known.values() if a.hosted), key=lambda a: a.name))
        by_name = {agent.name: agent for agent in hosted}
        if len(by_name) != len(hosted):
            raise ValueError("two hosted agents have one label")
        # In place: gates have the dictionary's own look-up in hand.
        self._by_id.update(known)
        self._by_name, self._all_hosted = by_name, hosted
        self.only = hosted[0] if len(hosted) == 1 else None
        self.withdraw(self._withdrawn)

    def withdraw(self, agent_ids: frozenset[str]) -> None:
        """
        Keep agents out of every list; they still can be addressed, and asked for their state.

        :param agent_ids: all of those; what was withdrawn before and is not among them is listed again.
        """
        self._withdrawn = agent_ids
        self._hosted = tuple(agent for agent in self._all_hosted if agent.agent_id not in agent_ids)

    def by_id(self, agent_id: str) -> Agent | None:
        return self._by_id.get(agent_id)

    def by_name(self, name: str) -> Agent | None:
        return self._by_name.get(name)

    def list_hosted(self) -> Sequence[Agent]:
        return self._hosted

    def list_known(self) -> Sequence[Agent]:
        """Return every agent, hosted or not, in label order."""
        return sorted(self._by_id.values(), key=lambda agent: (agent.name, agent.agent_id))


def _mark_shared_names(known: dict[str, Agent]) -> dict[str, Agent]:
    """Return the agents, each with a note of how to tell it from those that have its name."""
    shared = find_shared_names({agent_id: agent.name for agent_id, agent in known.items()})
    return {
        agent_id: agent if agent.shared_name_digits == digits else replace(agent, shared_name_digits=digits)
        for agent_id, agent in known.items()
        for digits in (shared.get(agent_id, 0),)
    }


# Loading
