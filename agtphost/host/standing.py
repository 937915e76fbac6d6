"""The agents that a host knows at present: each configuration has its directory, and what outlives them asks here."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import implementer

from agtphost.iagtp import IAgentDirectory
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory


@implementer(IAgentDirectory)
class StandingDirectory:
    """
    The directory that is in force.

    :param directory: at the start.
    """

    def __init__(self, directory: AgentDirectory) -> None:
        self.in_force = directory
        self._withdrawn: frozenset[str] = frozenset()

    def turn_to(self, directory: AgentDirectory) -> None:
        """Another one is in force; who was kept out of lists still is."""
        directory.withdraw(self._withdrawn)
        self.in_force = directory

    def withdraw(self, agent_ids: frozenset[str]) -> None:
        """See :meth:`AgentDirectory.withdraw`."""
        self._withdrawn = agent_ids
        self.in_force.withdraw(agent_ids)

    @property
    def only(self) -> Agent | None:
        """The only hosted agent; None where there are more, or none."""
        return self.in_force.only

    def by_id(self, agent_id: str) -> Agent | None:
        return self.in_force.by_id(agent_id)

    def by_name(self, name: str) -> Agent | None:
        return self.in_force.by_name(name)

    def list_hosted(self) -> Sequence[Agent]:
        return self.in_force.list_hosted()

    def list_known(self) -> Sequence[Agent]:
        """Every agent, hosted or not, in label order."""
        return self.in_force.list_known()


Known = AgentDirectory | StandingDirectory
"""Whoever asks one is not told which."""
