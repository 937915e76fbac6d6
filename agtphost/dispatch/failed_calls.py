"""
Calls that failed in a way that may pass, for RETRY (methods v01 section 8.5).

A call is kept with the record of its failure where it named a Task-ID: what was called, and with what. It is kept for a
day, for its caller alone, and is gone when something else is kept in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from agtphost.audit.drafts import Change
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.outcome import Outcome
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.status import Status

KIND: Final = "failed-call"
KEPT: Final = 86_400
"""Seconds."""

LONGEST: Final = 16_384
"""Octets of the parameters of a call that is kept."""

PASSING: Final = frozenset({Status.TIMEOUT, Status.RATE_LIMITED, Status.SERVER_ERROR, Status.UNAVAILABLE})
"""Statuses that another attempt may not meet."""

UNREACHED: Final = frozenset({"upstream_timeout", "upstream_connection_error"})
"""Declared errors that a retry may overcome, with any status: the upstream of an endpoint was slow, or missing."""

NEVER: Final = frozenset({"BATCH", "CHAIN", "RETRY", "DELEGATE", "PURCHASE", "RESUME"})
"""Methods that are not called again: those that call others, and those that depend on more than the body."""

Failures = Callable[[Exchange, Outcome], tuple[Change, ...]]
"""What is kept of a call that failed."""


def failure_changes(exchange: Exchange, outcome: Outcome) -> tuple[Change, ...]:
    """Return the changes that keep a failed call for RETRY; see :data:`Failures`."""
    binding, caller = exchange.binding, exchange.accountable
    if (
        exchange.task_id is None
        or caller is None
        or binding is None
        or exchange.peer.depth
        or not (outcome.status in PASSING or outcome.reason in UNREACHED)
        or exchange.method in NEVER
    ):
        return ()
    parameters = jsontext.encode(dict(exchange.parameters))
    if len(parameters) > LONGEST:
        return ()
    request = exchange.request
    digest = sha256(f"{exchange.task_id} {exchange.method} {request.path} {request.query}".encode() + parameters)
    value: Mapping[str, Any] = {
        "task_id": exchange.task_id,
        "method": exchange.method,
        "path": f"{request.path}?{request.query}" if request.query else request.path,
        "parameters": dict(exchange.parameters),
        "key": exchange.idempotency_key or "",
        "status": int(outcome.status),
        "reason": outcome.reason,
        "at": int(exchange.now * 1000),
        "attempts": 1,
    }
    key = f"{exchange.owner}/{digest.hexdigest()[:32]}"
    return (
        Change(
            kind=KIND,
            key=key,
            value=value,
            owner=exchange.owner,
            expires_at=value["at"] + KEPT * 1000,
            linked="audit_id",
        ),
    )
