"""Map failures of calls to upstreams to AGTP responses: one table for every protocol (adapters section 1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.errors import Refusal
from agtphost.upstream.failures import (
    AnswerTooLong,
    CallCancelled,
    ErrorAnswer,
    NotApproved,
    NotReading,
    RulesUnmatched,
    UnreadableAnswer,
    UnsendableCall,
    UpstreamBusy,
    UpstreamDown,
    UpstreamFailure,
    UpstreamLost,
    UpstreamRefused,
    UpstreamTimeout,
)
from agtphost.vocabulary import a2a_errors, jsontext
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

_KINDS = {
    "mcp": ("MCP server", "mcp_server", "server_state"),
    "a2a": ("A2A agent", "upstream", "upstream_state"),
    "acp": ("ACP server", "upstream", "upstream_state"),
}
"""The kind of upstream of each protocol, and the members of a refusal's body with its name and its state."""

_TABLE: tuple[tuple[type[UpstreamFailure], Reason, str], ...] = (
    (UpstreamTimeout, Reason.UPSTREAM_TIMEOUT, "did not answer in time; whether the call had an effect is unknown."),
    (CallCancelled, Reason.UPSTREAM_CANCELLED, "had not answered when the call was given up."),
    (UpstreamBusy, Reason.UPSTREAM_BUSY, "has too many calls waiting."),
    (
        AnswerTooLong,
        Reason.UPSTREAM_ANSWER_TOO_LONG,
        "answered with more than the limit of {limit} octets, which is not passed on; the call had its effect.",
    ),
    (UnreadableAnswer, Reason.UPSTREAM_ANSWER_REFUSED, "answered with something that its protocol does not allow."),
    (
        NotReading,
        Reason.UPSTREAM_LOST,
        "stopped reading and was ended during the call; whether it had an effect is unknown.",
    ),
    (UpstreamLost, Reason.UPSTREAM_LOST, "went away during the call; whether it had an effect is unknown."),
    (UpstreamRefused, Reason.UPSTREAM_REFUSED, "refused the call with an error below its protocol."),
    (NotApproved, Reason.UPSTREAM_DOWN, "is not what the operator approved."),
    (UnsendableCall, Reason.UPSTREAM_CALL_REFUSED, "cannot be sent this call."),
    (UpstreamFailure, Reason.UPSTREAM_FAILED, "could not be called."),
)
"""The first matching row counts; the last matches always."""

MISSING_CAPABILITY = (-32021, -32003)
"""
Error codes of an MCP server that would have to ask a question its caller cannot answer; the second is that of the
extensions.
"""

_ERRORS: Mapping[str, Mapping[object, Reason]] = {
    "mcp": {
        **dict.fromkeys(MISSING_CAPABILITY, Reason.CAPABILITY_MISSING),
        -32602: Reason.TOOL_ARGUMENTS_REFUSED,
        -32601: Reason.TOOL_ARGUMENTS_REFUSED,
        None: Reason.TOOL_FAILED,
    },
    "a2a": {
        a2a_errors.INVALID_REQUEST: Reason.A2A_REQUEST_REFUSED,
        a2a_errors.METHOD_NOT_FOUND: Reason.A2A_OPERATION_UNSUPPORTED,
        a2a_errors.INVALID_PARAMS: Reason.A2A_REQUEST_REFUSED,
        a2a_errors.TASK_NOT_FOUND: Reason.A2A_TASK_NOT_FOUND,
        a2a_errors.TASK_NOT_CANCELABLE: Reason.A2A_TASK_NOT_CANCELABLE,
        a2a_errors.PUSH_UNSUPPORTED: Reason.A2A_PUSH_UNSUPPORTED,
        a2a_errors.UNSUPPORTED_OPERATION: Reason.A2A_OPERATION_UNSUPPORTED,
        a2a_errors.CONTENT_TYPE_UNSUPPORTED: Reason.A2A_CONTENT_TYPE_UNSUPPORTED,
        a2a_errors.NO_EXTENDED_CARD: Reason.A2A_OPERATION_UNSUPPORTED,
        a2a_errors.EXTENSION_REQUIRED: Reason.A2A_EXTENSION_REQUIRED,
        a2a_errors.VERSION_UNSUPPORTED: Reason.A2A_VERSION_UNSUPPORTED,
        None: Reason.A2A_ERROR,
    },
    "acp": {
        400: Reason.ACP_REQUEST_REFUSED,
        403: Reason.ACP_RUN_STATE,
        404: Reason.ACP_NOT_FOUND,
        409: Reason.ACP_RUN_STATE,
        422: Reason.ACP_REQUEST_REFUSED,
        429: Reason.UPSTREAM_BUSY,
        500: Reason.ACP_ERROR,
    },
}
"""Reasons for the errors of the protocols by code (A2A 1.0 section 5.4), for ACP by HTTP status; None: any other."""


def refusal(
    protocol: str, upstream: str, failure: UpstreamFailure, details: Mapping[str, object] | None = None
) -> Refusal:
    """
    Return the response to a call that has no result.

    :param protocol: ``mcp``, ``a2a`` or ``acp``.
    :param upstream: its configured name.
    :param details: further members of the body.
    """
    if isinstance(failure, RulesUnmatched):
        return rules_unmatched({"mcp_server": upstream})
    kind, member, state_member = _KINDS[protocol]
    named: dict[str, object] = {member: upstream, **(details or {})}
    who = f"The {kind} {upstream}"
    answer = _protocol_error(protocol, failure)
    if answer is not None:
        return _error_refusal(who, named, *answer)
    if isinstance(failure, UpstreamDown) or (isinstance(failure, UpstreamLost) and not failure.sent):
        again, state = (failure.retry_after, failure.state) if isinstance(failure, UpstreamDown) else (1, "lost")
        return Refusal(
            Reason.UPSTREAM_DOWN,
            f"{who} is not up; the call was not sent.",
            remedy=f"Try again in {again} s.",
            details={**named, state_member: state},
            headers=(("Retry-After", str(again)),),
        )
    if isinstance(failure, UpstreamLost):
        ended = {"exit_code": failure.exit_code, "signal": failure.signal}
        named.update({name: value for name, value in ended.items() if value is not None})
    limit = failure.limit if isinstance(failure, AnswerTooLong) else None
    if limit is not None:
        named["most_octets"] = limit
    reason, what = next(row[1:] for row in _TABLE if isinstance(failure, row[0]))
    retried = (("Retry-After", "1"),) if reason.statuses[0] in (Status.RATE_LIMITED, Status.UNAVAILABLE) else ()
    return Refusal(reason, f"{who} {what.format(limit=limit)}", details=named, headers=retried)


def _protocol_error(protocol: str, failure: UpstreamFailure) -> tuple[Reason, Mapping[str, Any]] | None:
    """Return the reason and the protocol error of an answer; None where it is not an error of the protocol."""
    known = _ERRORS[protocol]
    if isinstance(failure, ErrorAnswer) and None in known:
        code = failure.code if isinstance(failure.code, int) else None
        return known.get(code, known[None]), failure.error
    if protocol != "acp" or not isinstance(failure, UpstreamRefused) or failure.status not in known:
        return None
    try:
        value = jsontext.decode(failure.body)
    except jsontext.JSONTextError:
        return None
    proper = isinstance(value, dict) and "code" in value and "message" in value
    return (known[failure.status], value) if proper else None


def _error_refusal(who: str, named: Mapping[str, object], reason: Reason, error: Mapping[str, Any]) -> Refusal:
    """Return the response for an error of the upstream's protocol, which is passed on complete."""
    asks = reason is Reason.CAPABILITY_MISSING
    busy = reason is Reason.UPSTREAM_BUSY
    return Refusal(
        reason,
        f"{who} {'has to ask something that the caller cannot answer' if asks else 'answered with an error'}.",
        remedy="result.error has the upstream's error." if busy else None,
        details={**named, "result": {"error": dict(error)}},
        headers=(("Retry-After", "1"),) if busy else (),
    )


def rules_unmatched(details: Mapping[str, object]) -> Refusal:
    """Return the 503 for a server with a rule that matches nothing there."""
    return Refusal(Reason.TOOL_RULES_UNMATCHED, details=details)
