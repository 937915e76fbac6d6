"""Show whether the host is healthy, at a glance."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.page.value_text import octets
from agtphost.vocabulary.quantities import lasting

DECIDERS_ONLY = "Only operators and registrars, who decide, see what waits for a decision."
"""Shown to viewers instead of the items."""


async def draw(visit: PageVisit) -> PageView:
    """Show what waits for decisions, the host's health, and the calls of the last hour."""
    ask = visit.ask
    vitals, traffic, upstreams, *lists = await gather_replies(
        ask.inspect("vitals"),
        ask.inspect("traffic"),
        ask.inspect("upstreams"),
        *ask_waiting(visit, 1),
    )
    return PageView(
        title="Overview",
        body=[
            _inbox(upstreams, lists),
            _health(vitals, traffic),
            _upstreams(upstreams),
            *_traffic(traffic),
        ],
    )


def ask_waiting(visit: PageVisit, limit: int) -> tuple[Awaitable[PageReply], ...]:
    """
    Ask for the items that wait for a decision: approvals, escalations, proposals; empty if the visitor decides nothing.

    :param limit: entries of an answer.
    """
    if not visit.sees_decisions:
        return ()
    return (
        visit.ask.ask("QUERY", "/approvals", {"state": "pending", "limit": limit}),
        ask_escalations(visit, limit),
        visit.ask.ask("QUERY", "/proposals"),
    )


def ask_escalations(visit: PageVisit, limit: int) -> Awaitable[PageReply]:
    """
    Ask for the escalations that wait for this visitor.

    :param limit: entries of the answer.
    """
    return visit.ask.ask("QUERY", "/escalations", {"status": "pending", "limit": limit})


def changed_definitions(upstreams: PageReply) -> list[tuple[str, str]]:
    """
    Return definitions that are off because they changed: ``PROTOCOL.NAME``, and the tool or agent, empty for a card.
    """
    found: list[tuple[str, str]] = []
    for entry in upstreams.entries("upstreams"):
        name = f"{str(entry.get('protocol', '')).lower()}.{entry.get('name', '')}"
        tools, waiting = entry.get("changed_tools"), entry.get("waiting_for_approval")
        if isinstance(tools, list):
            found += [(name, str(tool)) for tool in tools]
        if isinstance(waiting, dict):
            found += [(name, "" if what == "card" else str(what)) for what in waiting]
    return found


def _inbox(upstreams: PageReply, lists: Sequence[PageReply]) -> Tag:
    counts: list[tuple[int, str]] = []
    if lists:
        approvals, escalations, proposals = lists
        counts = [
            (approvals.result.get("count", 0), "calls wait for an approval"),
            (escalations.result.get("count", 0), "escalations wait for a decision"),
            (len(proposals.entries("proposals")), "proposals wait for a decision"),
        ]
    counts.append((len(changed_definitions(upstreams)), "definitions changed"))
    items = [tags.li(tags.a(f"{count} {what}", href="/inbox")) for count, what in counts if count]
    said = [] if lists else [tags.p(DECIDERS_ONLY)]
    empty = tags.p("Nothing waits for a person." if lists else "No definition changed.", class_="empty")
    return elements.section("Inbox", tags.ul(*items) if items else empty, *said)


def _health(vitals: PageReply, traffic: PageReply) -> Tag:
    if not vitals.ok:
        return elements.refusal_section("Health", vitals)
    said = vitals.result
    why = said.get("obstacles")
    ready = "ready" if not why else "not ready"
    witnesses = said.get("witness_ages")
    pairs: list[tuple[str, Any]] = [
        ("Host", elements.state(ready)),
        *((str(each.get("what")), each.get("why")) for each in why or () if isinstance(each, dict)),
        ("Ledger", elements.state("low" if said.get("low") else "healthy" if said.get("healthy") else "failing")),
        ("Records", said.get("records")),
        ("Free disk", octets(said.get("free_octets"))),
        ("Newest checkpoint", _age(said.get("checkpoint_age"))),
        *((f"Witness {name}", _age(age)) for name, age in (witnesses or {}).items()),
        ("Host's certificate ends in", lasting(float(said.get("certificate_ends") or 0.0))),
        *(("Ends soon", each) for each in said.get("expiring") or () if isinstance(each, str)),
        ("Connections", said.get("connections")),
        ("Calls that wait", tags.a(str(said.get("waiting", 0)), href="/calls")),
        ("Calls a second", traffic.result.get("per_second")),
        ("p99 latency", _milliseconds(traffic.result.get("p99_ms"))),
    ]
    return elements.section("Health", elements.facts(pairs))


def _age(seconds: Any) -> str:
    return "none yet" if not isinstance(seconds, (int, float)) else f"{lasting(seconds)} ago"


def _milliseconds(value: Any) -> str:
    return "-" if not isinstance(value, (int, float)) else f"{value:.1f} ms"


def _upstreams(reply: PageReply) -> Tag:
    if not reply.ok:
        return elements.refusal_section("Servers", reply)
    rows = [
        (entry.get("name"), entry.get("protocol"), elements.state(entry.get("state")), entry.get("reason"))
        for entry in reply.entries("upstreams")
    ]
    return elements.section(
        "Servers",
        elements.table("Servers behind this host", ("Name", "Protocol", "State", "Why"), rows, "There are none."),
    )


def _traffic(reply: PageReply) -> list[Tag]:
    if not reply.ok:
        return [elements.refusal_section("Calls of the last hour", reply)]
    minutes = [(str(each.get("minute", ""))[11:16], each) for each in reply.entries("minutes")]
    rows = [
        (minute, each.get("calls"), each.get("refused"), _percentile(each, "p50_ms"), _percentile(each, "p99_ms"))
        for minute, each in minutes
    ]
    heads = ("Minute (UTC)", "Calls", "Refused", "p99 ms", "p50 ms")
    ordered = [(minute, calls, refused, p99, p50) for minute, calls, refused, p50, p99 in rows]
    chart = elements.table("Calls of the last hour by the minute", heads, ordered, "No call was made.", chart="")
    reasons = reply.result.get("reasons")
    known = sorted((reasons if isinstance(reasons, dict) else {}).items(), key=lambda each: -each[1])
    why = elements.table(
        "Refusals of the last hour", ("Reason", "Calls"), [(_reason(name), count) for name, count in known], "None."
    )
    return [elements.section("Calls of the last hour", chart), elements.section("Refusals", why)]


def _percentile(minute: Mapping[str, Any], name: str) -> str:
    value = minute.get(name)
    return "" if not isinstance(value, (int, float)) else f"{value:.1f}"


def _reason(name: str) -> Tag:
    return tags.a(name, href=f"/calls?reason={elements.in_query(name)}")
