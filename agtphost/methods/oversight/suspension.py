"""
SUSPEND and RESUME: core v08 section 7.2.12, methods v01 section 8.7.

SUSPEND stops one of the caller's sessions, or one of its tasks, and returns
the nonce that resumes it, once. It is not the lifecycle's suspension: the
agent itself stays active.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.dispatch.sessions import SUSPENSION, SessionRegistry, Suspensions
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.vocabulary import times
from agtphost.vocabulary.quotas import ITEM_KINDS
from agtphost.vocabulary.reasons import Reason

REASONS = ("awaiting_input", "resource_limit", "scheduled_pause", "external_dependency")
CHECKPOINT = 16_384
"""Octets of a checkpoint."""

HELD_PER_AGENT = ITEM_KINDS[SUSPENSION].per_owner // 2
"""That stand still at a time; as many again are remembered as resumed."""

LONGEST = 30 * 86_400
"""Seconds that anything may stay suspended; a day where the caller does not say."""

REMEMBERED = 86_400
"""Seconds for which a used or expired nonce is still known as such."""

Release = Callable[[BuiltInContext], Any]
"""Answers SUSPEND with ``synthesis_id``: the release of a negotiated contract (core v08 section 7.2.12.1)."""

Workflows = Callable[[BuiltInContext, str], Answer | None]
"""Answers RESUME of a workflow of the caller's; None where it has none of that name (methods v01 section 8.7)."""


@implementer(IBuiltInHandler)
class Suspension:
    """
    Answers SUSPEND and RESUME.

    :param sessions: which sessions there are.
    :param release: releases negotiated contracts; None where the host negotiates none.
    :param workflows: resumes workflows, which are neither sessions nor tasks.
    """

    kind = "built_in"

    def __init__(
        self,
        held: StateTable,
        sessions: SessionRegistry,
        suspensions: Suspensions,
        release: Release | None = None,
        now: Callable[[], float] = time.time,
        workflows: Workflows = lambda context, workflow_id: None,
    ) -> None:
        self._workflows = workflows
        self._held = held
        self._sessions = sessions
        self._suspensions = suspensions
        self._release = release
        self._now = now

    def handle(self, context: BuiltInContext) -> Any:
        if context.method == "RESUME":
            return self._resume(context)
        if "synthesis_id" in context.input:
            return self._release_contract(context)
        return self._suspend(context)

    def _release_contract(self, context: BuiltInContext) -> Any:
        parameters.identifier(context.input, "synthesis_id")
        if self._release is None:
            raise not_found(
                Reason.CONTRACT_UNKNOWN,
                "No negotiated contract has that synthesis_id.",
                remedy="DISCOVER /methods lists what can be called.",
            )
        return self._release(context)

    # SUSPEND

    def _suspend(self, context: BuiltInContext) -> Answer:
        owner_of(context)
        owner, given = context.owner, context.input
        of = "task" if "task_id" in given and "session_id" not in given else "session"
        name = parameters.identifier(given, f"{of}_id")
        reason = parameters.choice(given, "reason", REASONS, "scheduled_pause")
        checkpoint = parameters.read_json(given, "checkpoint", CHECKPOINT)
        now = self._now()
        until = self._read_resume_by(given, now)
        known = self._held.get(SUSPENSION, _key(owner, of, name))
        self._require_running(context, known, of, name)
        nonce = secrets.token_urlsafe(16)
        value = {
            "suspension_id": f"susp-{secrets.token_hex(16)}",
            "agent_id": owner_of(context).agent_id,
            "of": of,
            "name": name,
            "reason": reason,
            "checkpoint": checkpoint,
            "nonce_hash": sha256(nonce.encode()).hexdigest(),
            "resume_by": times.stamp(until),
            "until": until,
            "status": "suspended",
            "suspended_at": times.stamp(now),
        }
        receipt = {
            "suspension_id": value["suspension_id"],
            f"{of}_id": name,
            "resumption_nonce": nonce,
            "resume_by": value["resume_by"],
            "reason": reason,
            "status": "suspended",
        }
        return Answer(
            result=receipt,
            changes=(_change(owner, value, known, until + REMEMBERED),),
            extra={"suspension_id": value["suspension_id"], f"suspended_{of}_id": name},
        )

    @staticmethod
    def _read_resume_by(given: Mapping[str, Any], now: float) -> float:
        resume_by = parameters.moment(given, "resume_by")
        if resume_by is None:
            return now + 86_400
        if resume_by <= now:
            raise Refusal(Reason.RESUME_BY_PASSED, details={"parameter": "resume_by"})
        return min(resume_by, now + LONGEST)

    def _require_running(self, context: BuiltInContext, known: StateItem | None, of: str, name: str) -> None:
        owner, agent_id = context.owner, owner_of(context).agent_id
        if of == "session" and known is None and not self._sessions.knows(name, agent_id, context.assurance):
            raise not_found(Reason.SESSION_UNKNOWN)
        if known is not None and known.value["status"] == "suspended":
            self._suspensions.refuse(owner, name if of == "session" else None, name if of == "task" else None)
        if self._suspensions.count_suspended(owner) >= HELD_PER_AGENT:
            raise Refusal(
                Reason.TOO_MANY_SUSPENSIONS,
                f"An agent can have {HELD_PER_AGENT} suspensions at a time.",
                headers=(("Retry-After", "60"),),
            )

    # RESUME

    def _resume(self, context: BuiltInContext) -> Answer:
        owner_of(context)
        owner, given = context.owner, context.input
        name = parameters.identifier(given, "workflow_id")
        resumed = self._workflows(context, name)
        if resumed is not None:
            return resumed
        nonce = parameters.require_text(given, "resumption_nonce")
        override = parameters.read_json(given, "checkpoint", CHECKPOINT)
        found = [self._held.get(SUSPENSION, _key(owner, of, name)) for of in ("session", "task")]
        known = [item for item in found if item is not None]
        if not known:
            raise not_found(Reason.SUSPENSION_UNKNOWN)
        digest = sha256(nonce.encode()).hexdigest()
        item = next((each for each in known if hmac.compare_digest(each.value["nonce_hash"], digest)), None)
        if item is None or item.value["status"] != "suspended":
            raise _bad_nonce(used=item is not None)
        if item.value["until"] <= self._now():
            raise Refusal(
                Reason.RESUMPTION_EXPIRED,
                details={"resume_by": item.value["resume_by"], "workflow_id": name, "status": "expired"},
            )
        checkpoint = item.value["checkpoint"] if override is None else override
        value = {**item.value, "status": "resumed", "checkpoint": None}
        return Answer(
            result={
                "workflow_id": name,
                f"{value['of']}_id": name,
                "suspension_id": value["suspension_id"],
                "status": "active",
                "checkpoint": checkpoint,
            },
            changes=(_change(owner, value, item, self._now() + REMEMBERED),),
            extra={"suspension_id": value["suspension_id"], f"resumed_{value['of']}_id": name},
        )


def _key(owner: str, of: str, name: str) -> str:
    return f"{owner} {of} {name}"


def _change(owner: str, value: Mapping[str, Any], known: StateItem | None, until: float) -> Change:
    return Change(
        kind=SUSPENSION,
        key=_key(owner, value["of"], value["name"]),
        value=value,
        owner=owner,
        expires_at=int(until * 1000),
        expected=0 if known is None else known.version,
    )


def _bad_nonce(*, used: bool) -> Refusal:
    return Refusal(
        Reason.NONCE_USED if used else Reason.NONCE_INVALID,
        "The resumption_nonce was already used."
        if used
        else "The resumption_nonce is not the one that SUSPEND returned.",
    )
