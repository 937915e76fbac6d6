"""Errors of A2A as AGTP responses: A2A 1.0 section 5.4 against core v08 section 5.6."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.adapters.web import refusals
from agtphost.adapters.web.failures import PeerFailure
from agtphost.errors import Refusal
from agtphost.vocabulary.status import Status

TASK_NOT_FOUND = -32001
TASK_NOT_CANCELABLE = -32002
UNSUPPORTED_OPERATION = -32004
INVALID_PARAMS = -32602
INTERNAL = -32603

_STATUS = {
    -32700: (Status.SERVER_ERROR, "a2a-error"),
    -32600: (Status.UNPROCESSABLE, "a2a-request-refused"),
    -32601: (Status.UNPROCESSABLE, "a2a-operation-unsupported"),
    INVALID_PARAMS: (Status.UNPROCESSABLE, "a2a-request-refused"),
    TASK_NOT_FOUND: (Status.NOT_FOUND, "a2a-task-not-found"),
    TASK_NOT_CANCELABLE: (Status.CONFLICT, "a2a-task-not-cancelable"),
    -32003: (Status.UNPROCESSABLE, "a2a-push-unsupported"),
    UNSUPPORTED_OPERATION: (Status.UNPROCESSABLE, "a2a-operation-unsupported"),
    -32005: (Status.UNPROCESSABLE, "a2a-content-type-unsupported"),
    -32007: (Status.UNPROCESSABLE, "a2a-operation-unsupported"),
    -32008: (Status.UNPROCESSABLE, "a2a-extension-required"),
    -32009: (Status.UNAVAILABLE, "a2a-version-unsupported"),
}

REASONS = {
    "TASK_NOT_FOUND": TASK_NOT_FOUND,
    "TASK_NOT_CANCELABLE": TASK_NOT_CANCELABLE,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": UNSUPPORTED_OPERATION,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "INVALID_AGENT_RESPONSE": -32006,
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": -32007,
    "EXTENSION_SUPPORT_REQUIRED": -32008,
    "VERSION_NOT_SUPPORTED": -32009,
    "INVALID_PARAMS": INVALID_PARAMS,
    "INVALID_REQUEST": -32600,
    "METHOD_NOT_FOUND": -32601,
}
"""What the HTTP+JSON binding calls the same errors."""


class A2AError(PeerFailure):
    """
    The agent answered with an error.

    :param error: as received, with an integer ``code``.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"it answered with error {error.get('code')}: {str(error.get('message'))[:200]}")
        self.error = error


def refusal(upstream: str, failure: PeerFailure, details: Mapping[str, object] | None = None) -> Refusal:
    """The response to a call that has no result."""
    if not isinstance(failure, A2AError):
        return refusals.refusal("a2a", upstream, failure, details)
    code = failure.error.get("code")
    status, reason = Status.SERVER_ERROR, "a2a-error"
    if isinstance(code, int):
        status, reason = _STATUS.get(code, (status, reason))
    return Refusal(
        status,
        reason,
        f"The A2A agent {upstream} answered with an error.",
        remedy="result.error is what the agent said.",
        details={"upstream": upstream, "result": {"error": dict(failure.error)}, **(details or {})},
    )
