"""
What is shown of the hosted agents, and to whom: the one rule of every list and document.

Three things decide: whether the agent can be called at all (AGTP-API section
5.8.2), how far the operator discloses his agents (AGTP-API section 8.5), and the zones
(core v08 section 7.2.2). Whether a caller may read the built-ins in the first
place is a gate's to say, :class:`agtphost.dispatch.gates.discovery.DiscoveryGate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.config import Policies
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.identity import refuse_stopped
from agtphost.errors import Refusal
from agtphost.handlers.authorization import INSPECT_ALL, Authorization, holds
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.operators import OperatorAction
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.methods.discovery.zones import Sees, Zones
from agtphost.vocabulary.reasons import Reason

PUBLIC = "public"
AUTHENTICATED = "authenticated"
PRIVATE = "private"


def disclosed_documents(disclosure: str, authorization: Authorization) -> Callable[[Exchange, Agent], bool]:
    """
    Return what says whether a caller may read documents about one agent, by its name.

    Where agents are not disclosed to all, the caller must be identified: an agent that is certain, and knows the name,
    may verify whom it is about to call.

    :param disclosure: ``[policies] agent_disclosure``.
    """

    def discloses(exchange: Exchange, agent: Agent) -> bool:
        certain = exchange.assurance is Assurance.CERTIFICATE or authorization.is_operator(exchange.peer)
        return disclosure == PUBLIC or certain

    return discloses


class Visibility:
    """
    Decides what a caller is shown.

    :param states: the present lifecycle state of an agent.
    :param zones: which of the disclosed agents a caller may look at.
    :param disclosure: ``[policies] agent_disclosure``.
    :param authorization: tells operators, to whom everything that can be called is disclosed.
    """

    def __init__(
        self,
        states: Callable[[Agent], LifecycleState],
        zones: Zones | None = None,
        *,
        disclosure: str = PUBLIC,
        authorization: Authorization | None = None,
    ) -> None:
        self._states = states
        self._zones = Zones() if zones is None else zones
        self._disclosure = disclosure
        self._authorization = authorization

    @classmethod
    def for_policies(
        cls, policies: Policies, states: Callable[[Agent], LifecycleState], authorization: Authorization
    ) -> Visibility:
        """Return the visibility that ``[policies]`` sets."""
        zones = Zones(policies.zones, filtering=policies.zone_filtering)
        return cls(states, zones, disclosure=policies.agent_disclosure, authorization=authorization)

    # Who asks

    def operates(self, context: BuiltInContext) -> bool:
        """Return whether an operator asks, in any role."""
        return self._authorization is not None and self._authorization.views(context)

    def proven(self, context: BuiltInContext) -> bool:
        """Return whether the caller has proven its identity: an agent by its certificate, or an operator."""
        return context.assurance is Assurance.CERTIFICATE or self.operates(context)

    def is_entitled(self, context: BuiltInContext) -> bool:
        """Return whether lists disclose agents to the caller (AGTP-API section 8.5)."""
        if self._disclosure == PUBLIC:
            return True
        if not self.proven(context):
            return False
        if self._disclosure == AUTHENTICATED or self.operates(context):
            return True
        return holds(context, INSPECT_ALL)

    @property
    def public(self) -> bool:
        """Whether agents are disclosed to everybody, strangers included."""
        return self._disclosure == PUBLIC

    # What is shown

    def filter_offered(self, agents: Iterable[Agent]) -> list[Agent]:
        """Return the agents that lists may show at all: they can be called, and are not for development alone."""
        return [agent for agent in agents if agent.is_listed and not self._states(agent).is_stopped]

    def state(self, agent: Agent) -> str:
        """Return the agent's lifecycle state, as lists name it."""
        return self._states(agent).status.value

    def in_lists(self, context: BuiltInContext) -> Sees:
        """Return the filter of agents for lists and the namespace document."""
        return self._sees(context, self._zones.in_lists(context))

    def in_searches(self, context: BuiltInContext) -> Sees:
        """Return the filter of agents for searches and questions."""
        return self._sees(context, self._zones.in_searches(context))

    def in_manifest(self, context: BuiltInContext, hosted: Sequence[Agent]) -> bool:
        """
        Return whether the manifest names the hosted agents to the caller.

        It is signed once for all callers, so it names agents only to callers who may see every one, and to no caller of
        a private host.
        """
        within = self._zones.in_lists(context)
        if self._disclosure == PRIVATE:
            return False
        return (
            all(map(within, self.filter_offered(hosted)))
            if self.is_entitled(context)
            else not self.filter_offered(hosted)
        )

    def documents_of(self, context: BuiltInContext, agent: Agent) -> bool:
        """
        Return whether the caller may read documents about one agent, by its name.

        Where agents are not disclosed to all, the caller must be identified: an agent that is certain, and knows
        the name, may verify whom it is about to call.
        """
        return self._disclosure == PUBLIC or self.proven(context)

    def is_own(self, context: BuiltInContext, agent: Agent) -> bool:
        """
        Return whether the caller may learn of an agent that is not hosted here: that agent itself, or an operator.

        Other callers may not learn who calls this host, at every level of disclosure.
        """
        caller, proven = context.caller, context.assurance is Assurance.CERTIFICATE
        own = proven and caller is not None and caller.agent_id == agent.agent_id
        return own or self.operates(context)

    def require_documents(self, context: BuiltInContext, agent: Agent) -> None:
        """
        Raise unless :meth:`documents_of` allows the caller to read.

        :raises Refusal: 404, word for word that of an agent which does not exist.
        """
        if not self.documents_of(context, agent):
            raise Refusal(Reason.AGENT_NOT_HOSTED, "No agent of that name is hosted here.")

    def genesis_of(self, context: BuiltInContext, agent: Agent) -> bool:
        """
        Return whether the caller may get the agent's Genesis.

        That of a revoked agent is archived, and for its registrar and the operators alone (core v08 section 11.7).

        :return: whether the agent is disclosed to it.
        :raises Refusal: 410 for that of a revoked agent.
        """
        if not self.documents_of(context, agent):
            return False
        state = self._states(agent)
        if state.status is LifecycleStatus.RETIRED and not self._manages(context, agent):
            refuse_stopped(state, "agent", agent.agent_id)
        return True

    def _manages(self, context: BuiltInContext, agent: Agent) -> bool:
        return self._authorization is not None and self._authorization.manages(
            context, agent.agent_id, OperatorAction.READ
        )

    def _sees(self, context: BuiltInContext, within: Sees) -> Sees:
        if not self.is_entitled(context):
            return _nobody
        states, active = self._states, LifecycleStatus.ACTIVE

        def sees(agent: Agent) -> bool:
            # It is called for ten thousand agents in one list, and nearly all of them are active.
            state = states(agent)
            return (state.status is active or not state.is_stopped) and within(agent)

        return sees


def _nobody(agent: Agent) -> bool:
    return False
