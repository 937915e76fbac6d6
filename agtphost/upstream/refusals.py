"""Failures of a call to an upstream as AGTP responses: one table for every protocol (adapters section 1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.errors import Refusal
from agtphost.upstream.failures import (
    Busy,
    Cancelled,
    Down,
    ErrorAnswer,
    Lost,
    NotApproved,
    NotReading,
    Refused,
    RulesUnmatched,
    Timeout,
    TooLong,
    Unreadable,
    Unsendable,
    UpstreamFailure,
)
from agtphost.vocabulary import a2a_errors, jsontext
from agtphost.vocabulary.status import Status

BUSY = "upstream-busy"

_KINDS = {
    "mcp": ("MCP server", "mcp_server", "server_state"),
    "a2a": ("A2A agent", "upstream", "upstream_state"),
    "acp": ("ACP server", "upstream", "upstream_state"),
}
"""What an upstream of a protocol is called, and the members of a refusal's body that name it and its state."""

_TABLE: tuple[tuple[type[UpstreamFailure], Status, str, str, str], ...] = (
    (
        Timeout,
        Status.TIMEOUT,
        "upstream-timeout",
        "did not answer in time; whether the call had an effect is unknown.",
        "Ask for less, call asynchronously, or have the operator raise the timeout.",
    ),
    (Cancelled, Status.CONFLICT, "upstream-cancelled", "had not answered when the call was given up.", ""),
    (
        Busy,
        Status.RATE_LIMITED,
        BUSY,
        "has as many calls waiting as it may have.",
        "Try again later, or have the operator raise max_concurrency or max_queue.",
    ),
    (
        TooLong,
        Status.SERVER_ERROR,
        "upstream-answer-too-long",
        "answered with more than this host takes ({limit} octets), which is not passed on; the call had its effect.",
        "Ask for less, or for it in parts.",
    ),
    (
        Unreadable,
        Status.SERVER_ERROR,
        "upstream-answer-refused",
        "answered with something that its protocol does not allow.",
        "The operator's log has the details.",
    ),
    (
        NotReading,
        Status.UNAVAILABLE,
        "upstream-lost",
        "stopped reading and was ended during the call; whether it had an effect is unknown.",
        "Find out what became of the call before repeating it.",
    ),
    (
        Lost,
        Status.UNAVAILABLE,
        "upstream-lost",
        "went away during the call; whether it had an effect is unknown.",
        "Find out what became of the call before repeating it.",
    ),
    (
        Refused,
        Status.UNAVAILABLE,
        "upstream-refused",
        "refused the call below its protocol.",
        "The operator's log has the details.",
    ),
    (NotApproved, Status.UNAVAILABLE, "upstream-down", "is not what the operator approved.", "Ask the operator."),
    (Unsendable, Status.UNPROCESSABLE, "upstream-call-refused", "cannot be sent the call.", "Send other values."),
    (UpstreamFailure, Status.SERVER_ERROR, "upstream-failed", "could not be called.", ""),
)
"""The first row that fits counts; the last fits always."""

MISSING_CAPABILITY = (-32021, -32003)
"""What an MCP server says that would have to ask something which its caller cannot answer; the second is the
extensions'."""

_ERRORS: Mapping[str, Mapping[object, tuple[Status, str]]] = {
    "mcp": {
        **dict.fromkeys(MISSING_CAPABILITY, (Status.UNPROCESSABLE, "capability-missing")),
        -32602: (Status.UNPROCESSABLE, "tool-arguments-refused"),
        -32601: (Status.UNPROCESSABLE, "tool-arguments-refused"),
        None: (Status.SERVER_ERROR, "tool-failed"),
    },
    "a2a": {
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
        None: (Status.SERVER_ERROR, "a2a-error"),
    },
    "acp": {
        400: (Status.UNPROCESSABLE, "acp-request-refused"),
        403: (Status.CONFLICT, "acp-run-state"),
        404: (Status.NOT_FOUND, "acp-not-found"),
        409: (Status.CONFLICT, "acp-run-state"),
        422: (Status.UNPROCESSABLE, "acp-request-refused"),
        429: (Status.RATE_LIMITED, BUSY),
        500: (Status.SERVER_ERROR, "acp-error"),
    },
}
"""
What errors of the protocols are, by their code (A2A 1.0 section 5.4), of ACP by the HTTP status; None: any other.
"""


def refusal(
    protocol: str, upstream: str, failure: UpstreamFailure, details: Mapping[str, object] | None = None
) -> Refusal:
    """
    The response to a call that has no result.

    :param protocol: ``mcp``, ``a2a`` or ``acp``.
    :param upstream: its configured name.
    :param details: further members of the body.
    """
    if isinstance(failure, RulesUnmatched):
        return rules_unmatched({"mcp_server": upstream})
    kind, member, state_member = _KINDS[protocol]
    named: dict[str, object] = {member: upstream, **(details or {})}
    who = f"The {kind} {upstream}"
    answer = _answer_in(protocol, failure)
    if answer is not None:
        return _answered(who, named, *answer)
    if isinstance(failure, Down) or (isinstance(failure, Lost) and not failure.sent):
        again, state = (failure.retry_after, failure.state) if isinstance(failure, Down) else (1, "lost")
        return Refusal(
            Status.UNAVAILABLE,
            "upstream-down",
            f"{who} is not up; the call was not sent.",
            remedy=f"Try again in {again} s.",
            details={**named, state_member: state},
            headers=(("Retry-After", str(again)),),
        )
    if isinstance(failure, Lost):
        ended = {"exit_code": failure.exit_code, "signal": failure.signal}
        named.update({name: value for name, value in ended.items() if value is not None})
    limit = failure.limit if isinstance(failure, TooLong) else None
    if limit is not None:
        named["most_octets"] = limit
    status, reason, what, remedy = next(row[1:] for row in _TABLE if isinstance(failure, row[0]))
    retried = (("Retry-After", "1"),) if status in (Status.RATE_LIMITED, Status.UNAVAILABLE) else ()
    return Refusal(status, reason, f"{who} {what.format(limit=limit)}", remedy=remedy, details=named, headers=retried)


def _answer_in(protocol: str, failure: UpstreamFailure) -> tuple[tuple[Status, str], Mapping[str, Any]] | None:
    """The error of its protocol that an upstream answered with, and what that is here; None where it is none."""
    known = _ERRORS[protocol]
    if isinstance(failure, ErrorAnswer) and None in known:
        code = failure.code if isinstance(failure.code, int) else None
        return known.get(code, known[None]), failure.error
    if protocol != "acp" or not isinstance(failure, Refused) or failure.status not in known:
        return None
    try:
        value = jsontext.decode(failure.body)
    except jsontext.JSONTextError:
        return None
    proper = isinstance(value, dict) and "code" in value and "message" in value
    return (known[failure.status], value) if proper else None


def _answered(who: str, named: Mapping[str, object], said: tuple[Status, str], error: Mapping[str, Any]) -> Refusal:
    """The response to a call that its upstream answered with an error of its protocol, of which nothing is dropped."""
    status, reason = said
    asks = reason == "capability-missing"
    return Refusal(
        status,
        reason,
        f"{who} {'has to ask something that the caller cannot answer' if asks else 'answered with an error'}.",
        remedy="Name what can be answered in _meta; result.error says what is missing."
        if asks
        else "result.error is what it said.",
        details={**named, "result": {"error": dict(error)}},
        headers=(("Retry-After", "1"),) if status is Status.RATE_LIMITED else (),
    )


def rules_unmatched(details: Mapping[str, object]) -> Refusal:
    """The 503 for whatever is of a server that has a rule which fits nothing there."""
    return Refusal(
        Status.UNAVAILABLE,
        "tool-rules-unmatched",
        "A rule of this host's operator names a tool, prompt or resource that the server does not have: all it has "
        "is off.",
        remedy="The operator has to mend the rule; `agtp upstreams ls` names it.",
        details=details,
    )
