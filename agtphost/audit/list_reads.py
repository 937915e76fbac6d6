"""
Repeated reads of unchanged lists: how often a caller read what it had read before, in a few records.

The first read of a list has a record. A later one within a minute, by the same caller with the same request and the
same answer, is counted. The event that reports the counts names that record, so that request and answer are known by
their hashes. Nothing is merged: what finds no room here has a record.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from agtphost.audit.chain import Seconds
from agtphost.audit.drafts import HOST_CHAIN, StreamEvent
from agtphost.vocabulary.quantities import plural

LISTS = "lists_summed_up"

FRESH = 60_000
"""Milliseconds from a record in which further reads are counted and not recorded."""

MOST_LISTS = 4_096
"""Lists of all callers that are remembered, of some 2 kB each."""

MOST_IN_EVENT = 32
"""Lists that one event reports."""

MOST_SESSIONS = 16
"""Sessions that an entry names; the others are a number."""

_OF_CALLER = ("caller_id", "identity_assurance", "operator", "acting_principal_id")
"""Members of a record that say who called; an event has them, too."""

_OF_LIST = ("method", "path", "request_hash", "result_hash")

_OF_EXTRA = ("action", "http")


class _ListRead:
    """
    A list that a caller has read, and the count of its further reads.

    :param record: the payload of the record of the first read.
    """

    __slots__ = (
        "answer",
        "audit_id",
        "caller",
        "count",
        "further_sessions",
        "read_at",
        "record",
        "sessions",
        "since",
        "until",
    )

    def __init__(self, caller: Hashable, answer: str, record: Mapping[str, Any], audit_id: str, now: int) -> None:
        self.caller = caller
        self.answer = answer
        self.audit_id = audit_id
        self.read_at = now
        extra = record.get("extra") or {}
        self.record = {name: record[name] for name in (*_OF_CALLER, *_OF_LIST) if record.get(name)}
        self.record |= {name: extra[name] for name in _OF_EXTRA if name in extra}
        self.begin()

    @property
    def name(self) -> str:
        """The action, or method and path."""
        return str(self.record.get("action") or f"{self.record['method']} {self.record['path']}")

    def begin(self) -> None:
        """Begin to count anew."""
        self.count = self.since = self.until = self.further_sessions = 0
        self.sessions: list[str] = []

    def add(self, now: int, session: str) -> None:
        """Count one more read."""
        self.since = self.since or now
        self.until = now
        self.count += 1
        if session and session not in self.sessions:
            if len(self.sessions) < MOST_SESSIONS:
                self.sessions.append(session)
            else:
                self.further_sessions += 1

    def to_json(self, seconds: Seconds) -> dict[str, object]:
        """Return the entry of an event."""
        told: dict[str, object] = {
            "record": self.audit_id,
            **{name: self.record[name] for name in (*_OF_LIST, *_OF_EXTRA) if name in self.record},
            "count": self.count,
            "since": seconds.text(self.since),
            "until": seconds.text(self.until),
        }
        if self.sessions:
            told["sessions"] = self.sessions
        if self.further_sessions:
            told["further_sessions"] = self.further_sessions
        return told


class ListReads:
    """The lists that were read within the last minute, and how often each was read again."""

    def __init__(self) -> None:
        self._read: dict[Hashable, _ListRead] = {}

    @property
    def waiting(self) -> int:
        """Reads that are in no record yet."""
        return sum(each.count for each in self._read.values())

    def has(self, key: Hashable, answer: str, now: int) -> bool:
        """Return whether a list was read with the same answer, and has a record of less than a minute ago."""
        known = self._read.get(key)
        return known is not None and known.answer == answer and 0 <= now - known.read_at < FRESH

    def add(self, key: Hashable, now: int, session: str) -> None:
        """Count one more read of a list that is there."""
        self._read[key].add(now, session)

    def note_record(
        self, key: Hashable, caller: Hashable, answer: str, record: Mapping[str, Any], audit_id: str, now: int
    ) -> None:
        """
        Remember a read that has a durable record.

        Counts that wait for their event stay with the record that they were counted by. Without room the read is not
        remembered, so that the next one has a record, too.
        """
        known = self._read.get(key)
        if (known is None or known.count) and len(self._read) >= MOST_LISTS:
            self._drop(now)
            if len(self._read) >= MOST_LISTS:
                return
        if known is not None and known.count:
            self._read[(key, known.audit_id)] = known
        self._read[key] = _ListRead(caller, answer, record, audit_id, now)

    def take(self, summary_id: str, now: int) -> Iterator[StreamEvent]:
        """Yield the events to sign now, and begin to count anew."""
        counted: dict[Hashable, list[_ListRead]] = {}
        for each in self._read.values():
            if each.count:
                counted.setdefault(each.caller, []).append(each)
        for lists in counted.values():
            for start in range(0, len(lists), MOST_IN_EVENT):
                yield _make_event(summary_id, lists[start : start + MOST_IN_EVENT])
        self._drop(now)

    def _drop(self, now: int) -> None:
        """Forget lists of more than a minute ago that have nothing to report."""
        for key, each in [*self._read.items()]:
            if not each.count and not 0 <= now - each.read_at < FRESH:
                del self._read[key]


def _make_event(summary_id: str, lists: list[_ListRead]) -> StreamEvent:
    """Return the event about lists of one caller."""
    seconds = Seconds()
    count = sum(each.count for each in lists)
    since = seconds.text(min(each.since for each in lists))
    until = seconds.text(max(each.until for each in lists))
    names = sorted({each.name for each in lists})
    told = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    fields: dict[str, Any] = {
        **{name: lists[0].record[name] for name in _OF_CALLER if name in lists[0].record},
        "summary_id": summary_id,
        "since": since,
        "until": until,
        "count": count,
        "explanation": f"{plural(count, 'further read')} of unchanged lists, {told}, between {since} and {until}",
        "lists": [each.to_json(seconds) for each in lists],
    }
    for each in lists:
        each.begin()
    return StreamEvent(chain=HOST_CHAIN, event_type=LISTS, fields=fields)
