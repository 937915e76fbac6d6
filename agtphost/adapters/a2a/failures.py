"""Errors of A2A as AGTP responses: A2A 1.0 section 5.4 against core v08 section 5.6."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.errors import Refusal
from agtphost.upstream import refusals
from agtphost.upstream.failures import ErrorAnswer, UpstreamFailure
from agtphost.vocabulary import a2a_errors
from agtphost.vocabulary.status import Status

_STATUS = {
    a2a_errors.NOT_JSON: (Status.SERVER_ERROR, "a2a-error"),
    a2a_errors.INVALID_REQUEST: (Status.UNPROCESSABLE, "a2a-request-refused"),
    a2a_errors.METHOD_NOT_FOUND: (Status.UNPROCESSABLE, "a2a-operation-unsupported"),
    a2a_errors.INVALID_PARAMS: (Status.UNPROCESSABLE, "a2a-request-refused"),
    a2a_errors.TASK_NOT_FOUND: (Status.NOT_FOUND, "a2a-task-not-found"),
    a2a_errors.TASK_NOT_CANCELABLE: (Status.CONFLICT, "a2a-task-not-cancelable"),
    a2a_errors.PUSH_UNSUPPORTED: (Status.UNPROCESSABLE, "a2a-push-unsupported"),
    a2a_errors.UNSUPPORTED_OPERATION: (Status.UNPROCESSABLE, "a2a-operation-unsupported"),
    a2a_errors.CONTENT_TYPE_UNSUPPORTED: (Status.UNPROCESSABLE, "a2a-content-type-unsupported"),
    a2a_errors.NO_EXTENDED_CARD: (Status.UNPROCESSABLE, "a2a-operation-unsupported"),
    a2a_errors.EXTENSION_REQUIRED: (Status.UNPROCESSABLE, "a2a-extension-required"),
    a2a_errors.VERSION_UNSUPPORTED: (Status.UNAVAILABLE, "a2a-version-unsupported"),
}


def refusal(upstream: str, failure: UpstreamFailure, details: Mapping[str, object] | None = None) -> Refusal:
    """The response to a call that has no result."""
    if not isinstance(failure, ErrorAnswer):
        return refusals.refusal("a2a", upstream, failure, details)
    said = Status.SERVER_ERROR, "a2a-error"
    if isinstance(failure.code, int):
        said = _STATUS.get(failure.code, said)
    return refusals.answered("a2a", upstream, failure.error, said, details)
