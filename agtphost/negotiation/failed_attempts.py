"""Failed attempts at negotiation, for ``RCNS-Attempt-Id`` and INSPECT (core v08 section 7.2.4)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.errors import Refusal
from agtphost.vocabulary import times
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

KIND = "rcns-attempt"
HEADER = "RCNS-Attempt-Id"
LIFETIME = 86_400
"""Seconds for which an attempt is kept."""


class AttemptLog:
    """
    Recorder of failed attempts.

    :param now: returns milliseconds since the Unix epoch.
    """

    def __init__(self, held: StateTable, now: Callable[[], int]) -> None:
        self._held = held
        self._now = now

    def refusal(
        self,
        reason: Reason,
        explanation: str | None,
        *,
        owner: str,
        agent_id: str,
        method: str,
        path: str,
        **facts: Any,
    ) -> Refusal:
        """
        Return a 464 refusal with the attempt that it records.

        :param owner: state owner of the caller, who may read the attempt.
        :param agent_id: the Agent-ID that the caller named.
        :param reason: one of the six of core v08 section 5.6.
        :param facts: further members for INSPECT: locks, trust tier ...
        """
        attempt_id = os.urandom(16).hex()
        now = self._now()
        value = {
            "attempt_id": attempt_id,
            "attempted_at": times.stamp(now / 1000),
            "agent_id": agent_id,
            "method": method,
            "path": path[:1_024],
            "reason": reason.value,
            "explanation": reason.meaning if explanation is None else explanation,
            **facts,
        }
        kept = Change(kind=KIND, key=attempt_id, value=value, owner=owner, expires_at=now + LIFETIME * 1000)
        return Refusal(
            reason,
            explanation,
            status=Status.NO_CONTRACT,
            headers=((HEADER, attempt_id),),
            changes=(kept,),
            extra={"rcns_attempt_id": attempt_id},
        )

    def get(self, attempt_id: str) -> StateItem | None:
        """Return a recorded attempt; None if it is unknown or expired."""
        return self._held.get(KIND, attempt_id)
