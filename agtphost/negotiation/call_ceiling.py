"""A fixed ceiling of requests per minute and agent (AGTP-API section 10.1.5)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from agtphost.errors import Refusal
from agtphost.vocabulary.reasons import Reason

WINDOW = 60.0
MOST_CALLERS = 10_000
"""Callers that are remembered; the least recent is evicted first."""


Seen = OrderedDict[str, deque[float]]
"""Times of requests in the last minute, by caller."""


class CallCeiling:
    """
    Counter of the evaluations of each caller.

    :param scope: scope in the 429: ``rcns`` or ``propose``.
    :param per_minute: the ceiling.
    :param now: returns monotonic seconds.
    :param seen: earlier counts, under any ceiling; None: none.
    """

    def __init__(self, scope: str, per_minute: int, now: Callable[[], float], seen: Seen | None = None) -> None:
        self._scope = scope
        self._most = per_minute
        self._now = now
        self._seen: Seen = OrderedDict()
        if seen is not None:
            self._seen = seen

    def count(self, caller: str) -> None:
        """
        Count one evaluation.

        :raises Refusal: 429 with ``scope`` if the ceiling is reached; the evaluation is then not counted.
        """
        now = self._now()
        times = self._seen.setdefault(caller, deque())
        self._seen.move_to_end(caller)
        while times and times[0] <= now - WINDOW:
            times.popleft()
        if len(times) >= self._most:
            wait = max(1, int(times[0] + WINDOW - now) + 1)
            raise Refusal(
                Reason.RATE_LIMITED,
                f"This host allows {self._most} such requests per minute and agent.",
                remedy=f"Wait {wait} seconds.",
                details={"scope": self._scope, "limit_per_minute": self._most},
                headers=(("Retry-After", str(wait)),),
            )
        times.append(now)
        if len(self._seen) > MOST_CALLERS:
            self._seen.popitem(last=False)
