"""
CHAIN: methods v01 section 8.1.

The answer has the outcome of every step, where that is known while the caller waits. With ``background``, with a time
to begin, and where the steps take longer than a call may, the answer is 202: the workflow continues in the background,
and its owner is notified of the end in its inbox.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from zope.interface import implementer

from agtphost.dispatch.resumption import caller_to_json
from agtphost.errors import Refusal
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.context import LAST_WORD
from agtphost.methods.standard.orchestration import call_readers, plan, schedule, workflow_items
from agtphost.methods.standard.orchestration.call_readers import Find
from agtphost.methods.standard.orchestration.runner import Run
from agtphost.methods.standard.orchestration.workflows import Ending, Workflows
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

SPARE = 10 * LAST_WORD
"""Seconds before the end of the call when its caller gets 202 and the workflow goes on."""


@implementer(IBuiltInHandler)
class Chain:
    """
    The handler of CHAIN.

    :param find: what a method on a path is bound to.
    """

    kind = "built_in"
    timeout = 120.0
    """Seconds that a caller may wait for the last step."""

    def __init__(self, workflows: Workflows, find: Find) -> None:
        self._workflows = workflows
        self._find = find

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Take the steps, or begin to.

        :raises Refusal: 422 for a chain that cannot be begun, or one of whose steps failed; 408 where time was over.
        """
        caller, given, now = owner_of(context), context.input, self._workflows.now()
        definition = plan.definition(given)
        made = plan.read(given, self._find)
        certain = ((each.step.method, each.step.path) for each in made.steps if each.step.when is None)
        call_readers.require_affordable(self._find, context.invocation.exchange, certain)
        times = schedule.read(given, now)
        value: dict[str, Any] = {
            "workflow_id": workflow_items.new_id(),
            "kind": "chain" if times is None else "schedule",
            "state": workflow_items.RUNNING if times is None else workflow_items.SCHEDULED,
            "agent_id": caller.agent_id,
            "task_id": context.task_id,
            "definition": definition,
            "on_failure": made.on_failure,
            "authority": caller_to_json(context.invocation.exchange),
            "created_at": workflow_items.stamp(now),
        }
        if times is not None:
            value["schedule"] = times
        elif made.timeout is not None:
            value["until"] = now + made.timeout
        if times is not None or given.get("background") is True:
            # Its calls are charged when they are made.
            context.invocation.announce(sum(1 for each in made.steps if each.step.when is not None))
            return self._run_later(context, value, now)
        return await self._run_now(context, value, made, now)

    def _run_later(self, context: BuiltInContext, value: dict[str, Any], now: float) -> Answer:
        """Accept a workflow that begins once this answer is durable."""
        if value["authority"] is None:
            raise Refusal(Reason.WORKFLOW_UNPROVEN, status=Status.FORBIDDEN)
        return _answer(
            value, Status.ACCEPTED, changes=(workflow_items.put_workflow(value, context.owner, now, expected=0),)
        )

    async def _run_now(
        self, context: BuiltInContext, value: dict[str, Any], made: plan.ChainPlan, now: float
    ) -> Answer:
        workflows, owner, invocation = self._workflows, context.owner, context.invocation
        invocation.announce(len(made.steps))
        run = workflows.begin(value, owner, made, invocation.ask)
        begun = (
            workflow_items.put_workflow(value, owner, now, expected=0),
            workflow_items.begin_step(value["workflow_id"], owner, 1),
        )
        said = {"workflow": {"workflow_id": value["workflow_id"], "state": workflow_items.RUNNING}}
        try:
            await invocation.commit({"type": "workflow-begun", "workflow_id": value["workflow_id"]}, begun, said)
        except BaseException:
            workflows.forget(run)
            raise
        waiting = _Waiting(workflows, run, owner, context)
        ending = await waiting.ending(workflows.carry(run, value, owner))
        if ending is None:
            # What it has come to so far is in its items; it goes on under the configuration that judged this call.
            return _answer({**value, "steps": _so_far(run)}, Status.ACCEPTED)
        return _outcome(ending)


class _Waiting:
    """A caller that waits for a workflow, but no longer than its call may take."""

    def __init__(self, workflows: Workflows, run: Run, owner: str, context: BuiltInContext) -> None:
        self._workflows = workflows
        self._run = run
        self._owner = owner
        self._seconds = max(context.deadline - workflows.clock.seconds() - SPARE, 0.0)
        self._under_way = context.invocation.under_way
        self._answer: Deferred[Ending | None] = Deferred()
        self._resolved = False

    async def ending(self, carried: Deferred[Ending]) -> Ending | None:
        """
        Wait for the outcome.

        :return: None where it goes on.
        """
        self._under_way.hold()
        carried.addBoth(self._handle_end)
        carried.addBoth(lambda _: self._under_way.let_go())
        if self._resolved:
            return await self._answer
        late = self._workflows.clock.callLater(self._seconds, self._resolve, None)
        try:
            return await self._answer
        except CancelledError:
            self._resolved = True
            self._run.cancel()
            raise
        finally:
            if late.active():
                late.cancel()

    def _resolve(self, ending: Any) -> None:
        if not self._resolved:
            self._resolved = True
            self._answer.callback(ending)

    def _handle_end(self, ending: Any) -> Any:
        if not self._resolved:
            self._resolve(ending)
            return None
        # The caller no longer waits.
        if isinstance(ending, Ending):
            return Deferred.fromCoroutine(self._workflows.settle(ending, self._owner))
        return ending


def _so_far(run: Run) -> list[dict[str, Any]]:
    return workflow_items.bound_outcomes(run.outcomes[number] for number in sorted(run.outcomes))


def _answer(value: dict[str, Any], status: Status, *, changes: tuple[Any, ...] = ()) -> Answer:
    shown = {"chain_id": value["workflow_id"], **workflow_items.workflow_to_json(value)}
    return Answer(
        status=status,
        result=shown,
        changes=changes,
        extra={"workflow": {"workflow_id": value["workflow_id"], "state": value["state"]}},
    )


def _outcome(ending: Ending) -> Answer:
    value, stop = dict(ending.value), ending.stop
    if stop.state == workflow_items.FINISHED:
        return _answer(value, Status.OK, changes=ending.changes)
    if stop.state == workflow_items.RUNNING:
        # PAUSE or CANCEL came from elsewhere, or the host stops.
        return _answer(value, Status.ACCEPTED)
    if stop.state == workflow_items.CANCELLED:
        raise Refusal(
            Reason.CHAIN_FAILED,
            "The workflow was cancelled.",
            remedy="Order it anew.",
            details={
                "chain_id": value["workflow_id"],
                "outcome": {"chain_id": value["workflow_id"], **workflow_items.workflow_to_json(value)},
            },
            changes=ending.changes,
            extra={"workflow": {"workflow_id": value["workflow_id"], "state": workflow_items.CANCELLED}},
        )
    if stop.state != workflow_items.FAILED:
        return _answer(value, Status.ACCEPTED, changes=ending.changes)
    why = dict(stop.why or {})
    shown = {"chain_id": value["workflow_id"], **workflow_items.workflow_to_json(value)}
    late = why.get("reason") == Reason.TIMEOUT
    raise Refusal(
        Reason.TIMEOUT if late else Reason.CHAIN_FAILED,
        str(why.get("explanation") or "") or None if late else f"Step {why.get('step')} failed: {why.get('reason')}.",
        details={"chain_id": value["workflow_id"], "failed_step": why.get("step"), "outcome": shown},
        changes=ending.changes,
        extra={"workflow": {"workflow_id": value["workflow_id"], "state": workflow_items.FAILED}},
    )
