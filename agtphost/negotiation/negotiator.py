"""The negotiator, which the rest of the host uses: see :class:`agtphost.iagtp.INegotiator`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import Change, StreamEvent
from agtphost.audit.state import StateTable
from agtphost.contract.binding import Binding
from agtphost.contract.endpoint_table import conflicts
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.recipes.book import RecipeBook
from agtphost.contract.recipes.recipe import Recipe
from agtphost.contract.recipes.recipe_loading import RecipeRules
from agtphost.dispatch.exchange import Exchange
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.handlers.interface import IHandler
from agtphost.handlers.operators import OperatorAction
from agtphost.iagtp import INegotiator
from agtphost.identity.peer import Peer, counted_as
from agtphost.negotiation.call_ceiling import CallCeiling
from agtphost.negotiation.contract import Contract, Origin, Scope
from agtphost.negotiation.contracts import ContractTable, IssuedContract, TooManyContracts
from agtphost.negotiation.data_classes import is_within
from agtphost.negotiation.durations import iso
from agtphost.negotiation.evaluation import AcceptedProposal, Evaluation
from agtphost.negotiation.failed_attempts import AttemptLog
from agtphost.negotiation.graph import EndpointGraph
from agtphost.negotiation.patterns import patterns_of
from agtphost.negotiation.process_state import NegotiationState
from agtphost.negotiation.proposal import Proposal, ProposalReader
from agtphost.negotiation.rcns import NegotiationLocks, Offers
from agtphost.negotiation.reviews import (
    LONGEST_REASON,
    Pending,
    Reviews,
    already_decided,
    verdict,
    verdict_members,
)
from agtphost.negotiation.rounds import HEADER, Round, Rounds
from agtphost.negotiation.settings import NegotiationSettings
from agtphost.negotiation.synthesis import Synthesis, Synthesizer
from agtphost.negotiation.termination import Termination, is_originator
from agtphost.vocabulary import media_types, scopes, times
from agtphost.vocabulary.paths import parse_template
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

PERSIST = "rcns:persist"
"""The additional scope that persistent synthesis needs (core v08 section 7.5.4: elevated authorization)."""


@implementer(INegotiator)
class Negotiator:
    """
    The negotiator of AGTP-API section 10.

    :param bindings: returns all registered bindings.
    :param graph: the operator's endpoints, which syntheses are made of.
    :param compose: returns the handler of a recipe.
    :param now: returns seconds since the Unix epoch.
    :param lasting: state in memory of an earlier configuration's negotiator; None: new state.
    """

    def __init__(
        self,
        settings: NegotiationSettings,
        held: StateTable,
        *,
        book: RecipeBook,
        rules: RecipeRules,
        graph: EndpointGraph,
        bindings: Callable[[], Sequence[Binding]],
        policy: MethodPolicy,
        compose: Callable[[Recipe], IHandler],
        authorization: Authorization,
        now: Callable[[], float] = time.time,
        lasting: NegotiationState | None = None,
    ) -> None:
        lasting = lasting or NegotiationState()
        self._settings = settings
        self._authorization = authorization
        self._bindings = bindings

        def milliseconds() -> int:
            return int(now() * 1000)

        self._now = milliseconds
        self._synthesizer = Synthesizer(
            book, graph, rules, max_depth=settings.policies.max_synthesis_depth, floor=settings.min_assurance
        )
        self._contracts = ContractTable(held, self._synthesizer, settings, compose, milliseconds, lasting.links)
        self._attempts = AttemptLog(held, milliseconds)
        self._locks = NegotiationLocks(
            settings, self._contracts, self._synthesizer, self._attempts, now, lasting.asking
        )
        self._rounds = Rounds(held, milliseconds)
        self._ceiling = CallCeiling(
            "propose", settings.policies.synthesis.rate_limit_per_minute, now, lasting.proposing
        )
        self._reviews = Reviews(held, settings.policies.synthesis.review_seconds, milliseconds)
        self._termination = Termination(self._contracts, book, settings, authorization)
        self._reader = ProposalReader(rules.catalog, rules.custom)
        self._policy = policy
        self._evaluation: Evaluation | None = None

    # Gates

    def find_presented(self, exchange: Exchange) -> Offers | None:
        """Return the bindings for a request that presents a contract."""
        return self._locks.find_presented(exchange)

    def find_unregistered(self, exchange: Exchange, claims: Callable[[Exchange], None]) -> Any:
        """Return the bindings for a request that nothing is registered for."""
        return self._locks.find_unregistered(exchange, claims)

    # PROPOSE

    def propose(self, context: BuiltInContext) -> Answer:
        """Answer PROPOSE with 263, 261, or a refusal."""
        evaluation = self._evaluator()
        caller = _agent_of(context)
        address = "" if context.peer is None else context.peer.address
        self._ceiling.count(counted_as(caller, context.assurance) if caller else address)
        named = None if context.headers is None else context.headers.get(HEADER.lower())
        current = self._rounds.begin(context.owner, named)
        try:
            evaluation.require_synthesis()
            accepted = evaluation.evaluate(context.input, context)
            if self._settings.policies.synthesis.approval == "operator":
                return self._review(accepted, current, context)
            return self._approve(accepted, current, context)
        except Refusal as refusal:
            raise current.add_to_refusal(refusal) from None

    def _evaluator(self) -> Evaluation:
        """Return the evaluator, which is created at the first proposal, when everything is registered."""
        if self._evaluation is None:
            bindings = self._bindings()
            templates = [(binding.method, parse_template(binding.path)) for binding in bindings]

            def registered(method: str, path: str) -> bool:
                return bool(conflicts([*templates, (method, parse_template(path))]))

            self._evaluation = Evaluation(
                self._settings,
                self._reader,
                self._synthesizer,
                self._policy,
                registered,
                {(binding.method, binding.path): binding for binding in bindings},
            )
        return self._evaluation

    def _lifetime(self, proposal: Proposal, context: BuiltInContext) -> dict[str, Any]:
        """Return the lifetime and scope that the contract would have (AGTP-API section 10.8)."""
        synthesis = self._settings.policies.synthesis
        persistent = (
            proposal.persistent
            and synthesis.persistent
            and context.caller is not None
            and scopes.covers(context.scopes, PERSIST)
        )
        if persistent or (proposal.duration is not None and context.caller is not None):
            scope = Scope.AGENT
            longest = synthesis.max_duration_seconds
        else:
            scope = Scope.SESSION if context.session_id is not None else Scope.CONNECTION
            longest = synthesis.session_ttl_seconds
        return {
            "scope": scope.value,
            "seconds": min(proposal.duration or longest, longest),
            "session_id": context.session_id if scope is Scope.SESSION else None,
            "persistent": persistent,
        }

    def _review(self, accepted: AcceptedProposal, current: Round, context: BuiltInContext) -> Answer:
        agent_id = _agent_of(context)
        self._issue(accepted.synthesis, agent_id, self._lifetime(accepted.proposal, context), None)
        body, change = self._reviews.begin(
            accepted, agent_id, self._lifetime(accepted.proposal, context), current.negotiation_id
        )
        return Answer(
            status=Status.NEGOTIATION_IN_PROGRESS,
            enveloped=False,
            content_type=media_types.AGTP_JSON,
            result={"status": int(Status.NEGOTIATION_IN_PROGRESS), **_task(context), **body},
            headers=current.headers,
            changes=(*current.changes(rejected=False), change),
            extra={"negotiation_id": current.negotiation_id, "proposal_id": body["proposal_id"]},
        )

    def _approve(self, accepted: AcceptedProposal, current: Round, context: BuiltInContext) -> Answer:
        lifetime = self._lifetime(accepted.proposal, context)
        issued = self._issue(accepted.synthesis, _agent_of(context), lifetime, context.peer)
        return Answer(
            status=Status.PROPOSAL_APPROVED,
            enveloped=False,
            content_type=media_types.AGTP_JSON,
            result={
                **_task(context),
                **self._approval(issued.contract, lifetime),
                "negotiation_id": current.negotiation_id,
            },
            headers=current.headers,
            changes=(*current.changes(rejected=False), *issued.changes),
            events=issued.events,
            extra={**issued.contract.fields(), "negotiation_id": current.negotiation_id},
        )

    def _issue(
        self, synthesis: Synthesis, owner: str, lifetime: Mapping[str, Any], peer: Peer | None
    ) -> IssuedContract:
        try:
            issued = self._contracts.issue(
                synthesis,
                agent_id=owner,
                origin=Origin.PROPOSE,
                seconds=lifetime["seconds"],
                scope=Scope(lifetime["scope"]),
                session_id=lifetime["session_id"],
                peer=peer,
                persistent=lifetime["persistent"],
            )
            self._contracts.prepare(issued.contract)
        except TooManyContracts:
            most = self._settings.policies.synthesis.max_contracts_per_agent
            raise Refusal(
                Reason.POLICY_REFUSED,
                f"The agent has {most} contracts, the maximum on this host.",
                remedy="Release one with SUSPEND synthesis_id.",
            ) from None
        except ValueError as error:
            raise Refusal(
                Reason.COMPOSITION_IMPOSSIBLE,
                f"The synthesized endpoint cannot run: {error}"[:400],
                remedy="Propose another endpoint.",
            ) from None
        return issued

    @staticmethod
    def _approval(contract: Contract, lifetime: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of the 263 (AGTP-API section 10.4.3, spec reading 24)."""
        return {
            "status": int(Status.PROPOSAL_APPROVED),
            **contract.preview(),
            "proposed": True,
            "persistent": contract.persistent,
            "lifetime": contract.scope.value,
            "granted_duration": iso(lifetime["seconds"]),
        }

    # Proposals under review

    def proposal(self, context: BuiltInContext) -> Answer:
        """Answer ``QUERY /proposals/{id}``: 261 while it waits, then 263 or 463."""
        pending = self._proposal(context)
        value = pending.value
        if pending.decision == "pending":
            body = {"status": int(Status.NEGOTIATION_IN_PROGRESS), **self._reviews.progress(pending.proposal_id, value)}
            status = Status.NEGOTIATION_IN_PROGRESS
        elif pending.decision == "approved":
            body = {**value["answer"], "proposal_id": pending.proposal_id, "negotiation_id": value["negotiation_id"]}
            status = Status.PROPOSAL_APPROVED
        else:
            raise Refusal(
                Reason.POLICY_REFUSED,
                value["explanation"],
                remedy="Propose something else, or ESCALATE.",
                details={"proposal_id": pending.proposal_id, "negotiation_id": value["negotiation_id"]},
            )
        return Answer(
            status=status,
            enveloped=False,
            content_type=media_types.AGTP_JSON,
            result={**_task(context), **body},
            headers=((HEADER, value["negotiation_id"]),),
        )

    def proposals(self, context: BuiltInContext) -> Answer:
        """
        Answer ``QUERY /proposals`` with waiting proposals; operators see all, agents their own.

        With ``status=decided`` it lists those of the last days that were decided, with who decided.
        """
        waits = parameters.choice(context.input, "status", ("pending", "decided"), "pending") == "pending"
        operator = self._authorization.oversees(context, action=OperatorAction.READ)
        caller = _agent_of(context)
        sure = context.assurance >= self._settings.min_assurance
        listed = [
            {
                **self._reviews.progress(pending.proposal_id, pending.value),
                "originating_agent_id": pending.owner,
                "definition": pending.value["synthesis"]["definition"],
                "recipe_lineage": pending.value["synthesis"]["lineage"],
                **pending.value.get("deferral", {}),
                **({} if waits else verdict_members(pending)),
            }
            for pending in (self._reviews.waiting() if waits else self._reviews.list_decided())
            if operator or (sure and caller and pending.owner == caller)
        ]
        return Answer(result={"proposals": listed})

    def decide(self, context: BuiltInContext) -> Answer:
        """
        Answer ``CONFIRM /proposals/{id}``, by which an operator approves, rejects, or defers a proposal.

        :raises Refusal: 403 for others, 404 if it does not wait, 409 if it is decided.
        """
        if not self._authorization.oversees(context, action=OperatorAction.DECIDE):
            raise Refusal(Reason.NOT_OPERATOR)
        pending = self._proposal(context)
        accepted, deferred = context.input.get("accepted"), context.input.get("deferred") is True
        if deferred == isinstance(accepted, bool):
            told = "Send exactly one of accepted (true or false) and deferred (true)."
            raise parameters.invalid("accepted", told, "Send either accepted or deferred.", missing=True)
        if pending.decision != "pending":
            raise already_decided(pending)
        if deferred:
            answer = self._defer(pending, context)
        else:
            answer = self._accept(pending, context) if accepted else self._decline(pending, context)
        return replace(answer, conflict=partial(self._find_decision, pending.proposal_id))

    def _find_decision(self, proposal_id: str) -> Refusal | None:
        """Return the refusal where another operator decided a proposal at the same moment."""
        pending = self._reviews.get(proposal_id)
        return None if pending is None or pending.decision == "pending" else already_decided(pending)

    def _defer(self, pending: Pending, context: BuiltInContext) -> Answer:
        """Defer a proposal by another review period; the answer shows who deferred it, when, and why."""
        reason = parameters.text(context.input, "reason")
        operator = self._authorization.operators.record_member(context.peer)
        value = self._reviews.defer(pending, self._authorization.actor(context), operator, reason)
        deferral = value["deferral"]
        return Answer(
            result={**self._reviews.progress(pending.proposal_id, value), "decision": "deferred", **deferral},
            changes=(self._reviews.deferral_change(pending, value),),
            extra={"proposal_id": pending.proposal_id, "proposal_deferred": deferral["deferred_at"]},
        )

    def _accept(self, pending: Pending, context: BuiltInContext) -> Answer:
        lifetime = dict(pending.value["lifetime"])
        if lifetime["scope"] == Scope.CONNECTION.value:
            # Its connection may be closed. It lives at most as long as a session, and only its agent can use it.
            lifetime["scope"] = Scope.AGENT.value
        issued = self._issue(pending.synthesis(), pending.owner, lifetime, None)
        answer = self._approval(issued.contract, lifetime)
        decided = self._reviews.decision_change(pending, decision="approved", answer=answer, **self._decider(context))
        return Answer(
            result={
                "proposal_id": pending.proposal_id,
                "decision": "approved",
                "synthesis_id": issued.contract.synthesis_id,
            },
            changes=(decided, *issued.changes),
            events=issued.events,
            extra={"proposal_id": pending.proposal_id, **issued.contract.fields()},
        )

    def _decline(self, pending: Pending, context: BuiltInContext) -> Answer:
        reason = context.input.get("reason")
        sound = isinstance(reason, str) and 0 < len(reason) <= LONGEST_REASON
        explanation = reason if sound else "An operator rejected it."
        decided = self._reviews.decision_change(
            pending, decision="rejected", explanation=explanation, **self._decider(context)
        )
        return Answer(
            result={"proposal_id": pending.proposal_id, "decision": "rejected"},
            changes=(decided,),
            extra={"proposal_id": pending.proposal_id},
        )

    def _decider(self, context: BuiltInContext) -> dict[str, Any]:
        operator = self._authorization.operators.record_member(context.peer)
        return verdict(self._authorization.actor(context), operator, self._now(), context.input.get("reason"))

    def _proposal(self, context: BuiltInContext) -> Pending:
        pending = self._reviews.get(context.path_parameters.get("proposal_id", ""))
        caller = _agent_of(context)
        if pending is not None:
            own = pending.owner == caller and (not caller or context.assurance >= self._settings.min_assurance)
            if own or self._authorization.oversees(context, action=OperatorAction.READ):
                return pending
        raise not_found(Reason.PROPOSAL_UNKNOWN)

    # Lists

    def patterns(self, context: BuiltInContext) -> dict[str, Any]:
        """Return the document of DISCOVER /patterns (AGTP-API section 5.8.6)."""
        return {
            "rcns_enabled": self._settings.policies.rcns.enabled,
            "patterns": patterns_of(
                (recipe, endpoint)
                for recipe, endpoint in self._synthesizer.offered_recipes()
                if is_within(self._synthesizer.book.needs(recipe), self._settings)
            ),
        }

    def contracts(self, context: BuiltInContext) -> list[dict[str, Any]]:
        """Return the document of DISCOVER /contracts: the caller's own, or all with ``inspect:all``."""
        if self._authorization.oversees(context, action=OperatorAction.READ):
            listed = list(self._contracts.all())
        elif context.caller is None or context.assurance < self._settings.min_assurance:
            listed = []
        else:
            listed = list(self._contracts.contracts_of(context.caller.agent_id))
        return [contract.document(self._contracts.state(contract)) for contract in listed]

    def places(self, agent_id: str) -> list[tuple[str, str]]:
        """Return methods and paths of an agent's contracts."""
        return [(contract.method, contract.path) for contract in self._contracts.contracts_of(agent_id)]

    def persistent(self) -> list[dict[str, Any]]:
        """
        Return the definitions of persistent contracts in force, which the manifest shows too (AGTP-API section 10.8).
        """
        return [
            {**contract.definition, "expires": times.stamp(contract.expires_at / 1000)}
            for contract in self._contracts.persistent()
        ]

    # INSPECT

    async def contract(self, context: BuiltInContext) -> dict[str, Any]:
        """Answer ``INSPECT target=contract`` (core v08 section 7.2.4)."""
        found = self._contracts.get(str(context.input.get("synthesis_id", "")))
        allowed = found is not None and (
            is_originator(context, found, self._settings)
            or self._authorization.oversees(context, action=OperatorAction.READ)
        )
        if found is None or not allowed:
            raise not_found(Reason.CONTRACT_UNKNOWN, "No contract of yours has that synthesis_id.")
        return {**found.preview(), **found.document(self._contracts.state(found))}

    async def attempt(self, context: BuiltInContext) -> dict[str, Any]:
        """Answer ``INSPECT target=rcns-attempt`` (core v08 section 7.2.4)."""
        found = self._attempts.get(str(context.input.get("attempt_id", "")))
        sure = context.caller is None or context.assurance >= self._settings.min_assurance
        own = found is not None and found.owner == context.owner and sure
        if found is None or not (own or self._authorization.oversees(context, action=OperatorAction.READ)):
            raise not_found(Reason.ATTEMPT_UNKNOWN)
        return dict(found.value)

    # Ends

    def release_contract(self, context: BuiltInContext) -> Answer:
        """Answer ``SUSPEND synthesis_id=...``."""
        return self._termination.release(context)

    def revoke_contract(self, context: BuiltInContext) -> Answer:
        """Answer ``REVOKE target=contract``."""
        return self._termination.revoke(context)

    def sweep(self, context: BuiltInContext) -> Answer:
        """Answer ``REVOKE target=stale-contracts``."""
        return self._termination.sweep(context)

    def end_with_agent(self, agent_id: str) -> tuple[tuple[Change, ...], tuple[StreamEvent, ...]]:
        """Return changes and events that end the contracts of a revoked agent."""
        return self._termination.with_agent(agent_id)

    def end_adrift(self, most: int) -> tuple[tuple[Change, ...], tuple[StreamEvent, ...]]:
        """Return changes and events that end the contracts of closed connections."""
        return self._termination.adrift(most)

    def watch_adrift(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever a contract's connection is closed."""
        self._contracts.watch_adrift(callback)


def _task(context: BuiltInContext) -> dict[str, Any]:
    return {} if context.task_id is None else {"task_id": context.task_id}


def _agent_of(context: BuiltInContext) -> str:
    """Return the Agent-ID that the caller has or names; empty for an anonymous one."""
    return "" if context.caller is None else context.caller.agent_id
