"""Entries of a manifest as tools, and where calls of them go."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.client.mcp.endpoints import EndpointTool, tools_of
from agtphost.client.mcp.names import shown_name
from tests.rows import each_row


def entry(method: str = "QUERY", path: str = "/library/{isbn}", **members: Any) -> dict[str, Any]:
    """An endpoint as a manifest shows it."""
    return {
        "method": method,
        "path": path,
        "description": "Returns the book.",
        "semantic": {"intent": "Look up a book.", "impact": "informational", "is_idempotent": True},
        "input_schema": {"type": "object", "properties": {}},
        "output_schema": {"type": "object"},
        "errors": ["book_unknown"],
        "required_scopes": ["documents:query"],
        **members,
    }


def tool(path: str) -> EndpointTool:
    """The tool of one endpoint."""
    (found,) = tools_of([entry(path=path)])
    return found


def test_an_endpoint_is_a_tool() -> None:
    """AGIS-068, AGIS-069, AGIS-070, AGIS-071: name, description, schema; nothing of output, errors, confidence."""
    definition = tool("/library/{isbn}").definition
    assert (definition["name"], definition["description"]) == ("query_library", "Look up a book.")
    assert definition["inputSchema"] == {
        "type": "object",
        "properties": {"isbn": {"type": "string"}},
        "required": ["isbn"],
    }
    assert definition["annotations"] == {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    assert definition["_meta"]["agtp/required-scopes"] == ["documents:query"]
    assert set(definition) == {"name", "title", "description", "inputSchema", "annotations", "_meta"}


@each_row(
    "broken",
    [
        None,
        "QUERY /x",
        {},
        {"method": "QUERY"},
        {"method": 1, "path": "/x"},
        {"method": "QUERY", "path": "no-slash"},
        {"method": "QUERY", "path": "/{"},
        {"method": "QUERY", "path": "/x", "input_schema": []},
        {"method": "QUERY", "path": "/x", "semantic": "text"},
    ],
)
def test_what_is_no_endpoint_is_left_out(broken: Any) -> None:
    """A manifest is received, not trusted: the others stay."""
    assert [found.name for found in tools_of([broken, entry()])] == ["query_library"]
    assert tools_of(broken) == []


def test_a_name_never_meets_a_hosted_tool_s() -> None:
    """``query`` of a server ``fetch`` is ``fetch__query``; no endpoint is called so. The control: joined, it would."""
    assert shown_name("fetch._x") != "fetch___x"
    names = [found.name for found in tools_of([entry("FETCH", "/_x"), entry("FETCH", "/___"), entry("FETCH", "/x")])]
    assert len(set(names)) == 3
    assert not [name for name in names if "__" in name]


@each_row(
    ("path", "arguments", "place", "rest"),
    [
        ("/library/{isbn}", {"isbn": "1-2", "more": 1}, "/library/1-2", {"more": 1}),
        ("/a/{b}/c/{d}", {"b": "x/../y", "d": "ä?#%"}, "/a/x%2F..%2Fy/c/%C3%A4%3F%23%25", {}),
        ("/room/{number}", {"number": 7}, "/room/7", {}),
        ("/switch/{on}", {"on": True}, "/switch/true", {}),
        ("/", {"any": 1}, "/", {"any": 1}),
    ],
)
def test_arguments_of_the_path_go_into_it(
    path: str, arguments: dict[str, Any], place: str, rest: dict[str, Any]
) -> None:
    """Percent-encoded, so that none of them says more than one segment; the others are the input."""
    assert tool(path).place(arguments) == (place, rest)


@each_row("arguments", [{}, {"isbn": ""}, {"isbn": None}, {"isbn": ["1"]}, {"isbn": {"a": 1}}])
def test_an_argument_of_the_path_is_needed(arguments: dict[str, Any]) -> None:
    """What is missing, or no plain value, is said before anything is sent."""
    with pytest.raises(ValueError, match="isbn"):
        tool("/library/{isbn}").place(arguments)
