"""
One look at the records of an SQL database: a page of a search, or a part of its counts.

Theory of operation. Records have their numbers in the order of their times, so a range of time is a range of numbers,
found by bisection. Conditions about values that many records share are decided on the small table ``facet``; the
records of these facets are found by the index over (facet, number), those of a path, a task or a session by their own
index. A facet lacks names that its callers may have invented; the columns of its records decide then. No other record
is read to be rejected, except for a search for text.

A range is read newest first, in windows that grow: the newest matches need a small window, and rare ones few large
windows. Each window is one statement, and bounded; after each, a look ends that has taken :data:`LOOK_SECONDS`, and
says where the next one goes on. So a search of any store and any filter costs its host little at a time.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from agtphost.audit.drafts import StoredRecord
from agtphost.audit.record_index import FLOOR_METHODS, to_index_text
from agtphost.stores.record_rows import RECORD, check_record
from agtphost.stores.record_search import (
    LOOK_SECONDS,
    LOOKED_INSIDE,
    UNKNOWN,
    CountedBy,
    LatestRecords,
    RecordCounts,
    Search,
)
from agtphost.stores.row_shapes import COLUMNS, check_row
from agtphost.stores.rows import NO_FACET, UNPROVEN, DamagedRecord, DamagedRow, Facet
from agtphost.vocabulary import times

WINDOW: Final = 4_096
"""Numbers of the first window; each later one is four times as large, up to :data:`WIDEST`."""

WIDEST: Final = 262_144

WIDEST_READ: Final = 16_384
"""Numbers of the largest window where the columns of records decide."""

PAGE: Final = 500
"""Records that a search for text reads by one statement."""

HOUR: Final = 3_600_000
"""Milliseconds."""

MOST_HOURS: Final = 50_000
"""Beginnings of hours that a reader keeps, of 100 octets each."""

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
    hours: dict[int, int]

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
        self._widest = WIDEST_READ if self._of_any_method or self._of_any_caller else WIDEST

    @property
    def _is_over(self) -> bool:
        if self._stop():
            raise SearchStopped
        return time.monotonic() >= self._end

    # Ranges

    def _time_of(self, number: int) -> tuple[int, int] | None:
        """Return number and time of the first record from a number on."""
        rows = self._rows("SELECT number, issued_at FROM record WHERE number >= ? ORDER BY number LIMIT 1", (number,))
        if rows and type(rows[0][1]) is not int:
            raise DamagedRow("record", str(rows[0][0]), "issued_at is of the wrong type")
        return rows[0] if rows else None

    def _first_since(self, since: int, low: int, high: int) -> int:
        """Return the first number within a range whose record was issued at a time or later; ``high`` for none."""
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
        rows = self._rows(f"SELECT {COLUMNS['facet']} FROM facet WHERE {conditions}", conditions.values)
        found = []
        for row in rows:
            check_row("facet", row)
            facet = Facet(*row[2:])
            if self._search.matches_facet(facet):
                found.append(row[0])
                if self._search.needs_method(facet):
                    self._of_any_method.append(row[0])
                if self._search.needs_caller(facet):
                    self._of_any_caller.append(row[0])
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
            # As an expression: SQLite would put the path into the condition about its beginning, and not use the index.
            found.add("r.path || '' = ?", search.path)
            if search.path != "/":
                index = index or "record_path"
                found.add(reader.begins, search.path[:64])
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
        width, decoded = WINDOW, 0
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
                    if self._search.says(record):
                        found.append((row[10], record))
                if len(found) + len(damaged) == limit:
                    break
            else:
                if len(numbers) < most:
                    self._at, width = bottom, min(width * 4, self._widest)
            if self._is_over or (decoded >= LOOKED_INSIDE and not self._search.index_only):
                break
        return LatestRecords(records=found, damaged=damaged, before=self._at if self._at > self._low else None)

    def _numbers(self, bottom: int, most: int) -> list[int]:
        """Return the largest numbers of a window whose records the index finds."""
        source, conditions = self._conditions(bottom, self._at)
        statement = f"SELECT r.number FROM {source} WHERE {conditions} ORDER BY r.number DESC LIMIT ?"
        return [number for (number,) in self._rows(statement, (*conditions.values, most))]

    def _read(self, numbers: Sequence[int]) -> list[Any]:
        reader = self._reader
        statement = f"{RECORD} WHERE r.number {reader.among} ORDER BY r.number DESC"
        return self._rows(statement, (reader.to_list(numbers),)) if numbers else []

    # Counts

    def count(self, by: CountedBy) -> RecordCounts:
        """Count the records of a search that has no texts."""
        counts: Counter[str] = Counter()
        if self._facets is None:
            # The index over facets is small, and the records are not.
            self._facets = [number for (number,) in self._rows("SELECT number FROM facet")]
        while self._facets and self._at > self._low:
            if by is CountedBy.HOUR:
                self._count_hour(counts)
            else:
                self._count_window(counts, by)
            if self._is_over:
                break
        going_on = self._facets and self._at > self._low
        return RecordCounts(counts=counts, before=self._at if going_on else None)

    def _count_window(self, counts: Counter[str], by: CountedBy) -> None:
        bottom = max(self._at - self._widest, self._low)
        source, conditions = self._conditions(bottom, self._at)
        statement = f"SELECT r.facet, count(*) FROM {source} WHERE {conditions} GROUP BY r.facet"
        sums = dict(self._rows(statement, conditions.values))
        reader = self._reader
        statement = f"SELECT {COLUMNS['facet']} FROM facet WHERE number {reader.among}"
        for row in self._rows(statement, (reader.to_list([*sums]),)):
            counts[count_key(Facet(*row[2:]), 0, by)] += sums[row[0]]
        self._at = bottom

    def _count_hour(self, counts: Counter[str]) -> None:
        """Count the records of the newest hour that is left, and of those after it that have no record."""
        newest = self._time_of(self._at - 1)
        if newest is None or newest[0] >= self._at:
            # The number before is not there; no writer leaves one out.
            self._at -= 1
            return
        hour = newest[1] // HOUR
        first = self._reader.hours.get(hour)
        if first is None:
            first = self._first_since(hour * HOUR, 1, newest[0])
            if len(self._reader.hours) < MOST_HOURS:
                self._reader.hours[hour] = first
        bottom = max(first, self._low)
        source, conditions = self._conditions(bottom, self._at)
        matching = self._rows(f"SELECT count(*) FROM {source} WHERE {conditions}", conditions.values)[0][0]
        if matching:
            counts[count_key(NO_FACET, hour * HOUR, CountedBy.HOUR)] += matching
        self._at = bottom


def count_key(facet: Facet, issued_at: int, by: CountedBy) -> str:
    """Return what a record is counted under."""
    if by is CountedBy.HOUR:
        return times.stamp(issued_at // HOUR * 3_600)[:16] + "Z"
    if by is CountedBy.TOOL:
        return facet.tool or facet.method or UNKNOWN
    if by is CountedBy.STATUS:
        return str(facet.status)
    return facet.caller_id
