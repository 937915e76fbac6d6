"""Servers and clients from the npm registry, on both ends of the bridge."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import mcp_types as types
import pytest
from mcp import Client

from tests.npm import document, node, program
from tests.system.bridging import stdio
from tests.system.hosting import BIN, Host, running, sample
from tests.system.trail import LAZY, database, stored, verified

pytestmark = [pytest.mark.npm, pytest.mark.slow, pytest.mark.timeout(400)]

INSPECTOR = ("@modelcontextprotocol/inspector", "clients/launcher/build/index.js", "2.12.0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the filesystem server may read."""
    folder = tmp_path_factory.mktemp("shared").resolve()
    (folder / "note.txt").write_text("read through the bridge")
    return folder


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Host]:
    """server-everything, server-filesystem and server-memory in one host."""
    memory = document("@modelcontextprotocol/server-memory", "dist/index.js")
    servers = f"""
[[mcp.server]]
name = "everything"
command = [{json.dumps(program("mcp-server-everything"))}]
isolation = "per-session"
resource_scopes = ["mcp:tools:execute"]
prompt_scopes = ["mcp:tools:execute"]

[[mcp.server]]
name = "disk"
command = [{json.dumps(program("mcp-server-filesystem"))}, {json.dumps(str(folder))}]

[[mcp.server]]
name = "memory"
command = ["node", {json.dumps(str(memory))}]
env = {{ MEMORY_FILE_PATH = {json.dumps(str(folder / "memory.jsonl"))} }}
"""
    with running(sample(tmp_path_factory.mktemp("npm"), edit=(LAZY,), append=servers)) as host:
        yield host


def said(result: types.CallToolResult) -> str:
    """The texts of a tool's answer."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_the_official_client_drives_three_servers(era: str, host: Host, folder: Path) -> None:
    """server-everything, server-filesystem and server-memory, in both eras, with progress, prompts and resources."""
    steps: list[float] = []

    async def step(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async def story() -> None:
        async with Client(stdio(host), mode=era) as mcp:  # type: ignore[arg-type]
            names = {tool.name for tool in (await mcp.list_tools()).tools}
            assert {"everything__echo", "disk__read_text_file", "memory__create_entities"} <= names
            assert "as it is" in said(await mcp.call_tool("everything__echo", {"message": "as it is"}))
            await mcp.call_tool(
                "everything__trigger-long-running-operation", {"duration": 1, "steps": 4}, progress_callback=step
            )
            assert steps == sorted(steps) and len(steps) >= 4
            read = await mcp.call_tool("disk__read_text_file", {"path": str(folder / "note.txt")})
            assert said(read) == "read through the bridge"
            entity = {"name": f"bridge-{era}", "entityType": "thing", "observations": ["it relays"]}
            await mcp.call_tool("memory__create_entities", {"entities": [entity]})
            assert f"bridge-{era}" in said(await mcp.call_tool("memory__read_graph", {}))
            prompts = [prompt.name for prompt in (await mcp.list_prompts()).prompts]
            assert "everything__simple-prompt" in prompts
            assert (await mcp.get_prompt("everything__simple-prompt")).messages
            resources = (await mcp.list_resources()).resources
            assert resources
            assert (await mcp.read_resource(str(resources[0].uri))).contents

    anyio.run(story)
    assert verified(host, stored(database(host))).faults == []


def inspect(host: Host, *words: str) -> dict[str, object]:
    """Run the MCP Inspector's command line against the bridge."""
    done = subprocess.run(
        [str(node()), str(document(*INSPECTOR)), "--cli", str(BIN / "agtp"), "mcp-bridge", *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=host.config.parent,
        env={**os.environ, "PATH": f"{node().parent}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_inspector_drives_three_servers(host: Host, folder: Path) -> None:
    """The Inspector's CLI lists all tools and calls one of each server; each answer has its Audit-ID."""
    tools = inspect(host, "--method", "tools/list")
    assert "everything__echo" in json.dumps(tools)
    calls = (
        ("everything__get-sum", ["a=2", "b=3"], "5"),
        ("disk__read_text_file", [f"path={folder / 'note.txt'}"], "read through the bridge"),
        ("memory__read_graph", [], "entities"),
    )
    recorded = set()
    for name, arguments, expected in calls:
        words = ["--method", "tools/call", "--tool-name", name]
        for argument in arguments:
            words += ["--tool-arg", argument]
        answer = inspect(host, *words)
        assert expected in json.dumps(answer["content"])
        meta = answer["_meta"]
        assert isinstance(meta, dict)
        recorded.add(meta["agtp/audit-id"])
    assert len(recorded) == 3
    assert recorded <= {record.audit_id for record in stored(database(host))}
