"""The view "Now": whether all is well, at a glance."""

from __future__ import annotations

from twisted.web.template import tags

from agtphost.page import parts
from agtphost.page.asking import together
from agtphost.page.layout import View
from agtphost.page.visit import Visit


async def draw(visit: Visit) -> View:
    """What there is to do, and who is looking."""
    escalations, upstreams = await together(
        visit.ask.ask("QUERY", "/escalations", {"status": "pending", "limit": 1}),
        visit.ask.inspect("upstreams"),
    )
    waiting = escalations.result.get("count", 0)
    body = [
        parts.section(
            "Inbox",
            tags.p(tags.a(f"{waiting} escalations wait for a decision", href="/inbox")),
        )
    ]
    if upstreams.ok:
        rows = [(entry.get("name"), parts.state(entry.get("state"))) for entry in upstreams.entries("upstreams")]
        body.append(parts.section("Servers", parts.table("Servers behind this host", ("Name", "State"), rows)))
    else:
        body.append(parts.refused("Servers", upstreams))
    return View(title="Now", body=body)
