"""Show what proves the decisions: the last verification, a verification in the browser, and the export."""

from __future__ import annotations

from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.evidence import HOST
from agtphost.page.page_visit import PageVisit
from agtphost.page.value_text import ago


async def draw(visit: PageVisit) -> Tag:
    """Return the section; decisions are records of the host's own chain."""
    reply = await visit.ask.ask("QUERY", "/verifications")
    said = reply.result.get("verification")
    content: list[Any] = [tags.p("Each question and each decision is a signed record of the host's own chain.")]
    if isinstance(said, dict):
        outcome = "verified" if said.get("verified") is True else "does not verify"
        when = f"{said.get('stated_at')}, {ago(said.get('stated_at'))} ago, {said.get('records')} records"
        content.append(elements.facts((("Last audit verify", tags.span(elements.state(outcome), f" {when}")),)))
    content += [
        # The script adds its button here: it verifies in this browser.
        tags.div(**{"data-verify-range": HOST}),
        tags.form(
            tags.input(type="hidden", name="chain", value=HOST),
            tags.p(tags.button("Export the records", type="submit"), class_="buttons"),
            method="get",
            action="/evidence/export",
            **{"aria-label": "Export the host's chain"},
        ),
        tags.p(
            "The export verifies without the host: ",
            tags.code("agtp audit verify --file"),
            ". All chains are under ",
            tags.a("Evidence", href="/evidence"),
            ".",
        ),
    ]
    return elements.section("Evidence of decisions", *content)
