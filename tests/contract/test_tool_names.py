"""Endpoints as MCP tools: AGIS v01 appendix C."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agtphost.contract.tool_names import (
    NamedEndpoint,
    distinct_tool_names,
    mcp_tool_name,
    tool_description,
    tool_input_schema,
)
from tests.rows import each_row

METHODS = st.sampled_from(["BOOK", "FETCH", "QUERY"])
PATHS = st.lists(st.sampled_from(["order", "orders", "{id}", "_x", "a-b", "Käse", "long" * 30]), max_size=3).map(
    lambda segments: "/" + "/".join(segments)
)
DECLARED = st.none() | st.sampled_from(["fetch_order", "make_it", "book_order_id"])
ENDPOINTS = st.lists(
    st.builds(
        lambda method, path, declared: NamedEndpoint(method=method, path=path, declared=declared),
        METHODS,
        PATHS,
        DECLARED,
    ),
    unique_by=lambda endpoint: endpoint.key,
    max_size=20,
)


@each_row(
    ("method", "path", "declared", "name"),
    [
        ("BOOK", "/reservation", None, "book_reservation"),
        ("BOOK", "/reservation", "make_reservation", "make_reservation"),
        ("BOOK", "/reservation/{id}/guests", None, "book_reservation"),
        ("PLAN", "/", None, "plan"),
        ("FETCH", "/{isbn}", None, "fetch_isbn"),
        ("QUERY", "/low-stock", None, "query_low-stock"),
        ("QUERY", "/Käse", None, "query_k_se"),
    ],
)
def test_the_name_is_declared_or_method_and_first_segment(
    method: str, path: str, declared: str | None, name: str
) -> None:
    """AGIS-068: rule (a), with what clients do not take replaced."""
    assert mcp_tool_name(method, path, declared) == name


def test_hints_are_appended_to_the_intent() -> None:
    """AGIS-069: rule (b), in the words of the draft's own example."""
    hints = {
        "party_size": ["number of guests", "for N people", "table for N"],
        "datetime": ["next Tuesday", "Saturday at 7"],
    }
    assert tool_description("Books a restaurant reservation on behalf of the agent", hints) == (
        "Books a restaurant reservation on behalf of the agent. Hints: party_size = ['number of guests', "
        "'for N people', 'table for N']; datetime = ['next Tuesday', 'Saturday at 7']"
    )
    assert tool_description("Books a room.") == "Books a room."
    assert tool_description("Books a room.", {"size": ["a 'suite'"]}) == "Books a room. Hints: size = ['a \\'suite\\'']"


def test_the_input_schema_is_the_endpoint_s_with_the_required_array() -> None:
    """AGIS-070: rule (c)."""
    schema = {"properties": {"size": {"type": "integer"}}, "required": ["size"], "additionalProperties": False}
    assert tool_input_schema(schema) == {"type": "object", **schema}
    assert tool_input_schema({"type": "object"}) == {"type": "object", "properties": {}, "required": []}


@given(ENDPOINTS, st.randoms())
def test_names_of_a_catalog_are_unique_and_depend_on_no_order(endpoints: list[NamedEndpoint], random: object) -> None:
    """AGIS-068: unique in the catalog, for every client, and the same however the endpoints are listed."""
    names = distinct_tool_names(endpoints)
    assert len(set(names.values())) == len(endpoints) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_-]{1,64}", name) for name in names.values())
    assert distinct_tool_names(list(reversed(endpoints))) == names
    declared = [endpoint.declared for endpoint in endpoints if endpoint.declared is not None]
    for endpoint in endpoints:
        if endpoint.declared is not None and declared.count(endpoint.declared) == 1:
            assert names[endpoint.key] == endpoint.declared


def test_names_that_would_meet_say_the_whole_path() -> None:
    """The control: by rule (a) alone, these two would be the same."""
    endpoints = [NamedEndpoint(method="FETCH", path=path) for path in ("/order", "/order/{id}")]
    assert len({mcp_tool_name(endpoint.method, endpoint.path) for endpoint in endpoints}) == 1
    assert distinct_tool_names(endpoints) == {"FETCH /order": "fetch_order", "FETCH /order/{id}": "fetch_order_id"}


def test_a_taken_name_is_nobody_s() -> None:
    """Whoever shows other tools too keeps theirs."""
    names = distinct_tool_names([NamedEndpoint(method="BOOK", path="/room")], lambda name: name == "book_room")
    assert re.fullmatch(r"book_room-[0-9a-f]{10}", names["BOOK /room"])
