"""
What is submitted in the reactor's thread until it is handed over to the writer's.

Groups go one at a time: while one is being committed, the next one forms. A record is handed over in the turn in which
it is submitted where its call is the only one, as of late; otherwise at the end of the turn. If callers outside are
answered with records of a group, the answers are sent first, and the calls that follow them belong to the next group.
If all entries of a group are calls that this host makes itself, as in a BATCH, their work goes on directly.

An entry that changes many state items is a separate group, and small entries go first. After such a group the writer
only takes small entries for :data:`REST` times as long, so that most of its time is for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from twisted.internet.interfaces import IDelayedCall

from agtphost.audit.group_timing import Grouping, LedgerReactor
from agtphost.audit.writer import Entry, Submission

MOST_ENTRIES = 1024
"""Drafts of one transaction: bounds what a group holds in memory, far above any usual turn."""

MOST_OCTETS = 8 * 1024 * 1024
"""Stored results of one transaction, for the same reason; and of large entries that wait, until they wait no more."""

LARGE_CHANGES = 50
LARGE_OCTETS = 128 * 1024
"""State items that one entry changes, and octets that the store grows by, from which on it is a large one."""

REST = 19.0
"""Times as long as a large entry took, until the next one is written, while small ones come."""

QUIET = 0.05
"""Seconds without a small entry after which a large one need not rest any more."""

LONGEST_REST = 1.0
"""Seconds of rest after a disk stood still."""


class EntryCollector:
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
        self._inner = 0  # the entries that answer calls inside this host
        self._large: deque[tuple[Entry, int]] = deque()
        self._large_octets = 0
        self._large_next = False  # small entries went last
        self._resting: IDelayedCall | None = None
        self._rest = 0.0  # seconds that are left of it
        self._served = False  # small entries went since it was looked at
        self._under_way = 0  # handed over and not settled
        self._scheduled = False
        self._held_back: IDelayedCall | None = None

    def __len__(self) -> int:
        """Return how many entries wait, or are being written."""
        return len(self._entries) + len(self._large) + self._under_way

    def add(self, entry: Entry, octets: int) -> None:
        """
        Add an entry.

        :param octets: of the result that is stored with it.
        """
        if entry.__class__ is Submission and entry.draft.changes and (stored := _large_octets(entry)):
            entry.large = True
            self._large.append((entry, stored + octets))
            self._large_octets += stored + octets
            if not self._scheduled and not self._under_way:
                self._next_turn()
            return
        self._entries.append(entry)
        self._octets += octets
        self._inner += _is_inner(entry)
        if self._octets > MOST_OCTETS or len(self._entries) >= MOST_ENTRIES:
            self.hand_over()
        elif not self._scheduled and not self._under_way:
            self._next_turn()
        elif self._held_back is not None and self.grouping.enough(len(self._entries)):
            self._held_back.reset(0)

    def hand_over_all(self) -> None:
        """Hand over everything that there is: nothing comes any more."""
        self.hand_over()
        while self._large:
            self._hand_over_large()

    def _hand_over_large(self) -> None:
        """Hand over the large entry that has waited longest, as a separate group."""
        entry, octets = self._large.popleft()
        self._large_octets -= octets
        self._large_next = False
        self._under_way += 1
        self._take([entry], octets)

    def hand_over(self) -> None:
        """Hand over the small entries, as a group."""
        self._large_next = True
        if self._entries:
            self._served = True
            count = len(self._entries)
            self._under_way += count
            self.grouping.note_handed_over(count, count - self._inner)
            if self._held_back is not None:
                self._held_back.cancel()
                self._held_back, self._scheduled = None, False
            entries, octets = self._entries, self._octets
            self._entries = []
            self._octets = self._inner = 0
            self._take(entries, octets)

    def note_finished(self, entries: Sequence[Entry], settle: Callable[[], None], seconds: float = 0.0) -> None:
        """
        Note that a group was written or has failed.

        :param settle: fires the Deferreds of its entries.
        :param seconds: that it took.
        """
        self._under_way -= len(entries)
        # What is left when the writer has ended may be nothing at all.
        first = entries[0] if entries else None
        if seconds and self._resting is None and first.__class__ is Submission and first.large:
            self._rest = min(REST * seconds, LONGEST_REST)
            self._go_on_resting()
        if all(map(_is_inner, entries)):
            self._scheduled = True  # No turn is scheduled for it: it ends below.
            try:
                settle()
            finally:
                self._turn_over()
            return
        if not self._scheduled and (self._entries or self._large or not self.grouping.is_alone()):
            self._scheduled = True
            self._reactor.callLater(0, self._next_turn)
        settle()

    def _next_turn(self) -> None:
        """Hand over when this turn ends, or now if no other call can add to it; wait where there is nothing."""
        if not self._entries and not self._large:
            self._scheduled = False
            return
        if self._entries and not self._under_way and self.grouping.is_alone():
            self._scheduled = False
            self.hand_over()
            return
        self._scheduled = True
        self._reactor.callLater(0, self._turn_over)

    def _go_on_resting(self) -> None:
        self._served = False
        seconds = min(self._rest, QUIET)
        self._rest -= seconds
        self._resting = self._reactor.callLater(seconds, self._end_rest)

    def _end_rest(self) -> None:
        self._resting = None
        if self._rest and self._served:
            self._go_on_resting()
        elif self._large and not self._scheduled and not self._under_way:
            self._next_turn()

    def _may_hand_over_large(self) -> bool:
        rested = self._resting is None or self._large_octets > MOST_OCTETS
        return rested and (self._large_next or not self._entries)

    def _turn_over(self) -> None:
        """Submit what a turn of the reactor collected, unless the next turn will add to it."""
        self._scheduled = False
        self._held_back = None
        if self._under_way:
            return
        if self._large and self._may_hand_over_large():
            self._hand_over_large()
            return
        wait = self.grouping.wait(len(self._entries))
        if wait is None:
            self.hand_over()
        else:
            self._scheduled = True
            self._held_back = self._reactor.callLater(wait, self._turn_over)


def _large_octets(entry: Submission) -> int:
    """
    Octets that a large entry adds to the store; 0 of a small one.

    What is vital waits for nothing, however much it changes: so do transitions of agents.
    """
    changes = entry.draft.changes
    draft, stored = entry.draft, 0 if entry.admitted is None else entry.admitted.stored
    if draft.vital or draft.event is not None or (len(changes) < LARGE_CHANGES and stored < LARGE_OCTETS):
        return 0
    return max(int(stored), 1)


def _is_inner(entry: Entry) -> bool:
    return entry.__class__ is Submission and entry.draft.inner
