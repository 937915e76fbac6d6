"""
The seven evaluations of a proposal, in their order: AGTP-API section 10.6.

Two cheap checks precede them: whether this host synthesizes at all, and whether a caller without credentials may
propose this (core v08 section 7.5).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agtphost.contract.declaration import RESERVED_DISCOVER
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.recipes.graph import Needs
from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.peer import Assurance
from agtphost.negotiation.data_classes import is_open, require_within
from agtphost.negotiation.graph import NoChain
from agtphost.negotiation.proposal import Proposal, ProposalReader, data_classes_of
from agtphost.negotiation.settings import GRAVITY, NegotiationSettings
from agtphost.negotiation.synthesis import CannotSynthesize, Synthesis, Synthesizer
from agtphost.vocabulary import scopes
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

NEVER = frozenset(
    {"EXECUTE", "DELEGATE", "ESCALATE", "CONFIRM", "SUSPEND", "PROPOSE", "NOTIFY", "INSPECT"}
    | {"ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE"}
    # Only the operator's registry defines what can be run; agents cannot add to it (core v08 section 7.4.2).
    | {"RUN"}
)
"""Methods that the protocol defines itself: agents must not define endpoints of them."""


@dataclass(frozen=True, kw_only=True)
class AcceptedProposal:
    """A proposal that passed every evaluation, with its synthesis."""

    proposal: Proposal
    synthesis: Synthesis


def _with_requested_scopes(synthesis: Synthesis, proposal: Proposal) -> Synthesis:
    """Return the synthesis with the additional scopes that the proposer requires (AGTP-API section 16.2)."""
    if not proposal.required_scopes:
        return synthesis
    needs = synthesis.needs.combine(Needs(required_scopes=proposal.required_scopes))
    definition = {**synthesis.definition, "required_scopes": list(needs.required_scopes)}
    return replace(synthesis, needs=needs, definition=definition)


class Evaluation:
    """
    Evaluator of proposals.

    :param registered: returns whether a method and path template clash with a registered one.
    """

    def __init__(
        self,
        settings: NegotiationSettings,
        reader: ProposalReader,
        synthesizer: Synthesizer,
        policy: MethodPolicy,
        registered: Callable[[str, str], bool],
        bindings: Mapping[tuple[str, str], Any],
    ) -> None:
        self._settings = settings
        self._reader = reader
        self._synthesizer = synthesizer
        self._policy = policy
        self._registered = registered
        self._bindings = bindings

    def require_synthesis(self) -> None:
        """
        Require that synthesis is enabled (AGTP-API section 8.7).

        :raises Refusal: 463 ``synthesis-disabled``.
        """
        if not self._settings.policies.synthesis_enabled:
            raise Refusal(Reason.SYNTHESIS_DISABLED)

    def evaluate(self, given: Mapping[str, Any], context: BuiltInContext) -> AcceptedProposal:
        """
        Evaluate a proposal completely.

        :param given: the parameters of PROPOSE.
        :raises Refusal: 262, 400, 459, 460 or 463; the first that applies.
        """
        self._credentials(given, context)
        proposal = self._reader.read(given)
        self._require_scopes(proposal.required_scopes, context)
        synthesis = self._capability(proposal, context)
        self._require_data(synthesis, context)
        self._require_scopes(synthesis.needs.required_scopes, context)
        self._require_permitted(proposal, synthesis)
        return AcceptedProposal(proposal=proposal, synthesis=_with_requested_scopes(synthesis, proposal))

    def _credentials(self, given: Mapping[str, Any], context: BuiltInContext) -> None:
        """Require known data classes, and an identified caller unless all classes are open."""
        named = data_classes_of(given)
        known = self._settings.data_classes
        unknown = [name for name in named if name not in known]
        if unknown:
            raise Refusal(Reason.OUT_OF_SCOPE, details={"data_classes": sorted(known)})
        if named and all(known[name].open for name in named):
            return
        self._require_credentials(context)

    def _require_credentials(self, context: BuiltInContext) -> None:
        if context.assurance < self._settings.min_assurance:
            raise Refusal(
                Reason.CREDENTIALS_MISSING,
                details={"required_assurance": self._settings.min_assurance.label, "mechanism": "AGTP-CERT"},
                scopes=(),
            )

    def _require_data(self, synthesis: Synthesis, context: BuiltInContext) -> None:
        """
        Require declared data, and credentials by the classes that the steps declare, not those that the proposal names.
        """
        require_within(synthesis.needs, self._settings)
        if not is_open(synthesis.needs, self._settings):
            self._require_credentials(context)

    @staticmethod
    def _require_scopes(required: Collection[str], context: BuiltInContext) -> None:
        lacking = scopes.missing(context.scopes, required)
        if lacking:
            raise Refusal(
                Reason.SCOPE_REQUIRED,
                "The proposed endpoint needs scopes that this request does not carry.",
                status=Status.AUTHORIZATION_REQUIRED,
                remedy="Claim the missing scopes if the Identity Document declares them; "
                "otherwise the registrar has to grant them.",
                details={
                    "scope": lacking[0],
                    "missing_scopes": list(lacking),
                    "required_scopes": list(required),
                },
                scopes=lacking,
            )

    def _capability(self, proposal: Proposal, context: BuiltInContext) -> Synthesis:
        def usable(endpoint: Endpoint) -> bool:
            binding = self._bindings.get((endpoint.method, endpoint.path))
            return binding is not None and context.admits(binding)

        try:
            floor = Assurance.NONE if context.caller is None else self._settings.min_assurance
            return self._synthesizer.for_proposal(proposal, usable, floor)
        except CannotSynthesize as error:
            if error.needs is not None:
                # This host must be able to accept its own counter-proposal.
                require_within(error.needs, self._settings)
            near = self._synthesizer.similar(proposal, usable)
            raise Refusal(
                Reason.COMPOSITION_IMPOSSIBLE,
                str(error),
                remedy="Propose the counter_proposal, or another endpoint."
                if error.counter
                else "Propose another endpoint.",
                details={"similar": near, **_counter(error.counter or (near[0] if near else None))},
            ) from None
        except NoChain as error:
            near = self._synthesizer.similar(proposal, usable)
            listed = [{"method": e.method, "path": e.path} for e in error.ambiguous if usable(e)]
            raise Refusal(
                Reason.AMBIGUOUS if error.ambiguous else Reason.COMPOSITION_IMPOSSIBLE,
                str(error),
                remedy="Describe the endpoint more precisely."
                if error.ambiguous
                else "Call one of the similar endpoints, if it is suitable.",
                details={"similar": listed or near, **_counter(near[0] if near else None)},
            ) from None

    def _require_permitted(self, proposal: Proposal, synthesis: Synthesis) -> None:
        method, path = proposal.method, proposal.path
        if not self._policy.admits(method) or self._policy.redirect(method, path) is not None:
            raise Refusal(Reason.POLICY_REFUSED, "The operator's method policy does not admit that method.")
        if method in NEVER or (method == "DISCOVER" and path[1:].startswith(RESERVED_DISCOVER)):
            raise Refusal(Reason.POLICY_REFUSED, "The protocol defines that method; it cannot be proposed.")
        if self._registered(method, path):
            raise Refusal(
                Reason.POLICY_REFUSED,
                "That method and path are already registered on this host.",
                remedy="Call the endpoint; DISCOVER / describes it.",
                details={"counter_proposal": {"method": method, "path": path}},
            )
        gravest = self._settings.policies.synthesis.max_impact
        if GRAVITY[synthesis.needs.impact.value] > GRAVITY[gravest]:
            raise Refusal(
                Reason.POLICY_REFUSED,
                f"This host does not synthesize endpoints with the impact {synthesis.needs.impact.value}.",
                remedy="Call the underlying endpoints individually.",
                details={"max_impact": gravest},
            )


def _counter(definition: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {} if definition is None else {"counter_proposal": definition}
