"""The handlers of the A2A actions, called once every gate has admitted the EXECUTE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zope.interface import implementer

from agtphost.adapters import upstream_actions
from agtphost.adapters.a2a import messages
from agtphost.adapters.a2a.agent import A2AAgent
from agtphost.adapters.a2a.dialects import A2aOperation
from agtphost.adapters.a2a.tasks import (
    AUTH_REQUIRED,
    FAILED,
    INPUT_REQUIRED,
    PENDING,
    REJECTED,
    TaskProgress,
    state_of,
    task_in,
)
from agtphost.adapters.callers import agent_of, caller_of, owner_of
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.upstream.failures import UnreadableAnswer, UpstreamFailure
from agtphost.upstream.ownership import OwnedTask, TaskOwnership
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

SECRET_MEMBERS = ("token", "authentication")
"""Members of a push configuration that only the host and the agent know."""


class A2aAction(upstream_actions.UpstreamAction):
    """The common part of the handlers for one agent."""

    kind = "a2a"
    remote_id_member = "a2a_task_id"

    def __init__(self, agent: A2AAgent, links: TaskOwnership) -> None:
        super().__init__(agent, links)
        self._agent = agent

    async def _call_agent(self, context: BuiltInContext, operation: A2aOperation, params: Mapping[str, Any]) -> Any:
        return await self._await_outcome(self._agent.ask(operation, params, self._seconds(context), caller_of(context)))

    def _update_link(self, context: BuiltInContext, task: Mapping[str, Any], before: OwnedTask) -> OwnedTask:
        """Return the link of a task with its new state."""
        return replace(before, state=state_of(task) or before.state)

    def _read(self, progress: Any) -> TaskProgress:
        found = TaskProgress()
        try:
            found.take(progress)
        except UpstreamFailure as failure:
            raise self._to_refusal(failure) from failure
        return found


@implementer(IBuiltInHandler)
class SendMessage(A2aAction):
    """
    The handler of ``a2a.message.send``: SendStreamingMessage where the agent has streams, else SendMessage.

    A stream names the task before it ends, so that the task can be cancelled if its caller is stopped before that. The
    caller gets the events only if it asked for a stream.
    """

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Send the message, once.

        :raises Refusal: see :mod:`agtphost.upstream.refusals`; 550 for a task that failed, 422 for one that was
            rejected, 262 where the agent wants credentials.
        """
        links = self._links
        sending = messages.read(context, links, self._name, forward=self._agent.settings.forward_identity)
        extra = self._note(sending.contradicted, context)
        card = self._agent.card
        if _wants_stream(context, sending) and (card is None or card.streaming):
            progress = await self._stream(context, sending)
        else:
            progress = self._read(await self._call_agent(context, A2aOperation.SEND, sending.params))
        return self._answer(context, sending, progress, extra)

    async def _stream(self, context: BuiltInContext, sending: messages.OutgoingMessage) -> TaskProgress:
        progress = TaskProgress()
        known: OwnedTask | None = sending.link

        async def take(event: Any) -> None:
            nonlocal known
            progress.take(event)
            if known is None and progress.task is not None:
                # Make the task durable before the caller learns of it: a crash in the middle loses the stream, not the
                # task.
                known = self._link(context, sending, progress.task)
                told = {"type": "a2a.task", "task_id": known.task_id, "a2a_task_id": known.remote_id}
                record = {"a2a_task_id": known.remote_id}
                await context.invocation.commit(told, self._links.changes(known), record)
            await context.emit({"type": "a2a.event", "event": event})

        seconds, caller = self._seconds(context), caller_of(context)
        streaming = self._agent.stream(A2aOperation.STREAM, sending.params, seconds, take, caller)
        await self._await_outcome(streaming, lambda: known)
        if progress.task is None and progress.message is None:
            raise self._to_refusal(UnreadableAnswer("its stream had neither a task nor a message"))
        return progress

    def _link(self, context: BuiltInContext, sending: messages.OutgoingMessage, task: Mapping[str, Any]) -> OwnedTask:
        conversation = task.get("contextId")
        return OwnedTask(
            owner=owner_of(context),
            agent_id=agent_of(context),
            upstream=self._name,
            remote_id=str(task["id"]),
            task_id=sending.link.task_id if sending.link is not None else sending.task_id,
            conversation=conversation[:256] if isinstance(conversation, str) else "",
            session_id=context.session_id or "",
            state=state_of(task),
        )

    def _answer(
        self,
        context: BuiltInContext,
        sending: messages.OutgoingMessage,
        progress: TaskProgress,
        extra: dict[str, object],
    ) -> Answer:
        if progress.task is None:
            return self._answer_message(context, sending, progress.message, extra)
        task = progress.task
        link = self._link(context, sending, task)
        state = link.state
        changes = self._links.changes(link)
        extra = {**extra, "a2a_task_id": link.remote_id, "a2a_state": state}
        if state in (FAILED, REJECTED, AUTH_REQUIRED):
            raise _task_refusal(self._name, link, task, changes, extra)
        result: dict[str, Any] = {"task": task, "task_id": link.task_id, "a2a_task_id": link.remote_id}
        if state == INPUT_REQUIRED:
            status = task.get("status")
            wanted = status.get("message") if isinstance(status, dict) else None
            result["resultType"] = "input_required"
            result["inputRequests"] = {"message": {"type": "a2a.message", "message": wanted}}
            result["requestState"] = link.remote_id
        return Answer(
            result=result,
            status=Status.ACCEPTED if state in PENDING else Status.OK,
            headers=_task_header(context, link.task_id),
            changes=changes,
            extra=extra,
        )

    def _answer_message(
        self, context: BuiltInContext, sending: messages.OutgoingMessage, message: Any, extra: dict[str, object]
    ) -> Answer:
        """Answer with the agent's message, which made no task, and keep only the conversation."""
        changes = ()
        conversation = message.get("contextId") if isinstance(message, dict) else None
        if context.session_id and isinstance(conversation, str) and conversation:
            link = OwnedTask(
                owner=owner_of(context),
                agent_id=agent_of(context),
                upstream=self._name,
                remote_id="",
                task_id=sending.task_id,
                conversation=conversation[:256],
                session_id=context.session_id,
            )
            changes = self._links.changes(link)  # type: ignore[assignment]
        return Answer(result={"message": message}, changes=changes, extra=extra)


def _wants_stream(context: BuiltInContext, sending: messages.OutgoingMessage) -> bool:
    """Return whether the agent is asked for a stream; not where a stream cannot do what the caller wants."""
    if context.invocation is None or context.invocation.exchange.context.get("stream") is True:
        return context.invocation is not None
    configuration = sending.params.get("configuration", {})
    return configuration.get("returnImmediately") is not True and "historyLength" not in configuration


def _task_header(context: BuiltInContext, task_id: str) -> tuple[tuple[str, str], ...]:
    """Return the header with the host's Task-ID; empty where the caller has set a Task-ID."""
    return () if context.task_id is not None else (("Task-ID", task_id),)


def _task_refusal(
    upstream: str, link: OwnedTask, task: Mapping[str, Any], changes: Any, extra: Mapping[str, object]
) -> Refusal:
    reasons = {
        FAILED: Reason.A2A_TASK_FAILED,
        REJECTED: Reason.A2A_TASK_REJECTED,
        AUTH_REQUIRED: Reason.A2A_AUTH_REQUIRED,
    }
    return Refusal(
        reasons[link.state],
        details={
            "upstream": upstream,
            "a2a_task_id": link.remote_id,
            "result": {"task": dict(task), "task_id": link.task_id},
        },
        changes=changes,
        extra=extra,
        scopes=(),
    )


@implementer(IBuiltInHandler)
class TaskAction(A2aAction):
    """The handler of ``a2a.tasks.get`` and ``a2a.tasks.cancel``."""

    def __init__(self, agent: A2AAgent, links: TaskOwnership, operation: A2aOperation) -> None:
        super().__init__(agent, links)
        self._operation = operation

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Read or cancel one of the caller's own tasks.

        :raises Refusal: 404 for any other task.
        """
        payload = context.input
        link = messages.find_task(context, payload, self._links, self._name)
        params: dict[str, Any] = {"id": link.remote_id}
        if self._operation is A2aOperation.GET and "historyLength" in payload:
            params["historyLength"] = payload["historyLength"]
        result = await self._call_agent(context, self._operation, params)
        try:
            task = task_in(result)
        except UpstreamFailure as failure:
            raise self._to_refusal(failure) from failure
        after = self._update_link(context, task, link)
        pending = self._operation is A2aOperation.CANCEL and after.state in PENDING
        return Answer(
            result={"task": task, "task_id": link.task_id, "a2a_task_id": link.remote_id},
            status=Status.ACCEPTED if pending else Status.OK,
            changes=self._links.changes(after),
            extra={"a2a_task_id": link.remote_id, "a2a_state": after.state},
        )


@implementer(IBuiltInHandler)
class SubscribeToTask(A2aAction):
    """The handler of ``a2a.tasks.subscribe``: events of one of the caller's running tasks."""

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Pass the events on until the task ends or waits.

        :raises Refusal: 404 for a task of another caller, 422 where the agent has no streams.
        """
        link = messages.find_task(context, context.input, self._links, self._name)
        progress = TaskProgress()

        async def take(event: Any) -> None:
            progress.take(event)
            await context.emit({"type": "a2a.event", "event": event})

        seconds, caller = self._seconds(context), caller_of(context)
        streaming = self._agent.stream(A2aOperation.SUBSCRIBE, {"id": link.remote_id}, seconds, take, caller)
        await self._await_outcome(streaming, lambda: link)
        task = progress.task or {"id": link.remote_id}
        return Answer(
            result={"task": task, "task_id": link.task_id, "a2a_task_id": link.remote_id},
            changes=self._links.changes(self._update_link(context, task, link)),
            extra={"a2a_task_id": link.remote_id},
        )


@implementer(IBuiltInHandler)
class ListTasks(A2aAction):
    """
    The handler of ``a2a.tasks.list``: the caller's own tasks in their last known state.

    The agent is not asked: it knows this host as one client, and would list the tasks of every caller.
    """

    def handle(self, context: BuiltInContext) -> Answer:
        """Return the tasks, the last changed first."""
        wanted = context.input.get("status")
        found = [
            {
                "task_id": link.task_id,
                "a2a_task_id": link.remote_id,
                "contextId": link.conversation,
                "session_id": link.session_id or None,
                "state": link.state,
                "updated": link.updated,
            }
            for link in self._links.list_of(owner_of(context), self._name)
            if link.remote_id and (wanted is None or link.state == wanted)
        ]
        size = context.input.get("pageSize", 50)
        return Answer(result={"tasks": found[:size], "totalSize": len(found)})


@implementer(IBuiltInHandler)
class ReadCard(A2aAction):
    """The handler of ``a2a.card.get`` and ``a2a.card.extended``."""

    def __init__(self, agent: A2AAgent, links: TaskOwnership, *, extended: bool) -> None:
        super().__init__(agent, links)
        self._extended = extended

    async def handle(self, context: BuiltInContext) -> Answer:
        """Return the approved card, or the one that the agent shows to known clients."""
        if self._extended:
            return Answer(result={"card": await self._call_agent(context, A2aOperation.EXTENDED_CARD, {})})
        if self._agent.card is None:
            await self._await_description(context)
        card = self._agent.card
        assert card is not None, "an upstream that is up has a card"
        return Answer(result={"card": dict(card.document), "sha256": card.digest, "trust": card.trust})


@implementer(IBuiltInHandler)
class PushAction(A2aAction):
    """
    The handler of ``a2a.push.create``, ``.get``, ``.list`` and ``.delete``.

    Only the operator sets where an agent may call back: a request names the task alone.
    """

    def __init__(self, agent: A2AAgent, links: TaskOwnership, operation: A2aOperation) -> None:
        super().__init__(agent, links)
        self._operation = operation

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Configure push notifications of one of the caller's tasks.

        :raises Refusal: 422 for a URL in the request, and where the operator configured none.
        """
        payload = context.input
        if _names_url(payload):
            raise messages.callback_refusal("A request cannot set the URL that an agent calls back.")
        if self._operation is A2aOperation.PUSH_CREATE and not self._agent.settings.push_url:
            raise messages.callback_refusal("The operator has not configured push_url for this agent.")
        link = messages.find_task(
            context, {"id": payload["taskId"]} if "taskId" in payload else {}, self._links, self._name
        )
        params: dict[str, Any] = {"taskId": link.remote_id}
        if self._operation is A2aOperation.PUSH_CREATE:
            params["url"] = self._agent.settings.push_url
        elif self._operation is not A2aOperation.PUSH_LIST:
            params["id"] = str(payload.get("id", ""))
        result = await self._call_agent(context, self._operation, params)
        return Answer(result={"push": _without_secrets(result), "task_id": link.task_id})


def _names_url(payload: Mapping[str, Any]) -> bool:
    return any(name in payload for name in ("url", "authentication", "token", *messages.CALLBACKS))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_secrets(inner) for name, inner in value.items() if name not in SECRET_MEMBERS}
    return [_without_secrets(each) for each in value] if isinstance(value, list) else value
