"""Failures of a call to an upstream as AGTP responses: the same table for every protocol over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.adapters.web.failures import (
    NotPrepared,
    PeerBusy,
    PeerCancelled,
    PeerDown,
    PeerFailure,
    PeerLost,
    PeerRefused,
    PeerTimeout,
    PeerTooLong,
    PeerUnreadable,
)
from agtphost.errors import Refusal
from agtphost.vocabulary.status import Status

_PLAIN: tuple[tuple[type[PeerFailure], Status, str, str, str], ...] = (
    (
        PeerTimeout,
        Status.TIMEOUT,
        "timeout",
        "did not answer in time; whether the call had an effect is unknown.",
        "Ask for less, call asynchronously, or have the operator raise the timeout.",
    ),
    (PeerCancelled, Status.CONFLICT, "cancelled", "had not answered when the call was given up.", ""),
    (
        PeerBusy,
        Status.RATE_LIMITED,
        "busy",
        "has as many calls waiting as it may have.",
        "Try again later, or have the operator raise max_concurrency or max_queue.",
    ),
    (
        PeerTooLong,
        Status.SERVER_ERROR,
        "answer-too-long",
        "answered with more than this host takes (16 MiB); the call had its effect.",
        "Ask for less, or for it in parts.",
    ),
    (
        PeerUnreadable,
        Status.SERVER_ERROR,
        "answer-refused",
        "answered with something that its protocol does not allow.",
        "The operator's log has the details.",
    ),
    (
        PeerLost,
        Status.UNAVAILABLE,
        "lost",
        "went away during the call; whether it had an effect is unknown.",
        "Find out what became of the call before repeating it.",
    ),
    (
        PeerRefused,
        Status.UNAVAILABLE,
        "refused",
        "refused the call below its protocol.",
        "The operator's log has the details.",
    ),
    (NotPrepared, Status.UNAVAILABLE, "down", "is not what the operator approved.", "Ask the operator."),
)


def refusal(protocol: str, upstream: str, failure: PeerFailure, details: Mapping[str, object] | None = None) -> Refusal:
    """
    The response to a call that has no result.

    :param protocol: ``a2a`` or ``acp``: the first part of the reason.
    :param upstream: its configured name.
    :param details: further members of the body.
    """
    named: dict[str, object] = {"upstream": upstream, **(details or {})}
    who = f"The {protocol.upper()} upstream {upstream}"
    if isinstance(failure, PeerDown) or (isinstance(failure, PeerLost) and not failure.sent):
        again = failure.retry_after if isinstance(failure, PeerDown) else 1
        state = failure.state if isinstance(failure, PeerDown) else "lost"
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
