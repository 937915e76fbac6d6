"""Between A2A's messages and tasks and the input and result of an endpoint."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agtphost.contract.method_parameters import CARRIED
from agtphost.vocabulary import a2a_errors, jsontext
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.events import Response

MOST_PARTS = 1_000
MOST_NAMED = 16
"""Members of an input that a refusal names."""


COMPLETED, FAILED, REJECTED = "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_REJECTED"
SUBMITTED, WORKING, CANCELED = "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_CANCELED"
AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
"""Somebody besides the client has to agree, and the task goes on by itself then."""

TERMINAL = frozenset({COMPLETED, FAILED, REJECTED, CANCELED})

BROKEN = frozenset({408, 409, 429, 500, 501, 503, 550})
"""Statuses of calls that were admitted and came to nothing; every other refusal rejects the task."""


class RpcFault(Exception):
    """
    An error of JSON-RPC or A2A.

    :param code: such as -32602.
    :param proof: what proves the refusal, where the dispatcher refused: its status, reason and Audit-ID.
    :param told: the error of an agent behind the host, which is the client's as it is.
    :param http: the HTTP status of the answer in both bindings; None: the one that the binding has for the code.
    """

    def __init__(
        self,
        code: int,
        message: str,
        proof: Mapping[str, Any] | None = None,
        told: Mapping[str, Any] | None = None,
        http: int | None = None,
    ) -> None:
        super().__init__(message)
        self.http = http
        self.code = code
        self.message = message
        self.proof: Mapping[str, Any] = proof or {}
        self._told = told

    @property
    def data(self) -> Any:
        """What there is to know besides, as JSON-RPC has it: an ErrorInfo, or what the agent said; None for nothing."""
        return [a2a_errors.info(self.code, self.proof)] if self._told is None else self._told.get("data")


UNKNOWN_TASK, NOT_CANCELABLE = a2a_errors.TASK_NOT_FOUND, a2a_errors.TASK_NOT_CANCELABLE
NO_PUSH, UNSUPPORTED = a2a_errors.PUSH_UNSUPPORTED, a2a_errors.UNSUPPORTED_OPERATION
_CODES = {"unknown-task": UNKNOWN_TASK, "task-not-cancelable": NOT_CANCELABLE}


def fault_of(response: Response) -> RpcFault:
    """A refusal of the dispatcher as an error of A2A; what an agent behind the host answered is that error itself."""
    try:
        body = jsontext.decode(response.body)
    except jsontext.JSONTextError:
        body = None
    body = body if isinstance(body, dict) else {}
    reason = str(body.get("reason", ""))
    code = _CODES.get(reason, -32602 if response.status in (400, 422) else -32603)
    proof = {"status": response.status, "reason": reason, "audit_id": response.audit_id}
    proof.update(approval_in(body))
    result = body.get("result")
    error = result.get("error") if isinstance(result, dict) else None
    if isinstance(error, dict) and type(error.get("code")) is int:
        return RpcFault(error["code"], str(error.get("message", "")), proof, error)
    return RpcFault(code, f"{body.get('explanation', '')} ({response.status} {reason})".strip(), proof)


def result_of(response: Response) -> Mapping[str, Any]:
    """
    What the dispatcher answered.

    :raises RpcFault: a refusal, or an agent's own error.
    """
    if response.status != 200:
        raise fault_of(response)
    body = jsontext.decode(response.body)
    result = body.get("result") if isinstance(body, dict) else None
    assert isinstance(result, dict), "the host's own answer"
    return result


def invalid(message: str) -> RpcFault:
    """-32602."""
    return RpcFault(-32602, message)


def stamp() -> str:
    """The present time, as A2A writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def describe_input(schema: Mapping[str, Any], template: Mapping[str, Any]) -> str:
    """
    Return a sentence about the data that an agent takes, by the schema of its endpoint; empty where that says nothing.

    :param template: what the operator fixed, which no client sends.
    """
    known = schema.get("properties")
    names = [name for name in known if name not in template and name not in CARRIED] if isinstance(known, dict) else []
    if not names:
        return ""
    required = schema.get("required", ())
    words = [f"{name} (required)" if name in required else name for name in names]
    more = ", and more" if len(words) > MOST_NAMED else ""
    return f"Send one data part, an object with: {', '.join(sorted(words, key=_required_first)[:MOST_NAMED])}{more}."


def _required_first(word: str) -> bool:
    return not word.endswith(" (required)")


def input_of(
    message: Any, template: Mapping[str, Any], text: Sequence[str], schema: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """
    What an endpoint gets for a message: the operator's template, the data parts on top of it, the text in its place.

    :param text: path of the member that takes the text; empty: there is none.
    :param schema: of the endpoint's input, for the refusal of a message with the wrong parts.
    :raises RpcFault: for a message with other parts, or none.
    """
    parts = message.get("parts") if isinstance(message, dict) else None
    if not isinstance(parts, list) or not 0 < len(parts) <= MOST_PARTS:
        raise invalid("message.parts is not a list of parts")
    if message.get("role") not in ("ROLE_USER", None):
        raise invalid("message.role is not ROLE_USER")
    texts: list[str] = []
    found: dict[str, Any] = copy.deepcopy(dict(template))
    fixed = set(template)
    for part in parts:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and isinstance(part.get("data"), dict):
            # What the operator fixed stays as it is.
            found.update({name: value for name, value in part["data"].items() if name not in fixed})
        else:
            raise _unsupported("Only text parts, and data parts that are objects, are read here.", schema, template)
    if texts and not text:
        raise _unsupported("This agent takes data, and no plain text.", schema, template)
    if texts:
        _put(found, text, "\n".join(texts))
    return found


def _unsupported(message: str, schema: Mapping[str, Any] | None, template: Mapping[str, Any]) -> RpcFault:
    described = describe_input(schema or {}, template)
    return RpcFault(a2a_errors.CONTENT_TYPE_UNSUPPORTED, f"{message} {described}".rstrip())


def _put(target: dict[str, Any], path: Sequence[str], value: str) -> None:
    for name in path[:-1]:
        inner = target.get(name)
        if not isinstance(inner, dict):
            inner = target[name] = {}
        target = inner
    target[path[-1]] = value


def approval_in(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a person has to approve, in a refusal or in an event of the host's; empty where there is nothing such."""
    if Reason.APPROVAL_REQUIRED not in (said.get("reason"), said.get("type")) or "result" in said:
        return {}
    return {name: said[name] for name in ("approval_id", "expires_at") if isinstance(said.get(name), str)}


def held_text(approval: Mapping[str, Any]) -> str:
    """What a client of a held call is told."""
    return f"Held for a person to approve: {approval.get('approval_id')}, until {approval.get('expires_at')}"


def outcome_of(response: Response, answer: str) -> tuple[str, str, Any, dict[str, Any]]:
    """
    What a response means for a task.

    :param answer: the member of the result that is the answer's text; empty for none.
    :return: its state, a sentence where it did not succeed, the result, and the metadata that proves the call.
    """
    try:
        body = jsontext.decode(response.body) if response.body else {}
    except jsontext.JSONTextError:
        body = {}
    body = body if isinstance(body, dict) else {"value": body}
    audit_id = response.audit_id
    metadata = {"agtp.status": response.status, **({"agtp.audit_id": audit_id} if audit_id else {})}
    approval = approval_in(body) if response.status == 202 else {}
    if approval:
        # The task has ended with this: it is sent again once somebody has approved it.
        metadata.update({f"agtp.{name}": value for name, value in approval.items()})
        metadata["agtp.reason"] = body["reason"]
        return FAILED, f"{held_text(approval)}. Send the same message again then", None, metadata
    if 200 <= response.status < 300 and response.status != 262:
        enveloped = "result" in body and "attribution" in body
        return (
            SUBMITTED if response.status == 202 else COMPLETED,
            "",
            body["result"] if enveloped else body,
            metadata,
        )
    reason, explanation = str(body.get("reason", "")), str(body.get("explanation", ""))
    metadata["agtp.reason"] = reason
    said = f"{explanation} ({response.status} {reason})".strip()
    return (FAILED if response.status in BROKEN else REJECTED), said, None, metadata


def parts_of(result: Any, answer: str) -> list[dict[str, Any]]:
    """A result as parts: its answer as text where it has that, and all of it as data."""
    if isinstance(result, dict) and answer:
        value: Any = result
        for name in answer.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, str):
            return [{"text": value}, {"data": result}]
    return [{"text": result}] if isinstance(result, str) else [{"data": result}]


def said(task_id: str, context_id: str, message_id: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """A message of the agent."""
    return {
        "messageId": message_id,
        "contextId": context_id,
        "taskId": task_id,
        "role": "ROLE_AGENT",
        "parts": parts,
    }
