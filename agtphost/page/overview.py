"""Show what is going on: the host's health, its calls over a range of time, what is new, and what waits."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.call_list import describe_call
from agtphost.page.histogram import calls_of_slot, draw_histogram
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.page.time_range import MOST_CHARACTERS, TimeRange
from agtphost.page.value_text import ago, octets, show_value
from agtphost.vocabulary import times
from agtphost.vocabulary.display_names import CLAIMED, EVENT, NAMES_BELIEVED, UNKNOWN, UNNAMED, caller_name
from agtphost.vocabulary.quantities import lasting, plural

DECIDERS_ONLY = "Only operators and registrars, who decide, see what waits for a decision."
"""Shown to viewers instead of the items."""

USUAL_RANGE: Final = "-1h"

REFRESH_SECONDS: Final = 20
"""Seconds after which an open view asks for itself again, if a call was recorded."""

OPERATOR: Final = "operator:"
"""The beginning of the value under which calls of an operator are counted."""

LATENCIES: Final = ("p50 latency", "p99 latency")

DAY: Final = 86_400


async def draw(visit: PageVisit) -> PageView:
    """Show the host at a glance, and the calls of a range of time."""
    ask = visit.ask
    since, until = (visit.query_word(name, MOST_CHARACTERS) for name in ("from", "until"))
    chosen = TimeRange(path="/", since=since or ("" if until else USUAL_RANGE), until=until)
    today = time.time() // DAY * DAY
    # First, so that what this view asks for is not among the calls that wait.
    running, vitals, counted, latency, news, upstreams, *lists = await gather_replies(
        ask.inspect("running"),
        ask.inspect("vitals"),
        ask.inspect("records", summary=True, reads="none", **chosen.parameters),
        ask.inspect("latency", **chosen.parameters),
        ask.inspect("records", first_since=times.stamp(today)),
        ask.inspect("upstreams"),
        *ask_waiting(visit, 1),
    )
    return PageView(
        title="Overview",
        body=[
            tags.div(
                _status_line(vitals, counted, latency, running, lists),
                _calls(chosen, counted, latency),
                tags.div(_news(news), _longest(running, lists), class_="sides"),
                _inbox(upstreams, lists),
                _health(vitals),
                _upstreams(upstreams),
                **{"data-refresh": str(REFRESH_SECONDS)},
            ),
        ],
        status=422 if counted.status == 422 else 200,
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


# What goes on


def _status_line(
    vitals: PageReply, counted: PageReply, latency: PageReply, running: PageReply, lists: Sequence[PageReply]
) -> Tag:
    """Return one line: whether the host is well, what waits, calls and latency of the range, and the time of it all."""
    parts: list[Any] = []
    if vitals.ok:
        well = not vitals.result.get("obstacles")
        parts.append(elements.state("ready" if well else "not ready"))
    if running.ok:
        parts.append(plural(_count(running), "call waits", "calls wait"))
    if lists:
        waiting = sum(_count(each) for each in lists)
        parts.append(plural(waiting, "item waits for a decision", "items wait for a decision"))
    if counted.ok:
        slots = counted.entries("slots")
        calls = sum(calls_of_slot(slot) for slot in slots)
        refused = sum(int(slot.get("refused") or 0) for slot in slots)
        parts.append(f"{plural(calls, 'call')}, {refused:,} refused")
    overall = latency.result.get("all")
    if isinstance(overall, dict):
        parts += [f"{name.partition(' ')[0]} latency {_milliseconds(overall.get(key))}" for name, key in _KEYS]
    stamp = times.stamp()
    parts.append(tags.span("as of ", tags.time(f"{stamp[11:19]} UTC", datetime=stamp)))
    between = [each for part in parts for each in (tags.span(part), " · ")][:-1]
    return tags.p(*between, class_="status", id="status-line")


_KEYS = (("p50 latency", "p50_ms"), ("p99 latency", "p99_ms"))


def _count(reply: PageReply) -> int:
    counted = reply.result.get("count")
    return counted if isinstance(counted, int) else len(reply.entries("proposals"))


def _calls(chosen: TimeRange, counted: PageReply, latency: PageReply) -> Tag:
    wrong = counted.status == 422
    error = f"{show_value(counted.explanation, 600)} {show_value(counted.remedy, 600)}".strip()
    form = tags.form(
        *chosen.fields(),
        *([tags.p(elements.isolate(error), id="range-error", role="alert", class_="error")] if wrong else []),
        tags.p(tags.button("Show", type="submit"), class_="buttons"),
        method="get",
        action="/",
        class_="range",
        **{"aria-label": "Time range"},
    )
    content: list[Any] = [chosen.presets(), form]
    if not counted.ok:
        if not wrong:
            content.append(elements.refusal_section("Calls", counted))
        return elements.section("Calls", *content)
    content += draw_histogram(counted, chosen, "Calls and refusals")
    content.append(_draw_measurement(latency))
    tools, agents = (latency.result.get(name) for name in ("tools", "agents"))
    heads = ("Calls", "Refused", *LATENCIES)
    by_tool = [
        (_tool(entry, chosen), *_numbers(entry, tools if isinstance(tools, dict) else {}))
        for entry in _calls_of(counted, "tools")
    ]
    by_agent = [
        (_agent(entry), *_numbers(entry, agents if isinstance(agents, dict) else {}))
        for entry in _calls_of(counted, "agents")
    ]
    why = [(_reason(entry, chosen), entry.get("records")) for entry in counted.entries("reasons")]
    content += [
        elements.table("By tool or method", ("Tool or method", *heads), by_tool, "No call was made."),
        elements.table("By agent", ("Caller", *heads), by_agent, "No agent called."),
        *([tags.p(NAMES_BELIEVED)] if counted.result.get("names_believed") else ()),
        elements.table("Why calls were refused", ("Reason", "Calls"), why, "No call was refused."),
    ]
    return elements.section("Calls", *content)


def _calls_of(counted: PageReply, kind: str) -> list[Mapping[str, Any]]:
    """Return the numbers of calls by tool or by agent, without those that count events."""
    return [entry for entry in counted.entries(kind) if entry.get("value") != EVENT]


def _draw_measurement(latency: PageReply) -> Tag:
    if not latency.ok:
        return tags.p("Latencies are not shown: ", elements.isolate(show_value(latency.explanation)), class_="empty")
    found = latency.result
    begin, end = (str(found.get(name, ""))[:19].replace("T", " ") for name in ("measured_from", "measured_until"))
    return tags.p(f"Latencies were measured by this process from {begin} to {end} UTC; no record has them.")


def _numbers(entry: Mapping[str, Any], latencies: Mapping[str, Any]) -> tuple[Any, ...]:
    measured = latencies.get(str(entry.get("value")))
    known = measured if isinstance(measured, dict) else {}
    refused = entry.get("refused")
    marked = tags.span(str(refused), class_="refused") if refused else refused
    return entry.get("records"), marked, *(_milliseconds(known.get(key)) for _, key in _KEYS)


def _milliseconds(value: Any) -> str:
    return "-" if not isinstance(value, (int, float)) else f"{value:.1f} ms"


def _calls_link(text: str, chosen: TimeRange, **given: str) -> Tag:
    """Return a link to the calls with a value, in the chosen range."""
    query = "&".join(f"{name}={elements.in_query(value)}" for name, value in {**given, **chosen.parameters}.items())
    link: Tag = tags.a(elements.isolate(show_value(text, 200)), href=f"/calls?{query}")
    return link


def _tool(entry: Mapping[str, Any], chosen: TimeRange) -> Any:
    name = str(entry.get("value") or "")
    if name == UNKNOWN:
        return "unknown methods"  # No filter finds them: the reasons below do.
    return _calls_link(name, chosen, filter=elements.term("tool" if "." in name else "method", name))


def _agent(entry: Mapping[str, Any]) -> Any:
    value = str(entry.get("value") or "")
    if value.startswith(OPERATOR):
        return tags.span(elements.isolate(show_value(value.removeprefix(OPERATOR), 200)), " (operator)")
    if value == CLAIMED:
        return tags.span("unproven callers")  # Only a header named an agent.
    return elements.brief_agent(value, UNNAMED, entry.get("name"))


def _reason(entry: Mapping[str, Any], chosen: TimeRange) -> Tag:
    return _calls_link(str(entry.get("value")), chosen, reason=str(entry.get("value")))


# What is new, and what waits


def _news(reply: PageReply) -> Tag:
    if not reply.ok:
        return elements.refusal_section("New today", reply)
    tools = reply.result.get("tools")
    found: list[Tag] = [
        *(tags.li("Agent ", _agent(entry)) for entry in reply.entries("agents")),
        *(
            tags.li("Tool ", _link_since_yesterday(str(tool), "filter", elements.term("tool", str(tool))))
            for tool in tools or ()
        ),
    ]
    refused = [
        tags.li(
            elements.isolate(show_value(entry.get("called"), 200)),
            " by ",
            _agent(entry),
            ": ",
            _link_since_yesterday(str(entry.get("reason")), "reason", str(entry.get("reason"))),
        )
        for entry in reply.entries("refusals")
    ]
    more = reply.result.get("more")
    return elements.section(
        "New today",
        tags.p("First recorded since 00:00 UTC."),
        tags.ul(*found) if found else tags.p("No new agent and no new tool.", class_="empty"),
        tags.h3("First refused today"),
        tags.ul(*refused) if refused else tags.p("No call was refused for the first time.", class_="empty"),
        *([tags.p(f"And {more} more.")] if more else []),
    )


def _link_since_yesterday(text: str, name: str, value: str) -> Tag:
    """Return a link to the calls of the last day that have a value."""
    link: Tag = tags.a(
        elements.isolate(show_value(text, 200)), href=f"/calls?{name}={elements.in_query(value)}&from=-24h"
    )
    return link


def _longest(running: PageReply, lists: Sequence[PageReply]) -> Tag:
    """Show the oldest of what waits: a call, an approval, an escalation, a proposal."""
    rows: list[tuple[Any, ...]] = []
    for entry in running.entries("running")[:3]:
        caller = caller_name(entry, str(entry.get("caller") or "")) or str(entry.get("caller_id") or "")[:12]
        rows.append((tags.a("Call", href="/calls"), describe_call(entry), caller or UNNAMED, _seconds(entry)))
    for reply, name, what, since in zip(lists, _WAITING, ("tool", "reason", "proposal_id"), _SINCE, strict=False):
        for entry in reply.entries(_LISTS[name])[:1]:
            shown = entry.get(what) or f"{entry.get('method', '')} {entry.get('path', '')}".strip()
            by = entry.get("label") or entry.get("agent_label") or str(entry.get("caller") or "")[:12] or "-"
            rows.append((tags.a(name, href="/inbox"), shown or "-", by, ago(entry.get(since))))
    heads = ("What", "Which", "Of", "For")
    return elements.section("Waits longest", elements.table("The oldest of each kind", heads, rows, "Nothing waits."))


_WAITING = ("Approval", "Escalation", "Proposal")
_LISTS = {"Approval": "approvals", "Escalation": "escalations", "Proposal": "proposals"}
_SINCE = ("requested_at", "created_at", "created_at")


def _seconds(entry: Mapping[str, Any]) -> str:
    return lasting(float(entry.get("seconds") or 0.0))


def _inbox(upstreams: PageReply, lists: Sequence[PageReply]) -> Tag:
    what = (
        ("call waits for an approval", "calls wait for an approval"),
        ("escalation waits for a decision", "escalations wait for a decision"),
        ("proposal waits for a decision", "proposals wait for a decision"),
    )
    counts = [(_count(reply), *words) for reply, words in zip(lists, what, strict=False)]
    counts.append((len(changed_definitions(upstreams)), "definition changed", "definitions changed"))
    items = [tags.li(tags.a(plural(count, one, many), href="/inbox")) for count, one, many in counts if count]
    said = [] if lists else [tags.p(DECIDERS_ONLY)]
    empty = tags.p("Nothing waits for a person." if lists else "No definition changed.", class_="empty")
    return elements.section("Inbox", tags.ul(*items) if items else empty, *said)


# Health


def _health(vitals: PageReply) -> Tag:
    if not vitals.ok:
        return elements.refusal_section("Health", vitals)
    said = vitals.result
    why = said.get("obstacles")
    witnesses = said.get("witness_ages")
    pairs: list[tuple[str, Any]] = [
        ("Host", elements.state("ready" if not why else "not ready")),
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
    ]
    return elements.section("Health", elements.facts(pairs))


def _age(seconds: Any) -> str:
    return "none yet" if not isinstance(seconds, (int, float)) else f"{lasting(seconds)} ago"


def _upstreams(reply: PageReply) -> Tag:
    if not reply.ok:
        return elements.refusal_section("Servers", reply)
    rows = [
        (entry.get("name"), entry.get("protocol"), elements.state(entry.get("state")), entry.get("reason") or "-")
        for entry in reply.entries("upstreams")
    ]
    return elements.section(
        "Servers",
        elements.table("Servers behind this host", ("Name", "Protocol", "State", "Why"), rows, "There are none."),
    )
