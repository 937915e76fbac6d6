"""``/.well-known/agis.json``: what is on, and what nobody has said."""

from __future__ import annotations

from typing import Any

from agtphost.agis.summary import agis_summary
from tests.rows import each_row

FACTS: dict[str, Any] = {
    "service": "Rooms",
    "root": "agtp://rooms.example",
    "domain": None,
    "namespace": "rooms",
    "related": (),
    "endpoints": [("BOOK", "transaction", False)],
    "tools": False,
    "tools_list": None,
    "negotiable": False,
    "confirms": False,
    "data_classes": (),
    "anonymous": True,
    "version": "3",
}


@each_row(
    ("more", "protocols"),
    [
        ({}, ["request"]),
        ({"negotiable": True}, ["request", "negotiate"]),
        ({"confirms": True}, ["request", "confirm"]),
        ({"endpoints": [("FIND", "discovery", True)]}, ["request", "query"]),
        ({"endpoints": (), "tools": True}, ["request"]),
        ({"endpoints": ()}, []),
    ],
)
def test_protocols_are_those_that_are_on(more: dict[str, Any], protocols: list[str]) -> None:
    """AGIS-059: negotiate where endpoints can be, confirm where people approve calls, query where something reads."""
    assert agis_summary(**{**FACTS, **more})["interaction_protocols"] == protocols


def test_what_nobody_has_said_is_null() -> None:
    """AGIS-056: the domain; services that belong to it are those that the operator names."""
    found = agis_summary(**FACTS)
    assert found["domain"] is None and found["related_services"] == []
    assert agis_summary(**{**FACTS, "domain": "hotels"})["domain"] == "hotels"
    assert "mcp_tools_list" not in found, "AGIS-078: absent where no MCP client can list the tools"
    front = "https://rooms.example/mcp"
    assert agis_summary(**{**FACTS, "tools_list": front})["mcp_tools_list"] == front
