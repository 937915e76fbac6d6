"""Servers from the npm registry, as their users run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytest_twisted

from agtphost.upstream.failures import ErrorAnswer
from tests.adapters.mcp.hosting import ENVIRON, hosted
from tests.npm import program

pytestmark = pytest.mark.npm


@pytest_twisted.ensureDeferred
async def test_server_everything_is_hosted() -> None:
    """AGTP-273: echo, sums, images and structured content of @modelcontextprotocol/server-everything."""
    command = (program("mcp-server-everything"), "stdio")
    async with hosted(command) as server:
        assert server.snapshot().version == "2025-11-25"
        assert (await server.call_tool("echo", {"message": "hi"}, {}, 10))["content"][0]["text"] == "Echo: hi"
        image = await server.call_tool("get-tiny-image", {}, {}, 10)
        assert {item["type"] for item in image["content"]} >= {"text", "image"}
        structured = await server.call_tool("get-structured-content", {"location": "Chicago"}, {}, 10)
        assert "temperature" in structured["structuredContent"]
        long = await server.call_tool("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, {}, 10)
        assert "completed" in long["content"][0]["text"]


@pytest_twisted.ensureDeferred
async def test_no_secret_of_the_host_reaches_a_server() -> None:
    """T-MC-80: get-env prints the whole environment of the process."""
    environ = {**ENVIRON, "AWS_SECRET_ACCESS_KEY": "canary", "PYTHONPATH": "canary", "LC_ALL": "canary"}
    async with hosted((program("mcp-server-everything"), "stdio"), environ=environ, env={"SEEN": "yes"}) as server:
        result = await server.call_tool("get-env", {}, {}, 10)
        assert json.loads(result["content"][0]["text"]) == {**ENVIRON, "SEEN": "yes"}


@pytest_twisted.ensureDeferred
async def test_server_filesystem_is_hosted(tmp_path: Path) -> None:
    """Writes and reads in its folder, and refuses what is outside, in its own words."""
    folder = str(tmp_path)
    async with hosted((program("mcp-server-filesystem"), folder)) as server:
        target = {"path": f"{folder}/a.txt"}
        await server.call_tool("write_file", {**target, "content": "ü"}, {}, 10)
        assert (await server.call_tool("read_text_file", target, {}, 10))["content"][0]["text"] == "ü"
        assert (await server.call_tool("read_text_file", {"path": "/etc/passwd"}, {}, 10))["isError"] is True
        with pytest.raises(ErrorAnswer):
            await server.call_tool("no_such_tool", {}, {}, 10)
