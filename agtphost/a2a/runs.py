"""Run calls of A2A clients: each becomes one request to the dispatcher, and its outcome a task."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.a2a import messages
from agtphost.a2a.messages import RpcFault, invalid
from agtphost.http.clients import HttpClient
from agtphost.iagtp import IDispatcher
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Peer, Withdrawable
from agtphost.upstream.queue import CallQueue
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire.events import Request as AgtpRequest
from agtphost.wire.events import Response
from agtphost.wire.headers import Headers

log = Logger()

STORING_TASKS = 8
"""Tasks of all clients that are being stored before their calls begin."""

STORING_TASKS_PER_CLIENT = 2
"""Tasks of one client that are being stored."""

MOST_WAITING_TASKS = 512
"""Tasks that wait to be stored; the connection of each waits with it."""

LONGEST_WAIT = 20.0
"""The longest wait to be stored, in seconds."""

HELD_TASKS_PER_CLIENT = 8
"""Tasks of one client that may wait for a person; further ones end with the message that approval is needed."""

EventListener = Callable[[Mapping[str, Any]], None]
"""Takes an event of a task: a ``StreamResponse``."""


@dataclass(frozen=True, kw_only=True)
class ExposedAgent:
    """A hosted agent, and the endpoint that a message to it calls."""

    agent: Agent
    method: str
    path: str
    input: Mapping[str, Any]
    text: tuple[str, ...]
    """Path of the member that takes plain text; empty: the agent takes only data."""

    answer: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    """The schema of the endpoint's input; empty if it is not known."""


class TaskTable(Protocol):
    """A store of tasks, such as :class:`agtphost.adapters.a2a.front_tasks.FrontTaskTable`."""

    def begin(self, client: str, agent_id: str, document: Mapping[str, Any], call: Withdrawable) -> Awaitable[None]:
        """Store a new task durably; fails if it cannot be stored."""

    def settle(self, task_id: str, document: Mapping[str, Any]) -> Awaitable[None]:
        """Store durably how a task has ended."""

    def interrupt(self, task_id: str, document: Mapping[str, Any]) -> None:
        """Show a running task in this form until it ends or is shown in another."""

    def is_withdrawn(self, task_id: str) -> bool:
        """Return whether a task's call was ended by a request."""


@dataclass(eq=False, kw_only=True)
class TaskRun:
    """A task whose call is running."""

    client: HttpClient
    exposed: ExposedAgent
    document: dict[str, Any]
    peer: Peer
    values: dict[str, Any]
    session: str
    listeners: list[EventListener] = field(default_factory=list)
    waiting: list[Deferred[None]] = field(default_factory=list)
    asking: list[Deferred[None]] = field(default_factory=list)
    waits: bool = False
    """Whether it counts among the tasks of its client that wait for a person."""

    held: bool = False
    """Whether it waits for a person now."""

    over: bool = False

    def publish(self, event: Mapping[str, Any]) -> None:
        """Send an event to every listener."""
        for listener in list(self.listeners):
            listener(event)

    def when_ended(self) -> Deferred[None]:
        """Return a Deferred that fires once the task is over and stored; it may be cancelled."""
        return _fired_by(self.waiting, self.over)

    def when_answerable(self) -> Deferred[None]:
        """
        Return a Deferred that fires once there is an answer for the client: the task is over, or waits for a person.
        """
        return _fired_by(self.asking, self.over or self.held)

    def hold(self) -> None:
        """Note that the task waits for a person."""
        self.held = True
        _fire(self.asking)

    def finish(self) -> None:
        """Note that the task is over."""
        self.over, self.held = True, False
        self.listeners.clear()
        _fire(self.waiting)
        _fire(self.asking)


def _fired_by(waiting: list[Deferred[None]], already: bool) -> Deferred[None]:
    done: Deferred[None] = Deferred(waiting.remove)
    if already:
        done = Deferred()
        done.callback(None)
    else:
        waiting.append(done)
    return done


def _fire(waiting: list[Deferred[None]]) -> None:
    fired = waiting[:]
    waiting.clear()
    for done in fired:
        done.callback(None)


class TaskRuns:
    """
    The running calls.

    :param tasks: the store of tasks.
    :param turns: a queue for storing new tasks, fair between clients: one that begins many waits behind one that begins
        one.
    """

    def __init__(self, dispatcher: IDispatcher, tasks: TaskTable, turns: CallQueue) -> None:
        self._turns = turns
        self._dispatcher = dispatcher
        self._tasks = tasks
        self._runs: dict[str, TaskRun] = {}

    def get(self, task_id: str) -> TaskRun | None:
        """Return the run of a task."""
        return self._runs.get(task_id)

    async def begin(
        self, exposed: ExposedAgent, client: HttpClient, message: Any, *, told: EventListener | None
    ) -> TaskRun:
        """
        Begin a task; its call continues even if the client disconnects.

        :param told: gets every event, from the first on; with it, the call is asked for interim messages.
        :raises RpcFault: the message cannot be read, or the task cannot be stored.
        """
        if not isinstance(message, dict):
            raise invalid("message is missing")
        context = message.get("contextId") or secrets.token_hex(16)
        if not isinstance(context, str) or len(context) > 256:
            raise invalid("message.contextId is not a text of at most 256 characters")
        values = messages.input_of(message, exposed.input, exposed.text, exposed.schema)
        status = {"state": messages.WORKING, "timestamp": messages.stamp()}
        # The name includes the client, so a client can name only its own sessions.
        named = f"{client.key}\n{exposed.agent.agent_id}\n{context}"
        run = TaskRun(
            client=client,
            exposed=exposed,
            document={"id": str(uuid.uuid4()), "contextId": context, "status": status},
            peer=client.peer(),
            values=values,
            session=f"a2a-{sha256(named.encode()).hexdigest()[:32]}",
        )
        link = run.peer.link
        assert isinstance(link, Withdrawable), "a client's calls can be withdrawn"
        try:
            await self._keep(client, dict(run.document), link)
        except Exception as error:
            log.warn("a task of an A2A client cannot be kept: {why}", why=str(error))
            raise RpcFault(-32603, f"The task cannot be kept: {error}") from None
        self._runs[run.document["id"]] = run
        if told is not None:
            run.listeners.append(told)
        run.publish({"task": dict(run.document)})
        working = Deferred.fromCoroutine(self._run(run, stream=told is not None))
        working.addErrback(lambda failure: log.failure("a task of the A2A front failed", failure))
        working.addBoth(lambda _: self._finish(run))
        return run

    async def _keep(self, client: HttpClient, document: Mapping[str, Any], link: Withdrawable) -> None:
        if not self._turns.take(client.key):
            await self._turns.wait(LONGEST_WAIT, client.key)
        try:
            await self._tasks.begin(client.key, _owner(client), document, link)
        finally:
            self._turns.give_back(client.key)

    def _finish(self, run: TaskRun) -> None:
        self._runs.pop(run.document["id"], None)
        run.finish()

    async def _run(self, run: TaskRun, *, stream: bool) -> None:
        document = run.document
        response = await self._dispatch(run, stream=stream)
        answer = run.exposed.answer
        state, sentence, result, metadata = messages.outcome_of(response, answer)
        if response.status == 422:
            sentence = f"{sentence} {messages.describe_input(run.exposed.schema, run.exposed.input)}".rstrip()
        if sentence and self._tasks.is_withdrawn(document["id"]):
            state = messages.CANCELED
        document["metadata"] = metadata
        if not sentence:
            artifact = {"artifactId": "result", "name": "result", "parts": messages.parts_of(result, answer)}
            document["artifacts"] = [artifact]
        update = _update(document, state, [{"text": sentence}] if sentence else [], metadata)
        document["status"] = update["status"]
        try:
            await self._tasks.settle(document["id"], dict(document))
        except Exception as error:
            log.error("the end of a task of the A2A front is not kept: {why}", why=str(error))
        for event in _last_events(document, update):
            run.publish(event)

    async def _dispatch(self, run: TaskRun, *, stream: bool) -> Response:
        """
        Return the answer to a task's call; if it needs a person's approval, the call waits for that.

        :param stream: whether interim messages are passed on.
        """

        def interim(response: Response) -> None:
            event = _event(response)
            approval = messages.approval_in(event)
            if approval:
                self._hold(run, approval)
                return
            if run.held:
                self._resume(run)
            if stream:
                run.publish({"statusUpdate": _update(run.document, messages.WORKING, [{"data": event}])})

        response = await self._dispatcher.dispatch(
            _request(run, stream=stream, waits=False), run.peer, interim if stream else None
        )
        approval = messages.approval_in(_body(response)) if response.status == 202 else {}
        waiting = sum(1 for each in self._runs.values() if each.waits and each.client.key == run.client.key)
        if not approval or waiting >= HELD_TASKS_PER_CLIENT:
            return response
        run.waits = True
        # Its first event reports that it waits; from then on it can be cancelled.
        return await self._dispatcher.dispatch(_request(run, stream=True), run.peer, interim)

    def _hold(self, run: TaskRun, approval: Mapping[str, Any]) -> None:
        said: list[dict[str, Any]] = [{"text": messages.held_text(approval)}, {"data": {"approval": dict(approval)}}]
        metadata = {f"agtp.{name}": value for name, value in approval.items()}
        self._show(run, _update(run.document, messages.AUTH_REQUIRED, said, metadata))
        run.hold()

    def _resume(self, run: TaskRun) -> None:
        run.held = False
        self._show(run, _update(run.document, messages.WORKING, []))

    def _show(self, run: TaskRun, update: dict[str, Any]) -> None:
        run.document["status"] = update["status"]
        self._tasks.interrupt(run.document["id"], dict(run.document))
        run.publish({"statusUpdate": update})


def _owner(client: HttpClient) -> str:
    """Return the Agent-ID in whose name a client's calls are made."""
    if client.certificate is not None:
        return client.certificate.agent_id or ""
    return dict(client.fields).get("Agent-ID", "")


def _request(run: TaskRun, *, stream: bool, waits: bool = True) -> AgtpRequest:
    """
    Return the AGTP request of a task.

    :param waits: whether a stream waits for a person.
    """
    exposed = run.exposed
    fields = [
        *run.client.headers,
        ("Task-ID", run.document["id"]),
        ("Session-ID", run.session),
        ("Content-Type", media_types.AGTP_JSON),
    ]
    path = f"/agents/{exposed.agent.name}{exposed.path if exposed.path != '/' else ''}"
    body: dict[str, Any] = {"method": exposed.method, "parameters": run.values}
    if stream:
        body["context"] = {"stream": True, **({} if waits else {"approval_wait": 0})}
    return request_of(exposed.method, path, fields, body)


def request_of(method: str, path: str, fields: list[tuple[str, str]], body: Mapping[str, Any]) -> AgtpRequest:
    """Return a request made by this host."""
    return AgtpRequest(
        method=method,
        path=path,
        headers=Headers(fields),
        body=jsontext.encode(body),
        line=f"AGTP/1.0 {method} {path}\r\n".encode("ascii"),
    )


def _last_events(document: Mapping[str, Any], update: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    ids = {"taskId": document["id"], "contextId": document["contextId"]}
    for artifact in document.get("artifacts", ()):
        yield {"artifactUpdate": {**ids, "artifact": artifact, "lastChunk": True}}
    yield {"statusUpdate": update}


def _update(
    document: Mapping[str, Any],
    state: str,
    parts: list[dict[str, Any]],
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    status: dict[str, Any] = {"state": state, "timestamp": messages.stamp()}
    if parts:
        status["message"] = messages.agent_message(document["id"], document["contextId"], str(uuid.uuid4()), parts)
    update = {"taskId": document["id"], "contextId": document["contextId"], "status": status}
    return {**update, "metadata": dict(metadata)} if metadata else update


def _body(response: Response) -> Mapping[str, Any]:
    body = jsontext.decode(response.body) if response.body else {}
    return body if isinstance(body, dict) else {}


def _event(response: Response) -> Mapping[str, Any]:
    """Return the event of an interim message."""
    result = _body(response).get("result")
    event = result.get("event") if isinstance(result, dict) else None
    return event if isinstance(event, dict) else {"event": event}
