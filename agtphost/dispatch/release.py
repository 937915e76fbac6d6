"""What lets one call pass that a person approved, and uses the approval up (:mod:`agtphost.dispatch.approvals`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem
from agtphost.dispatch.decision_records import DecisionRecords
from agtphost.errors import Refusal
from agtphost.vocabulary import times
from agtphost.vocabulary.quotas import APPROVAL
from agtphost.vocabulary.reasons import Reason

OPEN, ACCEPTED, REJECTED, RUNNING, USED = "pending", "accepted", "rejected", "running", "used"
"""What an approval is, as it is kept."""

USED_REMEMBERED = 43_200
"""The same of one that was used or rejected: less than answers of keyed requests are kept, which it has to know."""


@dataclass(slots=True, kw_only=True)
class Release:
    """The approval that lets one call pass: its own, or that of the recipe that it is a step of."""

    approval_id: str
    running: set[str]
    """Approvals whose calls run in this process."""

    now: Callable[[], float]
    """Seconds since the Unix epoch."""

    item: StateItem | None = None
    """As it was approved; None of a step."""

    key: str = ""
    """The SHA-256 of the call's Idempotency-Key, hex; empty where it has none."""

    reserved: bool = False
    """Whether it is durable that this call uses it up."""

    forgotten: bool = False
    """Whether the item has changed since, so that nothing more is recorded of it."""

    begun: bool = False
    decisions: DecisionRecords | None = None
    """What :meth:`require_decision` looks at; None: nothing is signed here."""

    async def require_decision(self) -> None:
        """
        Let it pass where a signed record says what the item says.

        :raises Refusal: 500 where none does.
        """
        if self.decisions is not None and self.item is not None:
            await self.decisions.require(self.approval_id, self.item.value)

    def begin(self) -> None:
        """
        Mark the approval as being used by this process.

        :raises Refusal: 409 where another call does already.
        """
        if self.approval_id in self.running:
            raise in_use()
        self.running.add(self.approval_id)
        self.begun = True

    def end(self) -> None:
        """End the use, with any outcome of the call."""
        if self.begun:
            self.running.discard(self.approval_id)

    def forget(self) -> None:
        """Change the item no further."""
        self.forgotten = True

    def record_members(self) -> dict[str, Any]:
        """Return the members that the call's record has of the approval; empty where the call did not get that far."""
        if self.item is None:
            return {"id": self.approval_id, "step": True}
        if not self.reserved:
            return {}
        value = self.item.value
        decision = value["decision"]
        return {
            "id": self.approval_id,
            "digest": value["digest"],
            "by": decision["by"],
            "decided_at": decision["at"],
            "proposed": value["proposed_audit_id"],
            "decided": value["decided_audit_id"],
        }

    def reserving(self) -> Change:
        """Return the change that uses the approval up, so that no second call can be made with it."""
        assert self.item is not None
        now = self.now()
        value = {**self.item.value, "status": RUNNING, "used_at": times.stamp(now), "key": self.key}
        return self._change(value, self.item.version, now, "reserved_audit_id")

    def finishing(self) -> tuple[Change, ...]:
        """Return the changes that mark the call as ended: part of the record of the answer."""
        if self.item is None or not self.reserved or self.forgotten:
            return ()
        now = self.now()
        value = {**self.item.value, "status": USED, "used_at": times.stamp(now), "key": self.key}
        return (self._change(value, self.item.version + 1, now, "executed_audit_id"),)

    def _change(self, value: Mapping[str, Any], expected: int, now: float, linked: str) -> Change:
        return Change(
            kind=APPROVAL,
            key=self.approval_id,
            value=value,
            owner=str(value["owner"]),
            expires_at=int((now + USED_REMEMBERED) * 1000),
            expected=expected,
            linked=linked,
        )


def in_use() -> Refusal:
    """Return a refusal with 409: another call is using the approval up, or has."""
    return Refusal(Reason.APPROVAL_IN_USE, headers=(("Retry-After", "1"),))
