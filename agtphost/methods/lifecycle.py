"""
ACTIVATE, DEACTIVATE, REINSTATE, REVOKE, DEPRECATE: core v08 sections 7.2.14 to 7.2.19.

The state table is :mod:`agtphost.audit.lifecycle`; here is who may use it, and
what the method answers. A change is committed together with the record of the
call that made it, and holds from the next request of every open connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit.drafts import Change, LifecycleEvent, Sealed, StreamEvent
from agtphost.audit.lifecycle import (
    EventType,
    LifecycleState,
    LifecycleStatus,
    Noop,
    Transition,
    TransitionRefused,
    decide,
)
from agtphost.dispatch.outcome import LifecycleOutcome
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization, is_registrar, person_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.operators import OperatorAction, setting_for
from agtphost.iagtp import IAgentDirectory
from agtphost.identity.agents import Agent
from agtphost.identity.genesis import is_timestamp
from agtphost.methods.domains import Domains
from agtphost.methods.proposal import Ending
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

log = Logger()


class LifecycleAuth(Enum):
    """The authorization modes for changes of an agent's state: core v08 section 7.2.19."""

    GENESIS_ISSUER = "genesis_issuer"
    """The holder of the key that issued the agent's Genesis, by client certificate."""

    OPEN = "open"
    """Everyone: development on a loopback address only."""


@implementer(IBuiltInHandler)
class Lifecycle:
    """
    Answers the five lifecycle methods.

    :param states: the present state of an agent.
    :param ending: ends contracts, alone and with their agent; None where there are none.
    :param following: what is committed with a transition: notices to others, and what is retained. Takes the agent,
        its new state and the further members of the event.
    :param label_kept: the retained record of another agent that still keeps an agent's label; None where it is free.
    :param domains: takes reports about domains, and bars agents whose domain has expired; None without reports.
    :param authorization: tells administrators, who stop any agent on this host.
    """

    kind = "built_in"

    def __init__(
        self,
        directory: IAgentDirectory,
        states: Callable[[Agent], LifecycleState],
        auth: LifecycleAuth,
        ending: Ending | None = None,
        following: Callable[[Agent, LifecycleStatus, Mapping[str, object]], tuple[Change, ...]] = lambda *_: (),
        label_kept: Callable[[Agent], Mapping[str, Any] | None] = lambda _: None,
        domains: Domains | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self._authorization = authorization or Authorization()
        self._domains = domains
        self._following = following
        self._label_kept = label_kept
        self._directory = directory
        self._states = states
        self._auth = auth
        self._ending = ending

    def handle(self, context: BuiltInContext) -> Answer:
        if self._ending is not None and context.method == "REVOKE" and "target" in context.input:
            return self._ending(context.input["target"], context)
        if self._domains is not None and "org_domain" in context.input:
            return self._domains(context)
        agent_id = self._target(context.input)
        self._require_certificate(context)
        agent = self._directory.by_id(agent_id)
        self._authorize(context, agent)
        if agent is None:
            raise not_found(Reason.AGENT_NOT_FOUND)
        fields = self._fields(context)
        state = self._states(agent)
        decision = decide(state, context.method, genesis_loaded=agent.genesis is not None)
        if isinstance(decision, TransitionRefused):
            raise Refusal(
                decision.reason,
                decision.explanation,
                status=Status.UNPROCESSABLE,
                remedy="",
                details={"agent_id": agent_id, "lifecycle_state": state.status.value},
            )
        if isinstance(decision, Noop):
            return Answer(result=self._noop(agent_id, state))
        if decision.new is LifecycleStatus.ACTIVE:
            self._require_standing(agent)
        revoking = self._ending is not None and context.method == "REVOKE"
        ended = self._ending.with_agent(agent_id) if self._ending is not None and revoking else ((), ())
        if decision.event is EventType.GENESIS_ISSUED:
            self._require_free_label(agent)
        changes, events = ended
        following = self._following(agent, decision.new, fields)
        return self._change(agent_id, state, decision, fields, ((*changes, *following), events))

    def _require_standing(self, agent: Agent) -> None:
        """Refuse to bring back an agent whose domain expired or has another owner."""
        domain = None if self._domains is None else self._domains.barring(agent)
        if domain is not None:
            raise Refusal(
                Reason.ORG_DOMAIN_EXPIRED
                if domain.event == Reason.ORG_DOMAIN_EXPIRED
                else Reason.ORG_DOMAIN_TRANSFERRED,
                f"The agent belongs to {domain.domain}, which expired or is another owner's now.",
                remedy="The owner can renew the domain: `agtp domain renew`. A new owner has to issue new agents.",
                status=Status.CONFLICT,
                details={"agent_id": agent.agent_id, "org_domain": domain.domain},
            )

    def _require_free_label(self, agent: Agent) -> None:
        kept = self._label_kept(agent)
        if kept is not None:
            log.warn("ACTIVATE denied: the label {label} belonged to another agent", label=agent.name)
            raise Refusal(Reason.LABEL_RESERVED, details={"label": agent.name, "ended_at": kept["ended_at"]})

    # Who

    def _require_certificate(self, context: BuiltInContext) -> None:
        certificate = context.peer.certificate if context.peer is not None else None
        if self._auth is LifecycleAuth.GENESIS_ISSUER and certificate is None:
            raise self._denial(
                context,
                Reason.GENESIS_ISSUER_CERT_REQUIRED,
            )

    def _authorize(self, context: BuiltInContext, agent: Agent | None) -> None:
        """
        Let an administrator of this host pass, and an agent's issuer, by its public key: an Agent-ID in a certificate
        does not identify the issuer.

        Whether an agent is known, and whether with a Genesis, is revealed only to them, and to issuers of known agents.
        All other callers get one answer.
        """
        if self._auth is LifecycleAuth.OPEN or self._authorization.may(context, OperatorAction.LIFECYCLE):
            return
        if is_registrar(context.peer, agent):
            return
        known = self._directory.list_known() if agent is None or not agent.issuer_fingerprint else ()
        issues = any(is_registrar(context.peer, each) for each in known)
        if agent is None and issues:
            return
        if issues:
            raise self._denial(
                context,
                Reason.GENESIS_NOT_LOADED,
                "No Genesis is loaded for the agent, so its issuer is unknown.",
                Status.FORBIDDEN,
            )
        raise self._denial(
            context,
            Reason.NOT_GENESIS_ISSUER,
        )

    def _denial(
        self, context: BuiltInContext, reason: Reason, explanation: str | None = None, status: Status | None = None
    ) -> Refusal:
        peer = context.peer
        log.warn(
            "{method} denied to {address}: {reason}",
            method=context.method,
            address=peer.address if peer is not None else "",
            reason=reason,
        )
        return Refusal(
            reason,
            explanation,
            status=status,
            remedy="Connect with the registrar's client certificate, or an administrator's: in host.toml "
            f"{setting_for(person_of(peer), OperatorAction.LIFECYCLE, self._authorization.operator(context))}.",
            details={"lifecycle_auth": self._auth.value},
        )

    # What

    @staticmethod
    def _target(given: Mapping[str, Any]) -> str:
        """Return the ``agent_id`` of a lifecycle request; refuse a missing or malformed one (companion section 6.3)."""
        agent_id = given.get("agent_id")
        if not isinstance(agent_id, str) or not is_agent_id(agent_id):
            told = "agent_id is missing or not 64 lower-case hexadecimal digits."
            reason = Reason.MALFORMED_LIFECYCLE_REQUEST
            raise parameters.invalid("agent_id", told, "Send agent_id.", reason=reason)
        return agent_id

    @staticmethod
    def _fields(context: BuiltInContext) -> dict[str, object]:
        given = context.input
        fields: dict[str, object] = {}
        reason = (parameters.require_text if context.method == "REVOKE" else parameters.text)(given, "reason")
        if reason is not None:
            fields["reason"] = reason
        actor = parameters.text(given, "actor")
        if actor is not None:
            fields["actor"] = actor
        if context.method == "DEPRECATE":
            fields.update(_succession(given))
        certificate = context.peer.certificate if context.peer is not None else None
        if certificate is not None and certificate.fingerprint:
            fields["actor_key"] = certificate.fingerprint
        return fields

    @staticmethod
    def _noop(agent_id: str, state: LifecycleState) -> dict[str, Any]:
        return {
            "agent_id": agent_id,
            "status": state.status.value,
            "previous_status": state.status.value,
            "noop": True,
        }

    @staticmethod
    def _change(
        agent_id: str,
        state: LifecycleState,
        transition: Transition,
        fields: dict[str, object],
        ended: tuple[tuple[Change, ...], tuple[StreamEvent, ...]],
    ) -> Answer:
        previous, new = state.status.value, transition.new.value
        event = LifecycleEvent(
            agent_id=agent_id,
            event_type=transition.event_type,
            expected_status=previous if state.recorded else None,
            new_status=new,
            fields={"previous_status": previous, **fields},
        )

        def describe(sealed: Sealed) -> Mapping[str, Any]:
            return {
                "agent_id": agent_id,
                "status": new,
                "previous_status": previous,
                "event_type": transition.event_type,
                "audit_id": sealed.audit_id,
                **{name: fields[name] for name in ("successor_agent_id", "migration_deadline") if name in fields},
            }

        changes, events = ended
        return LifecycleOutcome(event=event, describe=describe, changes=changes, events=events)


def _succession(given: Mapping[str, Any]) -> dict[str, object]:
    """Read the members of DEPRECATE about the agent's successor."""
    fields: dict[str, object] = {}
    if given.get("successor_agent_id") is not None:
        fields["successor_agent_id"] = parameters.agent_id(given, "successor_agent_id")
    deadline = parameters.text(given, "migration_deadline")
    if deadline is not None:
        if not is_timestamp(deadline):
            raise parameters.invalid(
                "migration_deadline", "migration_deadline is not an RFC 3339 time.", "Send 2027-01-31T00:00:00Z."
            )
        fields["migration_deadline"] = deadline
    return fields
