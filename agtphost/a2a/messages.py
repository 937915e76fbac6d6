"""Translate between messages and tasks of A2A and the input and result of an endpoint."""

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
"""The state of a task that waits for the agreement of another party, and continues after it."""

TERMINAL = frozenset({COMPLETED, FAILED, REJECTED, CANCELED})

FAILURE_STATUSES = frozenset({408, 409, 429, 500, 501, 503, 550})
"""Statuses of admitted calls that failed; every other refusal rejects the task."""


class RpcFault(Exception):
    """
    An error of JSON-RPC or A2A.

    :param code: such as -32602.
    :param proof: status, reason and Audit-ID of the dispatcher's refusal, if it refused.
    :param told: an agent's own error, passed to the client unchanged.
    :param http: the HTTP status of the answer in both bindings; None: the binding's own for the code.
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
        self._agent_error = told

    @property
    def data(self) -> Any:
        """Return the details of the error for JSON-RPC: an ErrorInfo, or the data of the agent's own error, or None."""
        return [a2a_errors.info(self.code, self.proof)] if self._agent_error is None else self._agent_error.get("data")


UNKNOWN_TASK, NOT_CANCELABLE = a2a_errors.TASK_NOT_FOUND, a2a_errors.TASK_NOT_CANCELABLE
NO_PUSH, UNSUPPORTED = a2a_errors.PUSH_UNSUPPORTED, a2a_errors.UNSUPPORTED_OPERATION
_CODES = {"unknown-task": UNKNOWN_TASK, "task-not-cancelable": NOT_CANCELABLE}


def fault_of(response: Response) -> RpcFault:
    """
    Return a refusal of the dispatcher as an error of A2A; the error of an agent behind the host is returned unchanged.
    """
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
    Return the result of a dispatcher's response.

    :raises RpcFault: the response is a refusal, or an agent's own error.
    """
    if response.status != 200:
        raise fault_of(response)
    body = jsontext.decode(response.body)
    result = body.get("result") if isinstance(body, dict) else None
    assert isinstance(result, dict), "the host's own answer"
    return result


def invalid(message: str) -> RpcFault:
    """Return the error of invalid parameters, -32602."""
    return RpcFault(-32602, message)


def stamp() -> str:
    """Return the present time in the format of A2A."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def describe_input(schema: Mapping[str, Any], template: Mapping[str, Any]) -> str:
    """
    Return a sentence about the data that an agent takes, by its endpoint's schema; empty if the schema names no
    members.

    :param template: members that the operator fixed, which no client sends.
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
    Return an endpoint's input for a message: the operator's template, with the data parts and the text put in.

    :param text: path of the member that takes the text; empty if there is none.
    :param schema: of the endpoint's input, for the refusal of a message with the wrong parts.
    :raises RpcFault: the message has other parts, or none.
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
            # Members that the operator fixed are not replaced.
            found.update({name: value for name, value in part["data"].items() if name not in fixed})
        else:
            raise _unsupported_content(
                "This agent reads only text parts, and data parts that are objects.", schema, template
            )
    if texts and not text:
        raise _unsupported_content("This agent takes data parts and no plain text.", schema, template)
    if texts:
        _put(found, text, "\n".join(texts))
    return found


def _unsupported_content(message: str, schema: Mapping[str, Any] | None, template: Mapping[str, Any]) -> RpcFault:
    described = describe_input(schema or {}, template)
    return RpcFault(a2a_errors.CONTENT_TYPE_UNSUPPORTED, f"{message} {described}".rstrip())


def _put(target: dict[str, Any], path: Sequence[str], value: str) -> None:
    for name in path[:-1]:
        inner = target.get(name)
        if not isinstance(inner, dict):
            inner = target[name] = {}
        target = inner
    target[path[-1]] = value


def approval_in(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a person has to approve, from a refusal or an event of the host; empty if nothing."""
    if Reason.APPROVAL_REQUIRED not in (document.get("reason"), document.get("type")) or "result" in document:
        return {}
    return {name: document[name] for name in ("approval_id", "expires_at") if isinstance(document.get(name), str)}


def held_text(approval: Mapping[str, Any]) -> str:
    """Return the status text of a call that waits for approval."""
    return f"Held for a person to approve: {approval.get('approval_id')}, until {approval.get('expires_at')}"


def outcome_of(response: Response, answer: str) -> tuple[str, str, Any, dict[str, Any]]:
    """
    Return what a response means for a task.

    :param answer: the member of the result that is the answer's text; empty for none.
    :return: its state, a sentence if it failed, the result, and the metadata that proves the call.
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
        # The task has ended with this; the client sends the message again after the approval.
        metadata.update({f"agtp.{name}": value for name, value in approval.items()})
        metadata["agtp.reason"] = body["reason"]
        return FAILED, f"{held_text(approval)}. Send the same message again after the approval", None, metadata
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
    return (FAILED if response.status in FAILURE_STATUSES else REJECTED), said, None, metadata


def parts_of(result: Any, answer: str) -> list[dict[str, Any]]:
    """Return a result as parts: its answer as text if it has one, and all of it as data."""
    if isinstance(result, dict) and answer:
        value: Any = result
        for name in answer.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, str):
            return [{"text": value}, {"data": result}]
    return [{"text": result}] if isinstance(result, str) else [{"data": result}]


def agent_message(task_id: str, context_id: str, message_id: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a message of the agent."""
    return {
        "messageId": message_id,
        "contextId": context_id,
        "taskId": task_id,
        "role": "ROLE_AGENT",
        "parts": parts,
    }


def text_member(schema: Mapping[str, Any], template: Mapping[str, Any]) -> str:
    """
    Return the member of an input that plain text fills: ``text``, or the one required member that takes text.

    Return an empty string if the input has no such member: then the agent takes data only.
    """
    known = schema.get("properties")
    known = known if isinstance(known, Mapping) else {}
    required = schema.get("required", [])
    open_members = [name for name in required if name not in template] if isinstance(required, list) else []
    members = ["text"] if "text" in known and "text" not in template else open_members
    fitting = [name for name in members if _takes_text(known.get(name))]
    return fitting[0] if len(fitting) == 1 and set(open_members) <= set(fitting) else ""


def _takes_text(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return schema is not False
    types = schema.get("type", "string")
    return "string" in ([types] if isinstance(types, str) else types)
