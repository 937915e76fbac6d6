"""
Compositions: an endpoint answered by a recipe (AGTP-API section 12.1).

A recipe runs as a chain of Deferreds, one link for each stage. Each step
calls the dispatcher as the endpoint's own caller, so every gate decides about
it again and its record is sealed before the next step begins; authority can
only shrink on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredList, ensureDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.contract.recipes.expression import INPUT, ExpressionError
from agtphost.contract.recipes.recipe import COMPOSITION_FAILED, Recipe, Step
from agtphost.handlers.context import EndpointContext, EndpointError
from agtphost.handlers.interface import IHandler
from agtphost.handlers.recipe_step import StepCall, StepFailed
from agtphost.vocabulary.jsonslices import HEAVY, weight
from agtphost.vocabulary.steps import Executor

log = Logger()

MAX_CAPTURES = 64 << 10
"""Octets of captured outputs that a ``composition_failed`` carries; larger ones are named only."""


@implementer(IHandler)
class Composition:
    """
    Answers with a recipe.

    :param recipe: the version that runs for as long as this handler lives (AGTP-API section 10.5).
    :param clock: counts the steps' timeouts and pauses.
    :param offload: calls a function off the reactor: what expressions say of much is worked out there.
    """

    kind = "composition"

    def __init__(self, recipe: Recipe, clock: IReactorTime, offload: Executor | None = None) -> None:
        self.recipe = recipe
        self._clock = clock
        self._offload = offload

    @property
    def steps(self) -> int:
        """The number of calls that are made in any case: steps with ``when`` may be left out."""
        return sum(1 for step in self.recipe.steps if step.when is None)

    def handle(self, context: EndpointContext) -> Deferred[Any]:
        """Run the recipe for one caller."""
        return Run(self.recipe, context, self._clock, self._offload).start()


class Run:
    """
    A run of one recipe for one caller.

    :param context: of the endpoint that the recipe answers.
    """

    def __init__(
        self, recipe: Recipe, context: EndpointContext, clock: IReactorTime, offload: Executor | None = None
    ) -> None:
        self._recipe = recipe
        self._context = context
        self._clock = clock
        self._scope: dict[str, Any] = {INPUT: context.input}
        self._offload = offload
        self._much = offload is not None and weight(context.input) > HEAVY
        """Whether expressions see so much that the others wait for them."""

        self._calls: list[StepCall] = []
        self._ended = False
        self._last: Any = None

    def start(self) -> Deferred[Any]:
        """
        Run every stage.

        :return: fires with the result; fails with ``composition_failed``. Cancelling it ends the
            step that is running, and no further one begins.
        """
        chain: Deferred[Any] = succeed(None)
        for stage in self._recipe.stages:
            chain.addCallback(self._stage, stage)
        chain.addCallback(lambda _: ensureDeferred(self._output()))
        result: Deferred[Any] = Deferred(self._cancel)
        chain.addBoth(self._finish, result)
        return result

    def _finish(self, outcome: Any, result: Deferred[Any]) -> None:
        if self._ended:
            return
        self._ended = True
        if not isinstance(outcome, Failure):
            result.callback(outcome)
            return
        error = outcome.value
        result.errback(self._error(error) if isinstance(error, StepFailed) else outcome)

    def _cancel(self, result: Deferred[Any]) -> None:
        self._ended = True
        for call in self._calls:
            call.cancel()

    # Stages

    def _stage(self, _: Any, stage: Sequence[Step]) -> Deferred[Any]:
        if self._ended:
            raise CancelledError
        self._calls = [StepCall(step, self._context, self._clock) for step in stage]
        running = [call.run(dict(self._scope), self._offload if self._much else None) for call in self._calls]
        if len(running) == 1:
            return running[0].addCallback(self._single, stage[0])
        gathered: Deferred[Any] = DeferredList(running, consumeErrors=True)
        return gathered.addCallback(self._capture_stage, stage)

    def _single(self, value: Any, step: Step) -> None:
        self._keep(step, value)
        self._last = value

    def _capture_stage(self, outcomes: Sequence[tuple[bool, Any]], stage: Sequence[Step]) -> None:
        """Capture the results of the steps that succeeded once all have ended, even if another step failed."""
        self._last = {}
        failure: Failure | None = None
        for step, (sound, value) in zip(stage, outcomes, strict=True):
            if sound:
                self._keep(step, value)
                if step.capture:
                    self._last[step.capture] = value
            elif failure is None:
                failure = value
        if failure is not None:
            failure.raiseException()

    def _keep(self, step: Step, value: Any) -> None:
        if step.capture:
            self._scope[step.capture] = value
            self._much |= self._offload is not None and weight(value) > HEAVY

    async def _output(self) -> Any:
        output = self._recipe.output
        if output is None:
            return self._last
        try:
            if self._offload is not None and self._much:
                return await self._offload(output.fill, dict(self._scope))
            return output.fill(self._scope)
        except ExpressionError as error:
            log.error("recipe {recipe}: output: {why}", recipe=self._recipe.identifier, why=str(error))
            facts = {**self._facts(), "step": None, "reason": "invalid-output"}
            raise EndpointError(COMPOSITION_FAILED, facts) from None

    # Failure

    def _facts(self) -> dict[str, Any]:
        """Return what the caller may see of the run: everything captured came from calls made in its own name."""
        captured = {name: value for name, value in self._scope.items() if name != INPUT}
        facts: dict[str, Any] = {
            "recipe": self._recipe.name,
            "recipe_version": self._recipe.version,
            "captured": captured,
        }
        if weight(captured, MAX_CAPTURES) > MAX_CAPTURES or len(repr(captured)) > MAX_CAPTURES:
            facts["captured"] = {}
            facts["captured_names"] = sorted(captured)
        return facts

    def _error(self, failed: StepFailed) -> EndpointError:
        step = failed.step
        details: dict[str, Any] = {
            **self._facts(),
            "step": step.number,
            "method": step.method,
            "path": step.path,
            "status": failed.status,
            "reason": failed.reason,
            "explanation": failed.explanation,
        }
        if failed.details:
            details["step_details"] = dict(failed.details)
        return EndpointError(COMPOSITION_FAILED, details)
