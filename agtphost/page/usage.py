"""Count the calls of a range of time: INSPECT reads the numbers from the index of records, a bounded part at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twisted.web.template import Tag

from agtphost.page import elements
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import REFUSING_2XX, PageReply, gather_replies

RANGES = (("-1h", "Last hour"), ("-24h", "Last 24 hours"), ("-7d", "Last 7 days"), ("-30d", "Last 30 days"))
"""Ranges of time as the filter language writes them, and their labels."""

DEFAULT = "-24h"

MOST_LOOKS = 4
"""Requests for one number; the host answers each within about a tenth of a second."""

REFUSING = ("4xx", str(REFUSING_2XX))
FAILING = ("5xx",)
"""Statuses of refused and of failed calls, as the filter language writes them."""


@dataclass(frozen=True, kw_only=True)
class CallCounts:
    """Calls by agent or by tool."""

    calls: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    whole: bool = True
    """Whether the whole range was counted; otherwise only its newest part."""

    refusal: PageReply | None = None
    """The refusal of the host to count; None if it counted."""

    def cells(self, key: str) -> tuple[Any, ...]:
        """Return calls, refused and failed calls of one key, for a row of a table."""
        if self.refusal is not None:
            return "-", "-", "-"
        return self.calls[key], self.refused[key], self.failed[key]


TIMES = ("p50", "p99")
"""Column heads of :func:`time_cells`."""


async def ask_latencies(visit: PageVisit, since: str) -> PageReply:
    """Ask for the percentiles of a range, which the host measures from its start on."""
    return await visit.ask.inspect("latency", **{"from": since})


def time_cells(reply: PageReply, kind: str, key: str) -> tuple[str, str]:
    """
    Return the median and the 99th percentile of one tool or agent.

    :param reply: the answer to :func:`ask_latencies`.
    :param kind: ``tools`` or ``agents``.
    """
    known = reply.result.get(kind)
    found = known.get(key) if isinstance(known, dict) else None
    found = found if isinstance(found, dict) else {}
    return _milliseconds(found.get("p50_ms")), _milliseconds(found.get("p99_ms"))


def _milliseconds(value: object) -> str:
    return f"{value:.1f} ms" if isinstance(value, (int, float)) else "-"


HEADS = ("Calls", "Refused", "Failed")
"""Column heads of :meth:`CallCounts.cells`."""


def chosen_range(visit: PageVisit) -> str:
    """Return the range in the query, or the default for none and for any other value."""
    word = visit.query_word("range")
    return word if word in dict(RANGES) else DEFAULT


def range_choice(value: str) -> Tag:
    """Return the selection list of ranges."""
    return elements.choice("range", "Calls of the", "filter-range", RANGES, value)


def range_words(value: str) -> str:
    """Return a range for a caption: ``last 24 hours``."""
    return dict(RANGES)[value].lower()


async def count_calls(visit: PageVisit, by: str, since: str) -> CallCounts:
    """
    Count all calls of a range.

    :param by: ``agent`` or ``tool``.
    :param since: one of :data:`RANGES`.
    """
    (calls, refused, failed), refusal, whole = await _count_all(visit, by, since, ((), REFUSING, FAILING))
    return CallCounts(calls=calls, refused=refused, failed=failed, whole=whole, refusal=refusal)


async def count_by(visit: PageVisit, by: str, since: str, **conditions: str) -> CallCounts:
    """
    Count the calls of one agent or one tool.

    :param by: ``agent``, ``tool`` or ``status``.
    :param conditions: parameters of ``INSPECT target=records``.
    """
    (calls,), refusal, whole = await _count_all(visit, by, since, ((),), **conditions)
    return CallCounts(calls=calls, whole=whole, refusal=refusal)


def by_outcome(statuses: CallCounts) -> tuple[int, int, int]:
    """Return all, refused and failed calls of counts by status."""
    refused = failed = 0
    for status, number in statuses.calls.items():
        failed += number if status[:1] == "5" else 0
        refused += number if status[:1] == "4" or status == str(REFUSING_2XX) else 0
    return statuses.calls.total(), refused, failed


async def _count_all(
    visit: PageVisit, by: str, since: str, kinds: tuple[tuple[str, ...], ...], **conditions: str
) -> tuple[list[Counter[str]], PageReply | None, bool]:
    """Return the counts of each kind of status, the first refusal, and whether the whole range was counted."""
    asked = [(number, status) for number, kind in enumerate(kinds) for status in (kind or ("",))]
    counts: list[Counter[str]] = [Counter() for _ in kinds]
    waiting: list[tuple[int, str, Any]] = [(number, status, None) for number, status in asked]
    for _ in range(MOST_LOOKS):
        replies = await gather_replies(
            *(
                visit.ask.inspect(
                    "records", count=by, **{"from": since}, status=status or None, before=before, **conditions
                )
                for _, status, before in waiting
            )
        )
        further = []
        for (number, status, _), reply in zip(waiting, replies, strict=True):
            if not reply.ok:
                return counts, reply, False
            counts[number].update(_numbers(reply))
            if reply.result.get("before") is not None:
                further.append((number, status, reply.result["before"]))
        waiting = further
        if not waiting:
            break
    return counts, None, not waiting


def _numbers(reply: PageReply) -> Mapping[str, int]:
    return {str(each.get("value")): int(each.get("records") or 0) for each in reply.entries("counts")}


def incomplete_note(counts: CallCounts) -> str:
    """Return a sentence if only a part of the range was counted; otherwise empty text."""
    if counts.refusal is not None:
        return f"Calls are not counted: {counts.refusal.explanation or counts.refusal.reason}"
    return (
        "" if counts.whole else "There are too many records for one look: only the newest part of the range is counted."
    )
