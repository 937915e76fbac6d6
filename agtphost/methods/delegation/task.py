"""What a DELEGATE asks for, read from its parameters (core v08 section 7.2.9)."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.handlers import parameters
from agtphost.vocabulary import media_types, scopes, uris

MOST_CALLS = 16
"""Calls of one task."""

_METHOD = re.compile(r"[A-Z]{3,32}", re.ASCII)
_PATH = re.compile(r"/[\x21\x22\x24-\x7e]{0,1023}", re.ASCII)
_MEMBERS = frozenset({"method", "path", "parameters"})
_A2A_MEMBERS = frozenset({"agent", "a2a_task_id", "message", "artifacts"})
_FORM = 'a call {"method", "path", "parameters"}, or a list of them'


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a delegated task."""

    method: str
    path: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The parameters of DELEGATE, their syntax good and nothing about them proven."""

    target: str
    """Agent-ID of the delegatee, or its URI under a domain, until the host has looked it up."""

    calls: tuple[Call, ...]
    sequence: bool
    """Whether the task was a list."""

    scope: frozenset[str]
    token: str | None
    """None where it was left out, which only calls from inside a delegation may."""

    deadline: float | None
    """Seconds for the whole task."""

    callback: str | None
    """Whom to tell of the outcome; an agent that the host knows where the task is done asynchronously."""

    asynchronous: bool = False
    """Whether to answer 202 once the hop is accepted."""


def read(given: Mapping[str, Any]) -> Asked:
    """
    Read the parameters.

    :raises agtphost.errors.Refusal: 422 naming the first parameter that is missing or malformed.
    """
    target = _target(given)
    calls, sequence = _task(given)
    scope = _scope(given)
    return Asked(
        target=target,
        calls=calls,
        sequence=sequence,
        scope=scope,
        token=_token(given),
        deadline=_deadline(given),
        callback=parameters.text(given, "callback"),
        asynchronous=_asynchronous(given),
    )


def _target(given: Mapping[str, Any]) -> str:
    """Read the value of ``target_agent_id``: an Agent-ID, or an address under a domain that its host resolves."""
    value = parameters.require_text(given, "target_agent_id")
    if not value.startswith(f"{uris.SCHEME}://"):
        return parameters.agent_id(given, "target_agent_id")
    try:
        uri = uris.parse(value)
    except uris.UriError as error:
        raise parameters.invalid("target_agent_id", error.explanation, "Send an Agent-ID.") from None
    if uri.agent_id is None and uri.agent_name is None:
        raise parameters.invalid(
            "target_agent_id", "The URI does not address an agent.", "Send an agent's URI, or its ID."
        )
    return uri.agent_id or str(uri)


def _asynchronous(given: Mapping[str, Any]) -> bool:
    value = given.get("asynchronous", False)
    if not isinstance(value, bool):
        raise parameters.invalid("asynchronous", "asynchronous is neither true nor false.", "Send true or false.")
    return value


def _token(given: Mapping[str, Any]) -> str | None:
    value = given.get("delegation_token")
    if value is not None and (not isinstance(value, str) or not value):
        raise parameters.invalid(
            "delegation_token", "delegation_token is not a text.", "Send the signed token as text."
        )
    return value


def _scope(given: Mapping[str, Any]) -> frozenset[str]:
    value = given.get("authority_scope")
    if value is None:
        raise parameters.invalid(
            "authority_scope", "The parameter authority_scope is missing.", "Send authority_scope.", missing=True
        )
    try:
        if isinstance(value, str):
            return scopes.parse(value)
        if isinstance(value, list) and all(isinstance(token, str) for token in value):
            return scopes.parse(", ".join(value))
    except scopes.ScopeError as error:
        raise parameters.invalid(
            "authority_scope", f"authority_scope is malformed: {error}.", "Send tokens such as documents:query."
        ) from None
    raise parameters.invalid(
        "authority_scope",
        "authority_scope is neither a list of scope tokens nor a text of them with commas between.",
        "Send tokens such as documents:query.",
    )


def _task(given: Mapping[str, Any]) -> tuple[tuple[Call, ...], bool]:
    value = given.get("task")
    if value is None:
        raise parameters.invalid("task", "The parameter task is missing.", f"Send {_FORM}.", missing=True)
    sequence = isinstance(value, list)
    calls = value if isinstance(value, list) else [value]
    if not 1 <= len(calls) <= MOST_CALLS:
        raise parameters.invalid("task", f"task is not 1 to {MOST_CALLS} calls.", f"Send {_FORM}.")
    return tuple(_call(call) for call in calls), sequence


def _call(value: Any) -> Call:
    if isinstance(value, dict) and "method" not in value and ("message" in value or "artifacts" in value):
        return _a2a_task(value)
    if not isinstance(value, dict) or "method" not in value or not value.keys() <= _MEMBERS:
        raise parameters.invalid("task", f"task is not {_FORM}.", f"Send {_FORM}.")
    method, path, given = value["method"], value.get("path", "/"), value.get("parameters", {})
    if not isinstance(method, str) or _METHOD.fullmatch(method) is None:
        raise parameters.invalid("task", "task.method is not a method name.", "Name a method of the catalog.")
    if not isinstance(path, str) or _PATH.fullmatch(path) is None:
        raise parameters.invalid("task", 'task.path is not a path that begins with "/".', "Send a path.")
    if path == "/agents" or path.startswith(("/agents/", "/agents?")):
        raise parameters.invalid(
            "task",
            "task.path addresses an agent, but target_agent_id already does.",
            "Send the path without the agent.",
        )
    if not isinstance(given, dict):
        raise parameters.invalid("task", "task.parameters is not an object.", "Send an object.")
    return Call(method=method, path=path, parameters=given)


def _a2a_task(value: Mapping[str, Any]) -> Call:
    """
    Read an A2A task, ``{agent?, a2a_task_id?, message, artifacts?}`` (core v08 section 8.4), as a message to its agent.

    The message may be plain text, as in core v08 appendix G. The ``a2a_task_id`` is the delegator's own word for the
    task: it goes on with one that the A2A agent has under it, and else names a new one, as the Task-ID does.
    """
    if not value.keys() <= _A2A_MEMBERS:
        raise parameters.invalid("task", f"task is not {_FORM}, nor an A2A task.", f"Send {_FORM}.")
    message, artifacts = value.get("message", {}), value.get("artifacts", [])
    if isinstance(message, str):
        message = {"parts": [{"text": message}]}
    if not isinstance(message, dict) or not isinstance(artifacts, list):
        raise parameters.invalid(
            "task", "task.message or task.artifacts is not a valid A2A object.", "Send an A2A message."
        )
    parts = message.get("parts", [])
    more = [artifact.get("parts") if isinstance(artifact, dict) else None for artifact in artifacts]
    if not isinstance(parts, list) or not all(isinstance(each, list) for each in more):
        raise parameters.invalid("task", "The parts of an A2A task are not lists.", "Send an A2A message.")
    sent = {**message, "parts": [*parts, *(part for each in more if each is not None for part in each)]}
    payload = {"message": sent, **{name: value[name] for name in ("agent", "a2a_task_id") if name in value}}
    carried = {"action": "a2a.message.send", "payload_type": media_types.A2A, "payload": payload}
    return Call(method="EXECUTE", path="/", parameters=carried)


def _deadline(given: Mapping[str, Any]) -> float | None:
    value = given.get("deadline")
    if value is None:
        return None
    if isinstance(value, str):
        # A moment, as ESCALATE has it; what is left until then is the time (core v08 section 7.2.9).
        value = (parameters.moment(given, "deadline") or 0.0) - time.time()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 86_400:
        raise parameters.invalid(
            "deadline",
            "deadline is neither a number of seconds up to 86400 nor a time within a day from now.",
            "Send how many seconds the task may take, or when it has to be done.",
        )
    return float(value)
