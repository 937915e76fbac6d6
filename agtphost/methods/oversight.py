"""Who may look at, and decide, what agents leave to others: escalations and messages to the operator."""

from __future__ import annotations

import hmac
from collections.abc import Collection

from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext
from agtphost.iagtp import IAgentDirectory
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.vocabulary import scopes
from agtphost.vocabulary.status import Status

OPERATOR = "operator"
"""The recipient that stands for the people who run the host: the default handler of escalations."""

DECIDE = "escalation:confirm"
"""The scope by which an agent decides in the operator's place."""


class Oversight:
    """
    Tells operators, deciding agents and everybody else apart.

    :param directory: for the Genesis issuers of agents.
    :param operators: key fingerprints of ``[audit] operators``.
    :param floor: how surely an agent must be known.
    """

    def __init__(self, directory: IAgentDirectory, operators: Collection[str], floor: Assurance) -> None:
        self._directory = directory
        self._operators = frozenset(operators)
        self._floor = floor

    def named(self, context: EndpointContext) -> Agent | None:
        """The calling agent, where it is known surely enough to read and decide."""
        return context.caller if context.caller is not None and context.assurance >= self._floor else None

    def fingerprint(self, context: EndpointContext) -> str:
        """The client certificate's key fingerprint; empty where there is none, or it is an agent's."""
        certificate = context.peer.certificate if context.peer is not None else None
        return "" if certificate is None or certificate.agent_id is not None else certificate.fingerprint

    def operates(self, context: EndpointContext) -> bool:
        """Whether the connection is an operator's."""
        return self.fingerprint(context) in self._operators

    def stands_above(self, context: EndpointContext, agent_id: str) -> bool:
        """Whether the connection is an operator's or that of the registrar which issued the agent's Genesis."""
        presented = self.fingerprint(context)
        agent = self._directory.by_id(agent_id)
        issuer = agent.issuer_fingerprint if agent is not None else None
        return self.operates(context) or bool(presented and issuer and hmac.compare_digest(presented, issuer))

    def decides(self, context: EndpointContext, owner: str, recipient: str) -> bool:
        """
        Whether the caller may decide what ``owner`` escalated; never the owner itself.

        :param recipient: the Agent-ID that it went to; empty where it went to people.
        """
        if self.stands_above(context, owner):
            return True
        caller = self.named(context)
        if caller is None or caller.agent_id == owner:
            return False
        return caller.agent_id == recipient or (not recipient and scopes.covers(context.scopes, DECIDE))

    def decides_for_people(self, context: EndpointContext) -> bool:
        """Whether the caller may decide in the operator's place, whoever escalated."""
        return self.named(context) is not None and scopes.covers(context.scopes, DECIDE)

    def actor(self, context: EndpointContext) -> str:
        """
        Who is calling, as records and receipts name it.

        :raises Refusal: 401 where that is not known surely enough.
        """
        caller = self.named(context)
        if caller is not None:
            return caller.agent_id
        presented = self.fingerprint(context)
        if presented:
            return f"key:{presented}"
        raise Refusal(
            Status.UNAUTHORIZED,
            "agent-unauthenticated",
            "Neither a calling agent nor an operator is known surely enough.",
            remedy="Connect with the agent's or the operator's client certificate.",
            details={"assurance": context.assurance.label, "required_assurance": self._floor.label},
        )


def owner_of(context: EndpointContext) -> Agent:
    """
    The calling agent that something will belong to.

    :raises Refusal: 401 where there is none.
    """
    if context.caller is None:
        raise Refusal(
            Status.UNAUTHORIZED,
            "agent-unauthenticated",
            "The request names no calling agent.",
            remedy="Send Agent-ID, and present the agent's client certificate.",
        )
    return context.caller
