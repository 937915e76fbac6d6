"""
The termination of contracts: released by their agent, revoked, swept after a recipe's edit, or with their agent.

AGTP-API sections 10.1.4 and 10.1.4.1; core v08 sections 7.2.12.1, 7.2.16.1 and 7.2.16.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from agtphost.audit.drafts import HOST_CHAIN, Change, StreamEvent
from agtphost.contract.recipes.book import RecipeBook
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import INSPECT_ALL, Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.handlers.operators import OperatorAction
from agtphost.negotiation.contract import Contract
from agtphost.negotiation.contracts import ContractTable
from agtphost.negotiation.settings import NegotiationSettings, OnPolicyChange
from agtphost.vocabulary.reasons import Reason


def is_originator(context: BuiltInContext, contract: Contract, settings: NegotiationSettings) -> bool:
    """Return whether the caller is proven to be the agent that a contract was made for."""
    caller = context.caller
    return caller is not None and caller.agent_id == contract.agent_id and context.assurance >= settings.min_assurance


class Termination:
    """Handler of the methods that end contracts."""

    def __init__(
        self, contracts: ContractTable, book: RecipeBook, settings: NegotiationSettings, authorization: Authorization
    ) -> None:
        self._contracts = contracts
        self._book = book
        self._settings = settings
        self._authorization = authorization

    def release(self, context: BuiltInContext) -> Answer:
        """Answer ``SUSPEND synthesis_id=...``: the agent releases a contract, which is deleted."""
        contract = self._require_contract(context)
        reason = parameters.text(context.input, "reason")
        fields = {**contract.event(), "reason": reason or "released by its agent"}
        return Answer(
            result={"synthesis_id": contract.synthesis_id, "status": "released", "event_type": "rcns_release"},
            changes=contract.deletion_changes(),
            events=(_event(contract, "rcns_release", fields),),
            extra={"synthesis_id": contract.synthesis_id},
        )

    def revoke(self, context: BuiltInContext) -> Answer:
        """Answer ``REVOKE target=contract``; afterwards, presenting it is 464 ``contract-revoked``."""
        contract = self._require_contract(context, overseers=True)
        result = {
            "target": "contract",
            "synthesis_id": contract.synthesis_id,
            "originating_agent_id": contract.agent_id,
            "status": "revoked",
            "event_type": "rcns_revoke",
        }
        if contract.revoked:
            return Answer(result={**result, "noop": True})
        fields = {**contract.event(), **_who(context), "reason": parameters.text(context.input, "reason") or "revoked"}
        return Answer(
            result=result,
            changes=(contract.to_change(revoked=True),),
            events=(_event(contract, "rcns_revoke", fields),),
            extra={"synthesis_id": contract.synthesis_id},
        )

    def sweep(self, context: BuiltInContext) -> Answer:
        """Answer ``REVOKE target=stale-contracts``: compare captured recipe versions with the current ones."""
        if not self._authorization.oversees(context):
            raise self._refuse(context, "Only administrators compare contracts with the present recipes.")
        mode = self._mode(context.input)
        actor = _who(context)
        listed: list[dict[str, Any]] = []
        changes: list[Change] = []
        events: list[StreamEvent] = []
        skipped = 0
        for contract in self._contracts.all():
            if contract.lineage is None:
                skipped += 1
                continue
            entry = self._examine(contract, mode)
            listed.append(entry)
            if entry["disposition"] == "evicted":
                changes.extend(contract.deletion_changes())
                fields = {**contract.event(), **actor, "reason": "policy-change-invalidation"}
                events.append(_event(contract, "rcns_release", fields))
        counts = Counter(str(entry["disposition"]) for entry in listed)
        return Answer(
            result={
                "target": "stale-contracts",
                "mode": mode.value,
                "examined": len(listed),
                "skipped": skipped,
                **{word: counts.get(word, 0) for word in ("unchanged", "grandfathered", "evicted")},
                "contracts": listed,
            },
            changes=tuple(changes),
            events=tuple(events),
        )

    def _refuse(self, context: BuiltInContext, explanation: str) -> Refusal:
        """Return the refusal of a caller that does not oversee, with the setting that helps an operator."""
        action, reason = OperatorAction.OPERATE, Reason.CONTRACT_NOT_PERMITTED
        return self._authorization.refuse(context, action, explanation, INSPECT_ALL, reason)

    def with_agent(self, agent_id: str) -> tuple[tuple[Change, ...], tuple[StreamEvent, ...]]:
        """Return changes and events that end all contracts of a revoked agent (design decision 10)."""
        ended = list(self._contracts.contracts_of(agent_id))
        changes = tuple(contract.to_change(revoked=True) for contract in ended)
        events = tuple(_event(c, "rcns_revoke", {**c.event(), "reason": "agent-revoked"}) for c in ended)
        return changes, events

    def adrift(self, most: int) -> tuple[tuple[Change, ...], tuple[StreamEvent, ...]]:
        """Return changes and events that end contracts of closed connections (AGTP-266), at most so many."""
        ended = self._contracts.adrift()[:most]
        changes = tuple(change for contract in ended for change in contract.deletion_changes())
        events = tuple(_event(c, "rcns_release", {**c.event(), "reason": "connection-closed"}) for c in ended)
        return changes, events

    def _examine(self, contract: Contract, mode: OnPolicyChange) -> dict[str, Any]:
        assert contract.lineage is not None
        current = self._book.find(contract.lineage["recipe_name"])
        version = None if current is None else current.version
        disposition = "unchanged"
        if version != contract.lineage["recipe_version"]:
            disposition = "evicted" if mode is OnPolicyChange.INVALIDATE else "grandfathered"
        return {
            "synthesis_id": contract.synthesis_id,
            "originating_agent_id": contract.agent_id,
            "method": contract.method,
            "path": contract.path,
            "recipe_name": contract.lineage["recipe_name"],
            "captured_version": contract.lineage["recipe_version"],
            "current_version": version,
            "disposition": disposition,
        }

    def _mode(self, given: Mapping[str, Any]) -> OnPolicyChange:
        named = given.get("mode")
        if named is None:
            return OnPolicyChange(self._settings.policies.rcns.on_policy_change)
        try:
            return OnPolicyChange(named)
        except ValueError:
            told, remedy = "mode must be grandfather or invalidate.", "Send one of them, or leave mode out."
            raise parameters.invalid("mode", told, remedy, reason=Reason.MALFORMED_LIFECYCLE_REQUEST) from None

    def _require_contract(self, context: BuiltInContext, *, overseers: bool = False) -> Contract:
        """
        Return the contract that the caller may end.

        :param overseers: whether overseers may end it, in addition to the agent that it was made for.
        :raises Refusal: 403 for every other caller, as core v08 sections 7.2.12.1 and 7.2.16.1 require, whether the
            contract exists or not. 404 for overseers.
        """
        named = context.input.get("synthesis_id")
        if not isinstance(named, str) or not named:
            told = "The parameter synthesis_id is missing."
            raise parameters.invalid("synthesis_id", told, "Send synthesis_id.", missing=True)
        contract = self._contracts.get(named)
        if contract is not None and is_originator(context, contract, self._settings):
            return contract
        if not overseers:
            raise _forbidden("Only the agent that a contract was made for can release it.")
        if not self._authorization.oversees(context):
            raise self._refuse(context, "Only its agent and administrators can revoke a contract.")
        if contract is None:
            raise not_found(Reason.CONTRACT_UNKNOWN, "No contract has that synthesis_id.")
        return contract


def _event(contract: Contract, event_type: str, fields: Mapping[str, Any]) -> StreamEvent:
    return StreamEvent(chain=contract.agent_id or HOST_CHAIN, event_type=event_type, fields=fields)


def _who(context: BuiltInContext) -> dict[str, str]:
    """Return the actor for the signed event: whom the caller claims to act for, and who the caller is."""
    actor = parameters.text(context.input, "actor")
    caller = "" if context.caller is None else context.caller.agent_id
    return {"actor": actor or caller, "operator_agent_id": caller}


def _forbidden(explanation: str) -> Refusal:
    return Refusal(Reason.CONTRACT_NOT_PERMITTED, explanation)
