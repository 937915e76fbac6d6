"""
Rounds of a negotiation: the Negotiation-ID and the limit of three turns (core v08 sections 7.3 and 7.5).

The count is durable and belongs to the agent, so a rejected agent does not get a fresh start under the same id by a
restart or another connection.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateTable
from agtphost.errors import Refusal, not_found
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

KIND = "negotiation"
HEADER = "Negotiation-ID"
MOST_TURNS = 3
LIFETIME = 3_600
"""Seconds after its last turn for which a negotiation is kept."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Round:
    """A PROPOSE of a negotiation."""

    negotiation_id: str
    owner: str
    rejections: int
    """Rejections before this turn."""

    version: int
    now: int

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the response header of every turn."""
        return ((HEADER, self.negotiation_id),)

    def changes(self, *, rejected: bool) -> tuple[Change, ...]:
        """Return the changes of the turn's outcome."""
        value = {"rejections": self.rejections + rejected}
        kept = Change(
            kind=KIND,
            key=self.negotiation_id,
            value=value,
            owner=self.owner,
            expires_at=self.now + LIFETIME * 1000,
            expected=self.version,
        )
        return (kept,)

    def add_to_refusal(self, refusal: Refusal) -> Refusal:
        """Return the refusal as the answer of this turn, with the negotiation's id and the remaining turns."""
        rejected = refusal.status is not Status.AUTHORIZATION_REQUIRED
        left = MOST_TURNS - self.rejections - rejected
        if left <= 0:
            refusal.remedy = f"{refusal.remedy} This negotiation has no turns left; ESCALATE to your principal.".strip()
        refusal.details = {
            **refusal.details,
            "negotiation_id": self.negotiation_id,
            "turns_left": max(0, left),
            "escalate": left <= 0,
        }
        refusal.headers = (*refusal.headers, *self.headers)
        refusal.changes = (*refusal.changes, *self.changes(rejected=rejected))
        refusal.extra = {**refusal.extra, "negotiation_id": self.negotiation_id}
        return refusal


class Rounds:
    """
    Counter of the turns of negotiations.

    :param now: returns milliseconds since the Unix epoch.
    """

    def __init__(self, held: StateTable, now: Callable[[], int]) -> None:
        self._held = held
        self._now = now

    def begin(self, owner: str, named: str | None) -> Round:
        """
        Return the turn of a PROPOSE.

        :param owner: the proposer's state owner; empty for an anonymous one.
        :param named: the request's Negotiation-ID.
        :raises Refusal: 400 for an id that this host did not issue to this agent, 463 after the third rejection.
        """
        if named is None:
            return Round(
                negotiation_id=str(UUID(bytes=os.urandom(16), version=4)),
                owner=owner,
                rejections=0,
                version=0,
                now=self._now(),
            )
        item = self._held.get(KIND, named) if _UUID.fullmatch(named) else None
        # A negotiation that began without credentials may continue with them (core v08 section 7.5, step 4a).
        if item is None or item.owner not in (owner, ""):
            raise not_found(Reason.NEGOTIATION_UNKNOWN)
        turn = Round(
            negotiation_id=named,
            owner=owner,
            rejections=int(item.value["rejections"]),
            version=item.version,
            now=self._now(),
        )
        if turn.rejections >= MOST_TURNS:
            raise Refusal(
                Reason.POLICY_REFUSED,
                f"{MOST_TURNS} proposals of this negotiation were rejected, which is the limit.",
                remedy="ESCALATE to your principal.",
                details={"negotiation_id": named, "turns_left": 0, "escalate": True},
                headers=turn.headers,
                extra={"negotiation_id": named},
            )
        return turn
