"""The host's refusals, as errors of MCP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.client.errors import ClientError
from agtphost.client.reply import Reply
from agtphost.client.terminal import escape

METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32601, -32602, -32603
"""Of JSON-RPC."""

REFUSED = -32010
"""The host refused; ``data.agtp`` says why. Of the range that JSON-RPC leaves to implementations."""

UNREACHABLE = -32011
"""The host cannot be reached, or its answer cannot be believed."""

RESOURCE_NOT_FOUND = -32002
"""What versions before 2026-07-28 answer for an unknown resource; since then it is -32602."""

_INVALID = frozenset(
    {
        "invalid-payload",
        "unknown-tool",
        "unknown-prompt",
        "unknown-resource",
        "unknown-mcp-server",
        "unknown-task",
        "ambiguous-tool",
        "ambiguous-prompt",
        "ambiguous-resource",
        "request-state-unknown",
        "invalid-input",
    }
)
"""Reasons that the request itself is to blame for."""


TOLD = ("faults", "missing_scopes", "candidates", "close_matches")
"""Members of refusals without which the remedy says nothing."""

FACTS = (
    *("missing_scopes", "required_scopes", "candidates", "close_matches", "problems", "faults", "errors"),
    *("approval_id", "expires_at", "said"),
)
"""Members of refusals that programs get."""

LONGEST_PARTICULAR = 1000
"""Characters of each in a message."""


ShownName = Callable[[str], str | None]
"""What clients call a tool or a prompt of the host; None for what they cannot call."""


@dataclass(frozen=True, kw_only=True)
class RPCError:
    """An error of JSON-RPC; which exception it is depends on the SDK."""

    code: int
    message: str
    data: dict[str, Any]


def to_rpc_error(reply: Reply, *, modern: bool, uri: str | None = None, name: ShownName | None = None) -> RPCError:
    """
    Return the error for a status outside 2xx.

    Where the MCP server behind the host answered with an error, code, message
    and data are that error's; else they are the host's. Either way ``data.agtp`` has the
    host's ``status``, ``reason``, ``explanation``, ``remedy`` and ``audit_id``.

    :param modern: whether the client speaks 2026-07-28.
    :param uri: the resource that was asked for.
    :param name: what clients call a tool or a prompt of the host; None for what they cannot call.
    """
    facts = facts_of(reply, name)
    upstream = _upstream_error(reply)
    if upstream is not None:
        code = _for_era(upstream["code"], modern, uri)
        data = upstream.get("data")
        known: Mapping[str, Any] = data if isinstance(data, dict) else {} if data is None else {"data": data}
        message = str(upstream.get("message", ""))
        return RPCError(code=code, message=message, data={**_uri_data(uri), **known, "agtp": facts})
    code = REFUSED
    if reply.reason in _INVALID or reply.status == 422:
        code = INVALID_PARAMS
    elif reply.status >= 500:
        code = INTERNAL_ERROR
    if reply.reason == "unknown-action":
        code = METHOD_NOT_FOUND
    if reply.reason in ("unknown-resource", "ambiguous-resource") and uri is not None and not modern:
        code = RESOURCE_NOT_FOUND
    return RPCError(code=code, message=sentence(facts), data={**_uri_data(uri), "agtp": facts})


def unreachable(error: ClientError) -> RPCError:
    """Return the error for a call without an answer, or with one that cannot be believed."""
    facts = {"explanation": error.explanation, "remedy": error.remedy}
    return RPCError(code=UNREACHABLE, message=f"{error.explanation} {error.remedy}".rstrip(), data={"agtp": facts})


def facts_of(reply: Reply, shown: ShownName | None = None) -> dict[str, Any]:
    """
    Return the content of a refusal for machines; empty members are left out.

    :param shown: what clients call a tool of the host; None leaves the host's names.
    """
    said: dict[str, Any] = {
        "status": reply.status,
        "reason": reply.reason,
        "explanation": reply.explanation,
        "remedy": reply.remedy,
        "audit_id": reply.audit_id,
        "retry_after": reply.retry_after,
    }
    for name in FACTS:
        if name in reply.document:
            said[name] = reply.document[name]
    for member in ("close_matches", "candidates") if reply.reason in ("unknown-tool", "ambiguous-tool") else ():
        if shown is not None and isinstance(said.get(member), list):
            said[member] = [found for each in said[member] if (found := shown(str(each))) is not None]
    return {name: value for name, value in said.items() if value not in (None, "")}


def sentence(facts: Mapping[str, Any], *, brief: bool = False) -> str:
    """
    Return the content of a refusal for people, and for models that only read messages.

    :param brief: return the sentence alone.
    """
    parts = [f"{facts['status']} {escape(str(facts.get('reason', 'refused')))}:"]
    parts += [escape(str(facts[name])) for name in ("explanation", "remedy") if name in facts]
    for name in () if brief else TOLD:
        if facts.get(name):
            parts.append(f"{name}: {escape(json.dumps(facts[name]))[:LONGEST_PARTICULAR]}.")
    if "audit_id" in facts:
        parts.append(f"(Audit-ID {escape(str(facts['audit_id']))})")
    return " ".join(parts)


def _uri_data(uri: str | None) -> dict[str, Any]:
    return {} if uri is None else {"uri": uri}


def _upstream_error(reply: Reply) -> Mapping[str, Any] | None:
    result = reply.document.get("result")
    error = result.get("error") if isinstance(result, dict) else None
    if isinstance(error, dict) and type(error.get("code")) is int:
        return error
    return None


def _for_era(code: int, modern: bool, uri: str | None) -> int:
    """Return the code that the client's era has for an unknown resource."""
    if uri is not None and code in (RESOURCE_NOT_FOUND, INVALID_PARAMS):
        return INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
    return code
