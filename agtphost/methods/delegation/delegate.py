"""
DELEGATE: a task handed to another agent with part of the caller's authority (core v08 section 7.2.9).

Theory of operation. The delegator is the caller; inside a delegated call it is
the agent that was delegated to. Its signed token names who delegates what to
whom, once. When everything about the token and the chain behind it holds, the
hop is committed with its own record, and only then the task runs: through
the dispatcher, addressed to the delegatee, in a new session and with
the granted scopes alone. The caller stays the one whose authority is used, so
no agent acts in another's name, and each record under the delegation
names the whole chain. Authority can only shrink: a grant is a strict subset of
what the delegator has here and now.

A delegatee on another host is reached by the same method over there: that host
decides anew, by the same tokens and by its own rules, and both keep a record
of the hop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from agtphost.config.delegation import DelegationSection
from agtphost.dispatch.gates.governance import Governance
from agtphost.dispatch.used_tokens import UsedTokens
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.iagtp import IAgentDirectory
from agtphost.identity.delegation import Lineage
from agtphost.identity.keys import SigningKey
from agtphost.methods.delegation import task
from agtphost.methods.delegation.asynchronous_tasks import AsynchronousTasks
from agtphost.methods.delegation.decision import Delegatee, Hop, RemoteHost, States
from agtphost.methods.delegation.execution import Work
from agtphost.methods.delegation.task import Asked
from agtphost.methods.delegation.tokens import CHAIN, TokenCheck, require_subset
from agtphost.vocabulary import uris
from agtphost.vocabulary.own_address import OwnAddress
from agtphost.vocabulary.reasons import Reason


@implementer(IBuiltInHandler)
class Delegation:
    """
    The handler of DELEGATE.

    :param used: tokens that were used.
    :param server_id: ``iss`` of the tokens that the host signs.
    :param address: the names and the port that the host's own URIs have.
    :param key: the host's own; None where it has none, and then signs none.
    :param clock: for deadlines.
    :param hosts: the hosts of agents elsewhere, by Agent-ID.
    :param tasks: runs what goes on after its answer; None answers everything directly.
    :param now: seconds since the epoch.
    """

    kind = "built_in"

    def __init__(
        self,
        directory: IAgentDirectory,
        states: States,
        used: UsedTokens,
        *,
        server_id: str,
        address: OwnAddress,
        key: SigningKey | None,
        clock: IReactorTime,
        rules: DelegationSection,
        hosts: Mapping[str, RemoteHost] | None = None,
        tasks: AsynchronousTasks | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._address = address
        self._rules = rules
        self._hosts = hosts or {}
        self._tasks = tasks
        self._tokens = TokenCheck(
            directory, states, used, server_id=server_id, key=key, rules=rules, hosts=self._hosts, now=now
        )
        self._governance = Governance(rules.governance, used, server_id, now)
        self._work = Work(rules, clock)

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Decide, commit the hop, run the task.

        :raises Refusal: 262 for a grant that is not a strict subset, 403, 404, 422, 457 for a zone, 503 where the
            delegatee's host cannot be reached, 550 where the task failed, 551 for a token or chain that cannot be
            verified.
        """
        hop = self._hop(context, self._resolve_addresses(task.read(context.input)))
        self._require_permission(hop)
        require_subset(hop, context.scopes)
        self._require_zone(hop, context)
        token, text = self._tokens.verify(hop, context)
        invocation = context.invocation
        exchange = invocation.exchange
        lineage = self._tokens.lineage(hop, token, text, exchange.context.get(CHAIN))
        governed = self._governance.for_delegation(
            exchange, hop.delegator.agent_id, hop.target.agent_id, hop.asked.scope, hop.record_members()
        )
        tasks, ticket = self._tasks, None
        if hop.asked.asynchronous:
            if tasks is None:
                raise parameters.invalid(
                    "asynchronous", "This host answers tasks only directly.", "Leave asynchronous out."
                )
            ticket = tasks.admit(hop, token.digest, token.task_id, lineage)
        told = None
        if tasks is not None and ticket is None and hop.asked.callback is not None:
            told = tasks.recipient(hop)
        changes = [UsedTokens.change(token, lineage), *governed, *(ticket.changes if ticket is not None else ())]
        said = {
            **hop.record_members(),
            "chain": list(lineage.chain),
            "depth": lineage.depth,
            "token_hash": token.digest,
        }
        audit_id = await invocation.commit({"type": "delegation-accepted", **said}, changes, {"delegation": said})
        running = replace(lineage, audit_id=audit_id, calls=exchange.peer.depth + 1)
        turns = tasks.turns if tasks is not None and ticket is not None else None
        work = self._work.do(hop, invocation, running, token.task_id, turns)
        if tasks is not None and ticket is not None:
            return tasks.begin(ticket, hop, running, invocation, work)
        done = await work
        result, changes = done.result, []
        if tasks is not None and told is not None:
            notice = tasks.notice(hop, told, running, token.task_id, done)
            changes = [] if notice is None else [notice]
            delivery = {"delivered": True, "notification_id": notice.key} if notice else {"delivered": False}
            result = {**result, "callback": {**delivery, **({} if notice else {"reason": "inbox-full"})}}
        return Answer(
            result=result,
            changes=tuple(changes),
            extra={"delegation": {**said, "accepted": audit_id, **done.extra}},
        )

    # Who, to whom

    def _hop(self, context: BuiltInContext, asked: Asked) -> Hop:
        caller, peer = context.caller, context.peer
        if caller is None:
            raise Refusal(
                Reason.AGENT_UNAUTHENTICATED, "Only agents delegate, and the request does not name the calling agent."
            )
        if context.invocation.exchange.granted is not None:
            raise Refusal(
                Reason.DELEGATION_NOT_PERMITTED,
                "Rights that an agent was given by AUTHORIZE cannot be delegated further.",
                remedy="Ask the agent that gave the rights to delegate, or to authorize the other agent.",
            )
        before: Lineage | None = peer.delegation if peer is not None else None
        by_itself = before is not None and peer is not None and peer.depth > before.calls
        if asked.token is None and not (by_itself and self._tokens.signs):
            parameters.require_text(context.input, "delegation_token")
        delegator = caller if before is None else self._directory.by_id(before.chain[-1])
        if delegator is not None and asked.target == delegator.agent_id:
            raise parameters.invalid(
                "target_agent_id", "An agent cannot delegate to itself.", "Name another agent, or do the task."
            )
        target = self._delegatee(asked.target)
        if target is None or delegator is None:
            raise Refusal(Reason.DELEGATEE_NOT_HOSTED, details={"target_agent_id": asked.target})
        return Hop(asked=asked, delegator=delegator, target=target, before=before)

    def _resolve_addresses(self, asked: Asked) -> Asked:
        """Replace URIs of agents of this host by their Agent-IDs, as in core v08 appendix G."""
        target = self._agent_at(asked.target) or asked.target
        callback = None if asked.callback is None else self._agent_at(asked.callback) or asked.callback
        return replace(asked, target=target, callback=callback)

    def _agent_at(self, text: str) -> str | None:
        """Return the Agent-ID that a URI names; None where the text is not a URI of an agent of this host."""
        try:
            uri = uris.parse(text)
        except uris.UriError:
            return None
        here = not uri.host or self._address.local_path(text) is not None
        if not here or uri.status:
            return None
        if uri.agent_id is not None:
            return uri.agent_id
        agent = self._directory.by_name(uri.agent_name or "")
        return None if agent is None else agent.agent_id

    def _delegatee(self, agent_id: str) -> Delegatee | None:
        agent = self._directory.by_id(agent_id)
        if agent is not None and agent.hosted:
            return Delegatee(agent_id=agent_id, label=agent.name, zone=agent.governance_zone, host=None)
        host = self._hosts.get(agent_id)
        if host is None:
            return None
        zone = host.zone if agent is None else agent.governance_zone
        return Delegatee(agent_id=agent_id, label="", zone=zone, host=host)

    @staticmethod
    def _require_permission(hop: Hop) -> None:
        if hop.delegator.document.get("delegation_permitted") is False:
            raise Refusal(Reason.DELEGATION_NOT_PERMITTED, extra={"delegation": hop.record_members()})

    def _require_zone(self, hop: Hop, context: BuiltInContext) -> None:
        declared = context.invocation.exchange.request.headers.get("agtp-zone-id")
        zone = hop.target.zone
        certificate = context.peer.certificate if context.peer is not None else None
        own = hop.delegator.governance_zone
        if declared is not None:
            committed = certificate.governance_zone if certificate is not None else None
            if committed is not None and committed != declared:
                raise self._zone_violation(hop, declared, "AGTP-Zone-ID is not the zone of the caller's certificate.")
            if zone != declared:
                raise self._zone_violation(
                    hop, declared, "The agent to delegate to is outside the zone of AGTP-Zone-ID."
                )
        if self._rules.zone_bound and (zone is None or zone != own):
            raise self._zone_violation(hop, own, "The agent to delegate to is outside the delegator's governance zone.")

    @staticmethod
    def _zone_violation(hop: Hop, zone: str | None, explanation: str) -> Refusal:
        details = {"zone": zone, "delegatee_zone": hop.target.zone}
        return Refusal(
            Reason.ZONE_VIOLATION,
            explanation,
            details=details,
            extra={"delegation": {**hop.record_members(), **details}},
        )
