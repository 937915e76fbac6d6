"""
BATCH: methods v01 section 8.2.

Each call is made as the caller would make it, with every gate and a separate record; together they get no more than the
caller has. Eight that may change something are made at a time, thirty-two that only read; or one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from agtphost.dispatch.invocation import LONG
from agtphost.dispatch.turn_owner import key_of
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.standard import results
from agtphost.methods.standard.orchestration import call_readers
from agtphost.methods.standard.orchestration.batch_turns import BatchTurns
from agtphost.methods.standard.orchestration.call_readers import Find, Ordered
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.steps import Executor

MOST: Final = 100
AT_ONCE: Final = 8
"""Calls that may change something, at a time."""

READS_AT_ONCE: Final = 32
"""The same of calls that only read: they are over when the slowest of them is."""

MOST_OCTETS: Final = 4 << 20
"""Of what its calls answered, that the answer of one batch has in it: each may be long, and there may be 100."""

MOST_DEEP: Final = 56
"""How deep a result may be nested to be inside the answer: readers take 64, and the answer adds some levels."""

PARALLEL, SEQUENTIAL = "parallel", "sequential"


@implementer(IBuiltInHandler)
class Batch:
    """
    The handler of BATCH.

    :param find: what a method on a path is bound to.
    :param offload: calls a function off the reactor.
    :param clock: the reactor.
    """

    kind = "built_in"
    timeout = 120.0

    def __init__(self, find: Find, offload: Executor, clock: IReactorTime) -> None:
        self._find = find
        self._offload = offload
        self._turns = BatchTurns(clock)

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Make the calls of a BATCH, and return the outcome of each.

        :raises Refusal: 422 for calls that cannot be made, and without ``partial_success`` where one of them failed.
        """
        owner_of(context)
        given = context.input
        entries = call_readers.read_list(given, "calls", MOST)
        ordered = [call_readers.read_call(entry, "calls", number) for number, entry in enumerate(entries, 1)]
        mode = parameters.choice(given, "execution_mode", (PARALLEL, SEQUENTIAL), PARALLEL)
        partial = given.get("partial_success", False)
        if not isinstance(partial, bool):
            raise parameters.invalid("partial_success", "It is neither true nor false.", "Send true or false.")
        call_readers.require_affordable(
            self._find, context.invocation.exchange, ((each.method, each.path) for each in ordered)
        )
        context.invocation.announce(len(ordered), lists=True)
        making = _Making(context, ordered, self._offload, self._turns, partial=partial)
        outcomes = await making.make(1 if mode == SEQUENTIAL else self._at_once(ordered))
        failed = sum(1 for outcome in outcomes if not outcome["ok"])
        extra = {"batch": {"calls": len(outcomes), "failed": failed}}
        result = {"outcomes": outcomes, "succeeded": len(outcomes) - failed, "failed": failed}
        if failed and not partial:
            raise Refusal(Reason.BATCH_FAILED, details=result, extra=extra)
        return Answer(result=result, extra=extra)

    def _at_once(self, ordered: Sequence[Ordered]) -> int:
        reads = all(call_readers.repeatable(self._find, call.method, call.path) for call in ordered)
        return READS_AT_ONCE if reads else AT_ONCE


class _Making:
    """A batch in progress."""

    def __init__(
        self,
        context: BuiltInContext,
        ordered: Sequence[Ordered],
        offload: Executor,
        turns: BatchTurns,
        *,
        partial: bool,
    ) -> None:
        self._context = context
        self._offload = offload
        self._turns = turns
        self._key = key_of(context.invocation.exchange)
        self._waiting = list(reversed(ordered))
        self._outcomes: list[dict[str, Any]] = [
            {"call": call.number, "ok": False, "status": None, "reason": "not-made"} for call in ordered
        ]
        self._partial = partial
        self._ended = False
        self._octets = 0  # of the answers that the batch's own has in it

    async def make(self, at_once: int) -> list[dict[str, Any]]:
        """
        Make them, so many at a time.

        :return: what each came to, in the order in which they were given.
        """
        workers = [Deferred.fromCoroutine(self._work()) for _ in range(min(at_once, len(self._waiting)))]
        try:
            await _ends(workers)
        except CancelledError:
            self._ended = True
            for worker in workers:
                worker.addErrback(lambda _: None)
                worker.cancel()
            raise
        return self._outcomes

    async def _work(self) -> None:
        while self._waiting and not self._ended:
            await self._turns.wait(self._key)
            if not self._waiting or self._ended:
                return
            call = self._waiting.pop()
            outcome = self._outcomes[call.number - 1] = await self._make_call(call)
            if not outcome["ok"] and not self._partial:
                # All or nothing is asked for: what has not begun does not.
                self._ended = True

    async def _make_call(self, call: Ordered) -> dict[str, Any]:
        response = await self._context.invocation.ask(call.method, call.path, call.parameters, key=call.key)
        outcome: dict[str, Any] = {"call": call.number, "ok": True, "status": int(response.status)}
        audit_id = response.audit_id
        if audit_id:
            outcome["audit_id"] = audit_id
        octets = len(response.body)
        if octets > LONG and self._octets + octets > MOST_OCTETS and 200 <= response.status < 300:
            # It was made, and its record has its outcome.
            return {**outcome, "omitted": "long", "octets": octets}
        self._octets += octets
        try:
            result = await results.read_within(response, self._offload, MOST_DEEP)
            if result is None:
                return {**outcome, "omitted": "deep", "octets": octets}
            outcome["result"] = result
        except Refusal as refusal:
            outcome.update(ok=False, reason=str(refusal.reason), explanation=refusal.explanation)
            if refusal.status == Status.ACCEPTED:
                outcome["approval_id"] = refusal.details.get("approval_id")
        return outcome


async def _ends(workers: Sequence[Deferred[None]]) -> None:
    """Wait until all workers have ended, and raise the failure of the first one that failed."""
    failed: Exception | None = None
    # Backwards: records of one group come in the order of their calls, so that the others are over by then.
    for worker in reversed(workers):
        try:
            await worker
        except CancelledError:
            raise
        except Exception as error:
            failed = error
    if failed is not None:
        raise failed
