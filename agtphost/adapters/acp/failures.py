"""Errors of ACP as AGTP responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.errors import Refusal
from agtphost.upstream import refusals
from agtphost.upstream.failures import Refused, UpstreamFailure
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.status import Status

_STATUS = {
    400: (Status.UNPROCESSABLE, "acp-request-refused"),
    403: (Status.CONFLICT, "acp-run-state"),
    404: (Status.NOT_FOUND, "acp-not-found"),
    409: (Status.CONFLICT, "acp-run-state"),
    422: (Status.UNPROCESSABLE, "acp-request-refused"),
    429: (Status.RATE_LIMITED, refusals.BUSY),
    500: (Status.SERVER_ERROR, "acp-error"),
}


def refusal(upstream: str, failure: UpstreamFailure, details: Mapping[str, object] | None = None) -> Refusal:
    """The response to a call that has no result."""
    error = _error(failure)
    if error is None or not isinstance(failure, Refused) or failure.status not in _STATUS:
        return refusals.refusal("acp", upstream, failure, details)
    return refusals.answered("acp", upstream, error, _STATUS[failure.status], details)


def _error(failure: UpstreamFailure) -> dict[str, Any] | None:
    """The protocol's own error object, ``{code, message}``."""
    if not isinstance(failure, Refused):
        return None
    try:
        value = jsontext.decode(failure.body)
    except jsontext.JSONTextError:
        return None
    return value if isinstance(value, dict) and "code" in value and "message" in value else None
