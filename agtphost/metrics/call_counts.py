"""
Count what the ledger seals: calls by method, status and reason, their durations, and the cost of commits.

This runs once for every call, so it uses plain integers in plain dictionaries; :mod:`agtphost.metrics.exposition` makes
metrics of them. Every label has values from a closed list. An unlisted word, such as an invented method or a reason of
another host, counts as ``other``, so callers cannot add labels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from agtphost.audit.observed_records import ObservedGroup, ObservedRecord
from agtphost.vocabulary.reasons import Reason

OTHER = "other"
"""The value of a label for anything that is not listed or exceeds the limit."""

NO_AGENT = "none"
"""The agent of calls that name no known agent."""

MOST_SERIES = 2_000
"""Combinations of method, status and reason with a count each."""

MOST_METHODS = 64
"""Methods with a latency histogram each, which is a series for every bucket."""

MOST_AGENTS = 200
"""Callers with a count each, if that is configured."""

MOST_OPERATORS = 1_000
"""Operators that are counted by name: the configuration takes as many."""

MOST_PEOPLE = 200
"""People with a count each, if that is configured."""

LONGEST_PERSON = 64
"""Characters of a person's name in a label; an identity provider chooses them."""

MOST_CALLED = 500
"""Called things with a count each, for answered and refused calls."""

MOST_MISSING = 500
"""Missing scopes with a count each, by the rule that requires them."""

LATENCY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: from a call in memory to one that a person is asked about."""

COMMIT_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds: from a disk with a write cache to a failing one."""

GROUP_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Records of one transaction; the last is the maximum."""

_REASONS = frozenset(map(str, Reason))


class Histogram:
    """The counts of values up to each bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """Yield each upper bound and how many values do not exceed it; the last bound is ``+Inf``."""
        count = 0
        for bound, more in zip((*map(str, map(float, self.bounds)), "+Inf"), self.counts, strict=True):
            count += more
            yield bound, count


class _Series:
    """The count of calls of one method, status and reason, with the latency of the method."""

    __slots__ = ("count", "latency")

    def __init__(self, latency: Histogram) -> None:
        self.count = 0
        self.latency = latency


class CallCounts:
    """
    A ledger watcher that counts calls.

    :param methods: those of the catalog, and the host's own.
    :param agents: whether to count by caller too.
    :param people: whether to count by the person whom callers act for too.
    """

    def __init__(self, methods: Collection[str], *, agents: bool = False, people: bool = False) -> None:
        self._methods = frozenset(methods)
        self._series: dict[tuple[str, int, str], _Series] = {}
        self._agents = agents
        self.callers: dict[str, int] = {}
        """Calls by the caller's label."""

        self._people = people
        self.people: dict[str, int] = {}
        """Calls by the person whom the caller acts for."""

        self.operators: dict[str, int] = {}
        """Calls by the name of the operator who called."""

        self.called: dict[tuple[str, str], int] = {}
        """Calls by what was called, named as in lists, and ``answered`` or ``refused``."""

        self.missing: dict[tuple[str, str, str, str], int] = {}
        """Refusals by the missing scope, what requires it, the rule if it is known, and the caller's label."""

        self.latencies: dict[str, Histogram] = {}
        """Latencies by method."""

        self.commits = Histogram(COMMIT_BOUNDS)
        self.groups = Histogram(GROUP_BOUNDS)
        self.durable = 0
        self.undurable = 0
        """Sealed records that could not be stored; ``durable`` counts the stored ones."""

    def calls(self) -> Iterator[tuple[str, int, str, int]]:
        """Yield method, status, reason (empty without a refusal) and count, in the order of first occurrence."""
        for (method, status, reason), series in self._series.items():
            yield method, status, reason, series.count

    def count_group(self, group: ObservedGroup) -> None:
        """Count a group that was sealed together."""
        records = group.records
        if group.seconds is None:
            self.undurable += len(records)
        else:
            self.durable += len(records)
            self.commits.observe(group.seconds)
            self.groups.observe(len(records))
        known = self._series
        for record in records:
            seconds = record.seconds
            if seconds is None:
                continue
            members = record.members
            key = (members["method"], members["status"], members.get("reason", ""))
            series = known.get(key)
            if series is None:
                series = self._find_series(*key)
            series.count += 1
            series.latency.observe(seconds)
            reason = key[2]
            target = record.label or NO_AGENT, "refused" if reason else "answered"
            if target in self.called:
                self.called[target] += 1
            else:
                count_new(self.called, target, (OTHER, target[1]), MOST_CALLED)
            if reason == Reason.SCOPE_REQUIRED:
                self._count_missing(record)
            if "operator" in members:
                count_few(self.operators, record.operator, MOST_OPERATORS)
            if self._agents:
                self._count_caller(record)
            if self._people:
                count_few(self.people, record.person[:LONGEST_PERSON] or NO_AGENT, MOST_PEOPLE)

    def _count_missing(self, record: ObservedRecord) -> None:
        """Count the scopes that an operator's entry requires; those of contracts and claims are callers' own words."""
        if record.label in ("", "contracts"):
            return
        caller = (record.counted_caller or NO_AGENT) if self._agents else ""
        rule = record.rule
        for scope in record.lacking:
            key = (record.label, str(scope), rule, caller)
            if key in self.missing:
                self.missing[key] += 1
            else:
                count_new(self.missing, key, (OTHER, OTHER, "", OTHER if caller else ""), MOST_MISSING)

    def _find_series(self, method: str, status: int, reason: str) -> _Series:
        """Return the series of a call without one under its exact key; unlisted words are replaced here each time."""
        method = method if method in self._methods else OTHER
        reason = reason if not reason or reason in _REASONS else OTHER
        key = (method, status, reason)
        if key not in self._series and len(self._series) >= MOST_SERIES:
            key = (OTHER, status, OTHER if reason else "")
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(self._latency(key[0]))
        return series

    def _latency(self, method: str) -> Histogram:
        if method not in self.latencies and len(self.latencies) >= MOST_METHODS:
            method = OTHER
        return self.latencies.setdefault(method, Histogram(LATENCY_BOUNDS))

    def _count_caller(self, record: ObservedRecord) -> None:
        count_few(self.callers, record.counted_caller or NO_AGENT, MOST_AGENTS)


def count_few(counts: dict[str, int], label: str, most: int) -> None:
    """Count a label, as ``other`` once the limit is reached."""
    if label not in counts and len(counts) >= most:
        label = OTHER
    counts[label] = counts.get(label, 0) + 1


def count_new(counts: dict[Any, int], key: Any, other: Any, most: int) -> None:
    """Add a new key, or count it as ``other`` once the limit is reached."""
    if len(counts) >= most:
        key = other
    counts[key] = counts.get(key, 0) + 1
