"""
Latencies of calls by tool and by agent, over times of the last week, as this process measured them.

No record says how long its call took. What is known here is what the host saw since its start, in classes of which each
is a quarter longer than the one before: a percentile is right to a quarter.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Any, Final, TypeAlias

from agtphost.audit.filters import FilterError, RecordFilter
from agtphost.audit.observed_records import ObservedGroup
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.methods.inspection.record_counts import operator_value
from agtphost.methods.inspection.traffic import CLASSES, RATIO, SHORTEST
from agtphost.vocabulary import times
from agtphost.vocabulary.display_names import CLAIMED, is_unproven
from agtphost.vocabulary.lru import keep

MINUTES: Final = 61
HOURS: Final = 7 * 24 + 1
"""Periods that are kept, of a minute and of an hour."""

MOST_NAMES: Final = 64
"""Tools of one period, and agents; further ones are counted together."""

MOST_DURATIONS: Final = 5_000
"""Calls whose own duration is kept."""

OTHERS: Final = "others"

ALL: Final = "all"
TOOL: Final = "tool"
AGENT: Final = "agent"

_ENDS: Final = tuple(SHORTEST * RATIO**number for number in range(1, CLASSES))

Classes: TypeAlias = "array[int]"
"""Calls by class of duration."""

_NO_CALLS: Final[Classes] = array("I", [0] * CLASSES)


@dataclass(slots=True)
class _Period:
    number: int
    """Its place among periods of this length since the Unix epoch."""

    classes: dict[tuple[str, str], Classes] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)
    """How many tools and agents it tells apart."""

    def add(self, kind: str, name: str, duration: int) -> None:
        key = kind, name
        found = self.classes.get(key)
        if found is None:
            if self.names[kind] >= MOST_NAMES:
                key = kind, OTHERS
            self.names[kind] += 1
            found = self.classes.setdefault(key, _NO_CALLS[:])
        found[duration] += 1


class Latencies:
    """
    Measures what was sealed.

    :param now: seconds since the Unix epoch.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._began = now()
        self._minutes: deque[_Period] = deque(maxlen=MINUTES)
        self._hours: deque[_Period] = deque(maxlen=HOURS)
        self._durations: OrderedDict[str, float] = OrderedDict()

    def saw(self, group: ObservedGroup) -> None:
        """Take a group that is on disk; for :meth:`agtphost.iagtp.ILedger.watch`."""
        now = self._now()
        periods = _current(self._minutes, int(now // 60)), _current(self._hours, int(now // 3_600))
        for record in group.records:
            if record.seconds is None or not record.status:
                continue
            keep(self._durations, record.audit_id, record.seconds, MOST_DURATIONS)
            if record.is_operator_read:
                continue
            duration = bisect(_ENDS, record.seconds)
            # Strangers choose other names as they like: each of these would take the place of a known one.
            tool = (record.tool or record.method) if record.label else OTHERS
            agent = record.caller_id or operator_value(record.operator)
            if record.caller_id and not record.counted_caller:
                agent = CLAIMED if is_unproven(record.members) else OTHERS
            for period in periods:
                period.add(ALL, "", duration)
                period.add(TOOL, tool, duration)
                period.add(AGENT, agent, duration)

    def duration_of(self, audit_id: str) -> float | None:
        """Return the seconds that a call took until it was sealed; None where this process does not know it."""
        return self._durations.get(audit_id)

    def to_json(self, since: float, until: float) -> Mapping[str, Any]:
        """
        Return the percentiles of a range of time, by tool and by agent, and from when to when they were measured.

        The range is widened to whole minutes where it is within the last hour, and to whole hours else.

        :param since: seconds since the Unix epoch.
        """
        now = self._now()
        fine = since >= (now // 60 - MINUTES + 1) * 60
        length, periods = (60, self._minutes) if fine else (3_600, self._hours)
        first, last = int(since // length), int((now if until > now else until - 0.001) // length)
        kept = [each for each in periods if first <= each.number <= last]
        begin, end = max(first * length, self._began), min((last + 1) * length, now)
        return {
            "measured_from": times.stamp(begin),
            "measured_until": times.stamp(max(begin, end)),
            ALL: _percentiles(each.classes.get((ALL, "")) for each in kept),
            "tools": _by_name(kept, TOOL),
            "agents": _by_name(kept, AGENT),
        }


class LatencyTarget:
    """
    The INSPECT target ``latency``, for overseers: percentiles of a range of time, or the duration of one call.

    :param now: what relative times are counted from, in seconds since the Unix epoch.
    """

    def __init__(self, latencies: Latencies, authorization: Authorization, now: Callable[[], float]) -> None:
        self._latencies = latencies
        self._authorization = authorization
        self._now = now

    async def read(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        Return :meth:`Latencies.to_json` for ``from`` and ``until``, or ``{"seconds": N}`` for ``audit_id``.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers; 422 for a time that cannot be used.
        """
        self._authorization.require_looking(context, "Only operators may see latencies.")
        given = context.input
        audit_id = parameters.text(given, "audit_id")
        if audit_id is not None:
            return {"seconds": self._latencies.duration_of(audit_id)}
        words = {name: parameters.text(given, name) for name in ("from", "until")}
        terms = [(name, word) for name, word in words.items() if word is not None]
        try:
            wanted = RecordFilter.from_terms(terms, self._now())
        except FilterError as error:
            raise parameters.invalid(error.field, error.explanation, error.remedy) from None
        until = self._now() if wanted.until is None else wanted.until / 1_000
        return self._latencies.to_json(0.0 if wanted.since is None else wanted.since / 1_000, until)


def _current(periods: deque[_Period], number: int) -> _Period:
    if not periods or periods[-1].number != number:
        periods.append(_Period(number))
    return periods[-1]


def _by_name(periods: Iterable[_Period], kind: str) -> Mapping[str, Any]:
    found: dict[str, list[Classes]] = {}
    for period in periods:
        for (this, name), classes in period.classes.items():
            if this == kind:
                found.setdefault(name, []).append(classes)
    return {name: _percentiles(each) for name, each in found.items()}


def _percentiles(parts: Iterable[Classes | None]) -> Mapping[str, Any]:
    whole: Sequence[int] = _NO_CALLS
    for part in parts:
        if part is not None:
            whole = list(map(add, whole, part))
    timed = sum(whole)
    return {"timed": timed, "p50_ms": _percentile(whole, timed, 0.5), "p99_ms": _percentile(whole, timed, 0.99)}


def _percentile(classes: Sequence[int], timed: int, part: float) -> float | None:
    """Return the milliseconds that so many of the calls took at the most."""
    seen = 0
    for number, count in enumerate(classes):
        seen += count
        if timed and seen >= part * timed:
            return round(SHORTEST * RATIO ** (number + 1) * 1_000, 3)
    return None
