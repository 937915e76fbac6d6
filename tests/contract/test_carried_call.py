"""The EXECUTE that carries a tool's arguments is the same JSON, however often and by whichever name it is made."""

from __future__ import annotations

import json

import pytest

from agtphost.adapters.mcp.bindings import LONGEST_CACHED, tool_address
from agtphost.vocabulary.tool_paths import LONGEST_CACHED as LONGEST_PATH
from agtphost.vocabulary.tool_paths import LONGEST_NAME, ToolPath, parse_tool_path, tool_path

NAMES = ("list_files", 'quo"te', "nul\0", "arguments", "日本", "x" * LONGEST_CACHED, '","arguments":{}}}}')


@pytest.mark.parametrize("name", NAMES)
def test_a_body_has_the_names_and_the_arguments_of_its_call(name: str) -> None:
    """The second call, which takes what the first has made, has its own arguments."""
    for arguments in ({}, {"folder": "."}, {"text": 'a"\0 b', "arguments": {"deep": [1, 2]}}):
        call = tool_address("files", name).call
        body = call.body(json.dumps(arguments).encode())
        assert json.loads(body) == {"parameters": call.parameters(arguments)}
        assert json.loads(body)["parameters"]["payload"] == {
            "tool": f"files.{name}",
            "server": "files",
            "arguments": arguments,
        }


def test_names_that_run_together_are_not_taken_for_each_other() -> None:
    """An address is found by both names, not by their sum."""
    first, second = tool_address("a", "bc").call, tool_address("ab", "c").call
    assert first != second and first.body(b"{}") != second.body(b"{}")


@pytest.mark.parametrize("agent", ["", "alice", "a" * LONGEST_PATH])
@pytest.mark.parametrize("tool", ["read", "Read", "ein/aus", "日本", "x" * LONGEST_NAME])
def test_a_path_names_the_same_tool_each_time(tool: str, agent: str) -> None:
    """The first time as well as later, whether it is short enough to be remembered or not."""
    path = tool_path("files", tool)
    assert path is not None
    path = f"/agents/{agent}{path}" if agent else path
    for _ in range(2):
        assert parse_tool_path(path) == ToolPath(server="files", tool=tool, agent=agent)
        assert parse_tool_path(f"{path}x" * 2) is None
