"""Failures of a call to an upstream as AGTP responses: the same table for every protocol over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.errors import Refusal
from agtphost.upstream.failures import (
    Busy,
    Cancelled,
    Down,
    Lost,
    NotApproved,
    Refused,
    Timeout,
    TooLong,
    Unreadable,
    UpstreamFailure,
)
from agtphost.vocabulary.status import Status

_PLAIN: tuple[tuple[type[UpstreamFailure], Status, str, str, str], ...] = (
    (
        Timeout,
        Status.TIMEOUT,
        "timeout",
        "did not answer in time; whether the call had an effect is unknown.",
        "Ask for less, call asynchronously, or have the operator raise the timeout.",
    ),
    (Cancelled, Status.CONFLICT, "cancelled", "had not answered when the call was given up.", ""),
    (
        Busy,
        Status.RATE_LIMITED,
        "busy",
        "has as many calls waiting as it may have.",
        "Try again later, or have the operator raise max_concurrency or max_queue.",
    ),
    (
        TooLong,
        Status.SERVER_ERROR,
        "answer-too-long",
        "answered with more than this host takes (16 MiB); the call had its effect.",
        "Ask for less, or for it in parts.",
    ),
    (
        Unreadable,
        Status.SERVER_ERROR,
        "answer-refused",
        "answered with something that its protocol does not allow.",
        "The operator's log has the details.",
    ),
    (
        Lost,
        Status.UNAVAILABLE,
        "lost",
        "went away during the call; whether it had an effect is unknown.",
        "Find out what became of the call before repeating it.",
    ),
    (
        Refused,
        Status.UNAVAILABLE,
        "refused",
        "refused the call below its protocol.",
        "The operator's log has the details.",
    ),
    (NotApproved, Status.UNAVAILABLE, "down", "is not what the operator approved.", "Ask the operator."),
)


def refusal(
    protocol: str, upstream: str, failure: UpstreamFailure, details: Mapping[str, object] | None = None
) -> Refusal:
    """
    The response to a call that has no result.

    :param protocol: ``a2a`` or ``acp``: the first part of the reason.
    :param upstream: its configured name.
    :param details: further members of the body.
    """
    named: dict[str, object] = {"upstream": upstream, **(details or {})}
    who = f"The {protocol.upper()} upstream {upstream}"
    if isinstance(failure, Down) or (isinstance(failure, Lost) and not failure.sent):
        again = failure.retry_after if isinstance(failure, Down) else 1
        state = failure.state if isinstance(failure, Down) else "lost"
        return Refusal(
            Status.UNAVAILABLE,
            f"{protocol}-upstream-down",
            f"{who} is not up; the call was not sent.",
            remedy=f"Try again in {again} s.",
            details={**named, "upstream_state": state},
            headers=(("Retry-After", str(again)),),
        )
    for kind, status, reason, what, remedy in _PLAIN:
        if isinstance(failure, kind):
            retried = (("Retry-After", "1"),) if status in (Status.RATE_LIMITED, Status.UNAVAILABLE) else ()
            return Refusal(
                status, f"{protocol}-upstream-{reason}", f"{who} {what}", remedy=remedy, details=named, headers=retried
            )
    return Refusal(Status.SERVER_ERROR, f"{protocol}-upstream-failed", f"{who} could not be called.", details=named)
