"""Show the configuration in force, with secrets masked; nothing is ever written."""

from __future__ import annotations

from twisted.web.template import tags

from agtphost.page import parts
from agtphost.page.asking import together
from agtphost.page.layout import View
from agtphost.page.visit import Visit


async def draw(visit: Visit) -> View:
    """Show each section as in the file."""
    (reply,) = await together(visit.ask.inspect("configuration"))
    if not reply.ok:
        return View(title="Config", body=[parts.refused("Not shown", reply)])
    intro = tags.p(
        "Read from ",
        tags.code(str(reply.result.get("file"))),
        " when the host started. Copy what you want to change into the file; ",
        tags.code("agtp check"),
        " says whether it is sound, and a restart applies it.",
    )
    sections = [
        parts.section(f"[{entry.get('name')}]", parts.code(str(entry.get("toml"))))
        for entry in reply.entries("sections")
    ]
    return View(title="Config", body=[intro, *sections])
