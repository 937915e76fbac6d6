"""
Counts what the ledger seals: calls by method, status and reason, how long they took, and what commits cost.

It runs once for every call, so it is plain integers in plain dictionaries; what reads them makes metrics of them
(:mod:`agtphost.metrics.exposition`). Every label has values from a closed list. A foreign word, such as a method that
was made up or a reason of another host, counts as ``other``: who calls this host cannot make it remember words.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from agtphost.audit.observed import ObservedGroup, ObservedRecord
from agtphost.vocabulary.reasons import Reason

OTHER = "other"
"""Instead of a label's value that is on no list, or for which there is no room."""

NOBODY = "none"
"""Instead of an agent, for calls that name none that is known."""

SERIES = 2_000
"""Combinations of method, status and reason that are told apart."""

METHODS = 64
"""Methods whose latencies are told apart: each is a series for every bucket."""

AGENTS = 200
"""Callers that are told apart, where that is asked for."""

PEOPLE = 200
"""People that are told apart, where that is asked for."""

LONGEST_PERSON = 64
"""Characters of a person's name in a label; an identity provider chooses them."""

CALLED = 500
"""Things that are called, and of each whether it was answered or refused, that are told apart."""

MISSING = 500
"""Scopes that were missing, by what asked for them, that are told apart."""

LATENCY = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: from a call in memory to one that a person is asked about."""

COMMIT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds: from a disk with a write cache to one that is failing."""

GROUP = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Records of one transaction; the last is the most there can be."""

_REASONS = frozenset(map(str, Reason))


class Histogram:
    """Counts of values up to each bound, and their sum."""

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
        """Upper bound, and how many values are not above it: the last is ``+Inf``, and all of them."""
        count = 0
        for bound, more in zip((*map(str, map(float, self.bounds)), "+Inf"), self.counts, strict=True):
            count += more
            yield bound, count


class _Series:
    """The calls of one method, status and reason; the latency is of the method."""

    __slots__ = ("count", "latency")

    def __init__(self, latency: Histogram) -> None:
        self.count = 0
        self.latency = latency


class CallCounts:
    """
    Watches the ledger.

    :param methods: those of the catalog, and the host's own.
    :param agents: whether callers are told apart, too.
    :param people: whether the people whom callers act for are told apart, too.
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

        self.called: dict[tuple[str, str], int] = {}
        """Calls by what was called, as lists name it, and ``answered`` or ``refused``."""

        self.missing: dict[tuple[str, str, str, str], int] = {}
        """Refusals by the scope that was missing, what asked for it, where that is said, and the caller's label."""

        self.latencies: dict[str, Histogram] = {}
        """By method."""

        self.commits = Histogram(COMMIT)
        self.groups = Histogram(GROUP)
        self.durable = 0
        self.undurable = 0
        """Records that were sealed, in the store and beside it."""

    def calls(self) -> Iterator[tuple[str, int, str, int]]:
        """Method, status, reason (empty for what was not refused) and how many, in the order of first sight."""
        for (method, status, reason), series in self._series.items():
            yield method, status, reason, series.count

    def saw(self, group: ObservedGroup) -> None:
        """What was sealed together."""
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
                series = self._further(*key)
            series.count += 1
            series.latency.observe(seconds)
            reason = key[2]
            target = record.label or NOBODY, "refused" if reason else "answered"
            if target in self.called:
                self.called[target] += 1
            else:
                keep_few(self.called, target, (OTHER, target[1]), CALLED)
            if reason == Reason.SCOPE_REQUIRED:
                self._count_missing(record)
            if self._agents:
                self._count_caller(record)
            if self._people:
                count_few(self.people, record.person[:LONGEST_PERSON] or NOBODY, PEOPLE)

    def _count_missing(self, record: ObservedRecord) -> None:
        """Scopes that an operator's entry asks for: those of contracts and of claims are the callers' own words."""
        if record.label in ("", "contracts"):
            return
        caller = (record.caller or NOBODY) if self._agents else ""
        rule = record.rule
        for scope in record.lacking:
            key = (record.label, str(scope), rule, caller)
            if key in self.missing:
                self.missing[key] += 1
            else:
                keep_few(self.missing, key, (OTHER, OTHER, "", OTHER if caller else ""), MISSING)

    def _further(self, method: str, status: int, reason: str) -> _Series:
        """The series of a call that none was at hand for; what is on no list is looked up here each time."""
        method = method if method in self._methods else OTHER
        reason = reason if not reason or reason in _REASONS else OTHER
        key = (method, status, reason)
        if key not in self._series and len(self._series) >= SERIES:
            key = (OTHER, status, OTHER if reason else "")
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(self._latency(key[0]))
        return series

    def _latency(self, method: str) -> Histogram:
        if method not in self.latencies and len(self.latencies) >= METHODS:
            method = OTHER
        return self.latencies.setdefault(method, Histogram(LATENCY))

    def _count_caller(self, record: ObservedRecord) -> None:
        count_few(self.callers, record.caller or NOBODY, AGENTS)


def count_few(counts: dict[str, int], label: str, most: int) -> None:
    """Count a label; with the others together where as many as may be told apart are there."""
    if label not in counts and len(counts) >= most:
        label = OTHER
    counts[label] = counts.get(label, 0) + 1


def keep_few(counts: dict[Any, int], key: Any, other: Any, most: int) -> None:
    """Count a key that is not there yet; as ``other`` where there are as many as there may be."""
    if len(counts) >= most:
        key = other
    counts[key] = counts.get(key, 0) + 1
