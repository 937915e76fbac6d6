"""Read and answer JSON-RPC requests of the A2A front, in A2A 1.0 and 0.3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from twisted.web.server import Request

from agtphost.a2a import legacy
from agtphost.a2a.card import VERSION
from agtphost.a2a.messages import NO_PUSH, RpcFault, invalid
from agtphost.http.bounded_request import field_of
from agtphost.vocabulary import a2a_errors, jsontext, media_types
from agtphost.vocabulary.a2a_push import REQUIRED, missing_member

OPERATIONS = frozenset({"SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask"})
PUSH = frozenset(REQUIRED)
EXTENDED_CARD = "GetExtendedAgentCard"

JSON_TYPES = ("application/json", "application/a2a+json")
"""Media types of a request's body, in both bindings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcCall:
    """A request in JSON-RPC."""

    call_id: str | int | None
    operation: str
    """The operation by its name in 1.0."""

    params: Mapping[str, Any]
    """The parameters in the form of 1.0."""

    old: bool
    """Whether the client speaks 0.3."""

    kind: str = "application/json"
    binding: str = "JSONRPC"

    def result(self, value: Any) -> bytes:
        """Encode the response with a result."""
        shown = legacy.result_of(self.operation, value) if self.old else value
        return _response(self.call_id, result=shown)

    def event(self, event: Mapping[str, Any]) -> bytes:
        """Encode the response with an event of a stream."""
        return _response(self.call_id, result=legacy.event_of(event) if self.old else event)

    def fault(self, fault: RpcFault) -> tuple[int, bytes]:
        """Return the HTTP status of an error, and the encoded response."""
        return fault.http or 200, fault_response(self.call_id, fault)


def fault_response(call_id: object, fault: RpcFault) -> bytes:
    """Encode the response with an error: its reason in A2A and its proof, in the form of details in A2A 1.0."""
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return _response(call_id, error=error)


def _response(call_id: object, **members: Any) -> bytes:
    return jsontext.encode({"jsonrpc": "2.0", "id": call_id, **members})


def asked_version(request: Request) -> str:
    """Return the version of A2A that a request names, in its field or its query, without patch level; empty if none."""
    given = field_of(request, "a2a-version")
    if not given:
        query = parse_qs(request.uri.partition(b"?")[2].decode("ascii", "replace"), max_num_fields=16)
        given = next((query[name][-1] for name in ("A2A-Version", "version") if name in query), "")
    return ".".join(given.split(".")[:2])


class UnreadableCall(Exception):
    """A request that can only be answered with an error: the fault, and the id to answer with."""

    def __init__(self, fault: RpcFault, call_id: object) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.call_id = call_id


def read_call(request: Request) -> RpcCall:
    """
    Read a request.

    :raises UnreadableCall: the request is invalid, or asks for what is not supported.
    """
    call_id: Any = None
    try:
        body = read_body(request)
        given = body.get("id")
        if given is not None and (not isinstance(given, (str, int)) or isinstance(given, bool)):
            raise RpcFault(-32600, "The id is neither text nor a whole number")
        call_id = given
        return _call(call_id, body, field_of(request, "a2a-version") or legacy.VERSION)
    except RpcFault as fault:
        raise UnreadableCall(fault, call_id) from None


def _call(call_id: str | int | None, body: Mapping[str, Any], version: str) -> RpcCall:
    method = body.get("method")
    if body.get("jsonrpc") != "2.0" or not isinstance(method, str) or not method:
        raise RpcFault(-32600, "The body is not a JSON-RPC 2.0 request")
    spoken = ".".join(version.split(".")[:2])
    old = spoken == legacy.VERSION
    known = OPERATIONS | PUSH | {EXTENDED_CARD}
    if spoken not in (VERSION, legacy.VERSION) or (old and method in known):
        raise RpcFault(
            a2a_errors.VERSION_UNSUPPORTED,
            f"{method[:64]} of version {version[:16]} is not supported; send A2A-Version: {VERSION}",
        )
    operation = legacy.METHODS.get(method, "") if old else method
    if operation not in known:
        raise RpcFault(-32601, f"{method[:64]} is not supported")
    params = body.get("params", {})
    if params is not None and not isinstance(params, (dict, list)):
        raise RpcFault(-32600, "params is neither an object nor a list")
    if not isinstance(params, dict):
        raise invalid("params is not an object")
    return RpcCall(
        call_id=call_id,
        operation=operation,
        params=legacy.params_of(operation, params) if old else params,
        old=old,
    )


def require_hosted(operation: str, params: Mapping[str, Any]) -> None:
    """
    Refuse operations that the host's own agents do not support.

    :raises RpcFault: for push notifications and the extended card; -32602 for an incomplete request about the former.
    """
    if operation in PUSH:
        lacking = missing_member(operation, params)
        if lacking:
            raise invalid(f"{lacking} is missing")
        raise RpcFault(NO_PUSH, "Push notifications are not supported")
    if operation == EXTENDED_CARD:
        raise RpcFault(a2a_errors.UNSUPPORTED_OPERATION, "The agent has no extended card")


def require_json(request: Request) -> None:
    """
    Refuse a request whose type is not JSON or is missing.

    A browser sends other types, and bodies without a type, to any address without a preflight.

    :raises RpcFault: -32005, HTTP status 415 (RFC 9110 section 15.5.16).
    """
    given = field_of(request, "content-type") or ""
    if media_types.essence(given) not in JSON_TYPES:
        named = f"Content-Type is {given[:64]}" if given else "Content-Type is missing"
        explanation = f"{named}; send {' or '.join(JSON_TYPES)}"
        raise RpcFault(a2a_errors.CONTENT_TYPE_UNSUPPORTED, explanation, http=415)


def read_body(request: Request) -> dict[str, Any]:
    """
    Return the object in a request's body.

    :raises RpcFault: the body is not a JSON object.
    """
    require_json(request)
    try:
        body = jsontext.decode(request.content.read() if request.content is not None else b"")
    except jsontext.JSONTextError as error:
        raise RpcFault(-32700, f"The body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise RpcFault(-32600, "The body is not a JSON object; batches are not supported")
    return body
