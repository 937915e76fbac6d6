"""One step of a recipe: its input, its call, its further attempts."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, ensureDeferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.contract.recipes.expression import ExpressionError
from agtphost.contract.recipes.recipe import Step
from agtphost.errors import Refusal
from agtphost.vocabulary.paths import parse_template
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.steps import Executor

FIRST_PAUSE = 0.1
"""Seconds before the first further attempt; doubled each time, give or take half."""

LONGEST_PAUSE = 5.0

PASSING = frozenset({Status.TIMEOUT, Status.RATE_LIMITED, Status.UNAVAILABLE})
"""Statuses that another attempt may not meet."""

PASSING_ERRORS = frozenset({"upstream_timeout", "upstream_connection_error", "upstream_error"})
"""Declared errors that a retry may overcome."""

MAX_SEGMENT = 1_024
"""Characters of a value in a path."""

log = Logger()


class StepFailed(Exception):
    """
    A step that ended in anything but success.

    :param status: the AGTP status of the called endpoint's response, or what it would have been.
    :param details: what besides is known: the Audit-ID of its record.
    """

    def __init__(
        self, step: Step, status: int, reason: str, explanation: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"step {step.number}: {status} {reason}")
        self.step = step
        self.status = int(status)
        self.reason = reason
        self.explanation = explanation
        self.details: Mapping[str, Any] = details or {}

    @property
    def passing(self) -> bool:
        """Whether another attempt may succeed."""
        return self.status in PASSING or self.reason in PASSING_ERRORS


class Calls(Protocol):
    """The part of a call's context that a step needs; :class:`~agtphost.handlers.context.EndpointContext` has it."""

    @property
    def deadline(self) -> float:
        """Reactor time by which all is over; 0 for none."""

    @property
    def invoke(self) -> Callable[[str, str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]:
        """Calls an endpoint as the same caller."""


class StepCall:
    """
    A call of one step of a recipe, for one caller.

    :param context: of the endpoint that the recipe answers, or of what else has steps.
    """

    def __init__(self, step: Step, context: Calls, clock: IReactorTime) -> None:
        self._step = step
        self._context = context
        self._clock = clock
        self._attempt = 0
        self._calling: Deferred[Any] | None = None
        self._pause: IDelayedCall | None = None
        self._waiting: Deferred[Any] | None = None
        self._cancelled = False

    def run(self, scope: Mapping[str, Any], offload: Executor | None = None) -> Deferred[Any]:
        """
        Make the call, again where that is allowed and may help.

        :param scope: what expressions see.
        :param offload: evaluates them off the reactor, where they may see much; None: in the reactor's thread.
        :return: fires with the result, or None where the step is left out or may fail; fails with :exc:`StepFailed`.
        """
        if offload is None:
            outcome: Deferred[Any] = maybeDeferred(self._ready, scope)
        else:
            outcome = ensureDeferred(_await_call(offload(self._ready, scope)))
        outcome.addCallback(self._call_unless_left_out)
        if self._step.proceed:
            outcome.addErrback(self._passed_over)
        return outcome

    def _ready(self, scope: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
        """Return the path and the input of the call; None where the step is left out."""
        step = self._step
        if step.when is not None and not step.when.holds(scope):
            return None
        return self._path(scope), self._input(scope)

    def _call_unless_left_out(self, ready: tuple[str, Mapping[str, Any]] | None) -> Any:
        if ready is None:
            return None
        if self._cancelled:
            raise CancelledError
        return self._try(*ready)

    def cancel(self) -> None:
        """Cancel the running call, and make no further one."""
        self._cancelled = True
        if self._pause is not None and self._pause.active():
            self._pause.cancel()
        for waited in (self._calling, self._waiting):
            if waited is not None and not waited.called:
                waited.cancel()

    # Before

    def _path(self, scope: Mapping[str, Any]) -> str:
        if self._step.parameters is None:
            return self._step.path
        template = parse_template(self._step.path)
        values = self._fill_mapping(self._step.parameters, scope)
        names = iter(template.parameters)
        filled = (self._segment(next(names), values) if literal is None else literal for literal in template.segments)
        return "/" + "/".join(filled)

    def _segment(self, name: str, values: Mapping[str, Any]) -> str:
        value = values.get(name)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not isinstance(value, (str, int, float)) or not 0 < len(text) <= MAX_SEGMENT or text in (".", ".."):
            raise self._build_failure("invalid-step-input", f"The path's parameter {name} has no usable value.")
        return quote(text, safe="")

    def _input(self, scope: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._step.input is None:
            return {}
        given = self._fill_mapping(self._step.input, scope)
        if not isinstance(given, dict):
            raise self._build_failure("invalid-step-input", "The step's input is not an object.")
        return given

    def _fill_mapping(self, mapping: Any, scope: Mapping[str, Any]) -> Any:
        try:
            return mapping.fill(scope)
        except ExpressionError as error:
            log.error("step {number}: {why}", number=self._step.number, why=str(error))
            explanation = "An expression of the step does not suit the values found."
            raise self._build_failure("invalid-step-input", explanation) from None

    def _build_failure(self, reason: str, explanation: str) -> StepFailed:
        return StepFailed(self._step, Status.UNPROCESSABLE, reason, explanation)

    # The call

    def _try(self, path: str, given: Mapping[str, Any]) -> Deferred[Any]:
        step = self._step
        calling: Deferred[Any] = ensureDeferred(self._invoke(path, given))
        self._calling = calling
        if step.timeout is not None and not calling.called:
            calling.addTimeout(step.timeout, self._clock)
        return calling.addErrback(self._retry_or_fail, path, given)

    async def _invoke(self, path: str, given: Mapping[str, Any]) -> Any:
        return await self._context.invoke(self._step.method, path, given)

    def _retry_or_fail(self, failure: Failure, path: str, given: Mapping[str, Any]) -> Any:
        failed = self._why(failure)
        if self._cancelled or not failed.passing or self._attempt >= self._step.retries:
            raise failed
        self._attempt += 1
        seconds = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self._attempt - 1)) * random.uniform(0.5, 1.5)
        if self._clock.seconds() + seconds >= self._context.deadline > 0:
            raise failed
        waiting: Deferred[Any] = Deferred()
        self._waiting = waiting
        self._pause = self._clock.callLater(seconds, waiting.callback, None)
        return waiting.addCallback(lambda _: self._try(path, given))

    def _why(self, failure: Failure) -> StepFailed:
        error = failure.value
        if isinstance(error, Refusal):
            details = {"audit_id": error.details["audit_id"]} if error.details.get("audit_id") else {}
            return StepFailed(self._step, error.status, error.reason, error.explanation, details)
        if isinstance(error, (TimeoutError, CancelledError)):
            seconds = self._step.timeout
            explanation = "The step was given up." if seconds is None else f"The step did not end within {seconds:g} s."
            return StepFailed(self._step, Status.TIMEOUT, "timeout", explanation)
        # An error of the host's own: the operator's log has it, the caller does not.
        log.failure("step {number} could not be called", failure, number=self._step.number)
        return StepFailed(self._step, Status.SERVER_ERROR, "server-error", "The step could not be called.")

    def _passed_over(self, failure: Failure) -> None:
        """``on_error = "continue"``."""
        if self._cancelled or not isinstance(failure.value, StepFailed):
            failure.raiseException()


async def _await_call(waiting: Awaitable[Any]) -> Any:
    return await waiting
