"""What is proven of one PURCHASE on its way to the handler, and goes into its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateTable
from agtphost.errors import Refusal
from agtphost.identity.intent import Intent
from agtphost.vocabulary.quotas import ITEM_KINDS
from agtphost.vocabulary.reasons import Reason

KIND = "intent-assertion"
NEW_ASSERTION = "Have the platform that governs the agent issue a new Intent-Assertion for this purchase."
MOST_PER_AGENT = ITEM_KINDS[KIND].per_owner
"""Used assertions that are remembered for one agent; beyond it has to wait until some have expired."""


@dataclass(slots=True, kw_only=True)
class Purchase:
    """A purchase whose counterparty was verified."""

    merchant_id: str
    fingerprint: str
    """Of the merchant's manifest, hex."""

    agent_id: str
    """The buyer's."""

    intent: Intent | None = None
    """What the principal wants, where an assertion was presented."""

    said: dict[str, Any] = field(default_factory=dict)
    """``extra.purchase`` of the record: amount, principal, cart."""

    @property
    def members(self) -> Mapping[str, str]:
        """The registered members of the record: core v08 section 9."""
        found = {"merchant_id": self.merchant_id, "merchant_fingerprint": self.fingerprint}
        if self.intent is not None:
            found["intent_assertion_jti"] = self.intent.jti
        return found

    @property
    def use(self) -> Change | None:
        """Return the change that uses the assertion up; None without an assertion."""
        intent = self.intent
        if intent is None:
            return None
        return Change(
            kind=KIND,
            key=intent.key,
            value={"issuer": intent.issuer, "jti": intent.jti},
            owner=self.agent_id,
            expires_at=int(intent.kept_until * 1000),
            expected=0,
        )


class UsedAssertions:
    """
    The assertions that were used, as long as they could be shown again.

    :param held: where they are.
    """

    def __init__(self, held: StateTable) -> None:
        self._held = held

    def is_used(self, intent: Intent) -> bool:
        """Return whether an assertion of that issuer and ``jti`` was used."""
        return self._held.get(KIND, intent.key) is not None

    def full(self, agent_id: str) -> bool:
        """Return whether an agent used the most assertions that are remembered."""
        return self._held.count(KIND, agent_id) >= MOST_PER_AGENT


def refuse_unverified(
    reason: Reason, explanation: str | None = None, remedy: str | None = None, *, retryable: bool, **details: object
) -> Refusal:
    """
    Return a refusal with 458, naming the check that failed (companion section 14).

    :param retryable: whether the same purchase can succeed after the counterparty was verified again.
    """
    said = {"check": reason.value, "retryable": retryable, **details}
    return Refusal(
        reason,
        explanation,
        remedy=remedy,
        details={name: value for name, value in said.items() if value != ""},
        extra={"counterparty": {name: value for name, value in said.items() if value != ""}},
    )


def refuse_replayed() -> Refusal:
    """Return a refusal with 458 for an assertion that was used, or is being used by a purchase that has not ended."""
    return refuse_unverified(
        Reason.INTENT_ASSERTION_REPLAYED,
        retryable=False,
        fault="jti",
    )
