"""Show sessions of agents, and suspended sessions and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply
from agtphost.vocabulary.quantities import lasting

ENDING = "An agent suspends and resumes its sessions and tasks itself. All of them end when the agent is deactivated."


async def draw(visit: PageVisit) -> PageView:
    """Return the page with the tables of open and of suspended sessions, of all agents or of one."""
    agent, more = visit.query_word("agent_id"), visit.query_word("more", 4_096)
    reply = await visit.ask.inspect(
        "sessions", agent_id=agent or None, limit=elements.ROWS, continuation_token=more or None
    )
    body: list[Any] = [
        elements.search("/sessions", elements.field("agent_id", "Agent (name or Agent-ID)", "filter-agent", agent)),
        *tables(reply),
    ]
    if reply.continuation:
        query = urlencode({"agent_id": agent, "more": reply.continuation})
        body.append(tags.p(tags.a("More sessions", href=f"/sessions?{query}", rel="next")))
    return PageView(title="Sessions", body=body)


def tables(reply: PageReply) -> list[Tag]:
    """Return the tables of ``INSPECT target=sessions``."""
    if not reply.ok:
        return [elements.refusal_section("Sessions", reply)]
    going = [
        (entry.get("session_id"), _agent(entry), _idle(entry.get("idle_seconds")))
        for entry in reply.entries("sessions")
    ]
    still = [
        (
            entry.get("session_id") or entry.get("task_id"),
            "session" if "session_id" in entry else "task",
            _agent(entry),
            entry.get("resume_by"),
            elements.state("expired" if entry.get("expired") else "suspended"),
        )
        for entry in reply.entries("suspended")
    ]
    return [
        elements.table(
            f"{reply.result.get('count')} sessions since the host's start",
            ("Session-ID", "Agent", "Last used"),
            going,
            "There are none.",
        ),
        elements.table(
            "Suspended", ("Name", "Kind", "Agent", "Resumed until", "State"), still, "Nothing is suspended."
        ),
        tags.p(ENDING),
    ]


def _agent(entry: Mapping[str, Any]) -> Tag:
    return elements.brief_agent(entry.get("agent_id"), label=entry.get("agent_label"))


def _idle(seconds: Any) -> str:
    return f"{lasting(seconds)} ago" if isinstance(seconds, (int, float)) else "-"
