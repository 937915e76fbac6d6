"""
Counts of the records that a search finds, by slots of time and by facet, and which facets are new.

Theory of operation. The slots are ranges of numbers, as times never go back. Each is counted by the sums of its blocks
and the facets of a part of one. There are fewer slots where a store has more facets, so that the sums of all slots are
bounded. The newest slot is counted first; a look ends after :data:`agtphost.stores.record_search.LOOK_SECONDS` of its
thread's processor time, and says how far it came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from typing import Final

from agtphost.stores.record_look import WIDEST, RecordLook
from agtphost.stores.rows import Facet

WIDTHS: Final = tuple(
    seconds * 1_000
    for seconds in (
        *(1, 5, 15, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200),
        *(86_400, 7 * 86_400, 28 * 86_400, 364 * 86_400),
    )
)
"""Milliseconds of a slot; slots begin at multiples of these since the Unix epoch."""

MOST_SLOTS: Final = 60
FEWEST_SLOTS: Final = 12

MOST_STEPS: Final = 30_000
"""Facets times slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The counts of one range of time."""

    begin: int
    """Milliseconds since the Unix epoch."""

    records: int
    events: int
    """Records of events, such as an agent's suspension; all others are of calls."""

    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSummary:
    """The result of one look that counts by time and by facet."""

    since: int
    """From where on records were counted, in milliseconds since the Unix epoch."""

    until: int
    width: int
    """Milliseconds of a slot."""

    slots: Sequence[Slot]
    """Those that were counted, oldest first, with those that have no record."""

    facets: Mapping[Facet, int]
    """Records by facet, in all these slots."""

    is_complete: bool
    """Whether the look came to the beginning of the range."""


def slot_width(since: int, until: int, facets: int) -> int:
    """Return the milliseconds of a slot for a range of time, in a store with so many facets to count."""
    most = max(min(MOST_STEPS // max(facets, 1), MOST_SLOTS), FEWEST_SLOTS)
    for width in WIDTHS:
        if (until - 1) // width - since // width < most:
            return width
    return WIDTHS[-1]


class SummaryLook(RecordLook):
    """A look that counts by time and by facet; its search has no texts."""

    def summarize(self, now: int) -> RecordSummary:
        """
        Count the records.

        :param now: the end of a range without one, in milliseconds since the Unix epoch.
        """
        known, search = self._known, self._search
        wanted = frozenset(number for number, facet in known.items() if search.matches_facet(facet))
        self._of_any_method = [number for number in wanted if search.needs_method(known[number])]
        self._of_any_caller = [number for number in wanted if search.needs_caller(known[number])]
        refused = frozenset(number for number in wanted if known[number].is_refusal)
        events = frozenset(number for number in wanted if known[number].is_event)
        self._facets = sorted(wanted) if len(wanted) < len(known) else None
        self._set_ways()
        until = now if search.until is None else search.until
        since = search.since
        if since is None:
            first = self._time_of(self._low)
            since = until - 1 if first is None else min(first[1], until - 1)
        if since >= until:
            return RecordSummary(since=since, until=since, width=WIDTHS[0], slots=[], facets={}, is_complete=True)
        width = slot_width(since, until, len(wanted))
        sums: Counter[int] = Counter()
        slots: list[Slot] = []
        begin = (until - 1) // width * width
        while begin + width > since:
            low = self._first_of_slot(begin) if begin > since else self._low
            found = self._count_slot(low)
            sums.update(found)
            slots.append(
                Slot(
                    begin=begin,
                    records=sum(found.values()),
                    events=sum(found[each] for each in events & found.keys()),
                    refused=sum(found[each] for each in refused & found.keys()),
                )
            )
            if self._is_over:
                break
            begin -= width
        reached = max(slots[-1].begin, since)
        if self._at > low:
            # A part of the last slot was counted.
            first = self._time_of(self._at)
            reached = reached if first is None else max(first[1], reached)
        return RecordSummary(
            since=reached,
            until=until,
            width=width,
            slots=slots[::-1],
            facets={known[number]: count for number, count in sums.items()},
            is_complete=reached <= since,
        )

    def _count_slot(self, low: int) -> Mapping[int, int]:
        """Count the records from a number on by facet, or the newest part of them, and move the place of the look."""
        found: Counter[int] = Counter()
        while True:
            bottom = self._next_bottom(low, self._widest)
            found.update(self._count_range(bottom))
            self._at = bottom
            if bottom == low or self._is_over:
                return found

    def _first_of_slot(self, begin: int) -> int:
        """
        Return the number of the first record since a time, of those below the place of the look.

        It is near that place: a slot has a small part of all records, and often none.
        """
        high, step = self._at, 1
        if high <= self._blocks.end:
            return self._blocks.first_since(begin, self._low, high)
        while high > self._low:
            place = max(high - step, self._low)
            found = self._time_of(place)
            if found is None or found[0] >= high:
                # Numbers below are missing; no writer leaves one out.
                return self._first_since(begin, self._low, high)
            if found[1] < begin:
                return self._first_since(begin, found[0] + 1, high)
            high, step = place, step * 4
        return high

    def _find_facets(self) -> list[int]:
        """Return an empty list, as :meth:`summarize` reads all facets with their values."""
        return []

    def new_facets(self) -> tuple[Sequence[Facet], Sequence[Facet]]:
        """
        Return the facets whose first record is in the search's range, and all others.

        A facet whose first records were removed counts as one that was there before.
        """
        # Facets have their numbers in the order of their first records, so new ones are the last.
        end = min(self._low, self._blocks.end)
        source = self._reader.indexed
        statement = f"SELECT coalesce(max(r.facet), 0) FROM {source} r WHERE r.number >= ? AND r.number < ?"
        after_blocks = self._rows(statement, (end, self._low))[0][0]
        last = max(after_blocks, *self._blocks.count(1, end), 0)
        new = [facet for number, facet in self._known.items() if number > last]
        return new, [facet for number, facet in self._known.items() if number <= last]

    def last_calls(self, callers: Sequence[str]) -> Mapping[str, int]:
        """Return the time of the newest record of each proven caller that has one."""
        wanted = frozenset(callers)
        caller_of = {number: facet.caller_id for number, facet in self._known.items() if facet.caller_id in wanted}
        newest: dict[str, int] = {}
        statement = f"SELECT r.facet, max(r.number) FROM {self._reader.indexed} r WHERE r.number >= ? GROUP BY r.facet"
        for facet, number in self._rows(statement, (self._blocks.end,)):
            if caller := caller_of.get(facet):
                newest[caller] = max(number, newest.get(caller, 0))
        high = self._blocks.end
        while high > 1 and (lacking := frozenset(each for each, caller in caller_of.items() if caller not in newest)):
            low = max(high - WIDEST, 1)
            for first, marks in self._blocks.find(lacking, low, high):
                end = first + len(marks)
                facets = compress(self._blocks.facets_of(first, end), marks)
                # Of several numbers the last one stays.
                of_block = dict(zip(facets, compress(range(first, end), marks), strict=True))
                for facet, number in sorted(of_block.items(), key=itemgetter(1), reverse=True):
                    newest.setdefault(caller_of[facet], number)
            high = low
        return {caller: found[1] for caller, number in newest.items() if (found := self._time_of(number)) is not None}
