"""Numbers of calls over a range of time, by agent or by tool, as INSPECT reads them from the index of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.web.template import Tag

from agtphost.page import elements
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageQuestion, PageReply
from agtphost.vocabulary.display_names import NAMES_BELIEVED

RANGES = (("-1h", "Last hour"), ("-24h", "Last 24 hours"), ("-7d", "Last 7 days"), ("-30d", "Last 30 days"))
"""Ranges of time as the filter language writes them, and their labels."""

DEFAULT = "-24h"

TOOLS, AGENTS = "tools", "agents"
"""What calls are counted by: members of the host's answers."""

HEADS = ("Calls", "Refused", "Failed", "p50 latency", "p99 latency")
"""Column heads of :meth:`Usage.cells`."""

NUMBERS = ("records", "refused", "failed")
"""Members of the host's counts."""

MOST_VALUES = 200
"""Values of a list that the host counts one by one; it leaves out those with the fewest calls."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """
    The calls of a range of time.

    The host counts records, and measures latencies from its start on.
    """

    calls: PageReply
    """The numbers of all calls."""

    latencies: PageReply

    def cells(self, kind: str, key: str) -> tuple[Any, ...]:
        """
        Return the values for :data:`HEADS`.

        :param kind: :data:`TOOLS` or :data:`AGENTS`.
        """
        return (*self._numbers(_find(self.calls, kind, key)), *self._times(kind, key))

    def facts(self, kind: str, key: str) -> Tag:
        """Return the numbers and latencies of one tool or agent, whose calls alone were asked for."""
        # A search for an agent finds also what strangers sent in its name, and no count of the agent has that.
        calls = _find(self.calls, AGENTS, key) if kind == AGENTS else _sum(self.calls)
        return elements.facts(zip(HEADS, (*self._numbers(calls), *self._times(kind, key)), strict=True))

    def ranking(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """Return the tools or agents with the most calls: their ``value``, ``records``, and ``name`` where known."""
        return self.calls.entries(kind)

    @property
    def note(self) -> str:
        """Return a sentence if the numbers are not those of the whole range; otherwise empty text."""
        if not self.calls.ok:
            return f"Calls are not counted: {self.calls.explanation or self.calls.reason}"
        if self.calls.result.get("complete") is False:
            return "There are too many records to count: only the newest part of the range is counted."
        return ""

    @property
    def naming_note(self) -> str:
        """Return a sentence if numbers of an agent include calls that only named it; otherwise empty text."""
        return NAMES_BELIEVED if self.calls.ok and self.calls.result.get("names_believed") else ""

    def _numbers(self, calls: Mapping[str, int]) -> tuple[Any, Any, Any]:
        if not self.calls.ok or not calls:
            return "-", "-", "-"
        failed = calls.get("failed", 0)
        # Failed calls have a reason, too; refused are only those that the host did not let through.
        return calls.get("records", 0), max(calls.get("refused", 0) - failed, 0), failed

    def _times(self, kind: str, key: str) -> tuple[Any, Any]:
        known = self.latencies.result.get(kind)
        found = known.get(key) if isinstance(known, dict) else None
        found = found if isinstance(found, dict) else {}
        return _milliseconds(found.get("p50_ms")), _milliseconds(found.get("p99_ms"))


def usage_questions(visit: PageVisit, since: str, **conditions: str) -> tuple[PageQuestion, PageQuestion]:
    """
    Return the questions about the calls of a range; their answers make a :class:`Usage`.

    :param since: one of :data:`RANGES`.
    :param conditions: parameters of ``INSPECT target=records`` that narrow them.
    """
    return (
        visit.ask.inspect("records", **{"summary": True, "from": since, **conditions}),
        visit.ask.inspect("latency", **{"from": since}),
    )


def chosen_range(visit: PageVisit) -> str:
    """Return the range in the query, or the default for none and for any other value."""
    return visit.query_choice("range", dict(RANGES)) or DEFAULT


def range_choice(value: str) -> Tag:
    """Return the selection list of ranges."""
    return elements.choice("range", "Period", "filter-range", RANGES, value)


def range_words(value: str) -> str:
    """Return a range for a caption: ``last 24 hours``."""
    return dict(RANGES)[value].lower()


def _find(reply: PageReply, kind: str, key: str) -> Mapping[str, int]:
    """Return the numbers of one value; zeros for one that the host did not count, nothing where it left some out."""
    entries = reply.entries(kind)
    for entry in entries:
        if entry.get("value") == key:
            return {name: int(entry.get(name) or 0) for name in NUMBERS}
    return {} if len(entries) >= MOST_VALUES else dict.fromkeys(NUMBERS, 0)


def _sum(reply: PageReply) -> Mapping[str, int]:
    statuses = reply.entries("statuses")
    return {name: sum(int(entry.get(name) or 0) for entry in statuses) for name in NUMBERS}


def _milliseconds(value: object) -> Any:
    return elements.unbroken(f"{value:.1f} ms") if isinstance(value, (int, float)) else "-"
