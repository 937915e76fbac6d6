"""
When what the ledger has collected is a group: callers in step share one, and calls that end one by one do as well.

The cost of a commit does not depend on how many records it has, and neither do the wake-ups of the two threads around
it. A group that has the calls of all callers is not held back. Where more calls are open than three in four, as behind
an upstream that answers one at a time, the next ones are waited for, for no longer than their callers wait for that
upstream anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.interfaces import IDelayedCall

HOLD = 0.002
"""Seconds that the first record of a group waits for others, at most and once."""

SHARE = 4
"""One in so many of the open calls makes a group that waits for no more."""

MOST_SKIPPED = 64
"""Groups that are not held back after one that was in vain, at most: open calls may last for minutes."""


class LedgerReactor(Protocol):
    """The part of the reactor that the ledger needs."""

    def callLater(self, delay: float, callable: Callable[..., object], *args: object) -> IDelayedCall:
        """Run later, in the reactor's thread."""

    def callFromThread(self, callable: Callable[..., object], *args: object) -> None:
        """Run soon, in the reactor's thread."""


class Grouping:
    """
    Says how long a group is to wait for more.

    :param expected: how many calls are open, those that are collected included.
    """

    def __init__(self, expected: Callable[[], int]) -> None:
        self.expected = expected
        self._usual = 0  # callers outside that a group tends to have
        self._seen = 0  # how many there were when it was asked last
        self._holds = 0  # how many there were when this group began to be held back; 0: it is not
        self._vain = 0  # groups in a row that no further entry joined
        self._skipped = 0  # groups that are still not to be held back

    def wait(self, count: int) -> float | None:
        """
        Decide at the end of a turn of the reactor whether to hand over so many entries.

        :return: seconds after which to ask again, 0 for the next turn; None: hand them over.
        """
        if count and not self._holds and self._wanting(count):
            if self._skipped:
                self._skipped -= 1
            else:
                self._holds = count
                return HOLD
        if self._seen < count < self._usual:
            self._seen = count
            return 0.0
        return None

    def is_alone(self) -> bool:
        """Return whether nothing is to be collected: one call is open, and groups had one caller of late."""
        return self._usual < 2 and self.expected() == 1

    def enough(self, count: int) -> bool:
        """Return whether a group that was held back has enough records to be committed now."""
        return bool(self._holds) and not self._wanting(count)

    def note_handed_over(self, count: int, outside: int) -> None:
        """
        Note that so many entries were handed over.

        :param outside: those of them that answer callers outside, which may call again together.
        """
        if self._holds:
            self._vain = self._vain + 1 if count == self._holds else 0
            self._skipped = min(2**self._vain - 1, MOST_SKIPPED)
        self._usual = max(outside, self._usual - 1)
        self._seen = self._holds = 0

    def _wanting(self, count: int) -> bool:
        return count * SHARE < self.expected()
