"""
Track calls in flight, and calls that wait for input between two requests.

One tracker serves all servers of a host. It streams events to callers who asked for them, keeps calls that wait for
input, cancels calls by Task-ID, and knows which agent each task belongs to.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from agtphost.adapters.callers import caller_of, owner_of
from agtphost.adapters.mcp.elicitation import CallContext
from agtphost.adapters.mcp.notifications import LEVELS, NotificationQueue
from agtphost.adapters.mcp.request_states import RequestStates, WaitingRequest
from agtphost.adapters.mcp.requests import IsMcpServer, McpCall
from agtphost.adapters.mcp.roots import REQUEST, RootsNeeded, configured_roots, roots_of
from agtphost.adapters.mcp.tools import check_structured
from agtphost.adapters.mcp.versions import META
from agtphost.audit.drafts import Change
from agtphost.audit.state import StateTable
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.context import LAST_WORD
from agtphost.handlers.listening_requests import ListeningRequests
from agtphost.identity.peer import client_of
from agtphost.upstream.failures import CallCancelled, UnreadableAnswer, UpstreamFailure
from agtphost.upstream.refusals import refusal
from agtphost.vocabulary.lru import keep
from agtphost.vocabulary.mcp_members import ROOTS
from agtphost.vocabulary.quotas import ITEM_KINDS
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

TASK = "mcp-task"
"""
The kind of state items that record the owner of a task, and the client of a front that began it; the key is ``server
taskId``.
"""

TASK_DAYS = 7
MOST_TASKS = ITEM_KINDS[TASK].per_owner
"""Tasks of one agent that are remembered; an agent with that many creates no more."""

MOST_LEVELS = 10_000
_NO_RESPONSES: Mapping[str, Any] = {}

ROUNDS = 8
"""Rounds that the configuration alone answers; a server that asks more often than that is broken."""


def wants_stream(context: BuiltInContext) -> bool:
    """Return whether the caller asked for interim messages."""
    invocation = context.invocation
    return invocation is not None and invocation.exchange.context.get("stream") is True


class CallTracker:
    """
    The tracker of calls to MCP servers.

    :param clock: times waiting calls.
    :param held: the table where tasks are remembered.
    :param now: seconds since the Unix epoch.
    """

    def __init__(
        self,
        clock: IReactorTime,
        held: StateTable | None = None,
        now: Callable[[], float] = time.time,
        listening: ListeningRequests | None = None,
    ) -> None:
        self._now = now
        self._clock = clock
        self.items = StateTable() if held is None else held
        self._running: dict[tuple[str, str], list[CallContext]] = {}
        self._levels: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.listening = ListeningRequests(clock) if listening is None else listening
        self.request_states = RequestStates(clock, lambda: secrets.token_urlsafe(24))

    async def perform(self, context: BuiltInContext, call: McpCall) -> Answer:
        """
        Call a server for a caller.

        :raises Refusal: as adapters section 1.1 maps failures.
        """
        server = call.server
        seconds = server.settings.timeout
        if context.deadline:
            seconds = min(seconds, context.deadline - LAST_WORD - server.clock.seconds())
        agent_id = owner_of(context)
        roots = waiting = None
        if call.repetition:
            roots = roots_of(call.repetition.get("inputResponses") or _NO_RESPONSES)
            waiting = self._take_waiting(context, call, agent_id)
        streamed = wants_stream(context)
        plain = context.task_id is None and not streamed and not call.meta and not call.repetition
        asking = (
            None if plain and not server.isolated else self._make_context(context, call, agent_id, streamed=streamed)
        )
        try:
            if call.meta and waiting is None:
                instance = await server.choose_instance(agent_id, context.session_id, call.meta, seconds, roots)
            elif waiting is not None and (waiting.pending is not None or not server.isolated):
                instance = waiting.instance
            else:
                instance = server.instance_of(agent_id, context.session_id)
            if asking is None:
                result = await call.perform(instance, context, seconds, None)
            else:
                result = await self._perform_tracked(context, call, instance, seconds, asking, waiting)
        except RootsNeeded:
            return ask_for_roots()
        except UpstreamFailure as failure:
            raise refusal("mcp", server.settings.name, failure) from failure
        except CancelledError:
            raise refusal("mcp", server.settings.name, CallCancelled("the call was cancelled")) from None
        octets = instance.octets_of(result)
        kind = result.get("resultType")
        if kind == "input_required":
            return self._answer_input_required(context, call, instance, asking, result, agent_id)
        if kind == "task" and call.member == "tool_response":
            return self._answer_task(call, result, agent_id, client_of(context.peer))
        if call.output is not None:
            check_structured(result, call.output, server.settings.name)
        encoded = b'{"%b":%b}' % (call.member.encode(), octets) if octets else b""
        return Answer(result={call.member: result}, encoded=encoded)

    # Cancellation

    def cancel(self, agent_id: str, task_id: str) -> int:
        """
        Cancel the calls of an agent under a Task-ID.

        :return: how many there were, including suspended ones.
        """
        running = list(self._running.get((agent_id, task_id), ()))
        for asking in running:
            asking.cancel()
        return len(running) + self.request_states.give_up(agent_id, task_id)

    # Levels

    def set_level(self, agent_id: str, session_id: str | None, level: str) -> None:
        """Set the least level of log events for an agent in a session."""
        keep(self._levels, (agent_id, session_id or ""), level, MOST_LEVELS)

    # Tasks

    def find_task(self, agent_id: str, client: str, task_id: str, server: str | None) -> tuple[str, str] | None:
        """
        Return the server and the tool of an agent's task.

        :param client: the client of a front that asks; empty: the agent itself. Each has its own tasks.
        :return: None where the client has no such task.
        """
        for item in self.items.items_of(TASK, agent_id):
            named, _, known = item.key.partition(" ")
            if known == task_id and server in (None, named) and item.value.get("client", "") == client:
                return named, str(item.value["tool"])
        return None

    def _make_context(self, context: BuiltInContext, call: McpCall, agent_id: str, *, streamed: bool) -> CallContext:
        meta = call.meta
        capabilities = meta.get(META + "clientCapabilities")
        if type(capabilities) is not dict:
            capabilities = None
        elif "extensions" in capabilities and self.items.count(TASK, agent_id) >= MOST_TASKS:
            capabilities = {name: value for name, value in capabilities.items() if name != "extensions"}
        level = meta.get(META + "logLevel")
        if level not in LEVELS:
            level = self._levels.get((agent_id, context.session_id or ""), "")
        return CallContext(capabilities=capabilities, level=level if streamed else "", streamed=streamed)

    async def _perform_tracked(
        self,
        context: BuiltInContext,
        call: McpCall,
        instance: IsMcpServer,
        seconds: float,
        asking: CallContext,
        waiting: WaitingRequest | None,
    ) -> Mapping[str, Any]:
        key, agent_id = None, owner_of(context)
        if context.task_id is not None and context.caller is not None:
            key = agent_id, context.task_id
            self._running.setdefault(key, []).append(asking)
        queue = None
        if asking.streamed:
            queue = NotificationQueue(context.emit, call.server.settings.name, asking.level)
            asking.sink = queue.take
        try:
            if waiting is None and not call.repetition and call.server.settings.roots is None:
                result = await call.perform(instance, context, seconds, asking)
            else:
                result = await self._run_rounds(context, call, instance, seconds, asking, waiting)
            if queue is not None:
                await queue.drain()
            return result
        finally:
            if queue is not None:
                queue.close()
            if key is not None:
                running = self._running[key]
                running.remove(asking)
                if not running:
                    del self._running[key]

    async def _run_rounds(
        self,
        context: BuiltInContext,
        call: McpCall,
        instance: IsMcpServer,
        seconds: float,
        asking: CallContext,
        waiting: WaitingRequest | None,
    ) -> Mapping[str, Any]:
        """Run one round with the caller; questions that the configuration answers take no round."""
        responses = call.repetition.get("inputResponses")
        responses = responses if type(responses) is dict else {}
        responses = {name: value for name, value in responses.items() if name != ROOTS}
        if waiting is not None and waiting.pending is not None:
            asking.pending = waiting.pending
            caller = caller_of(context)
            return await waiting.instance.resume(waiting.pending, responses, seconds, asking, caller)
        if waiting is not None:
            asking.again = repeat_members(waiting.state, {**waiting.answered, **responses})
        elif responses:
            asking.again = repeat_members(None, responses)
        roots = call.server.settings.roots
        now = call.server.clock.seconds
        until = now() + seconds
        for _ in range(ROUNDS):
            result = await call.perform(instance, context, until - now(), asking)
            requests = result.get("inputRequests")
            if roots is None or asking.pending is not None or result.get("resultType") != "input_required":
                return result
            if type(requests) is not dict or not all(_is_roots(asked) for asked in requests.values()):
                return result
            answers = {name: configured_roots(roots) for name in requests}
            asking.again = repeat_members(result.get("requestState"), answers)
        raise UnreadableAnswer("the server asks for its roots again and again")

    def _take_waiting(self, context: BuiltInContext, call: McpCall, agent_id: str) -> WaitingRequest | None:
        token = call.repetition.get("requestState")
        if token is None:
            return None
        waiting = self.request_states.take(token, agent_id, context.task_id, call.label)
        if waiting is None:
            raise Refusal(Reason.REQUEST_STATE_UNKNOWN)
        return waiting

    def _answer_input_required(
        self,
        context: BuiltInContext,
        call: McpCall,
        instance: IsMcpServer,
        asking: CallContext | None,
        result: Mapping[str, Any],
        agent_id: str,
    ) -> Answer:
        requests, state = result.get("inputRequests"), result.get("requestState")
        requests = requests if type(requests) is dict else {}
        answered: dict[str, Any] = {}
        roots = call.server.settings.roots
        if roots is not None:
            answered = {name: configured_roots(roots) for name, asked in requests.items() if _is_roots(asked)}
            requests = {name: asked for name, asked in requests.items() if name not in answered}
        waiting = WaitingRequest(
            agent_id=agent_id,
            task_id=context.task_id,
            named=call.label,
            instance=instance,
            pending=None if asking is None else asking.pending,
            state=state if type(state) is str else None,
            answered=answered,
        )
        token = self.request_states.put(waiting)
        body = {"resultType": "input_required", "inputRequests": requests, "requestState": token}
        return Answer(status=Status.ACCEPTED, result=body)

    def _answer_task(self, call: McpCall, result: Mapping[str, Any], agent_id: str, client: str) -> Answer:
        task_id = result.get("taskId")
        server = call.server.settings.name
        if type(task_id) is not str or not 0 < len(task_id) <= 256 or not task_id.isprintable():
            raise refusal("mcp", server, UnreadableAnswer("the server's task has no identifier"))
        key = f"{server} {task_id}"
        known = self.items.get(TASK, key)
        if known is not None and (known.owner, known.value.get("client", "")) != (agent_id, client):
            raise refusal("mcp", server, UnreadableAnswer("the server gave two tasks one identifier"))
        change = Change(
            kind=TASK,
            key=key,
            value={"tool": call.label.rpartition(" ")[2], **({"client": client} if client else {})},
            owner=agent_id,
            expires_at=int((self._now() + TASK_DAYS * 86_400) * 1000),
        )
        body = {"resultType": "task", call.member: result}
        return Answer(status=Status.ACCEPTED, result=body, changes=(change,))


def ask_for_roots() -> Answer:
    """Ask the caller for its roots; nothing was sent, so that no state has to come back."""
    body = {"resultType": "input_required", "inputRequests": dict(REQUEST)}
    return Answer(status=Status.ACCEPTED, result=body)


def repeat_members(state: object, responses: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that a repeated request has in addition."""
    members: dict[str, Any] = {}
    if responses:
        members["inputResponses"] = dict(responses)
    if type(state) is str:
        members["requestState"] = state
    return members


def _is_roots(asked: object) -> bool:
    return type(asked) is dict and asked.get("method") == "roots/list"


@implementer(IBuiltInHandler)
class AskForRoots:
    """
    The handler that asks the caller for its roots before a call, so that a person approves the call with its roots.
    """

    kind = "mcp"

    def handle(self, context: BuiltInContext) -> Answer:
        """Ask for the roots."""
        return ask_for_roots()


@implementer(IBuiltInHandler)
class CancelCalls:
    """
    The handler that cancels the caller's calls under a Task-ID.

    :param task_id: the Task-ID.
    """

    kind = "mcp"

    def __init__(self, calls: CallTracker, task_id: str) -> None:
        self._calls = calls
        self._task_id = task_id

    def handle(self, context: BuiltInContext) -> Answer:
        """Cancel the calls and answer with their number."""
        cancelled = self._calls.cancel(owner_of(context), self._task_id)
        return Answer(result={"mcp_response": {"cancelled": cancelled}})
