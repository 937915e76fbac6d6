"""How many datagrams that belong to no connection a port answers, so that one peer leaves answers for the others."""

from __future__ import annotations

import math
from collections import Counter

from agtphost.protocols.admission import canonical_address, origin_of

PART = 20
"""
Parts of a second's answers: an address takes one of them at most. A stranger who forges addresses can still take all.
"""


class AnswerBudget:
    """
    Counts the answers of a second.

    :param most: answers to all addresses; one address, or network of IPv6, gets ``most // PART`` of them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._began = -math.inf
        self._spent = 0
        self._spent_by: Counter[str | None] = Counter()

    def spend(self, address: str, now: float) -> bool:
        """
        Return whether an answer may be sent to an address, and count it.

        :param now: seconds, never going back.
        """
        if now - self._began >= 1:
            self._began, self._spent = now, 0
            self._spent_by.clear()
        if self._spent >= self._most:
            return False
        origin = origin_of(canonical_address(address), ())
        if self._spent_by[origin] >= self._most // PART:
            return False
        self._spent += 1
        self._spent_by[origin] += 1
        return True
