"""Write A2A operations as HTTP requests and read the answers: JSON-RPC of 1.0 and 0.3, HTTP+JSON of 1.0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import quote, urlencode

from agtphost.adapters.a2a import legacy
from agtphost.adapters.a2a.card import JSONRPC, Interface
from agtphost.upstream.bodies import ErrorEvent
from agtphost.upstream.failures import ErrorAnswer, UnreadableAnswer, UpstreamRefused
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.a2a_errors import (
    INTERNAL,
    INVALID_PARAMS,
    TASK_NOT_FOUND,
    UNSUPPORTED_OPERATION,
    code_in,
    info,
)

Params = Mapping[str, Any]

ID = 1
"""The id of every JSON-RPC request, since each has a separate HTTP exchange."""

_PUSH = "/tasks/{taskId}/pushNotificationConfigs"
_OLD_PUSH = "tasks/pushNotificationConfig/"


class A2aOperation(Enum):
    """An operation of A2A 1.0: its JSON-RPC method, its HTTP method and path, and its JSON-RPC method in 0.3."""

    SEND = "SendMessage", "POST", "/message:send", "message/send"
    STREAM = "SendStreamingMessage", "POST", "/message:stream", "message/stream"
    GET = "GetTask", "GET", "/tasks/{id}", "tasks/get"
    LIST = "ListTasks", "GET", "/tasks", ""
    CANCEL = "CancelTask", "POST", "/tasks/{id}:cancel", "tasks/cancel"
    SUBSCRIBE = "SubscribeToTask", "GET", "/tasks/{id}:subscribe", "tasks/resubscribe"
    PUSH_CREATE = "CreateTaskPushNotificationConfig", "POST", _PUSH, f"{_OLD_PUSH}set"
    PUSH_GET = "GetTaskPushNotificationConfig", "GET", f"{_PUSH}/{{id}}", f"{_OLD_PUSH}get"
    PUSH_LIST = "ListTaskPushNotificationConfigs", "GET", _PUSH, f"{_OLD_PUSH}list"
    PUSH_DELETE = "DeleteTaskPushNotificationConfig", "DELETE", f"{_PUSH}/{{id}}", f"{_OLD_PUSH}delete"
    EXTENDED_CARD = "GetExtendedAgentCard", "GET", "/extendedAgentCard", "agent/getAuthenticatedExtendedCard"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """An HTTP request for an operation."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: object


class Dialect:
    """
    The protocol of one agent's interface.

    :param interface: the interface that was chosen from its card.
    """

    def __init__(self, interface: Interface) -> None:
        self._interface = interface
        self._old = interface.version == "0.3"
        self._rpc = interface.binding == JSONRPC

    def make_request(self, operation: A2aOperation, params: Params, extensions: str = "") -> HttpRequest:
        """
        Return the request of an operation.

        :param extensions: the A2A extensions that the caller wants to be active.
        :raises ErrorAnswer: the agent's protocol version does not have the operation.
        """
        interface = self._interface
        rpc_method, http_method, path, old_method = operation.value
        streaming = operation in (A2aOperation.STREAM, A2aOperation.SUBSCRIBE)
        accept = "text/event-stream" if streaming else "application/json"
        headers: tuple[tuple[str, str], ...] = (("A2A-Version", interface.version), ("Accept", accept))
        if extensions:
            headers = (*headers, ("A2A-Extensions", extensions))
        if self._rpc:
            if self._old:
                if not old_method:
                    raise ErrorAnswer(
                        {
                            "code": UNSUPPORTED_OPERATION,
                            "message": f"The agent speaks A2A 0.3, which has no {rpc_method}",
                            "data": [info(UNSUPPORTED_OPERATION, {})],
                        }
                    )
                params = legacy.to_old_params(rpc_method, params)
                rpc_method = old_method
            elif interface.tenant:
                params = {**params, "tenant": interface.tenant}
            body = {"jsonrpc": "2.0", "id": ID, "method": rpc_method, "params": params}
            return HttpRequest(method="POST", url=interface.url, headers=headers, body=body)
        return self._rest(http_method, path, params, headers)

    def _rest(self, method: str, path: str, params: Params, headers: tuple[tuple[str, str], ...]) -> HttpRequest:
        rest = dict(params)
        for name in ("taskId", "id"):
            if f"{{{name}}}" in path:
                if not isinstance(rest.get(name), str) or not rest[name]:
                    raise ErrorAnswer({"code": INVALID_PARAMS, "message": f"{name} is missing"})
                path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
        tenant = f"/{quote(self._interface.tenant, safe='')}" if self._interface.tenant else ""
        url = f"{self._interface.url.rstrip('/')}{tenant}{path}"
        if method == "POST":
            headers = (*headers, ("Content-Type", "application/a2a+json"))
            return HttpRequest(method=method, url=url, headers=headers, body=rest)
        plain = {name: _query_value(value) for name, value in rest.items() if isinstance(value, (str, int))}
        query = urlencode(plain)
        return HttpRequest(method=method, url=f"{url}?{query}" if query else url, headers=headers, body=None)

    def result(self, octets: bytes) -> Any:
        """
        Return the result in an answer, or in the data of one event, in the shapes of 1.0.

        :raises ErrorAnswer: it is an error.
        :raises UnreadableAnswer: it is neither.
        """
        value = _object(octets)
        if self._rpc:
            error = value.get("error")
            if error is not None:
                raise ErrorAnswer(_error(error))
            answered = value.get("id")
            # The SDK of 0.3 for Python leaves out a result that is null.
            complete = "result" in value or self._old
            if not complete or value.get("jsonrpc") != "2.0" or type(answered) is not int or answered != ID:
                raise UnreadableAnswer("its answer is not a JSON-RPC response")
            return legacy.from_old_result(value.get("result")) if self._old else value["result"]
        if "error" in value and len(value) == 1:
            raise ErrorAnswer(_status_error(value["error"]))
        return value

    def event(self, octets: bytes) -> Any:
        """
        Return the result in one event of a stream, as :meth:`result` does.

        :raises ErrorAnswer: it is an error; every event of type ``error`` ends the call.
        """
        if not isinstance(octets, ErrorEvent):
            return self.result(octets)
        try:
            error: Any = _object(octets).get("error")
        except UnreadableAnswer:
            error = None
        if error is None:
            error = "its stream ended with an error that this host cannot read"
        raise ErrorAnswer(_error(error) if self._rpc else _status_error(error))

    def read_refusal(self, failure: UpstreamRefused) -> Exception:
        """Return the error of an answer outside 2xx: an error of A2A if its body has one."""
        try:
            value = _object(failure.body)
            error = value.get("error")
            if isinstance(error, dict) and (error.get("code") is not None or error.get("status") is not None):
                return ErrorAnswer(_error(error) if self._rpc else _status_error(error))
        except UnreadableAnswer:
            return failure
        return failure


def _query_value(value: str | int) -> str | int:
    return ("true" if value else "false") if isinstance(value, bool) else value


def _object(octets: bytes) -> dict[str, Any]:
    try:
        value = jsontext.decode(octets) if octets else {}
    except jsontext.JSONTextError as error:
        raise UnreadableAnswer(f"its answer is not JSON as this host reads it: {error}") from None
    if not isinstance(value, dict):
        raise UnreadableAnswer("its answer is not a JSON object")
    return value


def _error(error: Any) -> dict[str, Any]:
    if isinstance(error, dict) and type(error.get("code")) is int:
        return error
    return {"code": INTERNAL, "message": str(error)[:500]}


def _status_error(error: Any) -> dict[str, Any]:
    """Return an error of HTTP+JSON (google.rpc.Status) with the code that JSON-RPC has for it."""
    if not isinstance(error, dict):
        return {"code": INTERNAL, "message": str(error)[:500]}
    code = code_in(error.get("details"))
    if code is None:
        code = _BY_STATUS.get(str(error.get("status")), INTERNAL)
    details = error.get("details")
    known = {"code": code, "message": error.get("message", "")}
    return {**known, "data": details} if isinstance(details, list) else known


_BY_STATUS = {"INVALID_ARGUMENT": INVALID_PARAMS, "NOT_FOUND": TASK_NOT_FOUND, "UNIMPLEMENTED": UNSUPPORTED_OPERATION}
"""Codes of errors that name no reason of A2A."""
