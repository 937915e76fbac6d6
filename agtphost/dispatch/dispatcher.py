"""Runs the gates, calls the handler, seals the outcome."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import CoroutineType
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LedgerUnavailable, StaleChange, StaleLifecycle, Stopped
from agtphost.audit.interfaces import ILedger
from agtphost.audit.state import StateFull
from agtphost.compute.functions import Computation
from agtphost.compute.pool import LocalPool, Pool
from agtphost.contract.binding import COMPUTE, Binding
from agtphost.dispatch import after_commit, answers, handler_view
from agtphost.dispatch.approvals import Approvals, AwaitsApproval, Unlisted, WaitsEnded, patience
from agtphost.dispatch.call_budget import Charges, charge_changes, charge_record
from agtphost.dispatch.computation import run_computations
from agtphost.dispatch.encoding import PIECE, digest, encode_result, in_turns, is_heavy
from agtphost.dispatch.exchange import Exchange, Place
from agtphost.dispatch.gate_cache import GateChain
from agtphost.dispatch.gates.identity import StoppedAgent, name_certified
from agtphost.dispatch.gates.limits import RateGate
from agtphost.dispatch.handler_wait import as_deferred, continue_coroutine, limit_time, refuse_late
from agtphost.dispatch.in_flight import InFlightWork
from agtphost.dispatch.interfaces import IDispatcher, IGate
from agtphost.dispatch.invocation import Interim
from agtphost.dispatch.outcome import Outcome
from agtphost.dispatch.refusals import PAUSE, RefusalRecords, is_read
from agtphost.dispatch.required_agents import after_handler, refuse_stopped_call
from agtphost.dispatch.running_calls import Leaving, RunningCalls
from agtphost.dispatch.sealer import Sealer, new_id
from agtphost.dispatch.single_use import SingleUse
from agtphost.dispatch.store_refusals import changed_meanwhile, made_durable, no_room, store_down, taken_meanwhile
from agtphost.dispatch.tracing import Tracer
from agtphost.dispatch.violations import log_unbelieved
from agtphost.errors import Refusal
from agtphost.handlers.built_in import IBuiltInHandler, Overstepped, require_plain_answer
from agtphost.handlers.context import EndpointError, EndpointResponse
from agtphost.handlers.deadlines import Deadlines
from agtphost.handlers.function_check import advice_on
from agtphost.handlers.log_context import CALL
from agtphost.identity.peer import Peer
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.steps import Executor
from agtphost.wire.events import Request, Response

log = Logger()


@implementer(IDispatcher)
class Dispatcher:
    """
    The one way in and the one way out.

    :param gates: in order; see :mod:`agtphost.dispatch.gate_order`.
    :param ledger: where every outcome is sealed.
    :param sealer: builds records and responses.
    :param clock: for handler deadlines.
    :param timeout: seconds a handler may take where its binding does not say.
    :param running: the calls that end with their agents; None ends none.
    :param refusals: says which refusals and strangers' reads are summed up; None: none is.
    :param approvals: of calls that a person approves; None: none needs it.
    :param tracer: gives each call its span; None: calls have none.
    :param now: seconds since the Unix epoch, by which certificates and tokens are judged.
    :param offload: decodes long answers of inner calls off the reactor; None: in the reactor's thread.
    :param compute: runs the computations of bindings with that weight; None: they run in this process.
    :param rest_always: whether the reactor rests after every large body, also where no other one waits.
    """

    def __init__(
        self,
        gates: Sequence[IGate],
        ledger: ILedger,
        sealer: Sealer,
        clock: IReactorTime,
        timeout: float,
        running: RunningCalls | None = None,
        refusals: RefusalRecords | None = None,
        approvals: Approvals | None = None,
        tracer: Tracer | None = None,
        offload: Executor | None = None,
        now: Callable[[], float] = time.time,
        compute: Pool | None = None,
        *,
        rest_always: bool = False,
    ) -> None:
        self._approvals, self.offload, self._now = approvals, offload, now
        self._compute = compute or LocalPool()
        self.charges: Charges | None = next((gate for gate in gates if isinstance(gate, RateGate)), None)
        self._uses = SingleUse(sealer, ledger)
        self._refusals, self._tracer, self._running = refusals, tracer, running
        self._passage = GateChain(gates, self._objection, clock, ledger.door, rest_always=rest_always)
        self._ledger, self._sealer = ledger, sealer
        self._clock, self._deadlines, self._timeout = clock, Deadlines(clock, lasting=True), timeout
        self.under_way = InFlightWork()  # what another dispatcher waits for that takes the place of this one

    async def dispatch(
        self, request: Request, peer: Peer, interim: Interim | None = None, place: Place | None = None
    ) -> Response:
        """Answer one request; see :class:`agtphost.iagtp.IDispatcher`. ``place``: of a call that a handler makes."""
        exchange = Exchange(request, peer, self._now(), place=place)
        outer, call = CALL.get(), exchange.call
        call.response_id = new_id(exchange.now)
        CALL.set(call)
        trace = call.trace = None if self._tracer is None else self._tracer.begin(exchange)
        performed = False
        self.under_way.hold()
        try:
            try:
                waiting = self._passage.begin(exchange)
                if waiting is not None:
                    await waiting
            except (Unlisted, AwaitsApproval) as held:
                await self._admit(exchange, interim, held)
            if exchange.replay is not None:
                answer = exchange.replay
            else:
                if exchange.binding.approval:  # type: ignore[union-attr]
                    await self._uses.approval(exchange)
                if exchange.purchase is not None:
                    await self._uses.purchase(exchange, exchange.purchase)
                performed = True
                if trace is not None:
                    trace.part("handler")
                answer = await self._handle(exchange, interim)
            if is_heavy(answer):
                answer = await encode_result(answer, self._clock)
            if isinstance(answer, EndpointResponse):
                outcome = self._sealer.success(exchange, answer)
            else:
                outcome = self._sealer.plain(exchange, answer)
            if len(outcome.body) > PIECE:
                outcome.digest = await in_turns(digest(outcome.body), self._clock)
        except Refusal as refusal:
            CALL.set(call)  # A call made inside may have been the last to say so.
            refusal = self._count_refused(exchange, refusal)
            # To a caller who only names an agent, only the log tells that the agent is unknown.
            log_unbelieved(exchange, (exchange.doubted or refusal).cause)
            outcome = self._sealer.refusal(exchange, refusal)
        except CancelledError:
            objection = self._objection(exchange)
            if objection is not None and performed:
                objection = after_handler(objection)
            outcome = self._sealer.refusal(exchange, objection or answers.given_up())
        except Exception as error:
            # What went wrong is for the operator's log; the caller learns only that it did (HAIDIP-038).
            CALL.set(call)  # A call made inside may have been the last to say so.
            said = "the handler of {method} {path} failed" + advice_on(error)
            log.failure(said, method=exchange.method, path=exchange.path)
            outcome = self._sealer.refusal(exchange, answers.surprise())
        if CALL.get() is not call:
            CALL.set(call)
        if trace is not None:
            trace.part("ledger")
        try:
            response = await self._seal(exchange, outcome, performed=performed)
        finally:
            if exchange.approval is not None:
                exchange.approval.end()
            if exchange.when_over is not None:
                exchange.when_over()
            self.under_way.let_go()
        if trace is not None:
            trace.finish(response.status)
        if call.held is not None or call.early:
            CALL.set(call)
            call.let_go()
        if call.early:
            log.info("the record of a call is made, of which lines were logged before")
        CALL.set(outer)
        return response

    async def refuse(self, reason: Reason, explanation: str, peer: Peer, line: bytes = b"") -> Response:
        """Answer octets that never became a request."""
        exchange = Exchange(Request(method="", line=line), peer, self._now())
        refusal = answers.refuse_unreadable(reason, explanation, peer)
        self._count_refused(exchange, refusal)  # Such octets keep their own answer, even if too many came.
        return await self._seal(exchange, self._sealer.refusal(exchange, refusal))

    async def turn_away(self, request: Request, refusal: Refusal, peer: Peer) -> Response:
        """Answer a request that a front refuses at its door; see :class:`agtphost.iagtp.IDispatcher`."""
        exchange = Exchange(request, peer, self._now())
        return await self._seal(exchange, self._sealer.refusal(exchange, self._count_refused(exchange, refusal)))

    def _count_refused(self, exchange: Exchange, refusal: Refusal) -> Refusal:
        """Count a request that is refused, and name its caller for the record, where its certificate proves it."""
        counted = refusal if self._refusals is None else self._refusals.count_refused(exchange, refusal)
        if exchange.caller is None and not refusal.cause:
            name_certified(exchange, self._passage.gates)
        return counted

    async def _admit(self, exchange: Exchange, interim: Interim | None, held: Refusal) -> None:
        """
        Wait for what held a streamed call (an approval, a server's list), then ask every gate again.

        :param held: what ended it at first.
        :raises Refusal: the first gate's that objects; 202 for a caller that asked for no stream.
        """
        asked = False
        ends: float | None = None
        while True:
            if isinstance(held, Unlisted):
                if asked:
                    raise held
                asked = True
                try:
                    await held.find_out()
                except Exception as failure:
                    log.info("what a call is for could not be found out: {why}", why=str(failure))
                    raise held from None
            elif isinstance(held, AwaitsApproval):
                now = self._clock.seconds()
                ends = now + patience(exchange) if ends is None else ends
                if interim is None or ends <= now:
                    raise held
                await self._hear(exchange, held, interim, ends)
            exchange.restart(self._now())
            try:
                waiting = self._passage.pass_again(exchange)
                if waiting is not None:
                    await waiting
                return
            except (Unlisted, AwaitsApproval) as again:
                held = again

    async def _hear(self, exchange: Exchange, held: AwaitsApproval, interim: Interim, ends: float) -> None:
        """
        Report to the caller of a stream that its call is held, and wait for the decision.

        If the caller leaves, the approval stays as it is, and the same call finds it again.

        :param ends: when the caller waits no longer.
        :raises Refusal: 202 then or if the host stops; 408 without a decision in time; or that of a stopped agent.
        """
        approvals = self._approvals
        assert approvals is not None
        try:
            await self.commit(exchange, {"type": str(held.reason), **held.shown}, held.changes, held.extra, interim)
        except Refusal as refusal:
            if refusal.reason is not Reason.STATE_CONFLICT:
                raise
            return  # A concurrent call has asked for the same.
        leaving = None if exchange.peer.depth else exchange.peer.leaving
        entered = leaving if self._running is None else self._running.entry_for(exchange, leaving)
        seconds, left = max(held.until - approvals.now(), 0.0) + 0.01, ends - self._clock.seconds()
        try:
            await limit_time(approvals.wait_decision(held.approval_id), min(seconds, left), self._clock, entered)
        except TimeoutError:
            if left < seconds:
                raise held.as_durable() from None
            raise Refusal(Reason.APPROVAL_EXPIRED, details=held.shown) from None
        except WaitsEnded:
            raise held.as_durable() from None

    def _objection(self, exchange: Exchange) -> StoppedAgent | None:
        """Return why a call that waited may not go on; None if it may."""
        return None if self._running is None else self._running.objection(exchange)

    # The handler

    async def _handle(self, exchange: Exchange, interim: Interim | None) -> Any:
        """
        Call the handler and return its answer: an EndpointResponse, or the bare result.

        Only a built-in has access to the host's inside, and only its answer can change held state or add to the record.
        """
        binding: Binding = exchange.binding  # type: ignore[assignment]
        seconds = binding.timeout or self._timeout
        deadline = self._clock.seconds() + seconds
        handler: Any = binding.handler if exchange.handler is None else exchange.handler
        built_in = IBuiltInHandler.providedBy(handler)
        try:
            if built_in:
                context: Any = handler_view.wide_context(self, exchange, deadline, interim)
            else:
                context = handler_view.narrow_context(self, exchange, handler, deadline, interim)
            answer = handler.handle(context)
            if binding.weight == COMPUTE or type(answer) is Computation:
                answer = run_computations(exchange, answer, self._compute, self._clock)
            waiting: Deferred[Any] | None = None
            if type(answer) is CoroutineType:
                # Most coroutines end without ever waiting; those are spared the machinery of those that do.
                try:
                    first = answer.send(None)
                except StopIteration as ended:
                    answer = ended.value
                else:
                    leaving = self._leaving(exchange, binding)
                    waiting = continue_coroutine(answer, first, seconds, self._deadlines, leaving)
            elif type(answer) is not dict and inspect.isawaitable(answer):
                waiting = as_deferred(answer)
                if not waiting.called:
                    waiting = limit_time(waiting, seconds, self._clock, self._leaving(exchange, binding))
            if waiting is not None:
                try:
                    answer = await waiting
                except TimeoutError:
                    raise refuse_late(seconds) from None
            if type(answer) is not dict and not built_in:
                require_plain_answer(answer)
        except EndpointError as error:
            answer = error
        except Refusal as refusal:
            if not built_in:
                answers.require_plain(binding, refusal)
            raise
        except Overstepped as error:
            raise answers.refuse_overstepping(binding, error) from None
        if isinstance(answer, EndpointError):
            raise answers.refuse_named_error(binding, answer)
        if binding.output_schema is not None:
            schema = binding.output_schema
            if schema.octets and self.offload is not None and schema.takes_long:
                await self.offload(schema.prepare)
            answers.check_output(binding, schema, answer)
        return answer

    def _leaving(self, exchange: Exchange, binding: Binding) -> Leaving | None:
        """
        Return where to learn that the caller is gone, so that a call that changes nothing can be given up.

        State-changing calls are finished and recorded, and so is each step of a call that may change state. A call of a
        stopped agent ends in any case.
        """
        leaving = None if binding.state_changing or exchange.peer.depth else exchange.peer.leaving
        return leaving if self._running is None else self._running.entry_for(exchange, leaving)

    async def send_interim(self, exchange: Exchange, event: Mapping[str, Any], interim: Interim) -> None:
        """
        Seal an interim message, and hand it to the connection.

        :raises StoppedAgent: the caller or the addressee was stopped in the meantime: nothing more of the call is sent.
        """
        outcome = self._sealer.interim(exchange, event, os.urandom(16).hex())
        interim(await self._seal(exchange, outcome, performed=True))

    async def commit(
        self,
        exchange: Exchange,
        event: Mapping[str, Any],
        changes: Sequence[Change],
        extra: Mapping[str, Any],
        interim: Interim | None,
    ) -> str:
        """Make state items durable before a handler goes on; see :meth:`.invocation.Dispatches.commit`."""
        outcome = self._sealer.interim(exchange, event, os.urandom(16).hex())
        outcome.changes, outcome.extra = tuple(changes), extra
        return await self._commit(exchange, outcome, interim)

    async def withdraw(
        self, exchange: Exchange, refusal: Refusal, changes: Sequence[Change], extra: Mapping[str, Any]
    ) -> str:
        """Make state items durable with the record of a refusal; see :meth:`.invocation.Dispatches.withdraw`."""
        outcome = self._sealer.refusal(exchange, refusal)
        outcome.changes, outcome.extra = tuple(changes), {**refusal.extra, **extra}
        return await self._commit(exchange, outcome, None)

    async def _commit(self, exchange: Exchange, outcome: Outcome, interim: Interim | None) -> str:
        response_id = new_id(exchange.now)
        draft = self._sealer.draft(exchange, outcome, response_id)
        draft.reservation, draft.inner = None, interim is None
        charge_changes(self.charges, exchange, draft)
        sealed = await made_durable(self._ledger, exchange, draft, performed=True, taken=taken_meanwhile)
        charge_record(self.charges, exchange, draft, sealed)
        if interim is not None:
            interim(self._sealer.response(exchange, outcome, response_id, sealed))
        return sealed.audit_id

    # The one way out

    async def _seal(self, exchange: Exchange, outcome: Outcome, *, performed: bool = False) -> Response:
        listed, binding = None, exchange.binding
        if binding is not None and binding.listing and self._refusals is not None:
            listed = self._refusals.find_list(exchange, outcome)
        if self._refusals is not None and (listed is not None or outcome.reason or is_read(exchange, outcome)):
            objection = None if outcome.reason or self._running is None else self._running.objection(exchange)
            if objection is not None:
                # Where a record is written, the ledger sees to it (agtphost.dispatch.required_agents).
                refusal = after_handler(objection) if performed else objection
                return await self._seal(exchange, self._sealer.refusal(exchange, refusal), performed=performed)
            if listed is not None and (summary_id := self._refusals.sum_up_list(exchange, listed)):
                response = self._answer_summed_up(exchange, outcome, summary_id)
                self._refusals.note_counted(exchange.call.audit_id, summary_id)
                return response
            if summary_id := self._refusals.summed_up(exchange, outcome, performed=performed):
                response = self._answer_summed_up(exchange, outcome, summary_id)
                # A pause slows a flood down.
                await deferLater(self._clock, PAUSE)
                return response
        response_id = (not outcome.continuation and exchange.call.response_id) or new_id(exchange.now)
        draft = self._sealer.draft(exchange, outcome, response_id)
        draft.performed = performed
        draft.vital = binding is not None and binding.vital and not outcome.reason
        if exchange.peer.follow is not None or exchange.approval is not None or exchange.opens is not None:
            draft.changes += after_commit.changes(exchange, outcome)
        if draft.changes:
            charge_changes(self.charges, exchange, draft, outcome)
        if outcome.continuation:
            draft.reservation = None
        else:
            draft.began = exchange.now + exchange.waited
        try:
            sealed = await self._ledger.submit(draft)
        except Stopped as error:
            refusal = refuse_stopped_call(exchange, error, performed=performed)
            if outcome.continuation:
                raise refusal from None
            return await self._seal(exchange, self._sealer.refusal(exchange, refusal), performed=performed)
        except (StaleLifecycle, StateFull) as error:
            late = no_room(error) if isinstance(error, StateFull) else changed_meanwhile()
            return await self._seal(exchange, self._sealer.refusal(exchange, late), performed=performed)
        except Refusal as refusal:
            return await self._seal(exchange, self._sealer.refusal(exchange, refusal), performed=performed)
        except StaleChange:
            return await self._seal(exchange, self._stale(exchange, outcome), performed=performed)
        except LedgerUnavailable as error:
            if self._ledger.healthy:
                # Otherwise the ledger has logged it once: a line for each request would fill the rest of the disk.
                log.error("a record could not be made durable: {why}", why=str(error))
            return self._undurable(exchange, response_id, draft.began)
        charge_record(self.charges, exchange, draft, sealed, outcome)
        if not outcome.continuation:
            exchange.call.audit_id = sealed.audit_id
        if exchange.peer.follow is not None and not outcome.continuation:
            exchange.peer.follow.mark_durable()
        if listed is not None and self._refusals is not None:
            self._refusals.note_list(listed, draft.payload, sealed.audit_id)
        return self._sealer.response(exchange, outcome, response_id, sealed)

    def _stale(self, exchange: Exchange, outcome: Outcome) -> Outcome:
        """
        Return the outcome of a call whose changes came too late; of two calls that ask for one approval, both wait for
        it.
        """
        refusal = None
        if self._approvals is not None and outcome.reason == Reason.APPROVAL_REQUIRED:
            refusal = self._approvals.find_concurrent(exchange)
        if exchange.approval is not None:
            exchange.approval.forget()
        if refusal is None and outcome.conflict is not None:
            refusal = outcome.conflict()
        return self._sealer.refusal(exchange, refusal or taken_meanwhile())

    def _answer_summed_up(self, exchange: Exchange, outcome: Outcome, summary_id: str) -> Response:
        """Return the response to a call that a summary seals, not a separate record."""
        response_id = exchange.call.response_id or new_id(exchange.now)
        outcome.headers = (*outcome.headers, ("Audit-Summary", summary_id))
        draft = self._sealer.draft(exchange, outcome, response_id)
        draft.payload["summary_id"] = summary_id
        draft.began = exchange.now + exchange.waited
        sealed = self._ledger.submit_undurable(draft)
        exchange.call.audit_id = sealed.audit_id
        return self._sealer.response(exchange, outcome, response_id, sealed)

    def _undurable(self, exchange: Exchange, response_id: str, began: float | None) -> Response:
        """Return the answer 503 for a call whose record is not durable (design decision 8)."""
        outcome = self._sealer.refusal(exchange, store_down())
        draft: Draft = self._sealer.draft(exchange, outcome, response_id)
        draft.chain, draft.reservation = HOST_CHAIN, None
        draft.changes, draft.events = (), ()
        draft.began = began
        sealed = self._ledger.submit_undurable(draft)
        exchange.call.audit_id = sealed.audit_id
        return self._sealer.response(exchange, outcome, response_id, sealed)
