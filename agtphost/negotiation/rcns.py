"""
The gate for unregistered requests, and for contracts that requests present (AGTP-API section 10.1).

There are four locks, each controlled by another party: the operator's policy, the caller's header, the caller's scope,
the caller's trust. Something is synthesized only if all are open. A request that presents a contract skips the locks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.contract.endpoint_table import Match
from agtphost.contract.schemas import SchemaError
from agtphost.dispatch.exchange import Exchange
from agtphost.errors import Refusal, not_found
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler, ask_handler
from agtphost.handlers.interface import IHandler
from agtphost.identity.peer import Assurance, counted_as
from agtphost.negotiation.call_ceiling import CallCeiling, Seen
from agtphost.negotiation.contract import Contract, Origin
from agtphost.negotiation.contracts import ContractTable, IssuedContract, TooManyContracts, match_path
from agtphost.negotiation.data_classes import is_within
from agtphost.negotiation.failed_attempts import AttemptLog
from agtphost.negotiation.settings import GRAVITY, NegotiationSettings
from agtphost.negotiation.synthesis import CannotSynthesize, Synthesis, Synthesizer
from agtphost.vocabulary import media_types, scopes
from agtphost.vocabulary.paths import parse_template
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

ALLOW = "allow-rcns"
PRESENT = "contract-synthesized"
FORMER_HEADER = "synthesis-id"
"""The former name in AGTP-API section 10.1.2 (spec reading 27)."""

SCOPE = "rcns:negotiate"

Offers = Callable[[str, str], Match | None]


@implementer(IBuiltInHandler)
class OfferHandler:
    """Handler of 461, which offers a contract without running anything (AGTP-API section 10.1.3)."""

    kind = "contract_offer"

    def __init__(self, issued: IssuedContract) -> None:
        self._issued = issued

    def handle(self, context: BuiltInContext) -> Answer:
        contract = self._issued.contract
        token = "contract-available"
        return Answer(
            status=Status.CONTRACT_AVAILABLE,
            enveloped=False,
            content_type=media_types.AGTP_JSON,
            result={
                "status": int(Status.CONTRACT_AVAILABLE),
                **({"task_id": context.task_id} if context.task_id is not None else {}),
                **contract.preview(),
                **dict.fromkeys(("reason", "type", "code"), token),
                "explanation": "That method and path are not registered; this contract would answer the request.",
                "remedy": "Repeat the request with Contract-Synthesized to accept, or ignore this to decline.",
            },
            changes=self._issued.changes,
            events=self._issued.events,
            extra=contract.fields(),
        )


@implementer(IBuiltInHandler)
class CommittingHandler:
    """
    Handler that runs a contract and commits the contract, or its acceptance, together with the answer.

    :param headers: header fields of the response.
    """

    kind = "composition"

    def __init__(self, inner: IHandler, changes: Any, events: Any = (), headers: Any = (), extra: Any = None) -> None:
        self._inner = inner
        self._changes = tuple(changes)
        self._events = tuple(events)
        self._headers = tuple(headers)
        self._extra: Mapping[str, Any] = extra or {}

    async def handle(self, context: BuiltInContext) -> Answer:
        return Answer(
            result=await ask_handler(self._inner, context),
            headers=self._headers,
            changes=self._changes,
            events=self._events,
            extra=self._extra,
        )


class NegotiationLocks:
    """
    The locks of negotiation, and the look-up of contracts.

    :param seconds: returns monotonic seconds, for the rate.
    :param asking: times of requests in the last minute; None: none.
    """

    def __init__(
        self,
        settings: NegotiationSettings,
        contracts: ContractTable,
        synthesizer: Synthesizer,
        attempts: AttemptLog,
        seconds: Callable[[], float],
        asking: Seen | None = None,
    ) -> None:
        self._settings = settings
        self._contracts = contracts
        self._synthesizer = synthesizer
        self._attempts = attempts
        self._ceiling = CallCeiling("rcns", settings.policies.rcns.rate_limit_per_minute, seconds, asking)

    # With a contract

    def find_presented(self, exchange: Exchange) -> Offers | None:
        """
        Return the bindings for a request that presents a contract; None if it presents none.

        :raises Refusal: 404 or 464, see AGTP-API section 10.1.4.
        """
        headers = exchange.request.headers
        named = headers.get(PRESENT)
        if named is None:
            named = headers.get(FORMER_HEADER)
            if named is None:
                return None
        if headers.repeated_names & {PRESENT, FORMER_HEADER}:
            raise Refusal(Reason.REPEATED_HEADER, "Contract-Synthesized is sent twice.", remedy="Present one contract.")
        if exchange.assurance is not Assurance.NONE:
            # Check this before the look-up: a caller who only names an agent must not learn which contracts it has.
            self._require_assurance(exchange)
        contract = self._contracts.get(named)
        if contract is None:
            raise _unknown()
        self._require_own(contract, exchange)
        if self._contracts.is_ended(contract):
            word = self._contracts.state(contract)
            raise self._refuse(exchange, Reason.CONTRACT_REVOKED, f"The contract is {word}.", contract)
        if not self._contracts.reaches(contract, exchange.session_id, exchange.peer):
            raise _unknown()
        binding = self._contracts.binding(contract)
        if binding is None:
            fault = f"This host can no longer run the contract's recipe: {self._contracts.fault(contract)}."
            raise self._refuse(exchange, Reason.SYNTHESIS_ERROR, fault[:400], contract)
        if self._contracts.is_offered(contract):
            binding = replace(
                binding, handler=CommittingHandler(cast(IHandler, binding.handler), [contract.acceptance_change()])
            )
        return self._only(contract, binding)

    def _require_own(self, contract: Contract, exchange: Exchange) -> None:
        """
        Require that the caller is the agent of a contract.

        Another agent learns that the contract is not its own, as AGTP-API section 10.1.4 requires. A caller without an
        agent learns only that there is none.
        """
        caller = "" if exchange.caller is None else exchange.caller.agent_id
        if caller == contract.agent_id:
            return
        if not caller:
            raise _unknown()
        raise self._refuse(exchange, Reason.CONTRACT_NOT_YOURS, None, None)

    def _require_assurance(self, exchange: Exchange) -> None:
        least = self._settings.min_assurance
        if exchange.assurance < least:
            raise Refusal(
                Reason.AGENT_UNAUTHENTICATED,
                f"Contracts are for agents known by {least.label}; this one is known by {exchange.assurance.label}.",
                remedy="Connect with the agent's client certificate.",
                details={"assurance": exchange.assurance.label, "required_assurance": least.label},
            )

    def _only(self, contract: Contract, binding: Binding) -> Offers:
        def match(method: str, path: str) -> Match | None:
            found = match_path(binding, contract.template, path) if method == contract.method else None
            if found is None:
                raise Refusal(Reason.CONTRACT_MISMATCH, details={"method": contract.method, "path": contract.path})
            return found

        return match

    # Without one

    def find_unregistered(self, exchange: Exchange, claims: Callable[[Exchange], None]) -> Match | None:
        """
        Return the match for an unregistered request; None leads to 404 or 405 as usual.

        :raises Refusal: 262, 429 or 464, if the caller asked for negotiation.
        """
        caller = exchange.caller
        if caller is not None:
            known = self._contracts.implicit(
                caller.agent_id, exchange.method, exchange.path, exchange.session_id, exchange.peer
            )
            if known is not None and exchange.assurance >= self._settings.min_assurance:
                return known
        asked = exchange.request.headers.get(ALLOW) == "true"
        # Lock 2. A gateway's callers cannot opt in, nor can calls made inside this host (core v08 section 8.5).
        if not asked or exchange.peer.transport != "agtp":
            return None
        if not self._settings.policies.rcns.enabled:
            raise self._refuse(exchange, Reason.RCNS_DISABLED, None, None)
        claims(exchange)
        return self._negotiate(exchange)

    def _negotiate(self, exchange: Exchange) -> Match:
        caller = exchange.caller
        if exchange.assurance is Assurance.HEADER:
            # Check this before scopes: a caller who only names an agent must not learn its scopes.
            self._require_assurance(exchange)
        if caller is not None:
            self._ceiling.count(counted_as(caller.agent_id, exchange.assurance))
        if caller is None or not scopes.covers(exchange.scopes, SCOPE):
            raise Refusal(
                Reason.SCOPE_REQUIRED,
                f"Runtime negotiation needs the scope {SCOPE}.",
                status=Status.AUTHORIZATION_REQUIRED,
                remedy="Claim it if the Identity Document declares it; otherwise the registrar has to grant it.",
                details={"scope": SCOPE, "missing_scopes": [SCOPE], "required_scopes": [SCOPE]},
                scopes=(SCOPE,),
            )
        self._require_assurance(exchange)
        if caller.posture.trust_tier > self._settings.policies.rcns.min_trust_tier:
            raise self._refuse(
                exchange,
                Reason.TRUST_TIER_INSUFFICIENT,
                f"The agent's trust tier is {caller.posture.trust_tier}; "
                f"negotiation needs {self._settings.policies.rcns.min_trust_tier}.",
                None,
            )
        return self._deliver(exchange, caller.agent_id, self._synthesis(exchange))

    def _synthesis(self, exchange: Exchange) -> Synthesis:
        def matches(method: str, path: str) -> bool:
            if method != exchange.method:
                return False
            segments = parse_template(path).segments
            parts = exchange.path[1:].split("/") if exchange.path != "/" else []
            return len(parts) == len(segments) and all(
                literal in (None, part) and part for literal, part in zip(segments, parts, strict=True)
            )

        try:
            found = self._synthesizer.for_request(matches)
        except CannotSynthesize as error:
            raise self._refuse(exchange, Reason.COMPOSITION_IMPOSSIBLE, str(error), None) from None
        if found is None:
            raise self._refuse(
                exchange, Reason.COMPOSITION_IMPOSSIBLE, "This host has no pattern that matches the request.", None
            )
        if not is_within(found.needs, self._settings):
            raise self._refuse(
                exchange,
                Reason.COMPOSITION_IMPOSSIBLE,
                "The endpoints that would answer the request work with data outside of this host's data classes.",
                None,
            )
        if GRAVITY[found.needs.impact.value] > GRAVITY[self._settings.policies.synthesis.max_impact]:
            impact = found.needs.impact.value
            raise self._refuse(
                exchange,
                Reason.COMPOSITION_IMPOSSIBLE,
                f"This host does not synthesize endpoints with the impact {impact}.",
                None,
            )
        lacking = scopes.missing(exchange.scopes, found.needs.required_scopes)
        if lacking:
            raise Refusal(
                Reason.SCOPE_REQUIRED,
                "The endpoints that would answer the request need scopes that it does not carry.",
                status=Status.AUTHORIZATION_REQUIRED,
                remedy="Claim the missing scopes if the Identity Document declares them.",
                details={
                    "scope": lacking[0],
                    "missing_scopes": list(lacking),
                    "required_scopes": list(found.needs.required_scopes),
                },
                scopes=lacking,
            )
        return found

    def _deliver(self, exchange: Exchange, agent_id: str, synthesis: Synthesis) -> Match:
        gate = self._settings.policies.rcns
        confirm = gate.mode == "confirm-first"
        try:
            issued = self._contracts.issue(
                synthesis,
                agent_id=agent_id,
                origin=Origin.GATE,
                seconds=gate.contract_ttl_seconds,
                preview=gate.preview_ttl_seconds if confirm else None,
            )
            contract = issued.contract
            runs = self._contracts.prepare(contract)
        except TooManyContracts:
            raise self._refuse(
                exchange, Reason.SYNTHESIS_ERROR, "The agent has the maximum number of contracts.", None
            ) from None
        except (SchemaError, ValueError) as error:
            fault = f"The pattern cannot run: {error}"
            raise self._refuse(exchange, Reason.SYNTHESIS_ERROR, fault[:400], None) from None
        if confirm:
            # A preview concerns method and path, not this input; the schema is checked when the contract is used.
            binding = replace(
                runs,
                handler=OfferHandler(issued),
                input_schema=None,
                output_schema=None,
                headers=(),
                extra={},
                # This only offers the contract.
                approval=False,
                keyed="rcns-offer",
            )
        else:
            handler = CommittingHandler(
                cast(IHandler, runs.handler), issued.changes, issued.events, runs.headers, runs.extra
            )
            # A repeated keyed request must not get the id of a contract from this evaluation.
            binding = replace(runs, handler=handler, headers=(), extra={})
        found = match_path(binding, contract.template, exchange.path)
        assert found is not None
        return found

    def _refuse(
        self, exchange: Exchange, reason: Reason, explanation: str | None, contract: Contract | None
    ) -> Refusal:
        caller = exchange.caller
        gate = self._settings.policies.rcns
        tier = None if caller is None else caller.posture.trust_tier
        presenting = reason in (Reason.CONTRACT_NOT_YOURS, Reason.CONTRACT_REVOKED) or contract is not None
        locks = {
            "policy": gate.enabled,
            "opt_in": exchange.request.headers.get(ALLOW) == "true",
            "scope": None if presenting or not gate.enabled else scopes.covers(exchange.scopes, SCOPE),
            "trust_tier": None if tier is None else tier <= gate.min_trust_tier,
        }
        return self._attempts.refusal(
            reason,
            explanation,
            owner=exchange.owner,
            agent_id="" if caller is None else caller.agent_id,
            method=exchange.method,
            path=exchange.path,
            trust_tier=tier,
            locks=locks,
            synthesis_id=None if contract is None else contract.synthesis_id,
        )


def _unknown() -> Refusal:
    return not_found(
        Reason.CONTRACT_UNKNOWN,
        "No contract in force has that synthesis_id.",
        remedy="Negotiate a contract: PROPOSE, or repeat the request with Allow-RCNS if the host offers it.",
    )
