"""Counts of INSPECT ``target=records``: calls by time, tool, agent and status, and what is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agtphost.iagtp import Facet, RecordSummary, is_operator_read
from agtphost.vocabulary import times

MOST_VALUES: Final = 200
"""Tools, agents, statuses and reasons of one answer; those with the most records."""

MOST_NEW: Final = 50
"""New tools, agents and refusals of one answer."""


def summary_to_json(found: RecordSummary) -> Mapping[str, Any]:
    """Return the counts of a look, by slot of time, tool, agent, status and reason; refusals and failures apart."""
    tools, agents, statuses, reasons = (_Sums() for _ in range(4))
    for facet, count in found.facets.items():
        tools.add(facet.call_name, facet, count)
        agents.add(_caller(facet), facet, count)
        statuses.add(str(facet.status) if facet.status else "", facet, count)
        if facet.is_refusal:
            reasons.add(facet.reason, facet, count)
    return {
        "since": to_stamp(found.since),
        "until": to_stamp(found.until),
        "width": found.width // 1_000,
        "complete": found.is_complete,
        "slots": [
            {"from": to_stamp(each.begin), "records": each.records, "events": each.events, "refused": each.refused}
            for each in found.slots
        ],
        "tools": tools.to_json(),
        "agents": agents.to_json(),
        "statuses": statuses.to_json(),
        "reasons": reasons.to_json(),
    }


def news_to_json(new: Sequence[Facet], others: Sequence[Facet]) -> Mapping[str, Any]:
    """
    Return the tools, callers and refusals that no earlier record has.

    :param new: facets of which every record is new.
    :param others: facets that have an earlier record.
    """
    new = [facet for facet in new if not is_operator_read(facet)]
    tools = _find_new({facet.tool for facet in new if facet.tool}, {facet.tool for facet in others})
    agents = _find_new({facet.caller_id for facet in new} - {""}, {facet.caller_id for facet in others})
    refusals = _find_new(_refusals(new), _refusals(others))
    return {
        "tools": tools[:MOST_NEW],
        "agents": [{"value": agent} for agent in agents[:MOST_NEW]],
        "refusals": [
            {"value": caller or operator_value(operator), "called": what, "reason": why}
            for caller, operator, what, why in refusals[:MOST_NEW]
        ],
        "more": max(len(tools) - MOST_NEW, 0) + max(len(agents) - MOST_NEW, 0) + max(len(refusals) - MOST_NEW, 0),
    }


def to_stamp(milliseconds: int) -> str:
    """Return a time as text, with a fraction only where it has one."""
    seconds, rest = divmod(milliseconds, 1_000)
    return times.stamp(seconds).replace("Z", f".{rest:03d}Z" if rest else "Z")


class _Sums:
    """Sums of calls, refusals and failures by one property."""

    def __init__(self) -> None:
        self._records: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    def add(self, value: str, facet: Facet, count: int) -> None:
        self._records[value] += count
        if facet.is_refusal:
            self._refused[value] += count
        if facet.status // 100 == 5:
            self._failed[value] += count

    def to_json(self) -> list[dict[str, Any]]:
        """Return the values with the most records, each with its sums."""
        ordered = sorted(self._records.items(), key=lambda item: (-item[1], item[0]))[:MOST_VALUES]
        return [
            {"value": value, "records": records, "refused": self._refused[value], "failed": self._failed[value]}
            for value, records in ordered
        ]


def _caller(facet: Facet) -> str:
    return facet.counted_caller or _operator(facet) or (facet.call_name if facet.is_event else "")


def _operator(facet: Facet) -> str:
    return operator_value(facet.operator or facet.operator_key)


def operator_value(name: str) -> str:
    """Return what the calls of an operator are counted under; empty for no operator."""
    return f"operator:{name}" if name else ""


def _refusals(facets: Sequence[Facet]) -> set[tuple[str, str, str, str]]:
    return {(each.counted_caller, each.operator, each.call_name, each.reason) for each in facets if each.is_refusal}


def _find_new(new: set[Any], known: set[Any]) -> list[Any]:
    return sorted(new - known)
