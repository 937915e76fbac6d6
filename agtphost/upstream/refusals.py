"""Failures of a call to an upstream as AGTP responses: one table for every protocol (adapters section 1.1)."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.errors import Refusal
from agtphost.upstream.failures import (
    Busy,
    Cancelled,
    Down,
    Lost,
    NotApproved,
    NotReading,
    Refused,
    Timeout,
    TooLong,
    Unreadable,
    Unsendable,
    UpstreamFailure,
)
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


def refusal(
    protocol: str, upstream: str, failure: UpstreamFailure, details: Mapping[str, object] | None = None
) -> Refusal:
    """
    The response to a call that has no result.

    :param protocol: ``mcp``, ``a2a`` or ``acp``.
    :param upstream: its configured name.
    :param details: further members of the body.
    """
    kind, member, state_member = _KINDS[protocol]
    named: dict[str, object] = {member: upstream, **(details or {})}
    who = f"The {kind} {upstream}"
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


def answered(
    protocol: str,
    upstream: str,
    error: Mapping[str, object],
    said: tuple[Status, str],
    details: Mapping[str, object] | None = None,
) -> Refusal:
    """
    The response to a call that its upstream answered with an error of its protocol.

    :param error: as received; the caller gets the whole of it.
    :param said: status and reason.
    """
    kind, member, _ = _KINDS[protocol]
    status, reason = said
    return Refusal(
        status,
        reason,
        f"The {kind} {upstream} answered with an error.",
        remedy="result.error is what it said.",
        details={member: upstream, "result": {"error": dict(error)}, **(details or {})},
        headers=(("Retry-After", "1"),) if status is Status.RATE_LIMITED else (),
    )
