"""
Takes the steps of one workflow, one after the other.

The engine is that of recipes: each step is a :class:`agtphost.handlers.recipe_step.StepCall`. What is added here is the
journal (:mod:`agtphost.methods.standard.orchestration.workflow_items`), what happens where a step fails, and where it
stops.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.interfaces import IReactorTime

from agtphost.audit.drafts import Change
from agtphost.contract.recipes.expression import ExpressionError
from agtphost.contract.recipes.recipe import Step
from agtphost.dispatch.inner_results import result_of
from agtphost.errors import Refusal
from agtphost.handlers.recipe_step import StepCall, StepFailed
from agtphost.methods.standard import results
from agtphost.methods.standard.orchestration import workflow_items
from agtphost.methods.standard.orchestration.journal import StepJournal
from agtphost.methods.standard.orchestration.plan import ESCALATE, PREVIOUS, SKIP, ChainPlan
from agtphost.methods.standard.orchestration.planned_step import Planned, Ready
from agtphost.vocabulary.jsonslices import weight
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Response

if TYPE_CHECKING:
    from agtphost.identity.peer import FollowUp

SMALL = 4_096
"""Octets of step results up to which expressions are evaluated on the reactor; larger ones off the reactor."""

CLOSE = 0.01
"""Seconds before the end of the whole that count as its end."""

LONGEST_INPUT = 262_144
"""Octets of the parameters of one step, once they are filled in."""


class Ask(Protocol):
    """Makes a call in the name of the workflow's caller."""

    def __call__(
        self, method: str, path: str, input: Mapping[str, Any], *, key: str, follow: FollowUp | None
    ) -> Awaitable[Response]:
        """Make one call, as :meth:`agtphost.dispatch.invocation.Invocation.ask` does."""


class Keeper(Protocol):
    """The functions of the workflow table that a run needs."""

    clock: IReactorTime
    offload: Callable[..., Awaitable[Any]]

    def now(self) -> float:
        """Return the present time in seconds since the epoch."""

    def stands_still(self, workflow_id: str) -> bool:
        """Return whether no further step may begin, because the workflow is paused or the host stops."""

    def escalation_of(self, owner: str, workflow_id: str, number: int) -> str:
        """Return the undecided escalation of a step; empty for none."""

    async def journal(self, value: Mapping[str, Any], says: Mapping[str, Any], changes: tuple[Change, ...]) -> None:
        """Commit changes in a transaction without a call."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """The state in which a run stopped."""

    state: str
    """One of :data:`.workflow_items.STATES`; ``running`` if it was stopped and goes on later, without a change."""

    why: Mapping[str, Any] | None = None
    pause: Mapping[str, Any] | None = None


class Run:
    """
    A workflow in progress.

    :param value: the workflow's item.
    :param ask: makes its calls.
    :param until: seconds since the epoch when its time is over; None: never.
    """

    def __init__(
        self, keeper: Keeper, value: Mapping[str, Any], owner: str, plan: ChainPlan, ask: Ask, until: float | None
    ) -> None:
        self.workflow_id: str = value["workflow_id"]
        self.outcomes: dict[int, dict[str, Any]] = {}
        """Of steps, by number, as far as they have ended."""

        self.begun: set[int] = set()
        """Steps whose begin is on record, and that have not ended."""

        self._keeper = keeper
        self._value = value
        self._owner = owner
        self._plan = plan
        self._ask = ask
        self._until = until
        self._scope: dict[str, Any] = {}
        self._octets = 0
        self._gone: dict[str, int] = {}
        self._call: StepCall | None = None

    # Where an earlier process left it

    def restore(self, kept: Mapping[int, Mapping[str, Any]]) -> Stop | None:
        """
        Take over what is on record.

        :return: why it cannot go on; None where it can.
        """
        for planned in self._plan.steps:
            number = planned.step.number
            outcome = kept.get(number)
            if outcome is None or outcome.get("approval_id"):
                continue
            if outcome["state"] == workflow_items.BEGUN:
                if not planned.repeatable:
                    return Stop(state=workflow_items.INTERRUPTED, why=_doubt(planned))
                self.begun.add(number)
                continue
            self._settle_step(planned, dict(outcome), outcome.get("result"))
        return None

    def _settle_step(self, planned: Planned, outcome: dict[str, Any], result: Any) -> None:
        number = planned.step.number
        self.outcomes[number] = outcome
        self.begun.discard(number)
        if not self._plan.propagates:
            return
        for name in (planned.name, PREVIOUS):
            self._scope[name] = result
            self._gone.pop(name, None)
            if outcome.get("omitted") and result is None:
                self._gone[name] = number
        self._octets += 0 if result is None else 8 * weight(result, SMALL)

    # On its way

    async def go(self) -> Stop:
        """
        Take what steps are left.

        :return: where it came to stand.
        """
        for planned in self._plan.steps:
            number = planned.step.number
            if number not in self.outcomes:
                if number not in self.begun and self._keeper.stands_still(self.workflow_id):
                    return Stop(state=workflow_items.RUNNING)
                if self._seconds_left() is not None and self._seconds_left() <= 0:  # type: ignore[operator]
                    return self._late(planned)
                if planned.step.input is not None and (lost := self._find_lost(planned)):
                    return Stop(state=workflow_items.INTERRUPTED, why=_lost_result(planned, lost))
                await self._take(planned)
            stop = await self._judge(planned, self.outcomes[number])
            if stop is not None:
                return stop
        return Stop(state=workflow_items.FINISHED)

    def cancel(self) -> None:
        """Cancel the run and its current call."""
        if self._call is not None:
            self._call.cancel()

    def _seconds_left(self) -> float | None:
        return None if self._until is None else self._until - self._keeper.now()

    def _late(self, planned: Planned) -> Stop:
        explanation = f"The time of the whole workflow ended before step {planned.step.number} began."
        return Stop(state=workflow_items.FAILED, why=_why(planned, Status.TIMEOUT, Reason.TIMEOUT, explanation))

    def _find_lost(self, planned: Planned) -> int:
        """Return the step whose result this one uses, and which was too long to store over a restart."""
        step = planned.step
        names = {*(step.input.names if step.input else ()), *(step.parameters.names if step.parameters else ())}
        names |= step.when.names if step.when is not None else frozenset()
        return next((self._gone[name] for name in names if name in self._gone), 0)

    async def _judge(self, planned: Planned, outcome: Mapping[str, Any]) -> Stop | None:
        """Return why the workflow ends or pauses after a step; None if it continues."""
        if outcome.get("approval_id"):
            del self.outcomes[planned.step.number]
            pause = {"reason": "approval", "approval_id": outcome["approval_id"], "step": planned.step.number}
            return Stop(state=workflow_items.PAUSED, pause=pause)
        if planned.cleared and not _is_valid(outcome):
            explanation = "VALIDATE did not accept the code that GENERATE made, so RUN does not execute it."
            return Stop(state=workflow_items.FAILED, why=_why(planned, 403, Reason.GENERATED_CODE, explanation))
        if outcome["state"] != workflow_items.FAULTY or self._plan.on_failure == SKIP:
            return None
        left = self._seconds_left()
        if left is not None and left <= CLOSE:
            explanation = f"The time of the whole workflow ended in step {planned.step.number}."
            return Stop(state=workflow_items.FAILED, why=_why(planned, Status.TIMEOUT, Reason.TIMEOUT, explanation))
        why = _why(planned, outcome["status"], outcome.get("reason", ""), outcome.get("explanation", ""))
        if self._plan.on_failure == ESCALATE:
            return await self._escalate(planned, why)
        return Stop(state=workflow_items.FAILED, why=why)

    async def _escalate(self, planned: Planned, why: Mapping[str, Any]) -> Stop:
        step = planned.step
        given = {
            "task_id": self._value.get("task_id") or self.workflow_id,
            "reason": "resource_unavailable",
            "context": {"workflow_id": self.workflow_id, **why},
            "priority": "normal",
        }
        # One that a process which died has made is not made twice.
        made_before = self._keeper.escalation_of(self._owner, self.workflow_id, step.number)
        try:
            escalation_id = made_before or await self._escalation(given)
        except Refusal as refusal:
            unheard = {"escalation": {"status": int(refusal.status), "reason": str(refusal.reason)}}
            return Stop(state=workflow_items.FAILED, why={**why, **unheard})
        pause = {"reason": "escalated", "escalation_id": escalation_id, "step": step.number}
        return Stop(state=workflow_items.PAUSED, pause=pause, why=why)

    async def _escalation(self, given: Mapping[str, Any]) -> str:
        made = result_of(await self._ask("ESCALATE", "/", given, key="", follow=None))
        return str(made.get("escalation_id", ""))

    # One step

    async def _take(self, planned: Planned) -> None:
        number = planned.step.number
        journals: list[StepJournal] = []
        result: Any = None
        audit_id = ""
        try:
            step = await self._ready(planned)
            if step is None:
                outcome: dict[str, Any] = {"step": number, "state": workflow_items.LEFT_OUT}
            else:
                if number not in self.begun:
                    begun = workflow_items.begin_step(self.workflow_id, self._owner, number)
                    await self._keeper.journal(self._value, {"step": number, "state": workflow_items.BEGUN}, (begun,))
                    self.begun.add(number)
                calls = _Calls(self, planned, journals)
                self._call = StepCall(step, calls, self._keeper.clock)
                result = await self._call.run({})
                audit_id = calls.audit_id
                outcome = dict(journals[-1].outcome)
        except StepFailed as failed:
            outcome = {
                "step": number,
                "state": workflow_items.FAULTY,
                "status": failed.status,
                "reason": str(failed.reason),
                "explanation": failed.explanation,
            }
            if failed.details.get("audit_id"):
                audit_id = failed.details["audit_id"]
            if journals and journals[-1].outcome.get("approval_id"):
                outcome["approval_id"] = journals[-1].outcome["approval_id"]
        finally:
            self._call = None
        if audit_id:
            outcome["audit_id"] = audit_id
        journal = journals[-1] if journals else None
        kept = journal is not None and journal.final and journal.outcome["state"] == outcome["state"]
        if not kept and not outcome.get("approval_id"):
            ended = workflow_items.end_step(self.workflow_id, self._owner, outcome)
            await self._keeper.journal(self._value, {"step": number, "state": outcome["state"]}, (ended,))
        if journal is not None and journal.begun:
            self.begun.add(journal.begun)
        self._settle_step(planned, outcome, result)

    def following(self, planned: Planned, *, done: bool) -> int:
        """Return the number of the step that begins with the end of this one; 0 if none does, or none may yet."""
        number = planned.step.number
        goes_on = done or self._plan.on_failure == SKIP
        last = number >= len(self._plan.steps)
        if last or not goes_on or planned.cleared or self._keeper.stands_still(self.workflow_id):
            return 0
        return 0 if self._plan.steps[number].step.when is not None else number + 1

    def journal(self, planned: Planned, attempt: int) -> StepJournal:
        """Return the journal of a call of a step."""
        return StepJournal(
            self.workflow_id,
            self._owner,
            planned.step.number,
            attempt,
            lambda done: self.following(planned, done=done),
            again=attempt <= planned.step.retries,
        )

    async def ask(self, method: str, path: str, input: Mapping[str, Any], key: str, follow: FollowUp) -> Response:
        """Make the call of a step."""
        return await self._ask(method, path, input, key=key, follow=follow)

    async def result(self, response: Response) -> Mapping[str, Any]:
        """Return the result in a response."""
        return await results.read(response, self._keeper.offload)

    @property
    def deadline(self) -> float:
        """Reactor time by which the whole ends; 0 for none."""
        left = self._seconds_left()
        return 0.0 if left is None else self._keeper.clock.seconds() + max(left, 0.001)

    async def _ready(self, planned: Planned) -> Step | None:
        """Return the step with all captures filled in; None if its condition skips it."""
        step = planned.step
        uses = step.when is not None or any(each is not None and each.names for each in (step.input, step.parameters))
        if not uses or self._octets <= SMALL:
            filled = _fill_step(step, self._scope)
        else:
            filled = await self._keeper.offload(_fill_step, step, dict(self._scope))
        if filled is None:
            return None
        left = self._seconds_left()
        if left is not None:
            seconds = left if step.timeout is None else min(left, step.timeout)
            filled = replace(filled, timeout=max(seconds, 0.001))
        return filled


class _Calls:
    """Makes the calls of a :class:`StepCall`; each attempt has its journal."""

    def __init__(self, run: Run, planned: Planned, journals: list[StepJournal]) -> None:
        self._run = run
        self._planned = planned
        self._journals = journals
        self.deadline = run.deadline
        self.audit_id = ""

    async def invoke(self, method: str, path: str, input: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make one attempt."""
        journal = self._run.journal(self._planned, len(self._journals) + 1)
        self._journals.append(journal)
        response = await self._run.ask(method, path, input, self._planned.key, journal)
        self.audit_id = response.audit_id
        return await self._run.result(response)


def _fill_step(step: Step, scope: Mapping[str, Any]) -> Step | None:
    """Return a step with its expressions evaluated; None where its ``when`` does not hold."""
    try:
        if step.when is not None and not step.when.holds(scope):
            return None
        given = None if step.input is None else step.input.fill(scope)
        parameters = None if step.parameters is None else step.parameters.fill(scope)
    except ExpressionError as error:
        raise StepFailed(step, Status.UNPROCESSABLE, "invalid-step-input", str(error)) from None
    _require_small(step, given)
    return replace(
        step,
        when=None,
        input=None if given is None else Ready(given),  # type: ignore[arg-type]
        parameters=None if parameters is None else Ready(parameters),  # type: ignore[arg-type]
    )


def _require_small(step: Step, given: Any) -> None:
    """Limit the size before encoding: expressions may repeat a value many times."""
    waiting, octets = [given], 0
    while waiting:
        value = waiting.pop()
        octets += len(value) if isinstance(value, str) else 8
        if isinstance(value, Mapping):
            waiting.extend(value.values())
            octets += sum(len(name) for name in value)
        elif isinstance(value, list):
            waiting.extend(value)
        if octets + 8 * len(waiting) > LONGEST_INPUT:
            explanation = f"The step's parameters come to more than {LONGEST_INPUT} octets."
            raise StepFailed(step, Status.UNPROCESSABLE, "invalid-step-input", explanation)


def _is_valid(outcome: Mapping[str, Any]) -> bool:
    result = outcome.get("result")
    return outcome["state"] == workflow_items.DONE and isinstance(result, Mapping) and result.get("valid") is True


def _why(planned: Planned, status: int, reason: str, explanation: str) -> dict[str, Any]:
    step = planned.step
    return {
        "step": step.number,
        "method": step.method,
        "path": step.path,
        "status": int(status),
        "reason": str(reason),
        "explanation": explanation,
    }


def _doubt(planned: Planned) -> dict[str, Any]:
    explanation = (
        f"The host stopped when step {planned.step.number} had begun; whether it was done is not known, and it is not "
        "repeated."
    )
    why = _why(planned, Status.CONFLICT, Reason.WORKFLOW_IN_DOUBT, explanation)
    return {**why, "remedy": "Find out whether it took effect, and RESUME with a checkpoint that says so."}


def _lost_result(planned: Planned, number: int) -> dict[str, Any]:
    explanation = f"What step {number} gave was too long to be kept, and step {planned.step.number} uses it."
    return _why(planned, Status.CONFLICT, Reason.WORKFLOW_IN_DOUBT, explanation)
