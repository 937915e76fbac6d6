"""
The A2A front: HTTP clients of A2A 1.0 reach hosted agents through the dispatcher.

A message becomes one request to the endpoint that the operator chose for the
agent, in the name of the agent that the operator chose for the front; nothing
in HTTP chooses either. Every gate decides about it, as transport ``gateway``,
and what became of it is the task: its id is the Task-ID, its metadata the
Audit-ID. Tasks are told of until the host stops; their records stay.
"""

from __future__ import annotations

import hmac
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from agtphost.http import a2a_messages as messages
from agtphost.http.a2a_card import PATH, VERSION, card_of
from agtphost.http.a2a_messages import RpcFault, invalid
from agtphost.http.a2a_site import Listening, host_of, tail_of
from agtphost.iagtp import IDispatcher
from agtphost.identity.agents import Agent
from agtphost.identity.keys import Signer
from agtphost.identity.peer import Peer
from agtphost.vocabulary import jsontext, media_types, scopes
from agtphost.wire.events import Request as AgtpRequest
from agtphost.wire.events import Response
from agtphost.wire.headers import Headers

log = Logger()

MOST_TASKS = 1_000
"""Tasks remembered; beyond, the oldest one that has ended goes."""

MOST_RUNNING = 64
"""Tasks that run at the same time."""


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """One hosted agent, and what a message to it calls."""

    agent: Agent
    method: str
    path: str
    input: Mapping[str, Any]
    text: tuple[str, ...]
    answer: str


@dataclass(frozen=True, kw_only=True)
class FrontSettings:
    """What the operator says about the front."""

    url: str
    """How clients reach it; empty: by the address that they asked for."""

    agent_id: str
    scopes: tuple[str, ...]
    tokens: tuple[str, ...] = field(repr=False)
    timeout: float


Told = Callable[[Mapping[str, Any]], None]
"""Takes one event of a task: a ``StreamResponse``."""


@dataclass(eq=False)
class Task:
    """One task."""

    owner: str
    """Which client's: a hash of its token."""

    document: dict[str, Any]
    listeners: list[Told] = field(default_factory=list)
    working: Deferred[None] | None = None
    peer: Peer | None = None

    @property
    def state(self) -> str:
        return str(self.document["status"]["state"])

    @property
    def ended(self) -> bool:
        return self.working is None or bool(self.working.called)

    def tell(self, event: Mapping[str, Any]) -> None:
        """An event, to everybody who follows."""
        for listener in list(self.listeners):
            listener(event)


class FrontResource(Resource):
    """
    Answers for the exposed agents, at ``/agents/NAME``.

    :param exposed: by label.
    """

    isLeaf = True

    def __init__(
        self,
        settings: FrontSettings,
        exposed: Mapping[str, Exposed],
        dispatcher: IDispatcher,
        signer: Signer | None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._settings = settings
        self._exposed = exposed
        self._dispatcher = dispatcher
        self._signer = signer
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._methods: Mapping[str, Callable[[Exposed, str, Any, Request, Any], object]] = {
            "SendMessage": self._send,
            "SendStreamingMessage": self._stream,
            "GetTask": self._get,
            "ListTasks": self._list,
            "CancelTask": self._cancel,
            "SubscribeToTask": self._subscribe,
        }

    # HTTP

    def render(self, request: Request) -> bytes | int:
        """One HTTP request."""
        if request.getHeader("origin") is not None:
            return tail_of(request, 403, b"Browsers' pages are not served here.\n")
        path = request.path.decode("ascii", "replace")
        label, card = self._label(path)
        exposed = self._exposed.get(label)
        if exposed is None:
            return tail_of(request, 404, b"No agent is here.\n")
        if card:
            return self._card(request, label, exposed)
        if request.method != b"POST":
            return tail_of(request, 405, b"Send a POST.\n", ("Allow", "POST"))
        client = self._client(request)
        if client is None:
            return tail_of(request, 401, b"A bearer token is needed.\n", ("WWW-Authenticate", "Bearer"))
        return self._rpc(request, exposed, client)

    def _label(self, path: str) -> tuple[str, bool]:
        """The agent of a path, and whether its card is meant; the only one needs no path."""
        card = path.endswith(PATH)
        home = path[: -len(PATH)] if card else path
        if home in ("", "/") and len(self._exposed) == 1:
            return next(iter(self._exposed)), card
        prefix, _, label = home.rstrip("/").rpartition("/")
        return (label if prefix == "/agents" else ""), card

    def _card(self, request: Request, label: str, exposed: Exposed) -> bytes:
        if request.method not in (b"GET", b"HEAD"):
            return tail_of(request, 405, b"Send a GET.\n", ("Allow", "GET, HEAD"))
        base = self._settings.url or host_of(request)
        card = card_of(
            exposed.agent,
            f"{base}/agents/{label}",
            guarded=bool(self._settings.tokens),
            signer=self._signer,
        )
        return tail_of(request, 200, jsontext.encode(card), kind="application/json")

    def _client(self, request: Request) -> str | None:
        """Which client it is; None for one that may not call."""
        if not self._settings.tokens:
            return "anybody"
        scheme, _, token = (request.getHeader("authorization") or "").partition(" ")
        known = [mine for mine in self._settings.tokens if hmac.compare_digest(mine.encode(), token.strip().encode())]
        if scheme.lower() != "bearer" or not known:
            return None
        return sha256(known[0].encode()).hexdigest()[:32]

    # JSON-RPC

    def _rpc(self, request: Request, exposed: Exposed, client: str) -> bytes | int:
        call_id: Any = None
        try:
            body = self._body(request)
            call_id = body.get("id")
            if not isinstance(call_id, (str, int)) or isinstance(call_id, bool):
                call_id = None
                raise RpcFault(-32600, "The id is neither text nor a whole number")
            method = self._methods.get(str(body.get("method")))
            if body.get("jsonrpc") != "2.0" or not isinstance(body.get("method"), str):
                raise RpcFault(-32600, "It is no JSON-RPC 2.0 request")
            version = request.getHeader("a2a-version") or "0.3"
            if version.split(".")[:2] != VERSION.split("."):
                raise RpcFault(-32009, f"Version {version[:16]} is not supported; send A2A-Version: {VERSION}")
            if method is None:
                known = str(body["method"])
                push = "PushNotification" in known
                raise RpcFault(-32003 if push else -32601, f"{known[:64]} is not supported")
            params = body.get("params", {})
            if not isinstance(params, dict):
                raise invalid("params is not an object")
            answer = method(exposed, client, params, request, call_id)
        except RpcFault as fault:
            return tail_of(request, 200, error_of(call_id, fault), kind="application/json")
        if answer is NOT_DONE_YET:
            return NOT_DONE_YET
        return tail_of(request, 200, result_of(call_id, answer), kind="application/json")

    @staticmethod
    def _body(request: Request) -> dict[str, Any]:
        kind = media_types.essence(request.getHeader("content-type") or "")
        if kind not in ("application/json", "application/a2a+json"):
            raise RpcFault(-32600, "Content-Type is not application/json")
        try:
            body = jsontext.decode(request.content.read() if request.content is not None else b"")
        except jsontext.JSONTextError as error:
            raise RpcFault(-32700, f"It is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise RpcFault(-32600, "It is no JSON-RPC request; batches are not read")
        return body

    # The operations

    def _send(self, exposed: Exposed, client: str, params: Any, request: Request, call_id: Any) -> object:
        configuration = params.get("configuration") if isinstance(params.get("configuration"), dict) else {}
        if any(name in configuration for name in ("taskPushNotificationConfig", "pushNotificationConfig")):
            raise RpcFault(-32003, "Push notifications are not supported")
        task = self._begin(exposed, client, params, stream=False)
        if configuration.get("returnImmediately") is True:
            return {"task": dict(task.document)}
        gone = _Gone(request)

        def ended(_: object) -> None:
            if gone.yet:
                return
            octets = result_of(call_id, {"task": task.document})
            request.write(tail_of(request, 200, octets, kind="application/json"))  # type: ignore[no-untyped-call]
            request.finish()  # type: ignore[no-untyped-call]

        assert task.working is not None, "it was just begun"
        gone.leave = lambda: _leave(task)
        task.working.addCallback(ended)
        return NOT_DONE_YET

    def _stream(self, exposed: Exposed, client: str, params: Any, request: Request, call_id: Any) -> object:
        stream = _Events(request, call_id)
        task = self._begin(exposed, client, params, stream=True, told=stream.send)
        stream.gone.leave = lambda: _leave(task)
        self._follow(task, stream)
        return NOT_DONE_YET

    def _get(self, exposed: Exposed, client: str, params: Any, request: Request, call_id: Any) -> object:
        return self._known(client, params).document

    def _list(self, exposed: Exposed, client: str, params: Any, request: Request, call_id: Any) -> object:
        context, state = params.get("contextId"), params.get("status")
        size = params.get("pageSize", 50)
        size = size if isinstance(size, int) and 0 < size <= 100 else 50
        found = [
            task.document
            for task in reversed(self._tasks.values())
            if task.owner == client
            and context in (None, "", task.document["contextId"])
            and state in (None, "", "TASK_STATE_UNSPECIFIED", task.state)
        ]
        return {"tasks": found[:size], "totalSize": len(found), "pageSize": size, "nextPageToken": ""}

    def _cancel(self, exposed: Exposed, client: str, params: Any, request: Request, call_id: Any) -> object:
        task = self._known(client, params)
        if task.ended:
            raise RpcFault(-32002, "The task has ended")
        # Calls that change the world are finished and recorded, whoever waits for them.
        raise RpcFault(-32002, "A call that has begun is finished and recorded; it cannot be taken back")

    def _subscribe(self, exposed: Exposed, client: str, params: Any, request: Request, call_id: Any) -> object:
        task = self._known(client, params)
        if task.ended:
            raise RpcFault(-32004, "The task has ended; read it with GetTask")
        stream = _Events(request, call_id)
        stream.send({"task": dict(task.document)})
        task.listeners.append(stream.send)
        self._follow(task, stream)
        return NOT_DONE_YET

    def _known(self, client: str, params: Any) -> Task:
        task = self._tasks.get(str(params.get("id", "")))
        if task is None or task.owner != client:
            raise RpcFault(-32001, "There is no such task")
        return task

    @staticmethod
    def _follow(task: Task, stream: _Events) -> None:
        assert task.working is not None, "it has not ended"
        task.working.addCallback(lambda _: stream.finish())

    # The call

    def _begin(
        self, exposed: Exposed, client: str, params: Any, *, stream: bool, told: Told | None = None
    ) -> Task:
        message = params.get("message")
        if not isinstance(message, dict):
            raise invalid("message is missing")
        if message.get("taskId"):
            self._known(client, {"id": message["taskId"]})
            raise RpcFault(-32004, "Tasks take no further messages here; send the contextId alone")
        given = message.get("contextId") or str(uuid.uuid4())
        if not isinstance(given, str) or len(given) > 256:
            raise invalid("message.contextId is not a text of at most 256 characters")
        values = messages.input_of(message, exposed.input, exposed.text)
        self._make_room()
        task_id = str(uuid.uuid4())
        status = {"state": messages.WORKING, "timestamp": messages.stamp()}
        task = Task(owner=client, document={"id": task_id, "contextId": given, "status": status})
        if told is not None:
            task.listeners.append(told)
        self._tasks[task_id] = task
        task.tell({"task": dict(task.document)})
        # The client keeps its own contexts: nobody else's session can be named.
        session = sha256(f"{client}\n{exposed.agent.agent_id}\n{given}".encode()).hexdigest()[:32]
        task.working = Deferred.fromCoroutine(self._run(exposed, task, values, session, stream=stream))
        task.working.addErrback(self._surprise, task)
        return task

    @staticmethod
    def _surprise(failure: Failure, task: Task) -> None:
        """Not the call's outcome, which the dispatcher always gives: telling of it went wrong."""
        log.failure("a task of the A2A front failed", failure)
        task.document["status"] = {"state": messages.FAILED, "timestamp": messages.stamp()}
        task.listeners.clear()

    def _make_room(self) -> None:
        running = sum(1 for task in self._tasks.values() if not task.ended)
        if running >= MOST_RUNNING:
            raise RpcFault(-32603, "As many tasks run as may; try again later")
        while len(self._tasks) >= MOST_TASKS:
            oldest = next(task_id for task_id, task in self._tasks.items() if task.ended)
            del self._tasks[oldest]

    async def _run(
        self, exposed: Exposed, task: Task, values: dict[str, Any], session: str, *, stream: bool
    ) -> None:
        document = task.document
        fields = [
            ("Agent-ID", self._settings.agent_id),
            ("Task-ID", document["id"]),
            ("Session-ID", f"a2a-{session}"),
            ("Content-Type", media_types.AGTP_JSON),
        ]
        if self._settings.scopes:
            fields.append(("Authority-Scope", scopes.render(self._settings.scopes)))
        path = f"/agents/{exposed.agent.name}{exposed.path if exposed.path != '/' else ''}"
        body: dict[str, Any] = {"method": exposed.method, "parameters": values}
        if stream:
            body["context"] = {"stream": True}
        call = AgtpRequest(
            method=exposed.method,
            path=path,
            headers=Headers(fields),
            body=jsontext.encode(body),
            line=f"AGTP/1.0 {exposed.method} {path}\r\n".encode("ascii"),
        )
        task.peer = Peer(address="a2a-front", transport="gateway")

        def interim(response: Response) -> None:
            task.tell({"statusUpdate": _update(document, messages.WORKING, _event(response, document))})

        response = await self._dispatcher.dispatch(call, task.peer, interim if stream else None)
        state, sentence, result, metadata = messages.outcome_of(response, exposed.answer)
        document["metadata"] = metadata
        if not sentence:
            artifact = {"artifactId": "result", "name": "result", "parts": messages.parts_of(result, exposed.answer)}
            document["artifacts"] = [artifact]
            ids = {"taskId": document["id"], "contextId": document["contextId"]}
            task.tell({"artifactUpdate": {**ids, "artifact": artifact, "lastChunk": True}})
        words = [{"text": sentence}] if sentence else []
        update = _update(document, state, words, metadata)
        document["status"] = update["status"]
        task.tell({"statusUpdate": update})
        task.listeners.clear()


def _update(
    document: Mapping[str, Any],
    state: str,
    parts: list[dict[str, Any]],
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    status: dict[str, Any] = {"state": state, "timestamp": messages.stamp()}
    if parts:
        status["message"] = messages.said(document["id"], document["contextId"], str(uuid.uuid4()), parts)
    update = {"taskId": document["id"], "contextId": document["contextId"], "status": status}
    return {**update, "metadata": dict(metadata)} if metadata else update


def _event(response: Response, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An interim message as parts."""
    body = jsontext.decode(response.body) if response.body else {}
    result = body.get("result") if isinstance(body, dict) else None
    event = result.get("event") if isinstance(result, dict) else None
    return [{"data": event if isinstance(event, dict) else {"event": event}}]


def _leave(task: Task) -> None:
    """Nobody waits for the task any more: whoever works for that client alone may stop."""
    if task.peer is not None:
        for leave in list(task.peer.leaving):
            leave()


class _Gone:
    """Notices that a client left."""

    def __init__(self, request: Request) -> None:
        self.yet = False
        self.leave: Callable[[], None] = lambda: None
        request.notifyFinish().addErrback(self._left)

    def _left(self, _: object) -> None:
        self.yet = True
        self.leave()


class _Events:
    """Answers one call with a stream of events; a client that does not read is let go."""

    MOST_UNREAD = 4 << 20
    """Octets."""

    def __init__(self, request: Request, call_id: Any) -> None:
        self.gone = _Gone(request)
        self._request = request
        self._call_id = call_id
        self._begun = False
        self._unread = 0
        self._paused = False

    def send(self, event: Mapping[str, Any]) -> None:
        """One event."""
        if self.gone.yet:
            return
        if not self._begun:
            self._begun = True
            self._request.responseHeaders.setRawHeaders("Content-Type", ["text/event-stream"])
            self._request.responseHeaders.setRawHeaders("Cache-Control", ["no-store"])
            self._request.registerProducer(self, True)  # type: ignore[no-untyped-call]
        octets = b"data: " + result_of(self._call_id, event) + b"\r\n\r\n"
        self._unread = self._unread + len(octets) if self._paused else 0
        if self._unread > self.MOST_UNREAD:
            self.gone.yet = True
            self._request.loseConnection()  # type: ignore[no-untyped-call]
            return
        self._request.write(octets)  # type: ignore[no-untyped-call]

    def finish(self) -> None:
        """That was all."""
        if not self.gone.yet:
            self.gone.yet = True
            self._request.unregisterProducer()  # type: ignore[no-untyped-call]
            self._request.finish()  # type: ignore[no-untyped-call]

    # IPushProducer

    def pauseProducing(self) -> None:
        """The client reads slowly."""
        self._paused = True

    def resumeProducing(self) -> None:
        """It has caught up."""
        self._paused, self._unread = False, 0

    def stopProducing(self) -> None:
        """It is gone."""
        self.gone.yet = True


def result_of(call_id: Any, result: Any) -> bytes:
    """A JSON-RPC response."""
    return jsontext.encode({"jsonrpc": "2.0", "id": call_id, "result": result})


def error_of(call_id: Any, fault: RpcFault) -> bytes:
    """A JSON-RPC error."""
    return jsontext.encode({"jsonrpc": "2.0", "id": call_id, "error": {"code": fault.code, "message": fault.message}})


class A2AFront(Listening):
    """
    The service of ``[a2a.front]``.

    :param endpoint: a Twisted endpoint string of kind ``tcp`` or ``ssl``.
    :param tls: options for ``ssl``.
    :raises agtphost.errors.ConfigurationError: for an endpoint that is none.
    """

    name = "a2a front"

    def __init__(
        self,
        reactor: Any,
        endpoint: str,
        tls: Any,
        settings: FrontSettings,
        exposed: Mapping[str, Exposed],
        dispatcher: IDispatcher,
        signer: Signer | None,
    ) -> None:
        resource = FrontResource(settings, exposed, dispatcher, signer)
        super().__init__(reactor, endpoint, tls, resource, "the A2A front")
