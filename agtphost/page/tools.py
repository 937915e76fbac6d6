"""The view "Tools": servers behind the host, what is off, and what they said last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import inbox, now, parts
from agtphost.page.asking import together
from agtphost.page.layout import View
from agtphost.page.visit import Visit
from agtphost.vocabulary.quantities import lasting

LINES = 50
"""Of what a server wrote to its standard error."""


async def draw(visit: Visit) -> View:
    """A table of them, what waits for approval, and each one's particulars."""
    (reply,) = await together(visit.ask.inspect("upstreams"))
    if not reply.ok:
        return View(title="Tools", body=[parts.refused("Not shown", reply)])
    entries = reply.entries("upstreams")
    waiting = now.changed(reply)
    definitions = await together(
        *(
            visit.ask.inspect("upstream-definition", upstream=name, name=what or None)
            for name, what in waiting[: inbox.CHANGED]
        )
    )
    heads = ("Name", "Protocol", "State", "Restarts", "Next attempt", "Latency", "Calls", "Failed", "Tools")
    body: list[Any] = [parts.table("Servers behind this host", heads, map(_row, entries), "There are none.")]
    body += [inbox.definition(visit, each, "/tools") for each in definitions]
    return View(title="Tools", body=[*body, *(_server(visit, entry) for entry in entries[: parts.ROWS])])


def _row(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    counted = entry.get("calls")
    counted = counted if isinstance(counted, dict) else {}
    latency, attempt = entry.get("latency"), entry.get("next_attempt_in")
    name = str(entry.get("name"))
    return (
        tags.a(name, href=f"#server-{parts.ident(name)}"),
        entry.get("protocol"),
        parts.state(entry.get("state")),
        entry.get("restarts"),
        f"in {lasting(attempt)}" if isinstance(attempt, (int, float)) else "-",
        f"{latency * 1000:.1f} ms" if isinstance(latency, (int, float)) and latency else "-",
        counted.get("ok"),
        counted.get("errors"),
        entry.get("tools", "-"),
    )


def _server(visit: Visit, entry: Mapping[str, Any]) -> Tag:
    name = str(entry.get("name"))
    lines = entry.get("stderr") or entry.get("log")
    plain = {
        key.replace("_", " "): value
        for key, value in entry.items()
        if key not in ("stderr", "log", "instances", "calls") and value not in (None, "", [], {}, ())
    }
    content: list[Any] = [parts.facts((key.capitalize(), value) for key, value in plain.items())]
    if isinstance(lines, list) and lines:
        content += [tags.h3("What it wrote last"), parts.code("\n".join(map(str, lines[-LINES:])))]
    details = tags.details(tags.summary("Particulars"), *content)
    form: list[Tag] = []
    if visit.may("operate"):
        known = f"{str(entry.get('protocol', '')).lower()}.{name}"
        buttons = (("restart", "Start anew"),)
        label = f"Start {name} anew"
        form = [parts.action("restart", visit.csrf, "/tools", {"upstream": known}, buttons=buttons, label=label)]
    return parts.section(name, details, *form, id=f"server-{parts.ident(name)}")
