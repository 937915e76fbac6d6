"""PROPOSE, and what becomes of proposals: core v08 sections 7.2.7 and 7.5, AGTP-API section 10."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zope.interface import implementer

from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.iagtp import IContractEnding, IProposals
from agtphost.vocabulary.reasons import Reason


@implementer(IBuiltInHandler)
class Proposing:
    """
    Answers PROPOSE, and QUERY and CONFIRM on ``/proposals``.

    :param negotiator: decides.
    """

    kind = "built_in"

    def __init__(self, negotiator: IProposals) -> None:
        self._answers: Mapping[tuple[str, bool], Callable[[BuiltInContext], Answer]] = {
            ("PROPOSE", False): negotiator.propose,
            ("QUERY", False): negotiator.proposals,
            ("QUERY", True): negotiator.proposal,
            ("CONFIRM", True): negotiator.decide,
        }

    def handle(self, context: BuiltInContext) -> Answer:
        return self._answers[context.method, "proposal_id" in context.path_parameters](context)


class Ending:
    """
    The handler of REVOKE for contracts, by ``target`` (core v08 sections 7.2.16.1 and 7.2.16.2).

    :param negotiator: decides who may, and does it.
    """

    def __init__(self, negotiator: IContractEnding) -> None:
        self._targets: Mapping[str, Callable[[BuiltInContext], Answer]] = {
            "contract": negotiator.revoke_contract,
            "stale-contracts": negotiator.sweep,
        }
        self.with_agent = negotiator.end_with_agent

    def __call__(self, target: object, context: BuiltInContext) -> Answer:
        """
        Answer ``REVOKE target=...``.

        :raises agtphost.errors.Refusal: 400 for a target that REVOKE does not know.
        """
        answer = self._targets.get(target) if isinstance(target, str) else None
        if answer is None:
            remedy = "Send agent_id without a target, or target contract or stale-contracts."
            raise parameters.invalid(
                "target", "REVOKE does not know that target.", remedy, reason=Reason.MALFORMED_LIFECYCLE_REQUEST
            )
        return answer(context)
