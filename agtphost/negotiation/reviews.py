"""
Proposals that wait for an operator: 261, and ``QUERY /proposals/{id}`` (core v08 section 5.6, AGTP-API section 11).

The object of the decision is fixed at the proposal: the recipe that was found, in its version of that moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.contract.recipes.graph import Needs
from agtphost.contract.semantic import Impact
from agtphost.errors import Refusal
from agtphost.handlers.deciders import decided_by, decision_details
from agtphost.identity.peer import Assurance
from agtphost.negotiation.durations import iso
from agtphost.negotiation.evaluation import AcceptedProposal
from agtphost.negotiation.synthesis import Synthesis
from agtphost.vocabulary import times
from agtphost.vocabulary.reasons import Reason

KIND = "proposal"
MOST_PENDING = 8
"""Most undecided proposals of one agent."""

LONGEST_REASON = 2_000
"""Characters of a reason that is kept."""

MOST_LISTED = 200
"""Decided proposals of one list."""

REMEMBERED = 7 * 86_400
"""Seconds for which a decision can be queried."""


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A proposal under review."""

    proposal_id: str
    owner: str
    version: int
    value: Mapping[str, Any]

    @property
    def decision(self) -> str:
        """Return ``pending``, ``approved`` or ``rejected``."""
        return str(self.value["decision"])

    @property
    def verdict(self) -> Mapping[str, Any]:
        """Return who decided, and when; empty while it waits, and where the time has decided."""
        found = self.value.get("verdict")
        return found if isinstance(found, dict) else {}

    def synthesis(self) -> Synthesis:
        """Return the synthesis that was found at the proposal."""
        found = self.value["synthesis"]
        needs = found["needs"]
        return Synthesis(
            definition=found["definition"],
            recipe=found["recipe"],
            lineage=found["lineage"],
            steps=found["steps"],
            needs=Needs(
                required_scopes=tuple(needs["required_scopes"]),
                min_assurance=Assurance[str(needs["min_assurance"]).upper()],
                impact=Impact(needs["impact"]),
                idempotent=needs["idempotent"],
            ),
        )


class Reviews:
    """
    The proposals under review, with their decisions.

    :param review: seconds that an operator has to decide.
    :param now: returns milliseconds since the Unix epoch.
    """

    def __init__(self, held: StateTable, review: int, now: Callable[[], int]) -> None:
        self._held = held
        self._review = review
        self._now = now

    def begin(
        self, accepted: AcceptedProposal, owner: str, lifetime: Mapping[str, Any], negotiation_id: str
    ) -> tuple[dict[str, Any], Change]:
        """
        Begin a review.

        :param lifetime: lifetime of the contract, which the approval needs to issue it.
        :return: the body of the 261, and the change that stores the proposal.
        :raises Refusal: 463 if too many of the agent's proposals wait already.
        """
        waiting = [item for item in self._held.items_of(KIND, owner) if item.brief["decision"] == "pending"]
        if len(waiting) >= MOST_PENDING:
            raise Refusal(
                Reason.POLICY_REFUSED,
                f"{MOST_PENDING} proposals of this agent already wait for a decision, which is the maximum.",
                remedy="Wait for the decision on one of them.",
            )
        synthesis = accepted.synthesis
        now = self._now()
        proposal_id = os.urandom(16).hex()
        value: dict[str, Any] = {
            "decision": "pending",
            "review_until": now + self._review * 1000,
            "negotiation_id": negotiation_id,
            "method": synthesis.method,
            "path": synthesis.path,
            "lifetime": dict(lifetime),
            "synthesis": {
                "definition": dict(synthesis.definition),
                "recipe": dict(synthesis.recipe),
                "lineage": None if synthesis.lineage is None else dict(synthesis.lineage),
                "steps": synthesis.steps,
                "needs": {
                    "required_scopes": list(synthesis.needs.required_scopes),
                    "min_assurance": synthesis.needs.min_assurance.label,
                    "impact": synthesis.needs.impact.value,
                    "idempotent": synthesis.needs.idempotent,
                },
            },
        }
        change = Change(
            kind=KIND,
            key=proposal_id,
            value=value,
            owner=owner,
            expires_at=now + (self._review + REMEMBERED) * 1000,
            expected=0,
        )
        return self.progress(proposal_id, value), change

    def progress(self, proposal_id: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a 261."""
        left = max(1, (value["review_until"] - self._now() + 999) // 1000)
        return {
            "proposal_id": proposal_id,
            "negotiation_id": value["negotiation_id"],
            "method": value["method"],
            "path": value["path"],
            "estimated_duration": iso(left),
            "estimated_seconds": left,
            "poll": {"method": "QUERY", "path": f"/proposals/{proposal_id}"},
        }

    def get(self, proposal_id: str) -> Pending | None:
        """Return a proposal; one without a decision in time counts as rejected."""
        item = self._held.get(KIND, proposal_id)
        return None if item is None else self._pending(item)

    def waiting(self) -> list[Pending]:
        """Return every waiting proposal, oldest first, for operators."""
        every = (self._pending(item) for item in self._held.items_by(KIND, "decision", "pending"))
        return [pending for pending in every if pending.decision == "pending"]

    def list_decided(self) -> list[Pending]:
        """Return every proposal that was decided, or for which the time has run out; the newest decision first."""
        named = ("approved", "rejected", "pending")
        every = [self._pending(item) for name in named for item in self._held.items_by(KIND, "decision", name)]
        decided = [pending for pending in every if pending.decision != "pending"]
        return sorted(decided, key=lambda each: str(each.verdict.get("at", "")), reverse=True)[:MOST_LISTED]

    def _pending(self, item: StateItem) -> Pending:
        value = item.value
        if value["decision"] == "pending" and value["review_until"] <= self._now():
            value = {**value, "decision": "rejected", "explanation": "The operators did not decide in time."}
        return Pending(proposal_id=item.key, owner=item.owner, version=item.version, value=value)

    def defer(
        self, pending: Pending, actor: str, operator: Mapping[str, str] | None, reason: str | None
    ) -> dict[str, Any]:
        """
        Return the value of a deferred proposal; its review period begins again.

        :param actor: who defers it.
        :param operator: as records name an operator; None for an agent.
        """
        now = self._now()
        deferral: dict[str, Any] = {"deferred_by": actor, "deferred_at": times.stamp(now / 1000)}
        deferral |= {"deferred_reason": reason or "", **({} if operator is None else {"deferred_operator": operator})}
        return {**pending.value, "review_until": now + self._review * 1000, "deferral": deferral}

    def deferral_change(self, pending: Pending, value: Mapping[str, Any]) -> Change:
        """Return the change that stores the value of :meth:`defer`; a concurrent decision takes precedence."""
        return Change(
            kind=KIND,
            key=pending.proposal_id,
            value=value,
            owner=pending.owner,
            expires_at=value["review_until"] + REMEMBERED * 1000,
            expected=pending.version,
        )

    def decision_change(self, pending: Pending, **changed: Any) -> Change:
        """Return the change that ends a review; of concurrent decisions only one succeeds."""
        return Change(
            kind=KIND,
            key=pending.proposal_id,
            value={**pending.value, **changed},
            owner=pending.owner,
            expires_at=self._now() + REMEMBERED * 1000,
            expected=pending.version,
        )


def verdict(actor: str, operator: Mapping[str, str] | None, now: int, reason: object) -> dict[str, Any]:
    """
    Return the member of a decided proposal that says who decided, when, and why.

    :param operator: as records name an operator; None for an agent.
    :param now: milliseconds since the Unix epoch.
    """
    said = reason if isinstance(reason, str) and len(reason) <= LONGEST_REASON else ""
    named = {} if operator is None else {"operator": operator}
    return {"verdict": {"by": actor, "at": times.stamp(now / 1000), "reason": said, **named}}


def already_decided(pending: Pending) -> Refusal:
    """Return the refusal of a decision after the first one."""
    return Refusal(
        Reason.ALREADY_DECIDED,
        f"The proposal is already {pending.decision}{decided_by(pending.verdict)}.",
        remedy="QUERY it for the outcome.",
        details={"proposal_id": pending.proposal_id, **decision_details(pending.verdict)},
    )


def verdict_members(pending: Pending) -> dict[str, Any]:
    """Return what a list says of a decided proposal in addition."""
    found = pending.verdict
    why = found.get("reason") or pending.value.get("explanation", "")
    return {"decision": pending.decision, "reason": why, **decision_details(found)}
