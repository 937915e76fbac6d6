"""Read and answer HTTP+JSON requests of the A2A front (A2A 1.0 section 11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from twisted.web.server import Request

from agtphost.a2a.card import VERSION
from agtphost.a2a.messages import RpcFault, invalid
from agtphost.a2a.rpc import PUSH, asked_version, read_body, require_json
from agtphost.http.bounded_request import field_of
from agtphost.http.status import over_http
from agtphost.vocabulary import a2a_errors, jsontext

KIND = "application/a2a+json"

_PATH = re.compile(
    r"(?P<home>|/agents/[^/]+)/(?:(?P<plain>message:send|message:stream|tasks|extendedAgentCard)"
    r"|tasks/(?P<id>[^/]+?)(?P<verb>|:cancel|:subscribe|/pushNotificationConfigs(?:/(?P<push>[^/]+))?))"
)
_OPERATIONS: Mapping[str, Mapping[str, str]] = {
    "message:send": {"POST": "SendMessage"},
    "message:stream": {"POST": "SendStreamingMessage"},
    "tasks": {"GET": "ListTasks"},
    "extendedAgentCard": {"GET": "GetExtendedAgentCard"},
    "": {"GET": "GetTask"},
    ":cancel": {"POST": "CancelTask"},
    ":subscribe": {"GET": "SubscribeToTask", "POST": "SubscribeToTask"},
    "/pushNotificationConfigs": {
        "GET": "ListTaskPushNotificationConfigs",
        "POST": "CreateTaskPushNotificationConfig",
    },
    "/pushNotificationConfigs/": {
        "GET": "GetTaskPushNotificationConfig",
        "DELETE": "DeleteTaskPushNotificationConfig",
    },
}
"""Operations by path and HTTP method."""

BODY_OPERATIONS = frozenset({"SendMessage", "SendStreamingMessage", "CreateTaskPushNotificationConfig"})
"""Operations whose parameters are in the body."""

_RPC_STATUSES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""Names of google.rpc.Code for the dispatcher's refusals, by HTTP status; other statuses have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRoute:
    """The agent, operation and ids that a path names."""

    home: str
    """The path of the agent."""

    operations: Mapping[str, str]
    """The operations by HTTP method."""

    task_id: str
    push_id: str


def route_of(path: str) -> RestRoute | None:
    """Return the route of a path, or None if it names no operation."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    verb = found["verb"] or ""
    named = found["plain"] or (verb.removesuffix(found["push"]) if found["push"] else verb)
    return RestRoute(
        home=found["home"],
        operations=_OPERATIONS[named],
        task_id=unquote(found["id"] or ""),
        push_id=unquote(found["push"] or ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCall:
    """A request in HTTP+JSON; its answers are those of JSON-RPC without the envelope."""

    operation: str
    params: Mapping[str, Any]
    kind: str = KIND
    binding: str = "HTTP+JSON"

    def result(self, value: Any) -> bytes:
        """Encode a result; an operation without one answers an empty object."""
        return jsontext.encode({} if value is None else value)

    def event(self, event: Mapping[str, Any]) -> bytes:
        """Encode an event of a stream."""
        return jsontext.encode(event)

    def fault(self, fault: RpcFault) -> tuple[int, bytes]:
        """Return HTTP status and body of an error."""
        return fault_response(fault)


def fault_response(fault: RpcFault) -> tuple[int, bytes]:
    """Return the HTTP status and body of an error (google.rpc.Status)."""
    kind = a2a_errors.kind_of(fault.code)
    code, status = fault.http or kind.http, kind.status
    refused = fault.proof.get("status")
    if fault.code == a2a_errors.INTERNAL and isinstance(refused, int):
        code = over_http(refused)
        status = _RPC_STATUSES.get(code, "FAILED_PRECONDITION" if code < 500 else "INTERNAL")
    error: dict[str, Any] = {"code": code, "status": status, "message": fault.message}
    details = fault.data if isinstance(fault.data, list) else []
    if fault.code in a2a_errors.OWN and a2a_errors.code_in(details) is None:
        # An agent's error from JSON-RPC has its kind in the code alone, for which HTTP+JSON has only the reason.
        details = [*details, a2a_errors.info(fault.code, {})]
    if details:
        error["details"] = details
    return code, jsontext.encode({"error": error})


def read_call(request: Request, route: RestRoute) -> RestCall:
    """
    Read a request.

    :raises RpcFault: the request is invalid, or asks for what is not supported.
    """
    if request.method == b"POST" and (field_of(request, "content-type") or route.operations["POST"] in BODY_OPERATIONS):
        require_json(request)
    try:
        version = asked_version(request)
        query = parse_qs(request.uri.partition(b"?")[2].decode("ascii", "replace"), max_num_fields=16)
    except ValueError:
        raise invalid("The query has too many members") from None
    if version != VERSION:
        explanation = f"HTTP+JSON is supported only in A2A {VERSION}; send A2A-Version: {VERSION}"
        raise RpcFault(a2a_errors.VERSION_UNSUPPORTED, explanation)
    operation = route.operations[request.method.decode("ascii")]
    params: dict[str, Any] = {name: _plain(name, values[-1]) for name, values in query.items()}
    if operation in BODY_OPERATIONS:
        params = read_body(request)
    if operation in PUSH:
        params["taskId"] = route.task_id
        if route.push_id:
            params["id"] = route.push_id
    elif route.task_id:
        params["id"] = route.task_id
    return RestCall(operation=operation, params=params)


def _plain(name: str, value: str) -> object:
    """Return a member of the query in its own type; an invalid value stays a string, which is rejected later."""
    if name in ("pageSize", "historyLength"):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= 9 else value
    return {"true": True, "false": False}.get(value, value) if name == "includeArtifacts" else value
