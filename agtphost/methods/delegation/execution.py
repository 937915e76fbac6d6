"""Doing a delegated task: here, call by call through the dispatcher, or on the host of the delegatee."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime

from agtphost.config.delegation import DelegationSection
from agtphost.dispatch.handler_wait import limit_time
from agtphost.dispatch.inner_results import awaits_approval
from agtphost.dispatch.invocation import BOUNDS, Invocation
from agtphost.dispatch.violations import scopes_of
from agtphost.errors import Refusal
from agtphost.handlers.peer_hosts import HostAnswer, HostLost, HostUnreachable
from agtphost.identity.delegation import Lineage
from agtphost.methods.delegation.decision import (
    Forwarded,
    Hop,
    RemoteHost,
)
from agtphost.methods.delegation.task import Call
from agtphost.upstream.queue import CallQueue
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Response

PASSED_ON = (Reason.SCOPE_REQUIRED, Reason.ZONE_VIOLATION)
"""Refusals of the delegatee's host that say the same of this hop here as there; others fail the task."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """A task that was done."""

    result: Mapping[str, Any]
    """The result for the delegator."""

    extra: Mapping[str, Any]
    """What the record says of it beyond the hop."""


class Work:
    """
    Does tasks within their time.

    :param clock: for deadlines.
    """

    def __init__(self, rules: DelegationSection, clock: IReactorTime) -> None:
        self._rules = rules
        self._clock = clock

    async def do(
        self, hop: Hop, invocation: Invocation, lineage: Lineage, task_id: str, turns: CallQueue | None = None
    ) -> Done:
        """
        Run the task of a hop within its deadline.

        :param task_id: the token's.
        :param turns: the task waits for one of its delegator's; that is part of its time.
        :raises Refusal: 550 where the task failed or was late; of a delegatee elsewhere also 262, 457, 503 where
            its host cannot be reached, and 551 where that host's answer proves nothing.
        """
        seconds = min(hop.asked.deadline or self._rules.max_deadline, self._rules.max_deadline)
        working = Deferred.fromCoroutine(self._in_turn(hop, invocation, lineage, task_id, seconds, turns))
        try:
            done: Done = await limit_time(working, seconds, self._clock)
        except TimeoutError:
            raise self._late(hop, lineage, seconds) from None
        return done

    @staticmethod
    def _late(hop: Hop, lineage: Lineage, seconds: float) -> Refusal:
        error = {"status": int(Status.TIMEOUT), "reason": "deadline-exceeded", "audit_id": ""}
        return hop.delegation_failed(
            lineage, error, f"The task did not end within its {seconds:g} seconds.", "Give it more time."
        )

    async def _in_turn(
        self, hop: Hop, invocation: Invocation, lineage: Lineage, task_id: str, seconds: float, turns: CallQueue | None
    ) -> Done:
        owner, host = hop.delegator.agent_id, hop.target.host
        if turns is not None and not turns.take(owner):
            # The deadline of the whole ends the waiting.
            await turns.wait(seconds + 1, owner)
        try:
            if host is None:
                return await self._run_here(hop, invocation, lineage)
            return await self._run_remotely(hop, host, invocation, lineage, task_id, seconds)
        finally:
            if turns is not None:
                turns.give_back(owner)

    # Here

    async def _run_here(self, hop: Hop, invocation: Invocation, lineage: Lineage) -> Done:
        session_id = os.urandom(16).hex()
        answers: list[Response] = []
        for number, call in enumerate(hop.asked.calls):
            path = f"/agents/{hop.target.label}{'' if call.path == '/' else call.path}"
            response = await invocation.delegate(call.method, path, call.parameters, lineage, session_id)
            refused = not 200 <= response.status < 300 or response.status == Status.AUTHORIZATION_REQUIRED
            if refused or awaits_approval(response.status, _body_of(response)):
                raise hop.delegation_failed(
                    lineage,
                    {**_error_of(response), "call": number, **_call_to_json(call)},
                    "The agent that the task was delegated to did not complete it.",
                    "Correct the task as the nested error says.",
                )
            answers.append(response)
        return Done(result=_render_result(hop, lineage, _outcomes(hop, answers)), extra={})

    # There

    async def _run_remotely(
        self, hop: Hop, host: RemoteHost, invocation: Invocation, lineage: Lineage, task_id: str, seconds: float
    ) -> Done:
        forwarded = self._to_forwarded(hop, invocation, lineage, task_id)
        try:
            answer = await host.delegate(forwarded, seconds)
        except HostUnreachable as error:
            raise Refusal(
                Reason.DELEGATION_PEER_UNREACHABLE,
                f"The host of the agent to delegate to cannot be reached: {error}",
                headers=(("Retry-After", "30"),),
                details={"peer": host.server_id, "target_agent_id": hop.target.agent_id},
                extra={"delegation": {**lineage.members(), "peer": host.server_id}},
            ) from None
        except HostLost as error:
            lost = {"status": int(Status.UNAVAILABLE), "reason": "delegation-peer-lost", "audit_id": ""}
            raise hop.delegation_failed(
                lineage,
                lost,
                f"The delegatee's host did not answer: {error} Whether it executed the task is unknown.",
                "Ask that host for its records of this Task-ID before delegating again.",
            ) from None
        if answer.doubt:
            raise self._doubtful(hop, lineage, answer, answer.doubt)
        if answer.status != Status.OK:
            raise self._remote_refusal(hop, host, lineage, answer)
        result = answer.document.get("result")
        if not isinstance(result, Mapping) or result.get("chain") != list(lineage.chain):
            raise self._doubtful(hop, lineage, answer, "it describes a different chain")
        own = {name: result[name] for name in ("status", "result", "audit_id", "results") if name in result}
        peer = {
            "server_id": host.server_id,
            "audit_id": answer.audit_id,
            "accepted_audit_id": str(result.get("accepted_audit_id", "")),
        }
        return Done(result={**_render_result(hop, lineage, own), "peer": peer}, extra={"answered": peer})

    @staticmethod
    def _to_forwarded(hop: Hop, invocation: Invocation, lineage: Lineage, task_id: str) -> Forwarded:
        if len(lineage.tokens) != lineage.depth:
            raise hop.cut(
                lineage.depth,
                "The chain continues at another host, which needs every token of it: send the tokens of the earlier "
                "hops as context.delegation_chain.",
            )
        exchange = invocation.exchange
        sent = exchange.request.headers
        asked = hop.asked
        tasks = [{**_call_to_json(call), "parameters": dict(call.parameters)} for call in asked.calls]
        given: dict[str, Any] = {
            "target_agent_id": hop.target.agent_id,
            "task": tasks if asked.sequence else tasks[0],
            "authority_scope": sorted(asked.scope),
            "delegation_token": lineage.tokens[-1],
        }
        if asked.deadline is not None:
            given["deadline"] = asked.deadline
        bounds = [(name, value) for name in BOUNDS if (value := sent.get(name.lower())) is not None]
        return Forwarded(
            delegator=hop.delegator.agent_id,
            parameters=given,
            chain=lineage.tokens[:-1],
            scope=sorted(exchange.scopes),
            task_id=task_id,
            session_id=os.urandom(16).hex(),
            fields=bounds,
        )

    @staticmethod
    def _doubtful(hop: Hop, lineage: Lineage, answer: HostAnswer, why: str) -> Refusal:
        return hop.chain_broken(
            Reason.DELEGATION_ANSWER_UNVERIFIED,
            f"The answer of the delegatee's host cannot be verified: {why}.",
            position=lineage.depth,
            fault="answer",
            audit_id=answer.audit_id,
        )

    @staticmethod
    def _remote_refusal(hop: Hop, host: RemoteHost, lineage: Lineage, answer: HostAnswer) -> Refusal:
        document = answer.document
        explanation = str(document.get("explanation", ""))[:500]
        if answer.status == Status.AUTHORITY_CHAIN_BROKEN:
            link = document.get("link")
            return hop.chain_broken(
                ForeignReason(_token(document), Status.AUTHORITY_CHAIN_BROKEN)
                if _token(document)
                else Reason.DELEGATION_CHAIN_BROKEN,
                f"The host of the delegatee cannot verify the chain: {explanation}",
                "Present tokens whose signers that host knows.",
                position=lineage.depth,
                fault="peer",
                peer=host.server_id,
                audit_id=answer.audit_id,
                **({"broken": dict(link)} if isinstance(link, Mapping) else {}),
            )
        for reason in PASSED_ON:
            if answer.status == reason.statuses[0]:
                return Refusal(
                    reason,
                    f"The host of the delegatee refused: {explanation}",
                    remedy=str(document.get("remedy", ""))[:500],
                    details={"peer": host.server_id, "peer_audit_id": answer.audit_id},
                    extra={"delegation": {**lineage.members(), "peer": host.server_id}},
                    scopes=scopes_of(document),
                )
        nested = document.get("sub_agent_error") if answer.status == Status.DELEGATION_FAILURE else None
        error = {"status": answer.status, "reason": _token(document), "audit_id": answer.audit_id}
        if isinstance(nested, Mapping):
            error = {**error, **nested}
        return hop.delegation_failed(
            lineage,
            {**error, "peer": {"server_id": host.server_id, "status": answer.status, "audit_id": answer.audit_id}},
            "The agent that the task was delegated to did not complete it."
            if nested is not None
            else f"The host of the agent that the task was delegated to refused it: {explanation}",
            "Correct the task as the nested error says.",
        )


def _token(document: Mapping[str, Any]) -> str:
    reason = document.get("reason")
    return reason[:64] if isinstance(reason, str) else ""


def _body_of(response: Response) -> Any:
    return jsontext.decode(response.body) if response.body else {}


def _call_to_json(call: Call) -> dict[str, str]:
    return {"method": call.method, "path": call.path}


def _error_of(response: Response) -> dict[str, Any]:
    body = _body_of(response)
    details = dict(body) if isinstance(body, dict) else {}
    for name in ("attribution", "status", "type", "code", "error", "task_id"):
        details.pop(name, None)
    return {
        "status": int(response.status),
        "audit_id": response.audit_id,
        "reason": "",
        **details,
    }


def _outcomes(hop: Hop, answers: Sequence[Response]) -> dict[str, Any]:
    outcomes: list[dict[str, Any]] = []
    for response in answers:
        body = _body_of(response)
        if isinstance(body, dict) and "result" in body and "attribution" in body:
            body = body["result"]
        outcomes.append({"status": int(response.status), "result": body, "audit_id": response.audit_id})
    return {"results": outcomes} if hop.asked.sequence else outcomes[0]


def shown_hop(hop: Hop, lineage: Lineage) -> dict[str, Any]:
    """Return the description of the hop for its delegator, independent of the task's outcome."""
    return {
        "target_agent_id": hop.target.agent_id,
        "authority_scope": sorted(lineage.scope),
        "chain": list(lineage.chain),
        "depth": lineage.depth,
        "accepted_audit_id": lineage.audit_id,
    }


def _render_result(hop: Hop, lineage: Lineage, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    shown = {**shown_hop(hop, lineage), **outcomes}
    if hop.asked.callback is not None and not hop.asked.asynchronous:
        # Where the host notifies callbacks, its report of that replaces this value.
        shown["callback"] = {"delivered": False, "reason": "answered-directly"}
    return shown
