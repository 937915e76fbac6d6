"""Provide the present directory of agents to objects that outlive a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zope.interface import implementer

from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory, IAgentDirectory


@implementer(IAgentDirectory)
class LiveDirectory:
    """
    A directory that delegates to the one of the configuration in force.

    :param directory: the one at the start.
    """

    def __init__(self, directory: AgentDirectory) -> None:
        self.in_force = directory
        self._withdrawn: frozenset[str] = frozenset()

    def turn_to(self, directory: AgentDirectory) -> None:
        """Put another directory in force; agents withdrawn from lists stay so."""
        directory.withdraw(self._withdrawn)
        self.in_force = directory

    def admit(self, agents: Iterable[Agent]) -> None:
        """Take up further agents; see :meth:`AgentDirectory.admit`."""
        self.in_force.admit(agents)

    def withdraw(self, agent_ids: frozenset[str]) -> None:
        """Keep agents out of lists; see :meth:`AgentDirectory.withdraw`."""
        self._withdrawn = agent_ids
        self.in_force.withdraw(agent_ids)

    @property
    def only(self) -> Agent | None:
        """Return the only hosted agent, or None if there are none or several."""
        return self.in_force.only

    def by_id(self, agent_id: str) -> Agent | None:
        return self.in_force.by_id(agent_id)

    def by_name(self, name: str) -> Agent | None:
        return self.in_force.by_name(name)

    def list_hosted(self) -> Sequence[Agent]:
        return self.in_force.list_hosted()

    def list_known(self) -> Sequence[Agent]:
        """Return every agent, hosted or not, in label order."""
        return self.in_force.list_known()


Known = AgentDirectory | LiveDirectory
"""Either kind of directory; users need not distinguish them."""
