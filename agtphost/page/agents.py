"""Show agents: all of them, and one with the forms that change its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from twisted.web.template import Tag, tags

from agtphost.page import agent_rights, call_list, elements, sessions, usage
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.page.value_text import days_left, in_path
from agtphost.vocabulary.display_names import operator_name
from agtphost.vocabulary.quantities import plural

BUTTONS = {
    "active": (("deactivate", "Deactivate"), ("deprecate", "Deprecate"), ("revoke", "Revoke for good")),
    "suspended": (("reinstate", "Reinstate"), ("revoke", "Revoke for good")),
    "deprecated": (("deactivate", "Deactivate"), ("revoke", "Revoke for good")),
}
"""The buttons for an agent in each state; retired agents have none."""


async def draw(visit: PageVisit) -> PageView:
    """Show a page of the agents that the host knows."""
    name, more = visit.query_word("name"), visit.query_word("more", 4_096)
    since = usage.chosen_range(visit)
    reply, calls, latencies, grants = await gather_replies(
        visit.ask.inspect("agents", name=name or None, limit=elements.ROWS, continuation_token=more or None),
        *usage.usage_questions(visit, since),
        visit.ask.ask("QUERY", agent_rights.PATH),
    )
    used = usage.Usage(calls=calls, latencies=latencies)
    form = elements.search("/agents", elements.field("name", "Name", "filter-name", name), usage.range_choice(since))
    if not reply.ok:
        return PageView(title="Agents", body=[form, elements.refusal_section("Not shown", reply)])
    last = await _ask_last_calls(visit, [str(entry.get("agent_id")) for entry in reply.entries("agents")])
    rows = [
        (
            tags.a(str(entry.get("display_name")), href=f"/agents/{in_path(entry.get('agent_id'))}"),
            elements.state(entry.get("status")),
            "hosted" if entry.get("hosted") else "caller",
            *used.cells(usage.AGENTS, str(entry.get("agent_id"))),
            last.get(str(entry.get("agent_id")), "-"),
            _rights(entry, grants),
            days_left(entry.get("certificate_days")),
            entry.get("sessions"),
        )
        for entry in reply.entries("agents")
    ]
    heads = ("Name", "State", "Role", *usage.HEADS, "Last call", "Rights", "Certificate, days left", "Sessions")
    caption = f"{plural(reply.result.get('count') or 0, 'agent')}, with their calls of the {usage.range_words(since)}"
    body: list[Any] = [form, elements.table(caption, heads, rows, "There are none.")]
    body += [tags.p(note) for note in (used.note, used.naming_note) if note]
    if reply.continuation:
        query = urlencode({"name": name, "range": since, "more": reply.continuation})
        body.append(tags.p(tags.a("More agents", href=f"/agents?{query}", rel="next")))
    return PageView(title="Agents", body=body)


async def _ask_last_calls(visit: PageVisit, agents: Sequence[str]) -> dict[str, Tag]:
    """Return the time of the last call of each of these agents that ever called."""
    if not agents:
        return {}
    (reply,) = await gather_replies(visit.ask.inspect("records", last_of=agents))
    found: dict[str, Tag] = {}
    for entry in reply.entries("last"):
        date, _, time = str(entry.get("issued_at", ""))[:19].partition("T")
        shown = tags.span(elements.unbroken(date), " ", elements.unbroken(f"{time.removesuffix('Z')} UTC"))
        found[str(entry.get("agent_id"))] = shown
    return found


def _rights(entry: Mapping[str, Any], grants: PageReply) -> str:
    """Return what an agent may call, in a few words."""
    limited, found = agent_rights.limits_of(grants, str(entry.get("agent_id")))
    if limited:
        return f"limited to {', '.join(str(each.get('allow')) for each in found[:3]) or 'nothing'}" + (
            f" and {len(found) - 3} more" if len(found) > 3 else ""
        )
    return ", ".join(map(str, entry.get("scopes") or ())) or "no scopes"


async def draw_one(visit: PageVisit) -> PageView:
    """Show one agent, its latest calls, and the form that changes its state."""
    more = visit.query_word("tasks", 4_096) or None
    since = usage.chosen_range(visit)
    known, latest, events, active, tasks, rights, tools, calls, latencies = await gather_replies(
        visit.ask.inspect("agents", agent_id=visit.rest, limit=1),
        visit.ask.inspect("records", caller_id=visit.rest, limit=20),
        visit.ask.inspect("lifecycle", agent_id=visit.rest, limit=20),
        visit.ask.inspect("sessions", agent_id=visit.rest, limit=20),
        visit.ask.ask("QUERY", "/delegations", _without_none(agent_id=visit.rest, limit=50, continuation_token=more)),
        agent_rights.ask_rights(visit, visit.rest[:256]),
        visit.ask.inspect("tools", limit=elements.ROWS),
        *usage.usage_questions(visit, since, caller_id=visit.rest),
    )
    entries = known.entries("agents")
    if not known.ok:
        return PageView(title="Agent", status=known.status, body=[elements.refusal_section("Not shown", known)])
    if not entries:
        return PageView(title="Agent", status=404, body=[tags.p("The host knows no such agent.")])
    (agent,) = entries
    return PageView(
        title=f"Agent {agent.get('display_name')}",
        body=[
            _facts(agent),
            agent_rights.section(visit, agent, rights, tools),
            *_change(visit, agent),
            _events(events),
            elements.section("Sessions and suspended tasks", *sessions.tables(active)),
            _tasks(visit.rest, tasks),
            _calls(visit, since, latest, usage.Usage(calls=calls, latencies=latencies)),
        ],
    )


def _calls(visit: PageVisit, since: str, latest: PageReply, used: usage.Usage) -> Tag:
    """Show the numbers of calls of the agent over a range, its tools, and its latest calls."""
    if not latest.ok:
        return elements.refusal_section("Calls", latest)
    rows = [(each.get("value"), each.get("records"), each.get("refused")) for each in used.ranking(usage.TOOLS)]
    return elements.section(
        "Calls",
        elements.search(visit.path, usage.range_choice(since), text="Show"),
        *(tags.p(note) for note in (used.note, used.naming_note) if note),
        used.facts(usage.AGENTS, visit.rest),
        elements.table(
            f"Calls by tool or method, {usage.range_words(since)}",
            ("Tool or method", "Calls", "Refused or failed"),
            rows,
            "Nothing.",
        ),
        call_list.records("Latest calls", latest),
    )


def _without_none(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _tasks(agent_id: str, reply: PageReply) -> Tag:
    """Show the tasks that the agent has delegated, and those delegated to it."""
    title = "Delegated tasks"
    if not reply.ok:
        return elements.refusal_section(title, reply)
    rows = [
        (
            tags.a(str(entry.get("task_id")), href=f"/calls?task_id={elements.in_query(entry.get('task_id'))}"),
            elements.state(entry.get("state")),
            elements.brief_agent(entry.get("delegator")),
            elements.brief_agent(entry.get("delegatee")),
            ", ".join(map(str, entry.get("authority_scope") or ())) or "-",
            entry.get("accepted_at"),
            entry.get("ended_at") or "-",
            elements.call_link(entry["accepted_audit_id"]) if entry.get("accepted_audit_id") else "-",
        )
        for entry in reply.entries("delegations")
    ]
    heads = ("Task-ID", "State", "Delegated by", "Delegated to", "Scopes", "Accepted", "Ended", "Record")
    caption = f"{reply.result.get('count')} tasks that go on after their answer, kept for a day"
    content = [elements.table(caption, heads, rows, "There are none.")]
    if reply.continuation:
        query = urlencode({"tasks": reply.continuation})
        content.append(tags.p(tags.a("More tasks", href=f"/agents/{in_path(agent_id)}?{query}", rel="next")))
    return elements.section(title, *content)


def _facts(agent: Mapping[str, Any]) -> Tag:
    pairs = (
        ("Agent-ID", agent.get("agent_id")),
        ("State", elements.state(agent.get("status"))),
        ("Since", agent.get("since") or "-"),
        ("Why", agent.get("reason") or "-"),
        ("Description", agent.get("description")),
        ("Owner", agent.get("owner_id")),
        ("Role", "hosted" if agent.get("hosted") else "caller"),
        ("Certificate, days left", days_left(agent.get("certificate_days"))),
        ("Sessions within half an hour", agent.get("sessions")),
        ("Keys of HTTP clients", ", ".join(map(str, agent.get("http_clients") or ())) or "-"),
        ("Successor", agent.get("successor_agent_id") or "-"),
    )
    return elements.section("Details", elements.facts(pairs))


def _change(visit: PageVisit, agent: Mapping[str, Any]) -> list[Tag]:
    buttons = BUTTONS.get(str(agent.get("status")), ())
    known, name = str(agent.get("agent_id")), str(agent.get("name"))
    if not (visit.may("lifecycle") and agent.get("may_change") is True and buttons):
        return []
    typed = elements.field("typed", "To revoke the agent, type its name", "typed", autocomplete="off")
    form = elements.action(
        "lifecycle",
        visit.csrf,
        f"/agents/{in_path(known)}",
        {"agent_id": known, "name": name},
        elements.reason("why", required=True),
        typed,
        buttons=buttons,
        label=f"Change the state of {name}",
    )
    return [elements.section("Change its state", form)]


def _events(reply: PageReply) -> Tag:
    if not reply.ok:
        return elements.refusal_section("History", reply)
    rows = []
    for entry in reply.entries("events"):
        payload = entry.get("payload")
        payload = payload if isinstance(payload, dict) else {}
        link = elements.call_link(
            entry.get("audit_id"), str(payload.get("issued_at") or payload.get("timestamp") or "-")
        )
        by = operator_name(payload) or payload.get("actor")
        rows.append((link, payload.get("event_type"), payload.get("reason"), by))
    table = elements.table("Signed events", ("When", "Event", "Reason", "By"), rows, "Nothing was recorded.")
    return elements.section("History", table)
