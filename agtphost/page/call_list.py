"""Show calls: waiting ones, new ones, and past ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

from twisted.web.template import Tag, tags

from agtphost.audit.filters import find_slips
from agtphost.page import elements
from agtphost.page.call_filters import ALL, CallQuery, draw_form, draw_saved
from agtphost.page.histogram import draw_histogram
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.page.value_text import show_value
from agtphost.vocabulary.display_names import (
    UNNAMED,
    caller_name,
    caller_notes,
    caller_or_unnamed,
    display_name,
    outcome_word,
)
from agtphost.vocabulary.quantities import lasting

LIVE_COLUMNS = ("Time", "Call", "Caller", "Status", "Reason", "Milliseconds")
"""Columns of the feed, as :mod:`agtphost.page.live_feed` fills them."""

LIVE_PATH = "/live"
"""The path of the feed."""

REFUSED = "refused"

USUAL_RANGE = "-24h"
"""The range of the histogram where nothing is asked for."""


async def draw(visit: PageVisit) -> PageView:
    """Show calls that wait, past ones by filter and time, and new ones live."""
    asked = CallQuery.of_visit(visit)
    given = asked.parameters
    usual = {} if asked.given or asked.since or asked.until else {"from": USUAL_RANGE}
    # First, so that what this view asks for is not among the calls that wait.
    running, records, counted = await gather_replies(
        visit.ask.inspect("running"),
        visit.ask.inspect("records", limit=elements.ROWS, before=asked.before, **given),
        visit.ask.inspect("records", summary=True, **{**given, **usual}),
    )
    body = [_running(visit, running), _past(visit, asked, records, counted), _live(asked)]
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


def _live(asked: CallQuery) -> Tag:
    shown = "" if asked.shows_reads else " Reads by operators are hidden."
    return elements.section(
        "Live",
        tags.p(f"Calls of all agents as they are recorded; the filter does not apply.{shown}"),
        elements.table(
            "Calls as they are recorded",
            LIVE_COLUMNS,
            (),
            live=LIVE_PATH if not asked.shows_reads else f"{LIVE_PATH}?reads=all",
            whole=True,
        ),
        tags.noscript(tags.p("The feed needs JavaScript: reload the view to see new calls.")),
    )


def _past(visit: PageVisit, asked: CallQuery, reply: PageReply, counted: PageReply) -> Tag:
    chosen = asked.time_range()
    content: list[Any] = [chosen.presets(), draw_form(asked, reply), draw_saved()]
    if not reply.ok:
        if reply.status != 422:
            content.append(elements.refusal_section("Past calls", reply))
        return elements.section("Past", *content)
    if counted.ok:
        content += draw_histogram(counted, chosen, "Calls and refusals")
    else:
        content.append(tags.p(elements.isolate(show_value(counted.explanation)), class_="empty"))
    if asked.hides_reads:
        link = tags.a("Show them", href=asked.link(reads=ALL))
        content.append(tags.p("Reads by operators, including those of this page, are hidden. ", link, "."))
    content.append(records("Past calls, newest first", reply, verify=True))
    if not reply.entries("records"):
        said = "; ".join(find_slips(asked.terms, visit.operators))
        content += [tags.p(elements.isolate(show_value(f"{said[:1].upper()}{said[1:]}.", 600)))] if said else []
    if reply.entries("records"):
        newest = reply.entries("records")[0].get("number")
        again = urlencode({**asked.parameters, "before": int(newest or 0) + 1})
        content.append(tags.div(**{"data-verify-list": f"/evidence/list?{again}"}))
    before = reply.result.get("before")
    if before is not None:
        reached = str(reply.result.get("reached") or "")[:19].replace("T", " ").removesuffix("Z")
        said = f" Looked back to {reached} UTC; older calls may match as well." if reached else ""
        content.append(tags.p(tags.a("Older calls", href=asked.link(before=str(before)), rel="next"), said))
    damaged = reply.entries("damaged")
    if damaged:
        rows = [(entry.get("number"), entry.get("why")) for entry in damaged]
        content.append(elements.table("Records that differ from what was signed", ("Number", "Why"), rows))
    return elements.section("Past", *content)


def records(caption: str, reply: PageReply, *, verify: bool = False) -> Tag:
    """
    Return a table of records, as ``INSPECT target=records`` lists them.

    :param verify: whether cells name the signed members that they show, for the script.
    """
    # Most rows repeat the same few agents and statuses.
    agent, mark = cache(elements.brief_agent), elements.mark_signed if verify else _keep_cell
    rows = [
        elements.TableRow(
            (
                elements.call_link(entry.get("audit_id"), mark("issued_at", entry.get("issued_at", "-")), "id time"),
                mark("called", describe_call(entry)),
                mark("caller_id", draw_caller(entry, entry.get("caller"), agent)),
                mark("agent_id", agent(entry.get("chain"), "host", entry.get("agent"))),
                _status(entry, mark),
                mark("reason", entry.get("reason") or "-"),
            ),
            {
                **({"data-record": str(entry.get("audit_id"))} if verify else {}),
                **({"class": REFUSED} if outcome_word(entry) == REFUSED else {}),
            },
        )
        for entry in reply.entries("records")
    ]
    return elements.table(
        caption, ("Time", "Call", "Caller", "Answered by", "Status", "Reason"), rows, "No record matches the filter."
    )


def _keep_cell(_member: str, content: Any) -> Any:
    return elements.to_cell(content)


def _status(entry: Mapping[str, Any], mark: Callable[[str, Any], Any]) -> Any:
    """Return the status, with a word for a refusal, as a colour alone is not seen by everyone."""
    shown, word = mark("status", entry.get("status", "-")), outcome_word(entry)
    return tags.span(shown, " ", word) if word else shown


def draw_caller(
    record: Mapping[str, Any], label: object = None, agent: Callable[..., Tag] = elements.brief_agent
) -> Tag:
    """
    Return who called: an agent as a link, with the notes of lists, or an operator by name.

    :param label: the name of the calling agent, if it is known.
    """
    if not record.get("caller_id"):
        return tags.span(elements.isolate(show_value(caller_or_unnamed(record), 200)))
    link, notes = agent(record.get("caller_id"), UNNAMED, label), caller_notes(record)
    return tags.span(link, elements.isolate(show_value(notes, 200))) if notes else link


def describe_call(entry: Mapping[str, Any]) -> str:
    """Return a call in a few words: its tool, or method and path."""
    return str(entry.get("called") or display_name(entry))


def _agent(name: object, agent_id: object) -> Tag:
    return elements.brief_agent(agent_id) if not name else tags.span(elements.isolate(show_value(name, 200)))
