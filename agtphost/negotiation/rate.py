"""How often one agent may ask: a fixed ceiling in any minute (AGTP-API section 10.1.5)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from agtphost.errors import Refusal
from agtphost.vocabulary.reasons import Reason

WINDOW = 60.0
MOST_CALLERS = 10_000
"""Callers remembered; the one that was silent longest is forgotten first."""


Seen = OrderedDict[str, deque[float]]
"""When each caller asked in the last minute."""


class Ceiling:
    """
    Counts the evaluations of each caller.

    :param scope: what the 429 calls itself: ``rcns`` or ``propose``.
    :param per_minute: the ceiling.
    :param now: seconds, from any start.
    :param seen: what was counted before, under whatever ceiling; None: nothing was.
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

        :raises Refusal: 429 with ``scope``, where the ceiling is reached; nothing is counted then.
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
                f"An agent may ask {self._most} times in a minute here.",
                remedy=f"Wait {wait} seconds.",
                details={"scope": self._scope, "limit_per_minute": self._most},
                headers=(("Retry-After", str(wait)),),
            )
        times.append(now)
        if len(self._seen) > MOST_CALLERS:
            self._seen.popitem(last=False)
