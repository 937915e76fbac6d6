"""The view "Inbox": everything that waits for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import parts
from agtphost.page.asking import Reply, together
from agtphost.page.layout import View
from agtphost.page.text import ago, brief
from agtphost.page.visit import Visit

DECISIONS = (("accepted", "Approve"), ("rejected", "Reject"), ("deferred", "Defer"))


async def draw(visit: Visit) -> View:
    """Cards, the most urgent first."""
    (escalations,) = await together(
        visit.ask.ask("QUERY", "/escalations", {"status": "pending", "limit": parts.ROWS // 2}),
    )
    return View(title="Inbox", body=[_escalations(visit, escalations)])


def _escalations(visit: Visit, reply: Reply) -> Tag:
    if not reply.ok:
        return parts.refused("Escalations", reply)
    cards = [_escalation(visit, entry) for entry in reply.entries("escalations")]
    return parts.section("Escalations", *(cards or [tags.p("No escalation waits for a decision.", class_="empty")]))


def _escalation(visit: Visit, entry: Mapping[str, Any]) -> Tag:
    known = str(entry.get("escalation_id", ""))
    title = f"Escalation {brief(known, 16)}"
    form: list[Tag] = []
    if visit.may("decide"):
        form = [
            parts.action(
                "decide",
                visit.csrf,
                "/inbox",
                {"target_id": known},
                parts.reason(f"reason-{known}"),
                buttons=DECISIONS,
                label=f"Decide about {title}",
            )
        ]
    return tags.article(
        tags.h3(title),
        parts.facts(
            (
                ("Agent", parts.brief_agent(entry.get("escalated_by"))),
                ("Task", entry.get("task_id")),
                ("Reason", entry.get("reason")),
                ("Priority", parts.state(entry.get("priority"))),
                ("Waits for", ago(entry.get("created_at"))),
            )
        ),
        parts.code(entry.get("context")),
        *form,
        id=f"item-{known}",
    )
