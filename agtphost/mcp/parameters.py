"""Check the parameters that each method takes, before anything is sent to a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.mcp.messages import INVALID_PARAMS, McpFault
from agtphost.mcp.revisions import LEVELS

_CURSOR = {"cursor": str}
_NAME, _URI, _TASK = {"name": str}, {"uri": str}, {"taskId": str}

REQUIRED: Mapping[str, Mapping[str, type]] = {
    "initialize": {"protocolVersion": str, "capabilities": dict, "clientInfo": dict},
    "tools/call": _NAME,
    "prompts/get": _NAME,
    "resources/read": _URI,
    "resources/subscribe": _URI,
    "resources/unsubscribe": _URI,
    "completion/complete": {"ref": dict, "argument": dict},
    "logging/setLevel": {"level": str},
    "subscriptions/listen": {"notifications": dict},
    "tasks/get": _TASK,
    "tasks/update": _TASK,
    "tasks/cancel": _TASK,
}
OPTIONAL: Mapping[str, Mapping[str, type]] = {
    "tools/list": _CURSOR,
    "prompts/list": _CURSOR,
    "resources/list": _CURSOR,
    "resources/templates/list": _CURSOR,
    "tools/call": {"arguments": dict, "inputResponses": dict, "requestState": str},
    "prompts/get": {"arguments": dict, "inputResponses": dict, "requestState": str},
    "resources/read": {"inputResponses": dict, "requestState": str},
    "completion/complete": {"context": dict},
}
_WORDS: Mapping[type, str] = {str: "a text", dict: "an object"}
_NONE: Mapping[str, type] = {}


def check(method: str, params: Mapping[str, Any]) -> None:
    """
    Check the parameters of a request.

    :raises McpFault: -32602, naming the member.
    """
    for name, kind in REQUIRED.get(method, _NONE).items():
        if not isinstance(params.get(name), kind):
            raise _invalid(f"params.{name} must be {_WORDS[kind]}.")
    for name, kind in OPTIONAL.get(method, _NONE).items():
        if params.get(name) is not None and not isinstance(params[name], kind):
            raise _invalid(f"params.{name} must be {_WORDS[kind]}, or absent.")
    if "_meta" in params and not isinstance(params["_meta"], dict):
        raise _invalid("params._meta must be an object, or absent.")
    if method == "logging/setLevel" and params["level"] not in LEVELS:
        raise _invalid(f"params.level must be one of {', '.join(LEVELS)}.")
    if method == "completion/complete":
        _check_completion(params)
    if method == "prompts/get" and not all(
        isinstance(value, str) for value in (params.get("arguments") or {}).values()
    ):
        raise _invalid("The arguments of a prompt must be texts.")
    if method == "subscriptions/listen":
        uris = params["notifications"].get("resourceSubscriptions") or []
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise _invalid("params.notifications.resourceSubscriptions must be a list of texts, or absent.")


def _check_completion(params: Mapping[str, Any]) -> None:
    ref, argument = params["ref"], params["argument"]
    named = {"ref/prompt": "name", "ref/resource": "uri"}.get(str(ref.get("type")))
    if named is None or not isinstance(ref.get(named), str):
        raise _invalid("params.ref must be a ref/prompt with its name, or a ref/resource with its uri.")
    if not all(isinstance(argument.get(name), str) for name in ("name", "value")):
        raise _invalid("params.argument must have a name and a value, both texts.")


def _invalid(why: str) -> McpFault:
    return McpFault(INVALID_PARAMS, f"Invalid request parameters: {why}", {"explanation": why})
