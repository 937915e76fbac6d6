"""
RETRY: methods v01 section 8.5.

A call that failed is found by its Task-ID and made again as it was, by its caller, through every gate. Only what may
happen twice is made again: what is idempotent, and what has an Idempotency-Key, under which the host itself answers a
repeat from what it has kept and never runs it a second time.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem
from agtphost.dispatch.failed_calls import KEPT, KIND
from agtphost.dispatch.resumption import caller_to_json
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.standard import results
from agtphost.methods.standard.orchestration import call_readers, schedule, workflow_items
from agtphost.methods.standard.orchestration.call_readers import Find
from agtphost.methods.standard.orchestration.workflows import Workflows
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status

ATTEMPTS: Final = 5
"""In all, the first included, where the caller does not say."""

MOST_ATTEMPTS: Final = 20
LONGEST_DELAY: Final = 86_400


@implementer(IBuiltInHandler)
class Retry:
    """The handler of RETRY."""

    kind = "built_in"
    timeout = 120.0

    def __init__(self, workflows: Workflows, find: Find) -> None:
        self._workflows = workflows
        self._find = find

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Make a failed call again, immediately or later.

        :raises Refusal: 404 for a Task-ID under which none is known, 409 for a call that may not be made again, that
            has since succeeded or was tried often enough; what the call itself is refused with.
        """
        owner_of(context)
        given = context.input
        task_id = parameters.identifier(given, "original_task_id")
        most = parameters.count(given, "max_attempts", ATTEMPTS, MOST_ATTEMPTS)
        delay = given.get("delay", 0)
        if isinstance(delay, bool) or not isinstance(delay, (int, float)) or not 0 <= delay <= LONGEST_DELAY:
            raise parameters.invalid("delay", f"delay is not a number up to {LONGEST_DELAY}.", "Send seconds.")
        item = self._find_call(context, task_id)
        call = dict(item.value)
        self._require_repeatable(call, most)
        made = {
            "task_id": f"retry-{secrets.token_hex(8)}",
            "original_task_id": task_id,
            "attempt": call["attempts"] + 1,
        }
        if delay:
            return self._retry_later(context, item, call, made, float(delay))
        return await self._retry_now(context, item, call, made)

    def _find_call(self, context: BuiltInContext, task_id: str) -> StateItem:
        known = [
            item for item in self._workflows.held.items_of(KIND, context.owner) if item.brief["task_id"] == task_id
        ]
        if not known:
            raise not_found(Reason.RETRY_UNKNOWN)
        return max(known, key=lambda item: item.brief["at"])

    def _require_repeatable(self, call: dict[str, Any], most: int) -> None:
        said = {"method": call["method"], "path": call["path"], "attempts": call["attempts"]}
        if call.get("done"):
            raise Refusal(Reason.RETRY_ALREADY_DONE, details={**said, "audit_id": call["done"]})
        if not call["key"] and not call_readers.repeatable(self._find, call["method"], call["path"]):
            raise Refusal(Reason.RETRY_NOT_REPEATABLE, details=said)
        if call["attempts"] >= most:
            raise Refusal(Reason.RETRY_EXHAUSTED, details=said)

    async def _retry_now(
        self, context: BuiltInContext, item: StateItem, call: dict[str, Any], made: dict[str, Any]
    ) -> Answer:
        response = await context.invocation.ask(call["method"], call["path"], call["parameters"], key=call["key"])
        audit_id = response.audit_id
        said = {"retry": {**made, "original_audit_id": call.get("audit_id", ""), "status": int(response.status)}}
        call["attempts"] = made["attempt"]
        try:
            result = await results.read(response, self._workflows.offload)
        except Refusal as refusal:
            raise Refusal(
                ForeignReason(str(refusal.reason), Status(refusal.status)),  # type: ignore[call-arg]
                refusal.explanation,
                remedy=refusal.remedy,
                details={**refusal.details, **made},
                changes=(self._put_call(item, call),),
                extra=said,
                scopes=refusal.scopes,
            ) from None
        call["done"] = audit_id or "yes"
        receipt = {**made, "status": int(response.status), "audit_id": audit_id, "result": result}
        return Answer(result=receipt, changes=(self._put_call(item, call),), extra=said)

    def _retry_later(
        self, context: BuiltInContext, item: StateItem, call: dict[str, Any], made: dict[str, Any], delay: float
    ) -> Answer:
        """Store the retry as a workflow of one step, which survives a restart."""
        authority = caller_to_json(context.invocation.exchange)
        if authority is None:
            raise Refusal(Reason.WORKFLOW_UNPROVEN, status=Status.FORBIDDEN)
        now = self._workflows.now()
        step = {name: call[name] for name in ("method", "path", "parameters")}
        value = {
            "workflow_id": workflow_items.new_id(),
            "kind": "retry",
            "state": workflow_items.SCHEDULED,
            "agent_id": context.caller.agent_id if context.caller is not None else "",
            "task_id": made["task_id"],
            "definition": {"steps": [{**step, **({"idempotency_key": call["key"]} if call["key"] else {})}]},
            "on_failure": "abort",
            "authority": {**authority, "task_id": made["task_id"], "at": ""},
            "created_at": workflow_items.stamp(now),
            "schedule": schedule.once(now + delay),
        }
        call["attempts"] = made["attempt"]
        receipt = {**made, "workflow_id": value["workflow_id"], "not_before": workflow_items.stamp(now + delay)}
        changes = (workflow_items.put_workflow(value, context.owner, now, expected=0), self._put_call(item, call))
        return Answer(status=Status.ACCEPTED, result=receipt, changes=changes, extra={"retry": receipt})

    @staticmethod
    def _put_call(item: StateItem, call: dict[str, Any]) -> Change:
        return Change(
            kind=KIND,
            key=item.key,
            value=call,
            owner=item.owner,
            expires_at=call["at"] + KEPT * 1000,
            expected=item.version,
        )
