"""
Summaries of many refusals, of many reads by unknown callers, or of repeated reads of lists, in a few records.

A summary counts the refusals, or the reads, of one origin (an address, an agent, a certificate) over some time: how
many of each status and reason, or of each method and path, and who they claimed to be. All summaries of one period
share an id, which each of the summarized answers has. Everything here has a cap; what is beyond it is still counted,
without its name. Reads of lists are never merged: :mod:`agtphost.audit.list_reads`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agtphost.audit.chain import Seconds
from agtphost.audit.drafts import HOST_CHAIN, StreamEvent
from agtphost.audit.list_reads import ListReads
from agtphost.vocabulary.identifiers import uuid7

EVENT = "refusals_summed_up"
READS = "reads_summed_up"

MOST_ORIGINS = 1_024
"""Origins that are counted apart while a summary grows; those beyond it together."""

MOST_COUNTED = 4_096
"""Audit-IDs of counted reads of lists that are remembered, of some 250 octets each."""

MOST_RECORDS = 16
"""Records of one time and kind: those of the origins with the most, and one for all others."""

MOST_OUTCOMES = 32
MOST_CLAIMS = 16
MOST_NAMED = 64
"""Origins named in the record of several."""


Outcome = tuple[tuple[str, int | str], ...]
"""Members of an entry of ``outcomes``."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The address, agent or certificate for which something is counted."""

    kind: str
    """``address`` (one of IPv4, or a /64 of IPv6), ``agent`` or ``certificate``."""

    name: str
    """The address, the Agent-ID, or the SHA-256 of the certificate."""


SEVERAL = Origin("several", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """A refusal, as far as a summary reports it."""

    event: ClassVar[str] = EVENT
    noun: ClassVar[str] = "refusals"

    status: int
    reason: str
    address: str = ""
    claimed: Mapping[str, str] = field(default_factory=dict)
    """What the request claimed: ``agent_id``, ``certificate`` ..."""
    cause: str = ""
    """What was wrong, where the reason is coarser."""

    violation: Mapping[str, Any] | None = None
    """Of a scope violation: ``method``, ``path``, and the ``scopes`` concerned as a tuple."""

    @property
    def outcome(self) -> Outcome:
        """Return the values that are counted together."""
        told = ("status", self.status), ("reason", self.reason)
        return (*told, ("cause", self.cause)) if self.cause else told

    @staticmethod
    def word(outcome: Outcome) -> str:
        """Return the word for an outcome in a sentence."""
        return str(outcome[1][1])


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredRead:
    """An answered request that changed nothing, as far as a summary reports it."""

    event: ClassVar[str] = READS
    noun: ClassVar[str] = "reads"
    violation: ClassVar[None] = None

    status: int
    method: str
    path: str
    """The template that was registered, not what the caller wrote: there are only so many."""

    address: str = ""
    claimed: Mapping[str, str] = field(default_factory=dict)
    """As :attr:`RefusedCall.claimed`."""

    @property
    def outcome(self) -> Outcome:
        """Return the values that are counted together."""
        return ("status", self.status), ("method", self.method), ("path", self.path)

    @staticmethod
    def word(outcome: Outcome) -> str:
        """Return the word for an outcome in a sentence."""
        return f"{outcome[1][1]} {outcome[2][1]}"


Kind = type[RefusedCall] | type[AnsweredRead]


class Tally:
    """
    Counts by name, of which so many are kept.

    :param most: names; what comes under further ones is counted in :attr:`rest`.
    """

    __slots__ = ("counts", "most", "rest")

    def __init__(self, most: int) -> None:
        self.most = most
        self.counts: dict[Any, int] = {}
        self.rest = 0

    def add(self, name: Hashable, count: int = 1) -> None:
        """Count it so many times."""
        known = self.counts.get(name)
        if known is not None:
            self.counts[name] = known + count
        elif len(self.counts) < self.most:
            self.counts[name] = count
        else:
            self.rest += count

    def merge(self, other: Tally) -> None:
        """Add what another counted."""
        for name, count in other.counts.items():
            self.add(name, count)
        self.rest += other.rest

    def to_json(self, describe: Callable[[Any], Mapping[str, object]]) -> list[dict[str, object]]:
        """Return the names, most frequent first, each as an object with its count."""
        ordered = sorted(self.counts.items(), key=lambda item: -item[1])
        return [{**describe(name), "count": count} for name, count in ordered]


class Summary:
    """
    The refusals or the reads of one origin, while they are counted.

    :param kind: :class:`RefusedCall` or :class:`AnsweredRead`.
    """

    __slots__ = (
        "addresses",
        "claims",
        "count",
        "kind",
        "origin",
        "origins",
        "outcomes",
        "since",
        "until",
        "violations",
    )

    def __init__(self, kind: Kind, origin: Origin, now: int) -> None:
        self.kind = kind
        self.origin = origin
        self.count = 0
        self.since = self.until = now
        self.outcomes = Tally(MOST_OUTCOMES)
        self.claims = Tally(MOST_CLAIMS)
        self.addresses = Tally(MOST_CLAIMS)
        self.violations = Tally(MOST_CLAIMS)
        self.origins = Tally(MOST_NAMED)

    def add(self, counted: RefusedCall | AnsweredRead, now: int) -> None:
        """Count one more."""
        self.count += 1
        self.until = now
        self.outcomes.add(counted.outcome)
        if counted.violation is not None:
            self.violations.add(tuple(sorted(counted.violation.items())))
        if counted.address:
            self.addresses.add(counted.address)
        if counted.claimed:
            self.claims.add(tuple(sorted(counted.claimed.items())))

    def merge(self, other: Summary) -> None:
        """Take over what another origin's summary counted."""
        if other.origin is SEVERAL:
            self.origins.merge(other.origins)
        else:
            self.origins.add(other.origin, other.count)
        self.count += other.count
        self.since, self.until = min(self.since, other.since), max(self.until, other.until)
        for name in ("outcomes", "claims", "addresses", "violations"):
            getattr(self, name).merge(getattr(other, name))

    def event(self, summary_id: str) -> StreamEvent:
        """Return the event that is signed into the host's chain."""
        since, until = (Seconds().text(moment) for moment in (self.since, self.until))
        words = sorted({self.kind.word(outcome) for outcome in self.outcomes.counts})
        told = ", ".join(words[:3]) + (" ..." if len(words) > 3 else "")
        fields: dict[str, Any] = {
            "summary_id": summary_id,
            "origin": {"kind": self.origin.kind, "name": self.origin.name},
            "since": since,
            "until": until,
            "count": self.count,
            "explanation": f"{self.count:,} {self.kind.noun} of {told} between {since} and {until}",
            "outcomes": self.outcomes.to_json(dict),
        }
        if self.outcomes.rest:
            fields["further_outcomes"] = self.outcomes.rest
        for name, tally, describe in (
            ("claimed", self.claims, dict),
            ("scope_violations", self.violations, _violation),
            ("addresses", self.addresses, lambda address: {"address": address}),
            ("origins", self.origins, lambda origin: {"kind": origin.kind, "name": origin.name}),
        ):
            if tally.counts:
                fields[name] = tally.to_json(describe)
            if tally.rest:
                fields[f"further_{name}"] = tally.rest
        return StreamEvent(chain=HOST_CHAIN, event_type=self.kind.event, fields=fields)


def _violation(key: tuple[tuple[str, Any], ...]) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in key}


class Summaries:
    """
    Everything that is counted and not yet signed.

    :param now: seconds since the Unix epoch.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._open: dict[tuple[Kind, Origin], Summary] = {}
        self._lists = ListReads()
        self._counted: dict[str, str] = {}
        self._id = ""

    def __len__(self) -> int:
        """Origins that are counted apart, one that is refused and reads twice."""
        return len(self._open)

    @property
    def waiting(self) -> int:
        """Refusals and reads that are in no record yet."""
        return sum(summary.count for summary in self._open.values()) + self._lists.waiting

    def add(self, origin: Origin, counted: RefusedCall | AnsweredRead) -> str:
        """
        Count one refusal, or one read.

        :return: the id of the summary that will tell of it.
        """
        now, kind = int(self._now() * 1000), type(counted)
        summary = self._open.get((kind, origin))
        if summary is None:
            several = len(self._open) >= MOST_ORIGINS
            summary = self._summary(kind, SEVERAL if several else origin, now)
        if summary.origin is SEVERAL:
            summary.origins.add(origin)
        summary.add(counted, now)
        return self._id

    def add_list(self, key: Hashable, answer: str, session: str) -> str:
        """
        Count one more read of a list, if its caller had the same answer to the same request less than a minute ago.

        :param key: caller and request.
        :param answer: the digest of the answer.
        :param session: the Session-ID; empty for none.
        :return: the id of the summary that will report it; empty where the read needs a record.
        """
        now = int(self._now() * 1000)
        if not self._lists.has(key, answer, now):
            return ""
        self._lists.add(key, now, session)
        return self._current_id(now)

    def note_counted(self, audit_id: str, summary_id: str) -> None:
        """Remember which summary counts a read of a list, by the Audit-ID that its answer has and no record."""
        if len(self._counted) >= MOST_COUNTED:
            del self._counted[next(iter(self._counted))]
        self._counted[audit_id] = summary_id

    def find_counted(self, audit_id: str) -> str:
        """Return the id of the summary that counts the read of a list with this Audit-ID; empty for none known."""
        return self._counted.get(audit_id, "")

    def note_list(self, key: Hashable, caller: Hashable, answer: str, record: Mapping[str, Any], audit_id: str) -> None:
        """
        Remember the durable record of a read of a list.

        :param caller: the part of the key by which lists share an event.
        :param record: the record's payload.
        """
        self._lists.note_record(key, caller, answer, record, audit_id, int(self._now() * 1000))

    def _current_id(self, now: int) -> str:
        if not self._id:
            self._id = uuid7(now, os.urandom(10))
        return self._id

    def _summary(self, kind: Kind, origin: Origin, now: int) -> Summary:
        self._current_id(now)
        summary = self._open.get((kind, origin))
        if summary is None:
            summary = self._open[kind, origin] = Summary(kind, origin, now)
        return summary

    def take(self) -> Sequence[StreamEvent]:
        """Return the events to sign now, the origins with the most first, and begin to count anew."""
        summaries, summary_id = self._open, self._id
        self._open, self._id = {}, ""
        chosen: list[Summary] = []
        for kind in (RefusedCall, AnsweredRead):
            chosen += _choose_summaries(kind, [summary for (of, _), summary in summaries.items() if of is kind])
        events = [summary.event(summary_id) for summary in chosen]
        return [*events, *self._lists.take(summary_id, int(self._now() * 1000))]


def _choose_summaries(kind: Kind, summaries: Sequence[Summary]) -> list[Summary]:
    """Choose the summaries of one kind, so few that each can have a record; the others are merged."""
    several = next((summary for summary in summaries if summary.origin is SEVERAL), None)
    apart = [summary for summary in summaries if summary is not several]
    ordered = sorted(apart, key=lambda summary: -summary.count)
    for summary in ordered[MOST_RECORDS:]:
        if several is None:
            several = Summary(kind, SEVERAL, summary.since)
        several.merge(summary)
    return ordered[:MOST_RECORDS] + ([several] if several is not None else [])
