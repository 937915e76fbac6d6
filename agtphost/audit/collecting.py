"""
What is submitted in the reactor's thread until it is handed over to the writer's.

Groups go one at a time: while one is being committed, the next one forms. Where
somebody outside is answered with records of it, the answers go out first, and what
they prompt belongs to the next group. Where all of it are calls that this host makes
itself, as in a BATCH, it goes on with them at once, and nobody waits for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.interfaces import IDelayedCall

from agtphost.audit.grouping import Grouping, LedgerReactor
from agtphost.audit.writer import Entry, Submission

MOST_ENTRIES = 1024
"""Drafts of one transaction: bounds what a group holds in memory, far above any usual turn."""

MOST_OCTETS = 8 * 1024 * 1024
"""Stored results of one transaction, for the same reason."""


class Collecting:
    """
    Collects entries, and hands them over as groups.

    :param reactor: whose turns are waited for.
    :param hand_over: takes a group, and how many octets of stored results are in it.
    """

    def __init__(self, reactor: LedgerReactor, hand_over: Callable[[list[Entry], int], object]) -> None:
        self._reactor = reactor
        self._take = hand_over
        self.grouping = Grouping(lambda: 0)
        self._entries: list[Entry] = []
        self._octets = 0
        self._inner = 0  # of the entries, those with which nobody outside is answered
        self._under_way = 0  # handed over and not settled
        self._scheduled = False
        self._held_back: IDelayedCall | None = None

    def __len__(self) -> int:
        """How many wait, or are being written."""
        return len(self._entries) + self._under_way

    def add(self, entry: Entry, octets: int) -> None:
        """
        One more.

        :param octets: of the result that is stored with it.
        """
        self._entries.append(entry)
        self._octets += octets
        self._inner += _is_inner(entry)
        if self._octets > MOST_OCTETS or len(self._entries) >= MOST_ENTRIES:
            self.hand_over()
        elif not self._scheduled and not self._under_way:
            self._next_turn()
        elif self._held_back is not None and self.grouping.enough(len(self._entries)):
            self._held_back.reset(0)

    def hand_over(self) -> None:
        """What there is, as a group."""
        if self._entries:
            count = len(self._entries)
            self._under_way += count
            self.grouping.over(count, count - self._inner)
            if self._held_back is not None:
                self._held_back.cancel()
                self._held_back, self._scheduled = None, False
            self._take(self._entries, self._octets)
            self._entries = []
            self._octets = self._inner = 0

    def returned(self, entries: Sequence[Entry], settle: Callable[[], None]) -> None:
        """
        A group is through.

        :param settle: tells those who wait for it.
        """
        self._under_way -= len(entries)
        if all(map(_is_inner, entries)):
            self._scheduled = True  # Nothing is by itself: it ends here.
            try:
                settle()
            finally:
                self._turn_over()
            return
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._next_turn)
        settle()

    def _next_turn(self) -> None:
        self._scheduled = True
        self._reactor.callLater(0, self._turn_over)

    def _turn_over(self) -> None:
        """A turn of the reactor has ended: hand over what it collected, unless the next one will add to it."""
        self._scheduled = False
        self._held_back = None
        if self._under_way:
            return
        wait = self.grouping.wait(len(self._entries))
        if wait is None:
            self.hand_over()
        else:
            self._scheduled = True
            self._held_back = self._reactor.callLater(wait, self._turn_over)


def _is_inner(entry: Entry) -> bool:
    return entry.__class__ is Submission and entry.draft.inner
