"""
Who acts for the people: operators, registrars, and the agents that stand in for them.

Every feature that asks "is this an operator's?" asks here, so that one
certificate has one answer (design decision 14).

*Operator* A client that connects with a client certificate whose key is an operator's; nothing else of the
    certificate counts. :mod:`agtphost.handlers.operators` says whose keys these are, and what each role may do. A
    listed key that belongs to an agent makes this agent an operator too; it still never decides about what it asked
    for itself. *Registrar of an agent* A client that connects with the key that issued the agent's
    Genesis. *Person* A client that connects with a client certificate whose key ``[notify.people]`` lists; nothing else
    of the certificate counts. A person reads, answers and decides what is addressed to its name or to a group of it,
    and nothing else. *Overseer* An administrator, or an agent that its certificate proves and that holds the scope of
    the action: ``inspect:all`` for looking, ``escalation:confirm`` for deciding, ``mcp:tools:approve`` and its like for
    approving. A scope claimed by a mere header oversees nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterable

from agtphost.errors import Refusal
from agtphost.handlers.addresses import MARK, Addresses
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.operators import NEEDED, Operator, OperatorAction, Operators, setting_for
from agtphost.identity.agents import Agent
from agtphost.identity.directory import IAgentDirectory
from agtphost.identity.peer import Assurance, Peer
from agtphost.vocabulary import scopes
from agtphost.vocabulary.reasons import Reason

OPERATOR = "operator"
"""The recipient that represents the people who run the host: the default handler of escalations."""

INSPECT_ALL = "inspect:all"
"""The scope that shows an agent what belongs to others (core v08 section 7.2.16); never granted by ``*:*``."""

OPERATORS = "operators"
"""In ``[approvals] by``: all operators."""

DECIDE = "escalation:confirm"
"""The scope by which an agent decides in the operator's place."""


class Authorization:
    """
    Tells operators, registrars, overseeing agents and everybody else apart.

    :param operators: all operators, with their roles.
    :param directory: finds the Genesis issuers of agents; None where no agent is asked about.
    :param floor: how surely an agent must be known to look after its own matters.
    :param addresses: people and groups of ``[notify]``.
    """

    def __init__(
        self,
        operators: Operators | None = None,
        directory: IAgentDirectory | None = None,
        floor: Assurance = Assurance.CERTIFICATE,
        addresses: Addresses | None = None,
    ) -> None:
        self.operators = operators or Operators()
        """All operators, with their roles."""
        self._directory = directory
        self._floor = floor
        self.addresses = addresses or Addresses()
        """People and groups that messages and escalations can be addressed to."""

    @property
    def believes_names(self) -> bool:
        """Whether an Agent-ID in a header is enough, as on a development host on loopback."""
        return self._floor <= Assurance.HEADER

    # People

    def is_operator(self, peer: Peer | None) -> bool:
        """Return whether the connection is an operator's, in any role."""
        return self.operators.find(peer) is not None

    def acts_as_operator(self, peer: Peer | None) -> bool:
        """Return whether the connection is an operator's whose role lets it do more than read."""
        return self.operators.may(peer, OperatorAction.DECIDE)

    def operator(self, context: BuiltInContext) -> Operator | None:
        """Return the calling operator; None for all other callers."""
        return self.operators.find(context.peer)

    def may(self, context: BuiltInContext, action: OperatorAction) -> bool:
        """Return whether an operator calls whose role includes an action."""
        return self.operators.may(context.peer, action)

    def operates(self, context: BuiltInContext) -> bool:
        """Return whether an administrator calls."""
        return self.may(context, OperatorAction.OPERATE)

    def manages(self, context: BuiltInContext, agent_id: str, action: OperatorAction = OperatorAction.OPERATE) -> bool:
        """Return whether an operator calls whose role includes an action, or the agent's registrar."""
        agent = self._directory.by_id(agent_id) if self._directory is not None else None
        return self.may(context, action) or is_registrar(context.peer, agent)

    def grants(self, context: BuiltInContext, agent: Agent) -> bool:
        """
        Return whether the caller says what an agent may call here: an administrator, or where none are listed, who
        issued it.

        Where there are administrators, who issued an agent elsewhere does not undo what they decided.
        """
        listed = self.operators.lists_administrator
        return self.may(context, OperatorAction.GRANT) or (not listed and is_registrar(context.peer, agent))

    def configures(self, context: BuiltInContext, agents: Iterable[Agent]) -> bool:
        """
        Return whether the caller changes the host's configuration: an administrator, or where none are listed, who
        issued an agent.

        :param agents: all that are known here.
        """
        if self.may(context, OperatorAction.RELOAD):
            return True
        return not self.operators.lists_administrator and any(is_registrar(context.peer, agent) for agent in agents)

    def person(self, context: BuiltInContext) -> str:
        """
        Return the key fingerprint of a client certificate that names no agent, or of an operator who calls as no
        agent; empty for all other callers.
        """
        operating = context.caller is None and self.is_operator(context.peer)
        return fingerprint(context.peer) if operating else person_of(context.peer)

    def is_person(self, peer: Peer | None) -> bool:
        """Return whether the connection is that of a person of ``[notify.people]``."""
        key = fingerprint(peer)
        return bool(key) and key in self.addresses.keys

    def person_name(self, peer: Peer | None) -> str:
        """Return the name in ``[notify.people]`` of the person at the other end; empty for everyone else."""
        key = fingerprint(peer)
        return self.addresses.name_of_key(key) if key else ""

    def inboxes(self, context: BuiltInContext) -> tuple[str, ...]:
        """
        Return whose notifications the caller reads as its own: those of its agent, of the person that has its key, and
        of the key itself, which is answered where it has sent something.
        """
        caller, key = self.find_caller(context), fingerprint(context.peer)
        found = () if caller is None else (caller.agent_id,)
        return (*found, *sorted(self.addresses.inboxes_of_key(key)), key) if key else found

    def recipients(self, context: BuiltInContext) -> frozenset[str]:
        """
        Return what the recipient of an escalation can be for the caller to be the one who decides it.

        These are its Agent-ID, and the marked names of ``[notify]`` that stand for its key, for its agent, or for the
        operator where the caller acts for the operator. It does not include the empty recipient: see :meth:`decides`.
        """
        addresses, caller = self.addresses, self.find_caller(context)
        found = set(addresses.recipients_of_key(fingerprint(context.peer)))
        if self.may(context, OperatorAction.DECIDE) or (caller is not None and holds(context, DECIDE)):
            found |= addresses.recipients_of_member(OPERATOR)
        if caller is None:
            return frozenset(found)
        found |= {caller.agent_id, *addresses.recipients_of_member(caller.agent_id)}
        # The name of an agent elsewhere is its own choice: only names of hosted agents are the operator's.
        named = self._directory.by_name(caller.name) if self._directory is not None and caller.hosted else None
        if named is not None and named.agent_id == caller.agent_id:
            found |= addresses.recipients_of_member(caller.name)
        return frozenset(found)

    # Agents in their place

    def oversees(
        self, context: BuiltInContext, scope: str = INSPECT_ALL, action: OperatorAction = OperatorAction.OPERATE
    ) -> bool:
        """Return whether an operator calls whose role includes an action, or an agent that oversees by ``scope``."""
        return self.may(context, action) or holds(context, scope)

    def require(
        self, context: BuiltInContext, scope: str, explanation: str, action: OperatorAction = OperatorAction.OPERATE
    ) -> str:
        """
        Require that an operator calls whose role includes an action, or an agent that oversees.

        :param scope: by which agents oversee.
        :param explanation: who may do what; a sentence.
        :return: who it is: the fingerprint of the operator's key, or the Agent-ID.
        :raises Refusal: 403 ``operators-only`` for all other callers.
        """
        if self.may(context, action):
            return fingerprint(context.peer)
        if holds(context, scope) and context.caller is not None:
            return context.caller.agent_id
        raise self.refuse(context, action, explanation, scope)

    def refuse(
        self,
        context: BuiltInContext,
        action: OperatorAction,
        explanation: str,
        scope: str = "",
        reason: Reason = Reason.OPERATORS_ONLY,
    ) -> Refusal:
        """
        Return the refusal of a caller whose role does not include an action.

        :param explanation: who may do what; a sentence.
        :param scope: by which agents do it as well; empty where none does.
        """
        found = self.operator(context)
        own = "" if found is None else f" {found.name} is {_with_article(found.role.label)} here."
        agents = f", or of an agent that has the scope {scope}" if scope else ""
        needed = NEEDED[action].label
        return Refusal(
            reason,
            f"{explanation}{own}",
            remedy=f"Connect with the certificate of {_with_article(needed)}{agents}. "
            # The key of an agent is left out: listing it would make the agent an operator.
            f"In host.toml: {setting_for(person_of(context.peer), action, found)}.",
            details={"required_role": needed},
        )

    def approves(self, context: BuiltInContext, by: Collection[str]) -> bool:
        """
        Return whether the caller is one of those who approve calls of others.

        :param by: ``[approvals] by``: ``operators``, and scopes of agents in their place.
        """
        if OPERATORS in by and self.may(context, OperatorAction.DECIDE):
            return True
        return any(holds(context, scope) for scope in by if scope != OPERATORS)

    def is_party(self, context: BuiltInContext, parties: Collection[str], key: str) -> bool:
        """
        Return whether the caller would approve its own call: one of its agent, or of a client with the same key.

        :param parties: Agent-IDs of all that the call is made for.
        :param key: the fingerprint of the key that it was asked with; empty where with none.
        """
        if context.caller is not None and context.caller.agent_id in parties:
            return True
        presented = fingerprint(context.peer)
        return bool(presented and key) and hmac.compare_digest(presented, key)

    # Who looks, and decides nothing

    def views(self, context: BuiltInContext) -> bool:
        """Return whether an operator calls, in any role."""
        return self.may(context, OperatorAction.READ)

    def looks(self, context: BuiltInContext) -> bool:
        """Return whether the caller may see what belongs to others."""
        return self.oversees(context) or self.views(context)

    def require_looking(self, context: BuiltInContext, explanation: str) -> None:
        """
        Require that an operator, an overseer or a viewer calls, for what changes nothing.

        :raises Refusal: 403 ``operators-only`` for everybody else.
        """
        self.require(context, INSPECT_ALL, explanation, OperatorAction.READ)

    # What agents leave to others

    def find_caller(self, context: BuiltInContext) -> Agent | None:
        """Return the calling agent, if its assurance is high enough for its own matters."""
        return context.caller if context.caller is not None and context.assurance >= self._floor else None

    def decides(self, context: BuiltInContext, owner: str, recipient: str, key: str = "") -> bool:
        """
        Return whether the caller may decide what ``owner`` escalated; never the owner itself.

        :param recipient: the Agent-ID or the marked name that it went to; empty where it went to the operator.
        :param key: the fingerprint of the key that it was escalated with; empty where with none.
        """
        if self.is_party(context, (owner,), key):
            return False
        if self.manages(context, owner, OperatorAction.DECIDE):
            return True
        if recipient.startswith(MARK):
            return recipient in self.recipients(context)
        caller = self.find_caller(context)
        return caller is not None and (caller.agent_id == recipient or (not recipient and holds(context, DECIDE)))

    def actor(self, context: BuiltInContext) -> str:
        """
        Return who is calling, as records and receipts name it.

        :raises Refusal: 401 where that is not known surely enough.
        """
        caller = self.find_caller(context)
        if caller is not None:
            return caller.agent_id
        presented = self.person(context)
        if presented:
            return f"key:{presented}"
        raise Refusal(
            Reason.AGENT_UNAUTHENTICATED,
            "Neither a calling agent nor an operator is known surely enough.",
            remedy="Connect with the agent's client certificate, or with an operator's: [[operator]] lists the keys.",
            details={"assurance": context.assurance.label, "required_assurance": self._floor.label},
        )


def fingerprint(peer: Peer | None) -> str:
    """
    Return the key fingerprint of the client certificate; empty where there is none, and for keys that are not Ed25519.
    """
    return peer.certificate.fingerprint if peer is not None and peer.certificate is not None else ""


def person_of(peer: Peer | None) -> str:
    """Return the key fingerprint of a client certificate that names no agent; empty for everybody else."""
    certificate = peer.certificate if peer is not None else None
    return "" if certificate is None or certificate.agent_id is not None else certificate.fingerprint


def _with_article(role: str) -> str:
    return f"an {role}" if role[0] in "a" else f"a {role}"


def is_registrar(peer: Peer | None, agent: Agent | None) -> bool:
    """Return whether the connection has the key that issued the agent's Genesis."""
    presented, issuer = fingerprint(peer), agent.issuer_fingerprint if agent is not None else None
    return bool(presented and issuer) and hmac.compare_digest(presented, issuer or "")


def holds(context: BuiltInContext, scope: str) -> bool:
    """Return whether an agent that its certificate proves has a scope."""
    return context.assurance is Assurance.CERTIFICATE and scopes.covers(context.scopes, scope)


def owner_of(context: BuiltInContext) -> Agent:
    """
    Return the calling agent that something will belong to.

    :raises Refusal: 401 where there is none.
    """
    if context.caller is None:
        raise Refusal(Reason.AGENT_UNAUTHENTICATED, "The request names no calling agent.")
    return context.caller
