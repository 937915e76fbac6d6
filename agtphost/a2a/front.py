"""
Serve the A2A front: HTTP clients of A2A 1.0 and 0.3 reach hosted agents through the dispatcher.

A message becomes one request to the endpoint that the operator chose for the agent. Only the client's proof of identity
decides who makes it. It passes every gate, and its outcome becomes the task, with the Task-ID as id and the Audit-ID in
the metadata. A client's questions about its tasks are requests to the dispatcher too, and sealed like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred, TimeoutError
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from agtphost.a2a import legacy, messages, rest
from agtphost.a2a.card import PATH, VERSION, card_of, relayed_card
from agtphost.a2a.events import A2aEventStream
from agtphost.a2a.messages import NO_PUSH, NOT_CANCELABLE, UNKNOWN_TASK, UNSUPPORTED, RpcFault, invalid
from agtphost.a2a.relay import OperationRelay, RelayedAgent
from agtphost.a2a.rpc import (
    EXTENDED_CARD,
    RpcCall,
    UnreadableCall,
    asked_version,
    fault_response,
    read_call,
    require_hosted,
)
from agtphost.a2a.runs import ExposedAgent, TaskRun, TaskRuns, request_of
from agtphost.http.bounded_request import LONGEST_BODY, BoundedRequest, field_of, host_of, tail_of
from agtphost.http.clients import ClaimedSender, ClientRefused, HttpClient, HttpClients
from agtphost.http.event_stream import DisconnectWatch
from agtphost.http.refusals import refuse, refuse_unproven
from agtphost.http.registry import asks_for_haidip
from agtphost.http.status import FIELD
from agtphost.iagtp import IDispatcher
from agtphost.identity.agents import Agent
from agtphost.identity.keys import Signer
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.events import Response

__all__ = ["A2aFrontResource", "A2aFrontSettings", "ExposedAgent"]

log = Logger()

Call: TypeAlias = RpcCall | rest.RestCall

TASKS = "/a2a-tasks"
"""The path of requests about tasks: :mod:`agtphost.adapters.a2a.front_tasks`."""

LONGEST_ID = 128

MOST_CARDS = 256
"""Signed cards that are cached, by the address under which they were requested."""

CARD_CACHE = "max-age=0, must-revalidate"
"""A changed card counts from the next request on; A2A 1.0 section 8.6.1 wants a max-age."""

_LISTING = (
    *("contextId", "status", "pageSize", "pageToken"),
    *("statusTimestampAfter", "includeArtifacts"),
)


@dataclass(frozen=True, kw_only=True)
class A2aFrontSettings:
    """The operator's settings of the front."""

    url: str
    """The URL of the front; empty: the address that the client requested."""

    timeout: float
    """Seconds for which SendMessage waits for the end of the call; the call continues after that."""

    disclosed: bool = True
    """Whether everyone may read the cards, or only admitted clients."""


@dataclass(frozen=True, slots=True)
class _AdmittedA2aRequest:
    """The result of reading a request's head."""

    exposed: ExposedAgent | RelayedAgent
    label: str
    client: HttpClient | None = None
    """The admitted client; None for a request for the card."""

    route: rest.RestRoute | None = None
    """The route of HTTP+JSON; None for JSON-RPC."""


@dataclass(frozen=True, kw_only=True)
class A2aFrontFacts:
    """Settings, agents and clients of the front; a reload replaces them."""

    settings: A2aFrontSettings
    read_agents: Callable[[], Mapping[str, ExposedAgent | RelayedAgent]]
    """Returns the agents of the front by label; it is called once, by the first request."""

    clients: HttpClients
    """Admits clients."""

    offered: Callable[[Agent], bool] = lambda agent: True
    """Returns whether an agent can be called at present; otherwise it has no card."""

    @cached_property
    def agents(self) -> Mapping[str, ExposedAgent | RelayedAgent]:
        """The agents of the front by label."""
        return self.read_agents()


class A2aFrontResource(Resource):
    """
    The HTTP resource for the agents of the front, at ``/agents/NAME``.

    :param runs: the running calls.
    :param clock: measures how long SendMessage waits.
    """

    isLeaf = True

    longest_body = LONGEST_BODY

    other: Any = None
    """
    The resource of the HAIDIP card at the same path, for clients that ask for that form (HAIDIP-002); None without one.
    """

    def __init__(
        self, facts: A2aFrontFacts, dispatcher: IDispatcher, runs: TaskRuns, signer: Signer | None, clock: Any
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._dispatcher = dispatcher
        self._runs = runs
        self._relay = OperationRelay(dispatcher)
        self._signer = signer
        self._clock = clock
        self.turn_to(facts)
        self._answers: Mapping[str, Callable[[HttpClient, Call], Awaitable[Mapping[str, Any]]]] = {
            "GetTask": self._get,
            "ListTasks": self._list,
            "CancelTask": self._cancel,
        }

    def turn_to(self, facts: A2aFrontFacts) -> None:
        """Apply other facts from the next request on."""
        self._facts = facts
        self._settings = facts.settings
        self._clients = facts.clients
        self._offered = facts.offered
        self._cards: dict[tuple[str, str, str], tuple[object, bytes]] = {}

    # HTTP

    def admit(self, request: BoundedRequest) -> bytes | None:
        """
        Admit a request by its head; see :class:`agtphost.http.bounded_request.Gatekeeper`. A client that may not call
        sends no body.
        """
        path = request.path.decode("ascii", "replace")
        if self.other is not None and path == PATH and asks_for_haidip(request):
            refusal: bytes | None = self.other.admit(request)
            return refusal
        route = rest.route_of(path)
        label, card = self._label(path if route is None else route.home)
        exposed = self._facts.agents.get(label)
        if exposed is None:
            return refuse(request, 404, Reason.NOT_FOUND, "No agent has this path.")
        if card:
            if request.method not in (b"GET", b"HEAD"):
                return refuse(
                    request,
                    405,
                    Reason.METHOD_NOT_ALLOWED,
                    "This card is only read, with GET or HEAD.",
                    ("Allow", "GET, HEAD"),
                )
            if not self._in_service(exposed):
                return refuse(request, 404, Reason.NOT_FOUND, "The agent is not in service.")
            if self._settings.disclosed:
                request.admission = _AdmittedA2aRequest(exposed, label)
                return None
        else:
            allowed = ("POST",) if route is None else tuple(route.operations)
            if request.method.decode("ascii", "replace") not in allowed:
                said = f"Send a {' or a '.join(allowed)}."
                return refuse(request, 405, Reason.METHOD_NOT_ALLOWED, said, ("Allow", ", ".join(allowed)))
        try:
            client = self._clients.identify(request)
        except ClientRefused as error:
            return refuse_unproven(request, error)
        if client.proven:
            request.channel.note_proven()
        request.admission = _AdmittedA2aRequest(exposed, label, None if card else client, route)
        return None

    def find_claimed_sender(self, request: BoundedRequest) -> ClaimedSender | None:
        """Return whom a refused request names."""
        return self._clients.find_claimed_sender(request)

    def render(self, request: BoundedRequest) -> bytes | int:
        """Answer a request."""
        if request.admission is None:
            refusal = self.admit(request)
            if refusal is not None:
                return refusal
        if not isinstance(request.admission, _AdmittedA2aRequest):
            answered: bytes | int = self.other.render(request)
            return answered
        admitted: _AdmittedA2aRequest = request.admission
        exposed, client = admitted.exposed, admitted.client
        if client is None:
            return self._card(request, admitted.label, exposed)
        call: Call
        try:
            call = read_call(request) if admitted.route is None else rest.read_call(request, admitted.route)
        except UnreadableCall as unreadable:
            octets = fault_response(unreadable.call_id, unreadable.fault)
            return tail_of(request, unreadable.fault.http or 200, octets, kind="application/json")
        except RpcFault as fault:
            status, octets = rest.fault_response(fault)
            return tail_of(request, status, octets, kind="application/json")
        streamed = call.operation in ("SendStreamingMessage", "SubscribeToTask")
        if isinstance(exposed, RelayedAgent):
            relaying = self._relay_stream if streamed else self._relay_answer
            working = Deferred.fromCoroutine(relaying(request, admitted.label, exposed, client, call))
        else:
            answering = self._stream if streamed else self._answer
            working = Deferred.fromCoroutine(answering(request, exposed, client, call))
        working.addErrback(lambda failure: log.failure("an A2A client cannot be answered", failure))
        return NOT_DONE_YET

    def _label(self, path: str) -> tuple[str, bool]:
        """Return the agent of a path, and whether its card is requested; a single agent also answers without a path."""
        card = path.endswith(PATH)
        home = path[: -len(PATH)] if card else path
        if home in ("", "/") and len(self._facts.agents) == 1:
            return next(iter(self._facts.agents)), card
        prefix, _, label = home.rstrip("/").rpartition("/")
        return (label if prefix == "/agents" else ""), card

    def _in_service(self, exposed: ExposedAgent | RelayedAgent) -> bool:
        return exposed.card() is not None if isinstance(exposed, RelayedAgent) else self._offered(exposed.agent)

    def _card(self, request: BoundedRequest, label: str, exposed: ExposedAgent | RelayedAgent) -> bytes:
        base = self._settings.url or host_of(request)
        if isinstance(exposed, RelayedAgent):
            shown: tuple[object, object] = (exposed.card(), None)
        else:
            shown = (exposed.agent.document, exposed.agent.posture)
        try:
            version = asked_version(request)
        except ValueError:
            return tail_of(request, 400, b"The address has too many query parameters.\n")
        version = version if version in (VERSION, legacy.VERSION) else ""
        known, octets = self._cards.get((label, base, version), (None, b""))
        if known != shown:
            octets = jsontext.encode(self._build_card(exposed, f"{base}/agents/{label}", version))
            if len(self._cards) >= MOST_CARDS:
                self._cards.clear()
            self._cards[label, base, version] = shown, octets
        tag = f'"{sha256(octets).hexdigest()}"'
        fields = (("Vary", "A2A-Version"), ("ETag", tag))
        if tag in (field_of(request, "if-none-match") or ""):
            return tail_of(request, 304, b"", *fields, kind="application/json", cache=CARD_CACHE)
        return tail_of(request, 200, octets, *fields, kind="application/json", cache=CARD_CACHE)

    def _build_card(
        self, exposed: ExposedAgent | RelayedAgent, url: str, version: str, extended: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """
        Build the card of an agent.

        :param version: of A2A; empty for a card of both.
        :param extended: the extended card of an agent behind the host, to show instead.
        """
        reached: dict[str, Any] = {
            "guarded": self._clients.guarded,
            "signer": self._signer,
            "certified": self._clients.certified,
            "version": version,
        }
        if isinstance(exposed, RelayedAgent):
            return relayed_card(extended or exposed.card() or {}, url, pushes=exposed.pushes, **reached)
        return card_of(exposed.agent, url, text=bool(exposed.text), **reached)

    async def _answer(self, request: BoundedRequest, exposed: ExposedAgent, client: HttpClient, call: Call) -> None:
        gone = DisconnectWatch(request)
        try:
            require_hosted(call.operation, call.params)
            if call.operation == "SendMessage":
                result = await self._send(exposed, client, call)
            else:
                result = await self._answers[call.operation](client, call)
            status, octets, kind = 200, call.result(result), call.kind
        except RpcFault as fault:
            (status, octets), kind = call.fault(fault), "application/json"
        if not gone.is_gone:
            _finish(request, status, octets, kind)

    async def _relay_answer(
        self, request: BoundedRequest, label: str, relayed: RelayedAgent, client: HttpClient, call: Call
    ) -> None:
        gone = DisconnectWatch(request)
        try:
            result = await self._relay.answer(relayed, client, call, request)
            if call.operation == EXTENDED_CARD and isinstance(result, dict):
                # It names the front, like the public card, in the version that the client speaks.
                url = f"{self._settings.url or host_of(request)}/agents/{label}"
                version = legacy.VERSION if isinstance(call, RpcCall) and call.old else VERSION
                result = self._build_card(relayed, url, version, result)
            status, octets, kind = 200, call.result(result), call.kind
        except RpcFault as fault:
            (status, octets), kind = call.fault(fault), "application/json"
        if not gone.is_gone:
            _finish(request, status, octets, kind)

    async def _relay_stream(
        self, request: BoundedRequest, label: str, relayed: RelayedAgent, client: HttpClient, call: Call
    ) -> None:
        stream, fault = await self._relay.follow(relayed, client, call, request)
        if fault is not None and not stream.has_begun and not stream.old:
            if not stream.is_gone:
                _finish(request, *call.fault(fault))
            return
        stream.begin()
        if fault is not None:
            stream.fail(fault)
        stream.finish()

    async def _stream(self, request: BoundedRequest, exposed: ExposedAgent, client: HttpClient, call: Call) -> None:
        stream = A2aEventStream(request, call)
        try:
            if call.operation == "SubscribeToTask":
                run = await self._find_run(client, call)
                stream.send({"task": dict(run.document)})
                run.listeners.append(stream.send)
            else:
                run = await self._begin(exposed, client, call, told=stream.send)
        except RpcFault as fault:
            if not stream.is_gone:
                _finish(request, *call.fault(fault))
            return
        await run.when_ended()
        stream.finish()

    # The operations

    async def _begin(self, exposed: ExposedAgent, client: HttpClient, call: Call, told: Any) -> TaskRun:
        configuration = _configuration(call.params)
        _check_history_length(configuration)
        if any(name in configuration for name in ("taskPushNotificationConfig", "pushNotificationConfig")):
            raise RpcFault(NO_PUSH, "Push notifications are not supported")
        message = call.params.get("message")
        if isinstance(message, dict) and message.get("taskId"):
            await self._dispatch(client, "QUERY", f"{TASKS}/{_task_id(message['taskId'])}")
            raise RpcFault(
                UNSUPPORTED,
                "Tasks take no further messages here; send the message with the contextId and without the taskId",
            )
        return await self._runs.begin(exposed, client, message, told=told)

    async def _send(self, exposed: ExposedAgent, client: HttpClient, call: Call) -> Mapping[str, Any]:
        run = await self._begin(exposed, client, call, told=None)
        if _configuration(call.params).get("returnImmediately") is not True:
            try:
                await run.when_answerable().addTimeout(self._settings.timeout, self._clock)
            except TimeoutError:
                log.info("a client of A2A is answered before its task {task} has ended", task=run.document["id"])
        metadata = run.document.get("metadata", {})
        client.note_answer(metadata.get("agtp.status"), metadata.get("agtp.audit_id"))
        return {"task": dict(run.document)}

    async def _get(self, client: HttpClient, call: Call) -> Mapping[str, Any]:
        _check_history_length(call.params)
        found = await self._dispatch(client, "QUERY", f"{TASKS}/{_task_id(call.params.get('id'))}")
        task: Mapping[str, Any] = found["task"]
        return task

    async def _list(self, client: HttpClient, call: Call) -> Mapping[str, Any]:
        given = {name: call.params[name] for name in _LISTING if name in call.params}
        return await self._dispatch(client, "QUERY", TASKS, given)

    async def _cancel(self, client: HttpClient, call: Call) -> Mapping[str, Any]:
        task_id = _task_id(call.params.get("id"))
        run = self._runs.get(task_id)
        await self._dispatch(client, "SUSPEND", f"{TASKS}/{task_id}")
        if run is not None:
            await run.when_ended()
        task = await self._get(client, call)
        if task["status"]["state"] != messages.CANCELED:
            raise RpcFault(NOT_CANCELABLE, "The task ended before it could be cancelled")
        return task

    async def _find_run(self, client: HttpClient, call: Call) -> TaskRun:
        task_id = _task_id(call.params.get("id"))
        await self._dispatch(client, "QUERY", f"{TASKS}/{task_id}")
        run = self._runs.get(task_id)
        if run is None:
            raise RpcFault(UNSUPPORTED, "The task has ended; read it with GetTask")
        return run

    async def _dispatch(
        self, client: HttpClient, method: str, path: str, given: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Return the dispatcher's answer to a client's request."""
        fields = [*client.headers, ("Content-Type", media_types.AGTP_JSON)]
        request = request_of(method, path, fields, {"method": method, "parameters": given or {}})
        response: Response = await self._dispatcher.dispatch(request, client.peer())
        client.note_answer(response.status, response.audit_id)
        return messages.result_of(response)


def _configuration(params: Mapping[str, Any]) -> Mapping[str, Any]:
    given = params.get("configuration")
    return given if isinstance(given, dict) else {}


def _check_history_length(given: Mapping[str, Any]) -> None:
    """Refuse a negative length: a hosted agent's tasks have no history, so that it changes nothing else."""
    length = given.get("historyLength", given.get("history_length"))
    if str(length).startswith("-"):
        raise invalid("historyLength must not be negative")


def _task_id(value: object) -> str:
    """Return a task id that is valid in a path."""
    if not isinstance(value, str) or not value:
        raise invalid("id is missing")
    if len(value) > LONGEST_ID or not all(sign.isascii() and (sign.isalnum() or sign in "-_") for sign in value):
        raise RpcFault(UNKNOWN_TASK, "This task does not exist")
    return value


def _finish(request: BoundedRequest, status: int, octets: bytes, kind: str = "application/json") -> None:
    fields = ((FIELD, str(request.agtp_status)),) if request.agtp_status else ()
    request.write(tail_of(request, status, octets, *fields, kind=kind))  # type: ignore[no-untyped-call]
    request.finish()  # type: ignore[no-untyped-call]
