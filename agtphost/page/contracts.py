"""Show negotiated contracts, and revoke them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.web.template import tags

from agtphost.page import elements
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import gather_replies


async def draw(visit: PageVisit) -> PageView:
    """Show a table with a form per row, and the sweep."""
    (reply,) = await gather_replies(visit.ask.ask("DISCOVER", "/contracts"))
    if not reply.ok:
        return PageView(title="Contracts", body=[elements.refusal_section("Not shown", reply)])
    rows = [
        (
            entry.get("synthesis_id"),
            f"{entry.get('method', '')} {entry.get('path', '')}",
            elements.state(entry.get("state")),
            entry.get("expires_at") or "-",
            elements.brief_agent(entry.get("originating_agent_id")),
            _revoke(visit, entry),
        )
        for entry in reply.entries("items")
    ]
    heads = ("Contract", "Call", "State", "Expires", "Agent", "Revoke")
    body: list[Any] = [elements.table("Contracts in force", heads, rows, "There are none.")]
    if visit.may("operate"):
        form = elements.action(
            "sweep", visit.csrf, "/contracts", {}, buttons=(("sweep", "Sweep"),), label="Sweep stale contracts"
        )
        said = tags.p("Contracts of edited recipes stay in force until they are swept.")
        body.append(elements.section("Sweep", said, form))
    return PageView(title="Contracts", body=body)


def _revoke(visit: PageVisit, entry: Mapping[str, Any]) -> Any:
    if not visit.may("operate"):
        return "-"
    known = str(entry.get("synthesis_id"))
    return elements.action(
        "revoke-contract",
        visit.csrf,
        "/contracts",
        {"synthesis_id": known},
        elements.reason(f"reason-{known}"),
        buttons=(("revoke", "Revoke"),),
        label=f"Revoke {known}",
    )
