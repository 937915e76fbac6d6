"""Paths of hosted tools over HTTP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary.tool_paths import DOTS, LONGEST_NAME, ToolPath, is_tool_path, parse_tool_path, tool_path

NAMES = st.text(min_size=1, max_size=LONGEST_NAME).filter(lambda name: name.isprintable() and name not in DOTS)


@given(NAMES, NAMES)
def test_a_path_names_the_tool_it_was_written_for(server: str, tool: str) -> None:
    """Whatever the names are, reading a path gives them back, and it has three segments of plain ASCII."""
    path = tool_path(server, tool)
    assert path is not None and path.isascii() and path.count("/") == 3 and is_tool_path(path)
    assert parse_tool_path(path) == ToolPath(server=server, tool=tool)
    assert parse_tool_path(f"/agents/desk{path}") == ToolPath(server=server, tool=tool, agent="desk")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/tools",
            "/tools/",
            "/tools/files",
            "/tools/files/",
            "/tools//read",
            "/tools/files/a/b",
            "/Tools/files/read",
        ),
        *("/tools/files/..", "/tools/files/%2E%2E", "/tools/%2e/read", "/tools/files/%FF", "/tools/files/%00"),
        *("/tools/files/a%0Ab", f"/tools/files/{'x' * (LONGEST_NAME + 1)}", "/x/tools/files/read"),
        *("/agents/tools/files/read", "/agents/desk/x/files/read", "/tools/files/%E2%80%AE"),
    ],
)
def test_a_path_that_is_no_tools_names_none(path: str) -> None:
    """Other shapes, names that no tool has, and names that are no UTF-8."""
    assert parse_tool_path(path) is None


@pytest.mark.parametrize("names", [("files", ".."), ("files", "."), (".", "read"), ("", "read"), ("files", "")])
def test_a_tool_that_clients_cannot_name_has_no_path(names: tuple[str, str]) -> None:
    """Clients take dot segments out of a path, also where they are encoded."""
    assert tool_path(*names) is None
