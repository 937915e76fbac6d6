"""Show the configuration in force, with secrets masked; nothing is ever written."""

from __future__ import annotations

from twisted.web.template import tags

from agtphost.page import elements
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import gather_replies


async def draw(visit: PageVisit) -> PageView:
    """Show each section as in the file."""
    (reply,) = await gather_replies(visit.ask.inspect("configuration"))
    if not reply.ok:
        return PageView(title="Config", body=[elements.refusal_section("Not shown", reply)])
    intro = tags.p(
        "Read from ",
        tags.code(str(reply.result.get("file"))),
        " when the host started. Copy what you want to change into the file; ",
        tags.code("agtp check"),
        " says whether it is sound, and a restart applies it.",
    )
    sections = [
        elements.section(f"[{entry.get('name')}]", elements.code(str(entry.get("toml"))))
        for entry in reply.entries("sections")
    ]
    return PageView(title="Config", body=[intro, *sections])
