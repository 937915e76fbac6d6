"""
When a call may be made again without anybody asking for it: core v08 section 5.6, methods v01 section 2.

Three cases, and in all of them only what is safe to carry out twice:

- A pooled connection turned out dead before any octet of the answer came. The
  peer closed it while it was idle, most likely; the call is made once more on
  a new connection.
- The server answered 429 or 503 and the caller allowed retries.
- No host can be reached, or a connection ends without an answer, as while one
  host hands over to another, and the caller allowed time for that.

Safe is a method that the drafts call idempotent, an endpoint that its caller
knows to be so, or a request with an Idempotency-Key. Never again: 410 (the
Agent-ID is retired), 455, 456, 457 and 458 (the same request is refused the
same way), and everything else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from agtphost.client.errors import CannotConnect, ClientError, ConnectionLost, HandshakeEnded
from agtphost.client.reply import Reply
from agtphost.vocabulary.status import Status

_EMBEDDED = {"QUERY", "DISCOVER", "DESCRIBE", "INSPECT", "SUMMARIZE", "PLAN", "ESCALATE", "CONFIRM"}
"""Core v08 section 7.3, the table of embedded methods."""

_ACQUIRE = {"FETCH", "SEARCH", "SCAN", "FIND", "ANALYZE"}
_COMPUTE = {
    "CALCULATE", "CLASSIFY", "EVALUATE", "EXTRACT", "FILTER", "GENERATE", "NORMALIZE", "PREDICT", "RANK",
    "RECOMMEND", "TRANSFORM", "TRANSLATE", "VALIDATE",
}  # fmt: skip
_OTHERS = {"QUOTE", "MAP", "CHECK"}
"""With the two above: methods v01 section 9, table 51."""

IDEMPOTENT_METHODS = frozenset(_EMBEDDED | _ACQUIRE | _COMPUTE | _OTHERS)
"""Methods whose repetition changes nothing; those that the tables call conditional are not among them."""

RETRIED_STATUSES = frozenset({Status.RATE_LIMITED, Status.UNAVAILABLE})

LONGEST_WAIT = 30.0
"""Seconds between two attempts at most; a longer Retry-After ends the retries instead."""

MOST_UNBEGUN = 16
"""
Connections on which a call is made that its host has not begun with: a host may allow few requests on each, and
calls that are made at a time share them.
"""

_FIRST_WAIT = 0.5

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
"""Seconds between two attempts to reach a host, without the jitter: a hand-over takes a second or so."""

IN_PROGRESS = "idempotency-in-progress"
"""The reason of 409 while an earlier attempt with the same key still runs, whose connection was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The rules for repeating calls after a failure."""

    statuses: int = 0
    """How many times a call answered with 429 or 503 is made again; 0 leaves it to the caller."""

    seconds: float = 0.0
    """
    For how long from its first failure on a call is made again where no host can be reached or serves; 0: not at all.
    """

    jitter: Callable[[], float] = random.random
    """A number from 0 to 1: clients that failed together should not return together."""

    def may_reconnect(self, repeatable: bool, *, reused: bool, answered: bool, attempt: int) -> bool:
        """
        Return whether a call whose connection died is made once more.

        :param repeatable: whether the call is safe to carry out twice.
        :param reused: whether the connection had served before; a new one that dies has another cause.
        :param answered: whether any octet of the answer had arrived.
        :param attempt: 1 for the first.
        """
        return repeatable and reused and not answered and attempt == 1

    def may_repeat(self, error: ConnectionLost, repeatable: bool, *, reused: bool, attempt: int) -> bool:
        """Return whether a call is made again over a new connection; of any method, if it was not begun with."""
        if error.unprocessed:
            return attempt < MOST_UNBEGUN
        return self.may_reconnect(repeatable, reused=reused, answered=error.answered, attempt=attempt)

    def wait_after(self, reply: Reply, repeatable: bool, attempt: int, failing: float = 0.0) -> float | None:
        """
        Return how many seconds to wait before making an answered call again; None: do not repeat it.

        :param attempt: 1 for the first.
        :param failing: seconds since the call failed first.
        """
        if not repeatable or reply.reason == "agent-suspended":
            return None
        waits = reply.status in RETRIED_STATUSES or reply.reason == IN_PROGRESS
        if waits and self.seconds:
            wait = self._pause(attempt) if reply.retry_after is None else reply.retry_after
            if failing + wait <= self.seconds:
                return wait
        if attempt > self.statuses or reply.status not in RETRIED_STATUSES:
            return None
        asked = reply.retry_after
        wait = asked if asked is not None else _FIRST_WAIT * 2 ** (attempt - 1) * (0.5 + self.jitter() / 2)
        return wait if wait <= LONGEST_WAIT else None

    def wait_after_loss(
        self, error: ClientError, repeatable: bool, attempt: int, failing: float, *, streaming: bool
    ) -> float | None:
        """
        Return how many seconds to wait before making a call again that got no answer; None: do not repeat it.

        :param attempt: 1 for the first.
        :param failing: seconds since the call failed first.
        :param streaming: whether interim replies are handed out: they would come twice.
        """
        repeatable = repeatable or (isinstance(error, ConnectionLost) and error.unprocessed)
        if not repeatable or not isinstance(error, (CannotConnect, ConnectionLost, HandshakeEnded)):
            return None
        if streaming and isinstance(error, ConnectionLost) and error.answered:
            return None
        wait = self._pause(attempt)
        return wait if failing + wait <= self.seconds else None

    def _pause(self, attempt: int) -> float:
        pause = min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2.0 ** min(attempt - 1, 10))
        return pause * (0.5 + self.jitter() / 2)


def is_repeatable(method: str, *, keyed: bool, idempotent: bool | None) -> bool:
    """
    Return whether carrying a call out twice does no more than once (METH-053, API-071).

    :param keyed: whether it has an Idempotency-Key.
    :param idempotent: what the caller knows of the endpoint (``semantic.is_idempotent``); None: nothing.
    """
    if keyed:
        return True
    return method in IDEMPOTENT_METHODS if idempotent is None else idempotent
