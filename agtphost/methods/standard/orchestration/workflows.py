"""
Carries workflows on: after the end of their call, over pauses, at scheduled times, and over restarts.

Theory of operation. A workflow is a state item from before its first step on. It continues after a durable change of
that item: the answer to CHAIN, a RESUME, a time that has come. This table follows each such change, and takes up
running workflows without a run here. Of the end of a run and the owner's own changes, one at a time is in flight to the
ledger (:meth:`Workflows.change`). A restart works the same way, when the ledger reports every item: a workflow
continues after the last step that is known to have ended, and one that had begun a step is interrupted, unless that
step may be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.audit.state import StateItem, StateTable
from agtphost.contract.endpoint_table import Match
from agtphost.dispatch.decision import Objecting
from agtphost.dispatch.invocation import Dispatches
from agtphost.dispatch.resumption import Resumed, build_resumed_call
from agtphost.dispatch.sessions import ESCALATION
from agtphost.errors import Refusal
from agtphost.iagtp import ILedger
from agtphost.methods.oversight import notification
from agtphost.methods.standard.collections.store import UNDER_WAY
from agtphost.methods.standard.orchestration import plan, schedule, workflow_items
from agtphost.methods.standard.orchestration.runner import Ask, Run, Stop
from agtphost.methods.standard.reservations import Reservations
from agtphost.methods.standard.timer_queue import TimerQueue
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason

TOPIC = "workflow-outcome"
"""The topic of the notification to the owner at the end of a background workflow."""

RETRY_SECONDS = 2.0
SOON = 0.05
"""Seconds until the end of a run is looked at again that a PAUSE or a CANCEL under way keeps from being one."""

LONGEST_SLEEP = 86_400.0

log = Logger()


class Unkept(Exception):
    """The journal could not be written: nothing further may begin."""


class Ending:
    """The outcome of a run, to be committed."""

    def __init__(
        self,
        stop: Stop,
        value: Mapping[str, Any],
        changes: tuple[Change, ...],
        outcomes: Mapping[int, Mapping[str, Any]],
    ) -> None:
        self.stop = stop
        self.value = value
        self.changes = changes
        self.outcomes = outcomes


class Workflows:
    """
    Every workflow of a host.

    :param offload: calls a function off the reactor.
    :param now: seconds since the epoch.
    """

    def __init__(
        self,
        held: StateTable,
        ledger: ILedger,
        clock: IReactorTime,
        now: Callable[[], float],
        offload: Callable[..., Awaitable[Any]],
    ) -> None:
        self.clock = clock
        self.offload = offload
        self.now = now
        self.held = held
        self._ledger = ledger
        self._dispatcher: Dispatches | None = None
        self._objection: Objecting | None = None
        self._match: Callable[[str, str], Match | None] = lambda method, path: None
        self._runs: dict[str, Run] = {}
        self._changing = Reservations(now)
        self._carried: dict[str, Deferred[Any]] = {}
        self._agenda = TimerQueue(clock, self._handle_due)
        self._started = False
        self._stopping = False

    def turn_to(self, dispatcher: Dispatches, match: Callable[[str, str], Match | None], objection: Objecting) -> None:
        """Use this dispatcher, under its configuration, for further calls."""
        self._dispatcher, self._match, self._objection = dispatcher, match, objection

    async def objection(
        self, authority: Mapping[str, Any], method: str, path: str, input: Mapping[str, Any], calls: int = 0
    ) -> Refusal | None:
        """
        Return why a background call would be refused; None where it would not.

        :param authority: what :func:`agtphost.dispatch.resumption.caller_to_json` found when it was ordered.
        :param calls: charged to its caller where it would not be refused.
        :raises LedgerUnavailable: the host is not up yet.
        """
        if self._objection is None:
            raise LedgerUnavailable("the host is starting")
        return await self._objection(*build_resumed_call(authority, method, path, input), calls)

    def find(self, method: str, path: str) -> Match | None:
        """Return the present binding of a method on a path."""
        return self._match(method, path)

    # For runs

    def stands_still(self, workflow_id: str) -> bool:
        """Return whether a workflow must not begin another step."""
        item = self.held.get(workflow_items.WORKFLOW, workflow_id)
        return self._stopping or item is None or item.brief["state"] != workflow_items.RUNNING

    def escalation_of(self, owner: str, workflow_id: str, number: int) -> str:
        """Return the undecided escalation of a step; empty for none."""
        for item in self.held.items_of(ESCALATION, owner):
            about = item.value.get("context") if item.brief.get("status") == "pending" else None
            if isinstance(about, Mapping) and (about.get("workflow_id"), about.get("step")) == (workflow_id, number):
                return item.key
        return ""

    async def journal(self, value: Mapping[str, Any], says: Mapping[str, Any], changes: tuple[Change, ...]) -> None:
        """
        Make changes durable with an event of the host's own chain.

        :raises Unkept: they are not.
        """
        fields = {"workflow_id": value["workflow_id"], "agent_id": value["agent_id"], **says}
        event = StreamEvent(chain=HOST_CHAIN, event_type="workflow", fields=fields)
        draft = Draft(chain=HOST_CHAIN, payload={}, changes=changes, events=(event,), performed=True)
        try:
            await self._ledger.submit(draft)
        except (LedgerUnavailable, StaleChange) as error:
            raise Unkept(str(error)) from None

    def change(self, workflow_id: str) -> None:
        """
        Reserve the right to change a workflow: CANCEL, PAUSE, RESUME, or the end of a run.

        :raises Refusal: 409, another is; what it makes of the workflow is not known yet.
        """
        self._changing.take(workflow_id)

    # Carrying on

    def begin(self, value: Mapping[str, Any], owner: str, made: plan.ChainPlan, ask: Ask) -> Run:
        """
        Begin a run for its own CHAIN, which alone carries it on once its item exists.

        It is to be given to :meth:`carry` or to :meth:`forget`.
        """
        run = Run(self, value, owner, made, ask, value.get("until"))
        run.begun.add(1)
        self._runs[run.workflow_id] = run
        return run

    def forget(self, run: Run) -> None:
        """Forget a run that did not begin."""
        self._runs.pop(run.workflow_id, None)

    def carry(self, run: Run, value: Mapping[str, Any], owner: str) -> Deferred[Ending]:
        """
        Run the steps of a workflow.

        :return: fires with what it came to; the receiver makes that durable, or gives it to :meth:`settle`.
        """
        carrying = Deferred.fromCoroutine(self._run(run, value, owner))
        if not carrying.called:
            # The run may outlive its call, which is answered 202 then: a host that stops waits for it too.
            self._carried[run.workflow_id] = carrying
            carrying.addBoth(self._remove_carried, run.workflow_id)
        return carrying

    def _remove_carried(self, outcome: Any, key: str) -> Any:
        self._carried.pop(key, None)
        return outcome

    async def _run(self, run: Run, value: Mapping[str, Any], owner: str) -> Ending:
        key = run.workflow_id
        try:
            stop = await run.go()
        except CancelledError:
            stop = Stop(state=workflow_items.RUNNING)
        except Unkept as error:
            log.error("the workflow {key} is suspended: {why}", key=key, why=str(error))
            stop = Stop(state=workflow_items.RUNNING)
            self._agenda.at(key, RETRY_SECONDS)
        finally:
            self._runs.pop(key, None)
        return self._end_run(stop, value, owner, run.outcomes)

    def _end_run(
        self, stop: Stop, value: Mapping[str, Any], owner: str, outcomes: Mapping[int, Mapping[str, Any]]
    ) -> Ending:
        """Return the end of a run to commit; without changes while its owner changes the workflow."""
        key = value["workflow_id"]
        ending = self.ending(stop, value, owner, outcomes)
        if not ending.changes:
            return ending
        try:
            self.change(key)
        except Refusal:
            self._agenda.at(key, SOON)
            return self.ending(Stop(state=workflow_items.RUNNING), value, owner, outcomes)
        # Even if the commit fails, running workflows must be carried on.
        self._agenda.at(key, UNDER_WAY)
        return ending

    def ending(
        self, stop: Stop, value: Mapping[str, Any], owner: str, outcomes: Mapping[int, Mapping[str, Any]]
    ) -> Ending:
        """Return the end of a run to commit."""
        item = self.held.get(workflow_items.WORKFLOW, value["workflow_id"])
        now = self.now()
        value = dict(value if item is None else item.value)
        shown = workflow_items.bound_outcomes(outcomes[number] for number in sorted(outcomes))
        if value["state"] == workflow_items.CANCELLED:
            gone = tuple(
                workflow_items.remove_steps(self.held, value["workflow_id"], owner, len(value["definition"]["steps"]))
            )
            value["steps"] = shown
            return Ending(
                Stop(state=workflow_items.CANCELLED),
                value,
                (*gone, workflow_items.put_workflow(value, owner, now)),
                outcomes,
            )
        if stop.state == workflow_items.RUNNING:
            return Ending(stop, {**value, "steps": shown}, (), outcomes)
        value["state"] = stop.state
        standing = value.pop("pause", None)
        if stop.why is not None:
            value["why"] = dict(stop.why)
        if stop.pause is not None:
            value["pause"] = {**stop.pause, "since": workflow_items.stamp(now)}
        if stop.state not in workflow_items.ENDED:
            return Ending(stop, {**value, "steps": shown}, (workflow_items.put_workflow(value, owner, now),), outcomes)
        value["ended_at"] = workflow_items.stamp(now)
        value["steps"] = shown
        count = len(value["definition"]["steps"])
        value = schedule.schedule_next(value, now, standing)
        gone = tuple(workflow_items.remove_steps(self.held, value["workflow_id"], owner, count))
        return Ending(stop, value, (*gone, workflow_items.put_workflow(value, owner, now)), outcomes)

    async def settle(self, ending: Ending, owner: str) -> None:
        """Commit the end of a background run and notify its owner, retrying until it is durable."""
        if not ending.changes:
            return
        while not self._stopping:
            now = self.now()
            told = notification.deposit(
                self.held,
                recipient=ending.value["agent_id"],
                sender=ending.value["agent_id"],
                topic=TOPIC,
                content=_content(ending),
                now=now,
            )
            says = {"state": ending.stop.state, "task_id": ending.value.get("task_id"), **_steps_to_record(ending)}
            changes = ending.changes if told is None else (*ending.changes, told)
            try:
                await self.journal(ending.value, {**says, "told": told is not None}, changes)
            except Unkept as error:
                key = ending.value["workflow_id"]
                log.error("the end of {key} waits: {why}", key=key, why=str(error))
                await self._pause(RETRY_SECONDS)
                # The current state counts.
                self._changing.release(key)
                ending = self._end_run(ending.stop, ending.value, owner, ending.outcomes)
                if ending.changes:
                    continue
            return

    def _pause(self, seconds: float) -> Deferred[None]:
        waited: Deferred[None] = Deferred()
        self.clock.callLater(seconds, waited.callback, None)
        return waited

    # Taking up

    def start(self) -> None:
        """Start carrying on active workflows, including those that an earlier process left."""
        if not self._started:
            self._started = True
            self._agenda.enqueue(self.held.follow(workflow_items.WORKFLOW, self._note_workflow))

    def _note_workflow(self, key: str, item: StateItem | None) -> None:
        self._changing.release(key)
        self._agenda.drop(key)
        if item is None or self._stopping:
            return
        state = item.brief["state"]
        if key not in self._runs and workflow_items.is_left(item):
            # Not within the commit that tells of it.
            self._agenda.enqueue((key,))
        elif (
            state in (workflow_items.SCHEDULED, workflow_items.PAUSED)
            and (due := schedule.next_due(item.brief)) is not None
        ):
            self._agenda.at(key, min(due - self.now(), LONGEST_SLEEP))

    def _handle_due(self, key: str) -> None:
        item = self.held.get(workflow_items.WORKFLOW, key)
        if item is None or self._stopping:
            return
        state = item.brief["state"]
        if workflow_items.is_left(item):
            self._take_up(key, item)
        elif state in (workflow_items.SCHEDULED, workflow_items.PAUSED):
            self._due(key, item)

    def _due(self, key: str, item: StateItem) -> None:
        due = schedule.next_due(item.brief)
        if due is None or due > self.now() + 0.001:
            self._note_workflow(key, item)
            return
        Deferred.fromCoroutine(self._wake(key, item))

    async def _wake(self, key: str, item: StateItem) -> None:
        """Run a workflow whose time has come, or record why it may not run."""
        if item.brief["state"] == workflow_items.SCHEDULED and (why := await self._objection_to(item.value)):
            stop = Stop(state=workflow_items.FAILED, why=why)
            return await self.settle(self._end_run(stop, item.value, item.owner, {}), item.owner)
        try:
            self.change(key)
        except Refusal:
            self._agenda.at(key, SOON)
            return None
        value = schedule.begin_run(item.value, self.now())
        changes = (workflow_items.put_workflow(value, item.owner, self.now(), expected=item.version),)
        try:
            await self.journal(value, {"state": value["state"], "cause": "its time has come"}, changes)
        except Unkept as error:
            log.error("the workflow {key} is not taken up yet: {why}", key=key, why=str(error))
            self._agenda.at(key, RETRY_SECONDS)

    async def _objection_to(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return why the owner could no longer order the workflow; empty if it could."""
        authority = value["authority"]
        if authority is None or self._objection is None:
            return {}
        steps = {"steps": value["definition"]["steps"]}
        method, given = ("RETRY", {"original_task_id": "t"}) if value["kind"] == "retry" else ("CHAIN", steps)
        # A run has its own events, and so has a step that is left out; steps that are taken are charged as calls.
        calls = 1 + sum(1 for step in steps["steps"] if step.get("when") is not None)
        refusal = await self.objection(authority, method, "/", given, calls)
        if refusal is None:
            return {}
        return {"status": int(refusal.status), "reason": str(refusal.reason), "explanation": refusal.explanation}

    def _look_again(self, key: str) -> None:
        self._note_workflow(key, self.held.get(workflow_items.WORKFLOW, key))

    def _take_up(self, key: str, item: StateItem) -> None:
        if key in self._runs:
            return
        if key in self._carried:
            return
        carrying = Deferred.fromCoroutine(self._carry(item))
        if not carrying.called:
            self._carried[key] = carrying
            carrying.addBoth(self._handle_end, key)

    def _handle_end(self, outcome: object, key: str) -> None:
        self._carried.pop(key, None)
        if isinstance(outcome, Failure):
            log.failure("the workflow {key} is carried on no further before the next start", failure=outcome, key=key)
            return
        if not self._agenda.awaits(key):
            self._look_again(key)

    async def _carry(self, item: StateItem) -> None:
        value, owner = item.value, item.owner
        stop: Stop | None = None
        kept: Mapping[int, Mapping[str, Any]] = {}
        run: Run | None = None
        try:
            made = plan.read(value["definition"], self.find)
        except Refusal as refusal:
            why = {"status": int(refusal.status), "reason": str(refusal.reason), "explanation": refusal.explanation}
            stop = Stop(state=workflow_items.INTERRUPTED, why=why)
        else:
            found = workflow_items.steps_of(self.held, item.key, len(made.steps))
            kept = {number: each.value for number, each in found.items()}
            if value["state"] == workflow_items.CANCELLED:
                stop = Stop(state=workflow_items.CANCELLED)
            elif value["authority"] is None:
                stop = Stop(state=workflow_items.INTERRUPTED, why=_unproven())
            elif self._dispatcher is not None:
                ask = Resumed(self._dispatcher, value["authority"]).ask
                run = Run(self, value, owner, made, ask, value.get("until"))
                stop = run.restore(kept)
        if stop is None and run is not None:
            self._runs[item.key] = run
            ending = await self._run(run, value, owner)
        else:
            assert stop is not None
            outcomes = run.outcomes if run is not None else {**kept}
            ending = self._end_run(stop, value, owner, outcomes)
        await self.settle(ending, owner)

    async def stop(self, seconds: float) -> None:
        """
        Begin no further step, and wait until the steps that run have ended.

        :param seconds: after these, steps that still run are cancelled; a workflow goes on when the host starts again.
        """
        self._stopping = True
        self._agenda.stop()
        if not self._carried:
            return
        late = self.clock.callLater(seconds, self._cancel_runs)
        await DeferredList(list(self._carried.values()), consumeErrors=True)
        if late.active():
            late.cancel()

    def _cancel_runs(self) -> None:
        for run in tuple(self._runs.values()):
            run.cancel()


def _unproven() -> dict[str, Any]:
    return {
        "status": 409,
        "reason": str(Reason.WORKFLOW_UNPROVEN),
        "explanation": Reason.WORKFLOW_UNPROVEN.meaning,
        "remedy": Reason.WORKFLOW_UNPROVEN.remedy,
    }


def _steps_to_record(ending: Ending) -> dict[str, Any]:
    """Return the record's members about the steps of an ended run."""
    names = ("step", "state", "status", "reason", "audit_id")
    steps = ending.value.get("steps") or ()
    return {"steps": [{name: step[name] for name in names if name in step} for step in steps]}


def _content(ending: Ending) -> dict[str, Any]:
    content = workflow_items.workflow_to_json(ending.value)
    if len(jsontext.encode(content)) > notification.CONTENT:
        content.pop("steps", None)
        content["omitted"] = "INSPECT with target workflow has the steps"
    return content
