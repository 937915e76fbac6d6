"""Show calls: waiting ones, new ones, and past ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.vocabulary.display_names import UNNAMED, caller_name, display_name, operator_name
from agtphost.vocabulary.quantities import lasting

FILTERS = (
    ("filter", "Filter, such as agent:demo status:4xx from:-1h"),
    ("caller_id", "Caller (name or Agent-ID)"),
    ("chain", "Answered by (name or Agent-ID, or host)"),
    ("method", "Method"),
    ("path", "Path"),
    ("status", "Status, or a class such as 4xx"),
    ("reason", "Reason"),
    ("task_id", "Task-ID"),
)
"""Parameters of INSPECT, and their labels."""

LONGEST = 2_100
"""Characters of a filter that are sent: more than the host takes, so that it says what is wrong with a longer one."""

LIVE_COLUMNS = ("Time", "Call", "Caller", "Status", "Reason", "Milliseconds")
"""Columns of the feed, as :mod:`agtphost.page.live_feed` fills them."""


async def draw(visit: PageVisit) -> PageView:
    """Show the tables, and the form that filters past calls."""
    wanted: dict[str, Any] = {name: word for name, _ in FILTERS if (word := visit.query_word(name, LONGEST))}
    asked = dict(wanted)
    before = visit.query_word("before")
    if before.isascii() and before.isdigit() and int(before):
        asked["before"] = int(before)
    records, running = await gather_replies(
        visit.ask.inspect("records", limit=elements.ROWS, **asked), visit.ask.inspect("running")
    )
    body = [_running(visit, running), _live(), _past(visit, records, wanted)]
    return PageView(title="Calls", body=body, status=200 if records.ok or records.status == 403 else records.status)


def _running(visit: PageVisit, reply: PageReply) -> Tag:
    if not reply.ok:
        return elements.refusal_section("Waiting", reply)
    rows = [
        (
            describe_call(entry),
            _agent(caller_name(entry, str(entry.get("caller") or "")), entry.get("caller_id")),
            lasting(float(entry.get("seconds") or 0.0)),
            entry.get("address"),
            entry.get("task_id") or "-",
            _end(visit, entry),
        )
        for entry in reply.entries("running")
    ]
    heads = ("Call", "Caller", "Since", "From", "Task-ID", "End it")
    return elements.section("Waiting", elements.table("Calls that wait", heads, rows, "No call waits."))


def _end(visit: PageVisit, entry: Mapping[str, Any]) -> Any:
    if not visit.may("operate"):
        return "-"
    known = str(entry.get("response_id", ""))
    return elements.action(
        "end-call",
        visit.csrf,
        "/calls",
        {"response_id": known},
        buttons=(("end", "End"),),
        label=f"End {describe_call(entry)}",
    )


def _live() -> Tag:
    return elements.section(
        "Live",
        elements.table("Calls as they are recorded", LIVE_COLUMNS, (), live="/live", whole=True),
        tags.noscript(tags.p("The feed needs JavaScript: reload the view to see new calls.")),
    )


def _past(visit: PageVisit, reply: PageReply, wanted: Mapping[str, str]) -> Tag:
    fields = [elements.field(name, label, f"filter-{name}", wanted.get(name, "")) for name, label in FILTERS]
    form = elements.search("/calls", *fields)
    if not reply.ok:
        return tags.div(form, elements.refusal_section("Past calls", reply))
    content: list[Any] = [form, records("Past calls, newest first", reply)]
    before = reply.result.get("before")
    if before is not None:
        query = urlencode({**wanted, "before": before})
        content.append(tags.p(tags.a("Older calls", href=f"/calls?{query}", rel="next")))
    damaged = reply.entries("damaged")
    if damaged:
        rows = [(entry.get("number"), entry.get("why")) for entry in damaged]
        content.append(elements.table("Records that are not what was signed", ("Number", "Why"), rows))
    return elements.section("Past", *content)


def records(caption: str, reply: PageReply) -> Tag:
    """Return a table of records, as ``INSPECT target=records`` lists them."""
    # Most rows repeat the same few agents and statuses.
    agent, state = cache(elements.brief_agent), cache(elements.state)
    rows = [
        (
            elements.call_link(entry.get("audit_id"), str(entry.get("issued_at", "-"))),
            describe_call(entry),
            _caller(entry, agent),
            agent(entry.get("chain"), "host", entry.get("agent")),
            state(entry.get("status", "-")),
            entry.get("reason") or "-",
        )
        for entry in reply.entries("records")
    ]
    return elements.table(
        caption, ("Time", "Call", "Caller", "Answered by", "Status", "Reason"), rows, "No record is like that."
    )


def _caller(entry: Mapping[str, Any], agent: Callable[..., Tag]) -> Tag:
    """Return who called: an agent as a link, an operator by name, or both."""
    name = operator_name(entry)
    if not entry.get("caller_id"):
        return tags.span(caller_name(entry, "") or UNNAMED)
    link = agent(entry.get("caller_id"), UNNAMED, entry.get("caller"))
    return tags.span(link, f" (operator {name})") if name else link


def describe_call(entry: Mapping[str, Any]) -> str:
    """Return a call in a few words: its tool, or method and path."""
    return str(entry.get("called") or display_name(entry))


def _agent(name: object, agent_id: object) -> Tag:
    return elements.brief_agent(agent_id) if not name else tags.span(str(name))
