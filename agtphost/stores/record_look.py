"""
One look at the records of an SQL database: a page of a search, or a part of its counts.

Theory of operation. Records have their numbers in the order of their times, so a range of time is a range of numbers,
found by bisection. Conditions about values that many records share are decided on the small table ``facet``; the
records of these facets are found by the index over (facet, number), those of a path, a task or a session by their own
index. A facet lacks names that its callers may have invented; the columns of its records decide then. No other record
is read to be rejected, except for a search for text.

Counts, and searches that most facets match, read the blocks of facets and times (:mod:`.record_blocks`) instead.

A range is read newest first, in windows that grow: the newest matches need a small window, and rare ones few large
windows. Each window is one statement, and bounded; after each, a look ends that has taken :data:`LOOK_SECONDS`, and
says where the next one goes on. So a search of any store and any filter costs its host little at a time.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from agtphost.audit.drafts import StoredRecord
from agtphost.audit.record_index import FLOOR_METHODS, to_index_text
from agtphost.stores.known_facets import KnownFacets
from agtphost.stores.record_blocks import RecordBlocks
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
from agtphost.stores.rows import NO_FACET, UNPROVEN, DamagedRecord, DamagedRow, Facet
from agtphost.vocabulary import times

WINDOW: Final = 4_096
"""Numbers of the first window; each later one is four times as large, up to :data:`WIDEST`."""

WIDEST: Final = 262_144

WIDEST_READ: Final = 8_192
"""Numbers of the largest window where the columns of records decide: 40 ms of a processor."""

PAGE: Final = 500
"""Records that a search for text reads by one statement."""

HOUR: Final = 3_600_000
"""Milliseconds."""

MANY_FACETS: Final = 200
"""Facets from which on a search reads blocks: the index costs a step for each facet in each window."""

STEP_COST: Final = 2.5
"""Records read by their numbers that cost as much as one step through the index over facets."""

PATH_INDEXED: Final = 64
"""Characters of a path that the index has; a shorter one is there as a whole."""

Stop = Callable[[], bool]
"""Returns whether the result is not wanted any more; called between statements, in the thread that reads."""


def never() -> bool:
    """Go on to the end."""
    return False


class SearchStopped(Exception):
    """The caller of a search has left."""


class Searched(Protocol):
    """A reader, as far as a look needs it."""

    among: ClassVar[str]
    index_hint: ClassVar[str]
    indexed: ClassVar[str]
    begins: ClassVar[str]
    known_facets: KnownFacets

    @abstractmethod
    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement and return its rows."""

    @abstractmethod
    def to_list(self, numbers: Sequence[int]) -> object:
        """Return the parameter for ``among``."""


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

    def _set_ways(self) -> None:
        """Decide how records are found, by the search and the facets that it wants."""
        search = self._search
        indexed = search.session_id or search.task_id or (search.path is not None and search.path != "/")
        columns = (search.path, search.session_id, search.task_id)
        by_facet = not self._of_any_method and not self._of_any_caller
        # Whether the number of its facet tells of each record whether it is meant.
        self._narrow = by_facet and columns == (None, None, None)
        # Whether an index finds those that are meant, but for their facets.
        self._indexed = by_facet and bool(indexed)
        self._widest = WIDEST if self._narrow or self._facets is None else WIDEST_READ

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
        found = []
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

    def _conditions(self, low: int, high: int) -> tuple[str, _Conditions]:
        """Return where a range of numbers is searched, and how."""
        search, reader = self._search, self._reader
        found = _Conditions()
        index = ""
        for column, value in (("task", search.task_id), ("session", search.session_id)):
            if value is not None:
                found.add(f"r.{column} = ?", to_index_text(value))
                if value:
                    index = index or f"record_{column}"
                    found.add(f"r.{column} <> ''")
        if search.path is not None:
            if search.path == "/" or len(search.path) >= PATH_INDEXED:
                # As an expression: SQLite would put the path into the condition about its beginning, and not use the
                # index.
                found.add("r.path || '' = ?", search.path)
            if search.path != "/":
                index = index or "record_path"
                found.add(reader.begins, search.path[:PATH_INDEXED])
        found.add("r.number >= ? AND r.number < ?", low, high)
        if self._facets is not None:
            found.add(f"{'+' if index else ''}r.facet {reader.among}", reader.to_list(self._facets))
            index = index or "record_facet"
            caller = bytes.fromhex(search.caller or search.agent or "")
            for column, numbers, wanted in (
                ("method", self._of_any_method, search.method),
                ("caller", self._of_any_caller, caller),
            ):
                if numbers:
                    found.add(f"(NOT r.facet {reader.among} OR r.{column} = ?)", reader.to_list(numbers), wanted)
        return f"{reader.indexed} r {reader.index_hint.format(index)}" if index else "record r", found

    # A page

    def latest(self, limit: int) -> LatestRecords:
        """Return at most ``limit`` records and damaged ones, newest first."""
        found: list[tuple[int, StoredRecord]] = []
        damaged: list[tuple[int, str]] = []
        width, decoded, words = WINDOW, 0, self._search.words
        if self._facets is not None and not self._facets:
            return LatestRecords(records=[], damaged=[], before=None)
        while self._at > self._low and (room := limit - len(found) - len(damaged)) > 0:
            bottom = max(self._at - width, self._low)
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
            if self._is_over or (decoded >= LOOKED_INSIDE and not self._search.index_only):
                break
        before = self._at if self._at > self._low else None
        reached = None if before is None else self._time_of(before)
        return LatestRecords(
            records=found, damaged=damaged, before=before, reached=None if reached is None else reached[1]
        )

    def _numbers(self, bottom: int, most: int) -> list[int]:
        """Return the largest numbers of a window whose records the index finds."""
        if self._facets is not None and self._narrow and len(self._facets) >= MANY_FACETS:
            return self._numbers_of_many(bottom, most, frozenset(self._facets))
        source, conditions = self._conditions(bottom, self._at)
        statement = f"SELECT r.number FROM {source} WHERE {conditions} ORDER BY r.number DESC LIMIT ?"
        return [number for (number,) in self._rows(statement, (*conditions.values, most))]

    def _numbers_of_many(self, bottom: int, most: int, wanted: frozenset[int]) -> list[int]:
        """Return the largest numbers of a window whose records have one of many facets."""
        found: list[int] = []
        high = self._at
        while high > bottom and len(found) < most:
            low = max(bottom, high - most * 4)
            if high > self._blocks.end:
                low = max(low, self._blocks.end)
                statement = (
                    f"SELECT r.number, r.facet FROM {self._reader.indexed} r "
                    "WHERE r.number >= ? AND r.number < ? ORDER BY r.number DESC"
                )
                found += [number for number, facet in self._rows(statement, (low, high)) if facet in wanted]
            else:
                facets = reversed(self._blocks.facets_of(low, high))
                numbers = range(high - 1, low - 1, -1)
                found += [number for number, facet in zip(numbers, facets, strict=True) if facet in wanted]
            high = low
        return found[:most]

    def _read(self, numbers: Sequence[int]) -> list[Any]:
        reader = self._reader
        statement = f"{RECORD} WHERE r.number {reader.among} ORDER BY r.number DESC"
        return self._rows(statement, (reader.to_list(numbers),)) if numbers else []

    # Counts

    def count(self, by: CountedBy) -> RecordCounts:
        """Count the records of a search that has no texts."""
        counts: Counter[str] = Counter()
        wanted = frozenset(self._known if self._facets is None else self._facets)
        self._prepare_count()
        while wanted and self._at > self._low:
            if by is CountedBy.HOUR:
                self._count_hour(counts, wanted)
            else:
                low = max(self._at - self._widest, self._low)
                for facet, number in self._count_range(low, wanted).items():
                    counts[count_key(self._known[facet], 0, by)] += number
                self._at = low
            if self._is_over:
                break
        going_on = wanted and self._at > self._low
        return RecordCounts(counts=counts, before=self._at if going_on else None)

    def _count_range(self, low: int, wanted: frozenset[int]) -> Mapping[int, int]:
        """
        Count the records from a number up to the place of the look, by facet.

        :param wanted: all facets that the search finds.
        """
        high = self._at
        if not wanted or low >= high:
            return {}
        end = self._blocks.end
        if not self._narrow:
            found = Counter[int]()
            if self._indexed and low < end:
                found = self._count_indexed(low, min(high, end))
                low = min(high, end)
            if low < high:
                source, conditions = self._conditions(low, high)
                statement = f"SELECT r.facet, count(*) FROM {source} WHERE {conditions} GROUP BY r.facet"
                found.update(dict(self._rows(statement, conditions.values)))
            return {facet: count for facet, count in found.items() if facet in wanted}
        found = Counter[int]()
        if low < end:
            found = self._blocks.count(low, min(high, end))
        if high > end:
            found.update(self._count_after_blocks(max(low, end), high, len(wanted)))
        return {facet: count for facet, count in found.items() if facet in wanted}

    def _count_indexed(self, low: int, high: int) -> Counter[int]:
        """Count what an index finds within the blocks: their facets are there, and no record has to be read."""
        facets, self._facets = self._facets, None
        source, conditions = self._conditions(low, high)
        self._facets = facets
        numbers = self._rows(f"SELECT r.number FROM {source} WHERE {conditions}", conditions.values)
        if not numbers:
            return Counter()
        of_range = self._blocks.facets_of(low, high)
        return Counter([of_range[number - low] for (number,) in numbers])

    def _prepare_count(self) -> None:
        """Set what counts do in another way than pages: the index over facets is small, and the records are not."""
        if self._narrow:
            self._facets = [*self._known] if self._facets is None else self._facets
            self._widest = WIDEST
        else:
            self._widest = WIDEST if self._indexed else WIDEST_READ

    def _count_after_blocks(self, low: int, high: int, facets: int) -> Mapping[int, int]:
        if high - low < STEP_COST * facets:
            # So few are read sooner by number than through the index.
            source = self._reader.indexed
            statement = f"SELECT facet, count(*) FROM {source} r WHERE number >= ? AND number < ? GROUP BY facet"
            return dict(self._rows(statement, (low, high)))
        source, conditions = self._conditions(low, high)
        statement = f"SELECT r.facet, count(*) FROM {source} WHERE {conditions} GROUP BY r.facet"
        return dict(self._rows(statement, conditions.values))

    def _count_hour(self, counts: Counter[str], wanted: frozenset[int]) -> None:
        """Count the records of the newest hour that is left, and of those after it that have no record."""
        newest = self._newest_time()
        if newest is None:
            # The number before is not there; no writer leaves one out.
            self._at -= 1
            return
        hour = newest // HOUR
        first = self._first_since(hour * HOUR, self._low, self._at)
        # An hour can have any number of records.
        bottom = max(first, self._at - self._widest)
        if self._narrow and self._at <= self._blocks.end and not self._blocks.has_sums_of(bottom, self._at):
            facets = self._blocks.facets_of(bottom, self._at)
            matching = sum(map(wanted.__contains__, facets))
        else:
            matching = sum(self._count_range(bottom, wanted).values())
        if matching:
            counts[count_key(NO_FACET, hour * HOUR, CountedBy.HOUR)] += matching
        self._at = bottom

    def _newest_time(self) -> int | None:
        """Return the time of the record before the place of the look; None where there is none."""
        if self._at <= self._blocks.end:
            return self._blocks.time_of(self._at - 1)
        found = self._time_of(self._at - 1)
        return None if found is None or found[0] >= self._at else found[1]


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
    return facet.caller_id or (facet.call_name if facet.is_event else "")
