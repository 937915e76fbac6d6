"""
One look at the records of an SQL database: a page of a search, or a part of its counts.

Theory of operation. Records have their numbers in the order of their times, so a range of time is a range of numbers,
found by bisection. Conditions about values that many records share are decided on the small table ``facet``; which
records have one of these facets, blocks tell (:mod:`.record_blocks`), and which have a session, a task or a path,
hashes do (:mod:`.record_hashes`). A facet lacks names that its callers may have invented; the columns of its records
decide then. No other record is read to be rejected, except for a search for text and among the newest ones, which are
in no block yet.

A range is read newest first, in windows that grow: the newest matches need a small window, and rare ones few large
windows. Each window is a few statements, and bounded; after each, a look ends that has taken :data:`LOOK_SECONDS`, and
says where the next one goes on. So a search of any store and any filter costs its host little at a time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, compress, islice
from operator import and_
from typing import Any, Final, Protocol

from agtphost.stores.known_facets import KnownFacets
from agtphost.stores.record_blocks import RecordBlocks
from agtphost.stores.record_hashes import RecordHashes, Source
from agtphost.stores.record_index import FLOOR_METHODS, to_index_text
from agtphost.stores.record_rows import RECORD, check_record
from agtphost.stores.record_search import (
    LOOK_SECONDS,
    LOOKED_INSIDE,
    WAITING_SECONDS,
    CountedBy,
    LatestRecords,
    RecordCounts,
    Search,
)
from agtphost.stores.rows import NO_FACET, UNPROVEN, DamagedRecord, DamagedRow, Facet, StoredRecord
from agtphost.vocabulary import times

WINDOW: Final = 4_096
"""Numbers of the first window; each later one is four times as large, up to :data:`WIDEST`."""

WIDEST: Final = 262_144

WIDEST_HASHED: Final = 65_536
"""Numbers of the largest window where hashes are read: each may have to be compared with its record."""

WIDEST_READ: Final = 8_192
"""Numbers of the largest window where the columns of records decide: 40 ms of a processor."""

PAGE: Final = 500
"""Records that a search for text, or one that compares columns, reads by one statement."""

HOUR: Final = 3_600_000
"""Milliseconds."""

Stop = Callable[[], bool]
"""Returns whether the result is not wanted any more; called between statements, in the thread that reads."""


def never() -> bool:
    """Go on to the end."""
    return False


class SearchStopped(Exception):
    """The caller of a search has left."""


class Searched(Source, Protocol):
    """A reader, as far as a look needs it."""

    known_facets: KnownFacets


@dataclass(slots=True)
class _Conditions:
    """Conditions of a statement, with their parameters."""

    texts: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def add(self, text: str, *values: Any) -> None:
        self.texts.append(text)
        self.values += values

    def __str__(self) -> str:
        return " AND ".join(self.texts) or "1 = 1"


def facet_conditions(search: Search) -> _Conditions:
    """Return the conditions about facets that a database decides; the others are left to :class:`Search`."""
    found = _Conditions()
    if search.chain is not None:
        found.add("agent = ?", bytes.fromhex(search.chain))
    if search.caller is not None:
        found.add("caller IN (?, ?)", bytes.fromhex(search.caller), UNPROVEN)
    if search.agent is not None:
        octets = bytes.fromhex(search.agent)
        found.add("(agent = ? OR caller IN (?, ?))", octets, octets, UNPROVEN)
    if search.method is not None:
        found.add("method IN (?, ?)", search.method, search.method if search.method in FLOOR_METHODS else "")
    if search.status is not None:
        found.add("status = ?", search.status)
    tool = search.tool if search.tool_prefix is None else None
    for column, text in (("tool", tool), ("reason", search.reason), ("person", search.person)):
        if text is not None:
            found.add(f"{column} = ?", to_index_text(text))
    if search.status_class is not None:
        found.add("status >= ? AND status < ?", search.status_class * 100, search.status_class * 100 + 100)
    return found


class RecordLook:
    """
    A look by one search.

    :param before: the place that the look begins below; None: at the newest.
    :param stop: see :data:`Stop`.
    """

    def __init__(self, reader: Searched, search: Search, before: int | None, stop: Stop) -> None:
        self._reader = reader
        self._rows = reader._rows
        self._search = search
        self._stop = stop
        self._end = time.monotonic() + LOOK_SECONDS
        # What counts is the processor's time: on a busy machine a look would come to nothing.
        self._cpu_end = time.thread_time() + LOOK_SECONDS
        self._known = reader.known_facets.read(self._rows)
        self._blocks = RecordBlocks(self._rows)
        newest: int = self._rows("SELECT coalesce(max(number), 0) FROM record")[0][0]
        self._at = newest + 1 if before is None else min(before, newest + 1)
        self._low = 1
        if search.until is not None:
            self._at = min(self._at, self._first_since(search.until, 1, newest + 1))
        if search.since is not None:
            self._low = self._first_since(search.since, 1, max(self._at, 1))
        self._of_any_method: list[int] = []
        self._of_any_caller: list[int] = []
        self._facets = self._find_facets() if search.has_facet else None
        self._set_ways()

    @cached_property
    def _hashes(self) -> RecordHashes:
        return RecordHashes(self._reader)

    def _set_ways(self) -> None:
        """Decide how records are found, by the search and the facets that it wants."""
        search = self._search
        texts = (("task", _to_index(search.task_id)), ("session", _to_index(search.session_id)), ("path", search.path))
        self._texts = [(column, text) for column, text in texts if text is not None]
        self._wanted = frozenset(self._known if self._facets is None else self._facets)
        # Whether the columns of records decide as well.
        self._reads = bool(self._of_any_method or self._of_any_caller or len(self._texts) > 1)
        # Whether the number of its facet tells of each record whether it is meant.
        self._narrow = not self._texts and not self._reads
        self._blocks_end = min(self._blocks.end, self._hashes.end) if self._texts else self._blocks.end
        self._widest = WIDEST_READ if self._reads else WIDEST_HASHED if self._texts else WIDEST

    @property
    def _is_over(self) -> bool:
        if self._stop():
            raise SearchStopped
        return time.thread_time() >= self._cpu_end or time.monotonic() >= self._end + WAITING_SECONDS

    # Ranges

    def _time_of(self, number: int) -> tuple[int, int] | None:
        """Return number and time of the first record from a number on."""
        rows = self._rows("SELECT number, issued_at FROM record WHERE number >= ? ORDER BY number LIMIT 1", (number,))
        if rows and type(rows[0][1]) is not int:
            raise DamagedRow("record", str(rows[0][0]), "issued_at is of the wrong type")
        return rows[0] if rows else None

    def _first_since(self, since: int, low: int, high: int) -> int:
        """Return the first number within a range whose record was issued at a time or later; ``high`` for none."""
        end = min(high, self._blocks.end)
        if low < end:
            low = self._blocks.first_since(since, low, end)
            if low < end:
                return low
        while low < high:
            middle = (low + high) // 2
            found = self._time_of(middle)
            if found is None or found[0] >= high or found[1] >= since:
                high = middle
            else:
                low = found[0] + 1
        return low

    def _find_facets(self) -> list[int]:
        conditions = facet_conditions(self._search)
        found: list[int] = []
        for (number,) in self._rows(f"SELECT number FROM facet WHERE {conditions}", conditions.values):
            facet = self._known.get(number)
            # One that came after the others were read is that of a record beyond this look.
            if facet is not None and self._search.matches_facet(facet):
                found.append(number)
                if self._search.needs_method(facet):
                    self._of_any_method.append(number)
                if self._search.needs_caller(facet):
                    self._of_any_caller.append(number)
        return found

    @cached_property
    def _doubts(self) -> list[tuple[str, frozenset[int], Any]]:
        """The columns that decide for records of some facets: which one, the facets, and the value that is wanted."""
        search = self._search
        caller = bytes.fromhex(search.caller or search.agent or "")
        found = (("method", self._of_any_method, search.method), ("caller", self._of_any_caller, caller))
        return [(column, frozenset(numbers), wanted) for column, numbers, wanted in found if numbers]

    def _conditions(self) -> _Conditions:
        """Return the conditions on the columns of a record."""
        reader = self._reader
        found = _Conditions()
        for column, text in self._texts:
            found.add(f"r.{column} = ?", text)
        if self._facets is not None:
            found.add(f"r.facet {reader.among}", reader.to_list(self._facets))
            for column, numbers, wanted in self._doubts:
                found.add(f"(NOT r.facet {reader.among} OR r.{column} = ?)", reader.to_list([*numbers]), wanted)
        return found

    def _next_bottom(self, low: int, width: int) -> int:
        """Return where the next window ends: it is in blocks, or has only records that are in none."""
        if self._at > self._blocks_end:
            return max(low, self._blocks_end, self._at - min(width, WIDEST_READ))
        return max(low, self._at - width)

    def _mark_records(self, low: int, high: int) -> Iterator[tuple[int, list[bool]]]:
        """
        Yield for the records of a range in blocks whether each is meant, as far as facets and hashes say.

        :return: as of :meth:`.record_blocks.RecordBlocks.find`.
        """
        if not self._texts:
            yield from self._blocks.find(self._wanted, low, high)
            return
        column, text = self._texts[0]
        for first, found in self._hashes.find(column, text, low, high):
            if self._facets is not None:
                facets = self._blocks.facets_of(first, first + len(found))
                found = [*map(and_, found, map(self._wanted.__contains__, facets))]
            yield first, found

    def _numbers_in_blocks(self, low: int, high: int) -> Iterator[int]:
        """Yield the numbers of a range that are meant, newest first."""
        marked = (
            compress(range(first + len(found) - 1, first - 1, -1), reversed(found))
            for first, found in self._mark_records(low, high)
        )
        numbers = chain.from_iterable(marked)
        if not self._reads:
            yield from numbers
            return
        while part := [*islice(numbers, PAGE)]:
            if len(self._texts) > 1:
                part = self._ask_columns(self._reader.indexed, part, self._conditions())
            else:
                for column, facets, wanted in self._doubts:
                    asked = [number for number in part if self._blocks.facet_of(number) in facets]
                    if asked:
                        meant = {*self._ask_columns("record", asked, _Conditions([f"r.{column} = ?"], [wanted]))}
                        meant.update(set(part).difference(asked))
                        part = [number for number in part if number in meant]
            yield from part

    def _ask_columns(self, source: str, numbers: Sequence[int], conditions: _Conditions) -> list[int]:
        """Return those of some records that meet conditions on their columns, newest first."""
        among = self._reader.among
        statement = f"SELECT r.number FROM {source} r WHERE r.number {among} AND {conditions} ORDER BY r.number DESC"
        return [row[0] for row in self._rows(statement, (self._reader.to_list(numbers), *conditions.values))]

    # A page

    def latest(self, limit: int) -> LatestRecords:
        """Return at most ``limit`` records and damaged ones, newest first."""
        found: list[tuple[int, StoredRecord]] = []
        damaged: list[tuple[int, str]] = []
        width, decoded, words = WINDOW, 0, self._search.words
        if self._facets is not None and not self._facets:
            return LatestRecords(records=[], damaged=[], before=None)
        while self._at > self._low and (room := limit - len(found) - len(damaged)) > 0:
            bottom = self._next_bottom(self._low, width)
            most = room if self._search.index_only else min(PAGE, LOOKED_INSIDE - decoded)
            numbers = self._numbers(bottom, most)
            for row in self._read(numbers):
                self._at = row[10]
                decoded += 1
                try:
                    record = check_record(row)
                except DamagedRecord as error:
                    damaged.append((row[10], str(error)))
                else:
                    if self._search.says(record, words):
                        found.append((row[10], record))
                if len(found) + len(damaged) == limit:
                    break
            else:
                if len(numbers) < most:
                    self._at, width = bottom, min(width * 4, self._widest)
                else:
                    # Of these, some may not be there any more.
                    self._at = numbers[-1]
            if self._is_over or (decoded >= LOOKED_INSIDE and not self._search.index_only):
                break
        before = self._at if self._at > self._low else None
        reached = None if before is None else self._time_of(before)
        return LatestRecords(
            records=found, damaged=damaged, before=before, reached=None if reached is None else reached[1]
        )

    def _numbers(self, bottom: int, most: int) -> list[int]:
        """Return the largest numbers of a window whose records are meant."""
        if bottom < self._blocks_end and (self._texts or self._facets is not None):
            return [*islice(self._numbers_in_blocks(bottom, self._at), most)]
        conditions = self._conditions()
        # The newest records may lack a row of an index that is a table.
        source = self._reader.indexed if conditions.texts else "record"
        statement = (
            f"SELECT r.number FROM {source} r WHERE {conditions} AND r.number >= ? AND r.number < ? "
            "ORDER BY r.number DESC LIMIT ?"
        )
        return [number for (number,) in self._rows(statement, (*conditions.values, bottom, self._at, most))]

    def _read(self, numbers: Sequence[int]) -> list[Any]:
        reader = self._reader
        statement = f"{RECORD} WHERE r.number {reader.among} ORDER BY r.number DESC"
        return self._rows(statement, (reader.to_list(numbers),)) if numbers else []

    # Counts

    def count(self, by: CountedBy) -> RecordCounts:
        """Count the records of a search that has no texts."""
        counts: Counter[str] = Counter()
        while self._wanted and self._at > self._low:
            if by is CountedBy.HOUR:
                self._count_hour(counts)
            else:
                low = self._next_bottom(self._low, self._widest)
                for facet, number in self._count_range(low).items():
                    counts[count_key(self._known[facet], 0, by)] += number
                self._at = low
            if self._is_over:
                break
        going_on = self._wanted and self._at > self._low
        return RecordCounts(counts=counts, before=self._at if going_on else None)

    def _count_range(self, low: int) -> Mapping[int, int]:
        """
        Count the records from a number up to the place of the look, by facet.

        :param low: what :meth:`_next_bottom` returned, or a later number.
        """
        high = self._at
        if not self._wanted or low >= high:
            return {}
        if low >= self._blocks_end:
            conditions = self._conditions()
            statement = (
                f"SELECT r.facet, count(*) FROM {self._reader.indexed} r WHERE {conditions} AND r.number >= ? "
                "AND r.number < ? GROUP BY r.facet"
            )
            found: Mapping[int, int] = dict(self._rows(statement, (*conditions.values, low, high)))
        elif self._narrow:
            found = self._blocks.count(low, high)
        elif self._reads:
            # Finding the numbers has read the facets of their blocks.
            found = Counter(map(self._blocks.facet_of, self._numbers_in_blocks(low, high)))
        else:
            found = Counter()
            for first, marks in self._mark_records(low, high):
                found.update(compress(self._blocks.facets_of(first, first + len(marks)), marks))
        return {facet: count for facet, count in found.items() if facet in self._wanted}

    def _count_hour(self, counts: Counter[str]) -> None:
        """Count the records of the newest hour that is left, and of those after it that have no record."""
        if self._reads and self._at <= self._blocks_end:
            self._count_hours_of_window(counts)
            return
        newest = self._newest_time()
        if newest is None:
            # The number before is not there; no writer leaves one out.
            self._at -= 1
            return
        hour = newest // HOUR
        first = self._first_since(hour * HOUR, self._low, self._at)
        # An hour can have any number of records.
        bottom = self._next_bottom(first, self._widest)
        if self._narrow and bottom < self._blocks_end and not self._blocks.has_sums_of(bottom, self._at):
            facets = self._blocks.facets_of(bottom, self._at)
            matching = sum(map(self._wanted.__contains__, facets))
        else:
            matching = sum(self._count_range(bottom).values())
        if matching:
            counts[count_key(NO_FACET, hour * HOUR, CountedBy.HOUR)] += matching
        self._at = bottom

    def _count_hours_of_window(self, counts: Counter[str]) -> None:
        """Count the records of a window in blocks: with a window for each hour, columns are read for each hour."""
        low = self._next_bottom(self._low, self._widest)
        hours = Counter(self._blocks.time_of(number) // HOUR for number in self._numbers_in_blocks(low, self._at))
        for hour, matching in hours.items():
            counts[count_key(NO_FACET, hour * HOUR, CountedBy.HOUR)] += matching
        self._at = low

    def _newest_time(self) -> int | None:
        """Return the time of the record before the place of the look; None where there is none."""
        if self._at <= self._blocks.end:
            return self._blocks.time_of(self._at - 1)
        found = self._time_of(self._at - 1)
        return None if found is None or found[0] >= self._at else found[1]


def _to_index(text: str | None) -> str | None:
    """Return a value as the columns of records have it."""
    return None if text is None else to_index_text(text)


def count_key(facet: Facet, issued_at: int, by: CountedBy) -> str:
    """Return what a record is counted under."""
    if by is CountedBy.HOUR:
        return times.stamp(issued_at // HOUR * 3_600)[:16] + "Z"
    if by is CountedBy.TOOL:
        return facet.call_name
    if by is CountedBy.STATUS:
        return str(facet.status)
    if by is CountedBy.OPERATOR:
        return facet.operator
    return facet.counted_caller or (facet.call_name if facet.is_event else "")
