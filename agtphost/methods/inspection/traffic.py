"""INSPECT ``target=traffic``: calls of the last hour by the minute, and why calls were refused, for overseers."""

from __future__ import annotations

import time
from bisect import bisect
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agtphost.audit.observed_records import ObservedGroup, ObservedRecord
from agtphost.vocabulary import times

MINUTES = 60

SECONDS = 60
"""Of what counts as the last minute."""

SHORTEST = 1e-4
"""Seconds of a call that falls into the first class."""

RATIO = 1.25
"""From one class of durations to the next: a percentile is right to a quarter."""

CLASSES = 72
"""Up to 15 minutes."""

MOST_REASONS = 64
"""Of one minute; further ones are counted together."""

OTHERS = "others"

_ENDS = tuple(SHORTEST * RATIO**number for number in range(1, CLASSES))
"""Seconds at which each class ends, but for the last, which has no end."""


@dataclass(slots=True)
class _Minute:
    number: int
    """Minutes since the Unix epoch."""

    calls: int = 0
    refused: int = 0
    timed: int = 0
    durations: list[int] = field(default_factory=lambda: [0] * CLASSES)
    reasons: Counter[str] = field(default_factory=Counter)

    def percentile(self, part: float) -> float | None:
        """Milliseconds that so many of the calls took at the most; None where none was timed."""
        wanted, seen = part * self.timed, 0
        if not self.timed:
            return None
        for number, count in enumerate(self.durations):
            seen += count
            if seen >= wanted:
                return round(SHORTEST * RATIO ** (number + 1) * 1000, 3)
        return None


class Traffic:
    """
    Counts what was sealed.

    :param now: seconds since the Unix epoch.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._minutes: deque[_Minute] = deque(maxlen=MINUTES + 1)
        self._seconds: deque[list[int]] = deque(maxlen=SECONDS)

    def saw(self, group: ObservedGroup) -> None:
        """Note a group of records that is on disk (:meth:`agtphost.iagtp.ILedger.watch`)."""
        if group.records:
            minute = self._current()
            calls, refused = minute.calls, minute.refused
            for record in group.records:
                _count(minute, record)
            second = int(self._now())
            if not self._seconds or self._seconds[-1][0] != second:
                self._seconds.append([second, 0, 0])
            self._seconds[-1][1] += minute.calls - calls
            self._seconds[-1][2] += minute.refused - refused

    def _current(self) -> _Minute:
        number = int(self._now() // 60)
        if not self._minutes or self._minutes[-1].number != number:
            self._minutes.append(_Minute(number))
        return self._minutes[-1]

    def last_minute(self) -> tuple[int, int]:
        """Calls of the last 60 seconds, and how many of them were refused."""
        since = self._now() - SECONDS
        kept = [each for each in self._seconds if each[0] > since]
        return sum(each[1] for each in kept), sum(each[2] for each in kept)

    def to_json(self) -> Mapping[str, Any]:
        """
        Return the traffic of the last hour as ``{"minutes": [...], "reasons": {...}, "per_second": N, "p99_ms": N}``.

        The minutes are those of the last hour that have any call, oldest first; the rest is of the last whole minute
        and the present one together.
        """
        now = self._now()
        first = int(now // 60) - MINUTES
        kept = [minute for minute in self._minutes if minute.number > first]
        recent = [minute for minute in kept if minute.number >= first + MINUTES - 1]
        both = _Minute(0)
        reasons: Counter[str] = Counter()
        for minute in kept:
            reasons.update(minute.reasons)
        for minute in recent:
            both.calls += minute.calls
            both.timed += minute.timed
            both.durations = [one + other for one, other in zip(both.durations, minute.durations, strict=True)]
        return {
            "minutes": [_minute_to_json(minute) for minute in kept],
            "reasons": dict(reasons.most_common(MOST_REASONS)),
            "per_second": round(both.calls / (60.0 + now % 60), 2),
            "p99_ms": both.percentile(0.99),
        }


def _minute_to_json(minute: _Minute) -> Mapping[str, Any]:
    return {
        "minute": times.stamp(minute.number * 60),
        "calls": minute.calls,
        "refused": minute.refused,
        "p50_ms": minute.percentile(0.5),
        "p99_ms": minute.percentile(0.99),
    }


def _count(minute: _Minute, record: ObservedRecord) -> None:
    members = record.members
    if not members.get("status", 0):
        return
    minute.calls += 1
    reason = members.get("reason", "")
    if reason:
        minute.refused += 1
        known = reason in minute.reasons or len(minute.reasons) < MOST_REASONS
        minute.reasons[reason if known else OTHERS] += 1
    if record.seconds is not None:
        minute.timed += 1
        minute.durations[bisect(_ENDS, record.seconds)] += 1
