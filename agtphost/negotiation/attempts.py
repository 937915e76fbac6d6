"""Failed attempts, for whoever wants to know why: ``RCNS-Attempt-Id`` and INSPECT (core v08 section 7.2.4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.errors import Refusal
from agtphost.vocabulary import times
from agtphost.vocabulary.status import Status

KIND = "rcns-attempt"
HEADER = "RCNS-Attempt-Id"
LIFETIME = 86_400
"""Seconds."""

_REMEDIES: Mapping[str, str] = {
    "rcns-disabled": "Call what DISCOVER /methods lists; this host negotiates no contracts.",
    "trust-tier-insufficient": "Have the agent's trust tier raised by its registrar.",
    "composition-impossible": "DISCOVER /patterns lists what this host can synthesize.",
    "synthesis-error": "Try again later, or release a contract that is no longer needed.",
    "contract-not-yours": "Negotiate a contract of your own.",
    "contract-revoked": "Negotiate a new contract.",
}
"""The reasons of 464 (core v08 section 5.6), and what helps."""


class Attempts:
    """
    Writes attempts down.

    :param now: milliseconds since the Unix epoch.
    """

    def __init__(self, held: StateTable, now: Callable[[], int]) -> None:
        self._held = held
        self._now = now

    def refusal(self, reason: str, explanation: str, *, agent_id: str, method: str, path: str, **facts: Any) -> Refusal:
        """
        A 464 with the attempt that it names.

        :param reason: one of the six of core v08 section 5.6.
        :param facts: what else INSPECT shows: locks, trust tier ...
        """
        attempt_id = os.urandom(16).hex()
        now = self._now()
        value = {
            "attempt_id": attempt_id,
            "attempted_at": times.stamp(now / 1000),
            "agent_id": agent_id,
            "method": method,
            "path": path[:1_024],
            "reason": reason,
            "explanation": explanation,
            **facts,
        }
        kept = Change(kind=KIND, key=attempt_id, value=value, owner=agent_id, expires_at=now + LIFETIME * 1000)
        return Refusal(
            Status.NO_CONTRACT,
            reason,
            explanation,
            remedy=_REMEDIES[reason],
            headers=((HEADER, attempt_id),),
            changes=(kept,),
            extra={"rcns_attempt_id": attempt_id},
        )

    def get(self, attempt_id: str) -> StateItem | None:
        """An attempt that is remembered."""
        return self._held.get(KIND, attempt_id)
