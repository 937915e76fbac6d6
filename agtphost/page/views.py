"""Map paths to views."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.page import (
    agents,
    call,
    call_list,
    chains,
    configuration,
    contracts,
    decision_view,
    inbox,
    overview,
    sessions,
    tool_view,
    tools,
)
from agtphost.page.page_visit import Draw

VIEWS: Mapping[str, Draw] = {
    "/": overview.draw,
    "/inbox": inbox.draw,
    "/calls": call_list.draw,
    "/agents": agents.draw,
    "/sessions": sessions.draw,
    "/tools": tools.draw,
    "/evidence": chains.draw,
    "/can": decision_view.draw,
    "/contracts": contracts.draw,
    "/config": configuration.draw,
}
"""Views by path."""

ITEM_VIEWS: Mapping[str, Draw] = {"/calls": call.draw, "/agents": agents.draw_one, "/tools": tool_view.draw}
"""Views of one item each, by the path before its identifier."""


def find_view(path: str) -> tuple[Draw, str] | None:
    """Return the view of a path, and the identifier of its item; None without a view."""
    view = VIEWS.get(path)
    if view is not None:
        return view, ""
    home, _, rest = path.rpartition("/")
    single = ITEM_VIEWS.get(home)
    return None if single is None or not rest else (single, rest)
