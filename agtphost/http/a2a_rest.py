"""HTTP+JSON of the A2A front (A2A 1.0 section 11): one request read, its answers written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from twisted.web.server import Request

from agtphost.http.a2a_card import VERSION
from agtphost.http.a2a_messages import NO_PUSH, RpcFault, invalid
from agtphost.http.a2a_rpc import asked_version, read_body
from agtphost.vocabulary import a2a_errors, jsontext

KIND = "application/a2a+json"

_PATH = re.compile(
    r"(?P<home>|/agents/[^/]+)/(?:(?P<plain>message:send|message:stream|tasks|extendedAgentCard)"
    r"|tasks/(?P<id>[^/:]+)(?P<verb>|:cancel|:subscribe|/pushNotificationConfigs(?:/[^/]+)?))"
)
_PUSH = "PushNotificationConfig"
_OPERATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "message:send": ("SendMessage", ("POST",)),
    "message:stream": ("SendStreamingMessage", ("POST",)),
    "tasks": ("ListTasks", ("GET",)),
    "extendedAgentCard": ("GetExtendedAgentCard", ("GET",)),
    "": ("GetTask", ("GET",)),
    ":cancel": ("CancelTask", ("POST",)),
    ":subscribe": ("SubscribeToTask", ("GET", "POST")),
    "/pushNotificationConfigs": (_PUSH, ("GET", "POST")),
    "/pushNotificationConfigs/": (_PUSH, ("GET", "DELETE")),
}
_REFUSED = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
"""Refusals of the dispatcher that HTTP has the same statuses for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a path names."""

    home: str
    """The path of the agent."""

    operation: str
    methods: tuple[str, ...]
    task_id: str


def route_of(path: str) -> Route | None:
    """The operation of a path; None where it names none."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    named = found["plain"] or re.sub(r"(?<=Configs/).+", "", found["verb"])
    operation, methods = _OPERATIONS[named]
    return Route(home=found["home"], operation=operation, methods=methods, task_id=unquote(found["id"] or ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCall:
    """One request; its answers are those of JSON-RPC without the envelope."""

    operation: str
    params: Mapping[str, Any]
    kind: str = KIND

    def result(self, value: Mapping[str, Any]) -> bytes:
        """The response with a result."""
        return jsontext.encode(value)

    def event(self, event: Mapping[str, Any]) -> bytes:
        """One event of a stream."""
        return jsontext.encode(event)

    def fault(self, fault: RpcFault) -> tuple[int, bytes]:
        """The response with an error."""
        return fault_response(fault)


def fault_response(fault: RpcFault) -> tuple[int, bytes]:
    """The HTTP status and body of an error (google.rpc.Status)."""
    kind = a2a_errors.kind_of(fault.code)
    code, status = kind.http, kind.status
    refused = fault.proof.get("status")
    if fault.code == a2a_errors.INTERNAL and refused in _REFUSED:
        code, status = refused, _REFUSED[refused]
    details = [a2a_errors.info(fault.code, fault.proof)]
    error = {"code": code, "status": status, "message": fault.message, "details": details}
    return code, jsontext.encode({"error": error})


def read_call(request: Request, route: Route) -> RestCall:
    """
    Read a request.

    :raises RpcFault: for one that is none, or asks for what is not supported.
    """
    try:
        version = asked_version(request)
        query = parse_qs(request.uri.partition(b"?")[2].decode("ascii", "replace"), max_num_fields=16)
    except ValueError:
        raise invalid("The query has too many members") from None
    if version != VERSION:
        explanation = f"HTTP+JSON is spoken in A2A {VERSION}; send A2A-Version: {VERSION}"
        raise RpcFault(a2a_errors.VERSION_UNSUPPORTED, explanation)
    if route.operation == _PUSH:
        raise RpcFault(NO_PUSH, "Push notifications are not supported")
    if route.operation == "GetExtendedAgentCard":
        raise RpcFault(a2a_errors.NO_EXTENDED_CARD, "The agent has no extended card")
    params: dict[str, Any] = {name: _plain(name, values[-1]) for name, values in query.items()}
    if route.operation in ("SendMessage", "SendStreamingMessage"):
        params = read_body(request)
    if route.task_id:
        params["id"] = route.task_id
    return RestCall(operation=route.operation, params=params)


def _plain(name: str, value: str) -> object:
    """A member of the query in its own type."""
    if name in ("pageSize", "historyLength"):
        if not (value.isascii() and value.isdigit() and len(value) <= 9):
            raise invalid(f"{name} is no whole number")
        return int(value)
    return value == "true" if name == "includeArtifacts" else value
