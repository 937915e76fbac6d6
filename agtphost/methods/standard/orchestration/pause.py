"""PAUSE, and RESUME of what it and failures have brought to a stand: methods v01 sections 8.6 and 8.7."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem
from agtphost.dispatch.resumption import caller_to_json
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.standard.orchestration import plan, schedule, workflow_items
from agtphost.methods.standard.orchestration.workflows import Workflows
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

LONGEST: Final = 366 * 86_400
"""Seconds that a pause with ``resume_at`` may last."""

REASON: Final = 1_024
"""Octets of the reason of a pause."""

DONE, SKIP, REPEAT = "done", "skip", "repeat"
OUTCOMES: Final = (DONE, SKIP, REPEAT)
"""What a checkpoint may say of the step in doubt, or that failed."""


def find_owned(workflows: Workflows, context: BuiltInContext, workflow_id: str) -> StateItem | None:
    """Return the caller's own workflow; None where it has none of that name."""
    item = workflows.held.get(workflow_items.WORKFLOW, workflow_id)
    return item if item is not None and item.owner == context.owner else None


@implementer(IBuiltInHandler)
class Pause:
    """The handler of PAUSE: the running step ends, and no step begins before RESUME or ``resume_at``."""

    kind = "built_in"

    def __init__(self, workflows: Workflows) -> None:
        self._workflows = workflows

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Pause a workflow.

        :raises Refusal: 404 for a workflow that is not the caller's, 409 for one that is paused or has ended.
        """
        owner_of(context)
        given, now = context.input, self._workflows.now()
        workflow_id = parameters.identifier(given, "workflow_id")
        reason = parameters.read_json(given, "reason", REASON)
        until = parameters.moment(given, "resume_at")
        if until is not None and not now < until <= now + LONGEST:
            raise parameters.invalid("resume_at", "resume_at has passed, or is more than a year ahead.", "Send later.")
        item = find_owned(self._workflows, context, workflow_id)
        if item is None:
            raise not_found(Reason.WORKFLOW_UNKNOWN)
        state = item.brief["state"]
        if state not in (workflow_items.RUNNING, workflow_items.SCHEDULED):
            raise Refusal(
                Reason.WORKFLOW_NOT_RUNNING,
                f"The workflow is {state}.",
                details={"workflow_id": workflow_id, "status": state},
            )
        self._workflows.change(workflow_id)
        nonce = secrets.token_urlsafe(16)
        pause = {
            "reason": reason,
            "before": state,
            "since": workflow_items.stamp(now),
            "nonce_hash": sha256(nonce.encode()).hexdigest(),
            **({} if until is None else {"until": until, "resume_at": workflow_items.stamp(until)}),
        }
        value = {**item.value, "state": workflow_items.PAUSED, "pause": pause}
        result = {
            "workflow_id": workflow_id,
            "status": workflow_items.PAUSED,
            "resumption_nonce": nonce,
            "resume_at": pause.get("resume_at"),
            "under_way": self._under_way(item) if state == workflow_items.RUNNING else None,
        }
        return Answer(
            result={name: each for name, each in result.items() if each is not None},
            changes=(workflow_items.put_workflow(value, item.owner, now, expected=item.version),),
            extra={"workflow": {"workflow_id": workflow_id, "state": workflow_items.PAUSED}},
        )

    def _under_way(self, item: StateItem) -> int | None:
        """Return the step that is in flight, and ends before the workflow is paused."""
        steps = workflow_items.steps_of(self._workflows.held, item.key, len(item.value["definition"]["steps"]))
        return next((number for number, each in steps.items() if each.value["state"] == workflow_items.BEGUN), None)


class Resumption:
    """RESUME of a workflow; :class:`agtphost.methods.oversight.suspension.Suspension` asks here first."""

    def __init__(self, workflows: Workflows) -> None:
        self._workflows = workflows

    def resume(self, context: BuiltInContext, workflow_id: str) -> Answer | None:
        """
        Resume a workflow.

        :return: None where the caller has no workflow of that name.
        :raises Refusal: 409 if it is not paused, needs to know the outcome of a step, or PAUSE gave another nonce; 408
            if its time is over.
        """
        item = find_owned(self._workflows, context, workflow_id)
        if item is None:
            return None
        now, value = self._workflows.now(), dict(item.value)
        state = value["state"]
        if state not in (workflow_items.PAUSED, workflow_items.INTERRUPTED):
            details = {"workflow_id": workflow_id, "status": state}
            raise Refusal(Reason.WORKFLOW_NOT_PAUSED, f"The workflow is {state}.", details=details)
        pause = value.pop("pause", None) or {}
        self._require_nonce(context.input, pause)
        if value.get("until") is not None and value["until"] <= now and not schedule.is_repeated(value):
            raise Refusal(Reason.RESUMPTION_EXPIRED, details={"workflow_id": workflow_id, "status": state})
        renewed = caller_to_json(context.invocation.exchange)
        if renewed is not None:
            # What proves the caller now; the scopes are, and remain, those of the call that ordered the workflow.
            known = value["authority"] or renewed
            value["authority"] = {**renewed, **{name: known[name] for name in ("scopes", "task_id", "bounds", "at")}}
        steps = self._apply_decisions(context.input, item, pause)
        decided = (
            {}
            if context.input.get("checkpoint") is None
            else {"checkpoint": _checkpoint_to_json(context.input["checkpoint"])}
        )
        self._workflows.change(workflow_id)
        value["state"] = pause.get("before", workflow_items.RUNNING)
        value.pop("why", None)
        return Answer(
            status=Status.ACCEPTED if value["state"] == workflow_items.RUNNING else Status.OK,
            result={"workflow_id": workflow_id, "status": value["state"]},
            changes=(workflow_items.put_workflow(value, item.owner, now, expected=item.version), *steps),
            extra={"workflow": {"workflow_id": workflow_id, "state": value["state"], "resumed": True, **decided}},
        )

    @staticmethod
    def _require_nonce(given: Mapping[str, Any], pause: Mapping[str, Any]) -> None:
        nonce = given.get("resumption_nonce")
        if nonce is None or "nonce_hash" not in pause:
            return
        digest = sha256(str(nonce).encode()).hexdigest()
        if not hmac.compare_digest(pause["nonce_hash"], digest):
            raise Refusal(Reason.NONCE_INVALID)

    def _is_clearing(self, item: StateItem, number: int) -> bool:
        """Return whether a step is a VALIDATE between GENERATE and RUN."""
        try:
            made = plan.read(item.value["definition"], self._workflows.find)
        except Refusal:
            return True
        return any(each.cleared for each in made.steps if each.step.number == number)

    def _apply_decisions(
        self, given: Mapping[str, Any], item: StateItem, pause: Mapping[str, Any]
    ) -> tuple[Change, ...]:
        """Return the changes by the caller's decision about a doubtful or failed step."""
        workflow_id, owner = item.key, item.owner
        count = len(item.value["definition"]["steps"])
        steps = workflow_items.steps_of(self._workflows.held, workflow_id, count)
        open_ = {
            number
            for number, each in steps.items()
            if (item.brief["state"] == workflow_items.INTERRUPTED and each.value["state"] == workflow_items.BEGUN)
            or (
                each.value["state"] == workflow_items.FAULTY
                and not each.value.get("approval_id")
                and item.value["on_failure"] != "skip"
            )
        }
        checkpoint = given.get("checkpoint")
        if checkpoint is None:
            if open_:
                raise Refusal(Reason.WORKFLOW_IN_DOUBT, details={"workflow_id": workflow_id, "step": min(open_)})
            return ()
        if not isinstance(checkpoint, Mapping) or set(checkpoint) - {"step", "outcome", "result"}:
            raise parameters.invalid("checkpoint", "An entry lacks step or outcome.", "Send step, outcome and result.")
        number, says = checkpoint.get("step"), checkpoint.get("outcome")
        # For a workflow paused before a step, the caller may set that step's outcome: it is not called then.
        allowed: tuple[str, ...] = OUTCOMES
        coming = not open_ and not pause.get("approval_id") and len(steps) < count
        if coming:
            open_, allowed = {next(each for each in range(1, count + 1) if each not in steps)}, (DONE, SKIP)
        # True is not the number of a step, although it equals 1.
        if type(number) is not int or number not in open_ or says not in allowed:
            named = ", ".join(map(str, sorted(open_))) or "none"
            explanation = f"Steps whose outcome is open: {named}; outcome is one of {', '.join(allowed)}."
            raise parameters.invalid("checkpoint", explanation, f"Send the step, and {' or '.join(allowed)}.")
        if says != REPEAT and self._is_clearing(item, number):
            raise parameters.invalid(
                "checkpoint",
                "That step checks generated code before it runs, so a caller cannot set its outcome.",
                "Send repeat, or start the workflow again.",
            )
        result = parameters.read_json(checkpoint, "result", workflow_items.LONGEST_RESULT)
        if says == REPEAT:
            return (
                Change(
                    kind=workflow_items.STEP, key=workflow_items.key_of(workflow_id, number), value=None, owner=owner
                ),
            )
        outcome: dict[str, Any] = {
            "step": number,
            "state": workflow_items.LEFT_OUT if says == SKIP else workflow_items.DONE,
            "told": True,
        }
        if says == DONE:
            outcome.update(status=200, result=result)
        return (workflow_items.end_step(workflow_id, owner, outcome),)


def _checkpoint_to_json(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record's members about a checkpoint: the step and its outcome."""
    return {name: checkpoint[name] for name in ("step", "outcome")}
