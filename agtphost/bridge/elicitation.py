"""
Rounds of input: how a server behind the host asks the person, or the model, at the client.

At the host that is an answer, 202 with ``resultType: input_required``, and the request made again with what
was asked for (``docs/mcp.rst``, "Input"). Clients of 2026-07-28 know the same, so the answer is passed on; clients of
earlier versions are asked with requests of the server's, while their own request waits.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_PARAMS
from pydantic import BaseModel, ValidationError

from agtphost.client.reply import Reply
from agtphost.vocabulary.identifiers import is_opaque_id

MOST_ROUNDS = 32
"""Rounds of one call for clients that are asked by request; a server that asks on and on is cut off."""

_NO_ANSWER = -32603
_MARK = "agtp1."

Context = ServerRequestContext[Any, Any]
Ask = Callable[[Mapping[str, Any]], Awaitable[Reply]]
"""Makes the request once more, with ``inputResponses`` and ``requestState``."""


def input_required(reply: Reply) -> Mapping[str, Any] | None:
    """The ``result`` of an answer that asks for input; None for every other answer."""
    result = reply.result
    if reply.status == 202 and isinstance(result, dict) and result.get("resultType") == "input_required":
        return result
    return None


def pack_state(task_id: str, state: str | None) -> str:
    """
    The ``requestState`` for the client: the host's, and the Task-ID that it is bound to.

    Nothing is signed here; the host checks both when they come back.
    """
    return f"{_MARK}{base64.urlsafe_b64encode(task_id.encode()).decode()}.{'' if state is None else f'={state}'}"


def unpack_state(packed: str) -> tuple[str, str | None]:
    """
    Task-ID and the host's state.

    :raises MCPError: -32602 for what :func:`pack_state` did not make.
    """
    encoded, dot, state = packed.removeprefix(_MARK).partition(".")
    try:
        task_id = base64.b64decode(encoded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        task_id = ""
    sound = packed.startswith(_MARK) and dot and is_opaque_id(task_id) and (not state or state.startswith("="))
    if not sound:
        raise MCPError(INVALID_PARAMS, "The requestState is not one that this server gave.")
    return task_id, state[1:] if state else None


async def ask_until_final(context: Context, ask: Ask, first: Reply) -> Reply:
    """
    Ask a client of the handshake era for whatever is needed, until there is an answer.

    :raises MCPError: if the server asks too often.
    """
    reply = first
    for _ in range(MOST_ROUNDS):
        required = input_required(reply)
        if required is None:
            return reply
        wanted = required.get("inputRequests")
        again: dict[str, Any] = {"inputResponses": {}}
        for name, request in (wanted if isinstance(wanted, dict) else {}).items():
            again["inputResponses"][name] = await _ask_client(context, request)
        if isinstance(required.get("requestState"), str):
            again["requestState"] = required["requestState"]
        reply = await ask(again)
    raise MCPError(_NO_ANSWER, "The server asked for input too many times.")


async def _ask_client(context: Context, request: Any) -> dict[str, Any]:
    """One request of the server's to the client, its result or ``{"error": ...}``."""
    try:
        typed, result_type = _request_of(request)
        answer = await context.session.send_request(
            typed, result_type, metadata=ServerMessageMetadata(related_request_id=context.request_id)
        )
    except MCPError as error:
        return {"error": {"code": error.code, "message": error.message}}
    except ValidationError:
        return {"error": {"code": _NO_ANSWER, "message": "The client's answer, or the request, is malformed."}}
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def _request_of(request: Any) -> tuple[types.ServerRequest, type[BaseModel]]:
    method = request.get("method") if isinstance(request, dict) else None
    params = request.get("params") if isinstance(request, dict) else None
    content: dict[str, Any] = {"method": method, "params": params or {}}
    if method == "elicitation/create":
        return types.ElicitRequest.model_validate(content), types.ElicitResult
    if method == "roots/list":
        return types.ListRootsRequest.model_validate({"method": method}), types.ListRootsResult
    if method == "sampling/createMessage":
        with_tools = bool(content["params"].get("tools"))
        result = types.CreateMessageResultWithTools if with_tools else types.CreateMessageResult
        return types.CreateMessageRequest.model_validate(content), result
    raise MCPError(types.METHOD_NOT_FOUND, "The server asked for something unknown.")
