"""
Relay rounds of input: a server behind the host asks the person, or the model, at the client.

At the host the question is an answer, 202 with ``resultType: input_required``, and the request is repeated with the
input (``docs/mcp.rst``, "Input"). Clients of 2026-07-28 know the same form, so the answer is passed on; clients of
earlier versions get requests from the server, while their own request waits.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agtphost.client.reply import Reply
from agtphost.mcp.context import Context
from agtphost.mcp.messages import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, McpFault
from agtphost.vocabulary.identifiers import is_opaque_id

MOST_ROUNDS = 32
"""Rounds of one call for clients that are asked by request; further ones fail the call."""

ASKED = frozenset({"elicitation/create", "roots/list", "sampling/createMessage"})
"""The requests that a client can get."""

_MARK = "agtp1."

Ask = Callable[[Mapping[str, Any]], Awaitable[Reply]]
"""Repeats the request with ``inputResponses`` and ``requestState``."""


def input_required(reply: Reply) -> Mapping[str, Any] | None:
    """Return the ``result`` of an answer that asks for input; None for every other answer."""
    if reply.status != 202:
        return None
    result = reply.result
    return result if isinstance(result, dict) and result.get("resultType") == "input_required" else None


def pack_state(task_id: str, state: str | None) -> str:
    """
    Return the ``requestState`` for the client: the host's state, with the Task-ID that it is bound to.

    It is not signed; the host checks both when they come back.
    """
    return f"{_MARK}{base64.urlsafe_b64encode(task_id.encode()).decode()}.{'' if state is None else f'={state}'}"


def unpack_state(packed: str) -> tuple[str, str | None]:
    """
    Return the Task-ID and the host's state.

    :raises McpFault: -32602 for a text that :func:`pack_state` did not make.
    """
    encoded, dot, state = packed.removeprefix(_MARK).partition(".")
    try:
        task_id = base64.b64decode(encoded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        task_id = ""
    sound = packed.startswith(_MARK) and dot and is_opaque_id(task_id) and (not state or state.startswith("="))
    if not sound:
        raise McpFault(INVALID_PARAMS, "The requestState is not one that this server gave.")
    return task_id, state[1:] if state else None


async def ask_until_final(context: Context, ask: Ask, first: Reply) -> Reply:
    """
    Ask a client of the handshake era for the needed input, until there is an answer.

    :raises McpFault: if the server asks too often.
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
    raise McpFault(INTERNAL_ERROR, "The server asked for input too many times.")


async def _ask_client(context: Context, request: Any) -> Mapping[str, Any]:
    """Send one request of the server to the client; return its result or ``{"error": ...}``."""
    try:
        method, params = _request_of(request)
        if method == "roots/list":
            return await _roots_of(context)
        return await context.channel.ask(method, params)
    except McpFault as fault:
        return {"error": {"code": fault.code, "message": fault.message}}


async def _roots_of(context: Context) -> Mapping[str, Any]:
    """Return the client's roots, which are asked for again only after they changed."""
    conversation = context.conversation
    if conversation.roots is not None:
        return conversation.roots
    changes = conversation.roots_changes
    roots = await context.channel.ask("roots/list", {})
    if conversation.roots_changes == changes:
        conversation.roots = roots
    return roots


def _request_of(request: Any) -> tuple[str, Mapping[str, Any]]:
    method = request.get("method") if isinstance(request, dict) else None
    params = request.get("params") if isinstance(request, dict) else None
    if method not in ASKED:
        raise McpFault(METHOD_NOT_FOUND, "The server asked for something unknown.")
    return method, params if isinstance(params, dict) and method != "roots/list" else {}
