"""Servers and clients from the npm registry, on both ends of the bridge."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext

from tests import forking
from tests.npm import document, node, program
from tests.programmes import length
from tests.rows import each_row
from tests.system.bridging import http_bridge, stdio
from tests.system.hosting import Host, running, sample
from tests.system.trail import database, stored, verified

pytestmark = [pytest.mark.npm, pytest.mark.slow, pytest.mark.timeout(400)]

INSPECTOR = ("@modelcontextprotocol/inspector", "clients/launcher/build/index.js", "2.12.0")


ERAS, TRANSPORTS = ("legacy", "2026-07-28"), ("stdio", "http")

ASKING = (
    "everything__trigger-sampling-request",
    "everything__trigger-elicitation-request",
    "everything__get-roots-list",
)
"""Tools of server-everything that ask the client; it has them for clients that can answer."""


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

[[mcp.server]]
name = "disk"
command = [{json.dumps(program("mcp-server-filesystem"))}, {json.dumps(str(folder))}]

[[mcp.server]]
name = "memory"
command = ["node", {json.dumps(str(memory))}]
env = {{ MEMORY_FILE_PATH = {json.dumps(str(folder / "memory.jsonl"))} }}
"""
    with running(sample(tmp_path_factory.mktemp("npm"), append=servers)) as host:
        yield host


def said(result: types.CallToolResult) -> str:
    """The texts of a tool's answer."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


@pytest.mark.release
@pytest.mark.programme
@each_row("era, transport", length([*zip(ERAS, TRANSPORTS, strict=True)], [*product(ERAS, TRANSPORTS)]))
def test_the_official_client_drives_three_servers(era: str, transport: str, host: Host, folder: Path) -> None:
    """
    server-everything, -filesystem and -memory, in both eras and over both transports, with all that they have.

    Shortened, each era has one of the transports; test_bridge_matrix.py has all four, with another server.
    """
    steps: list[float] = []
    asked: list[str] = []

    async def sampled(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        asked.append("sampling")
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text="from the model"), model="m"
        )

    async def elicited(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append("elicitation")
        return types.ElicitResult(action="decline")

    async def rooted(context: ClientRequestContext) -> types.ListRootsResult:
        asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri=folder.as_uri())])  # type: ignore[arg-type]

    async def step(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async def story(url: str | None) -> None:
        where: Any = stdio(host) if url is None else url
        options: Any = {"sampling_callback": sampled, "elicitation_callback": elicited, "list_roots_callback": rooted}
        async with Client(where, mode=era, **options) as mcp:
            names = {tool.name for tool in (await mcp.list_tools()).tools}
            assert {"everything__echo", "disk__read_text_file", "memory__create_entities"} <= names
            for name in ASKING:
                await mcp.call_tool(name, {"prompt": "?"} if "sampling" in name else {})
            assert set(asked) == {"sampling", "elicitation", "roots"}
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
            assert (await mcp.list_resource_templates()).resource_templates

    with ExitStack() as stack:
        url = stack.enter_context(http_bridge(host)).url if transport == "http" else None
        anyio.run(story, url)
    assert verified(host, stored(database(host))).faults == []


def inspect(host: Host, where: Sequence[str], *words: str) -> dict[str, Any]:
    """Run the MCP Inspector's command line against the bridge: a command that it starts, or a URL."""
    done = subprocess.run(
        [str(node()), str(document(*INSPECTOR)), "--cli", *where, *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=host.config.parent,
        env={**os.environ, "PATH": f"{node().parent}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_drives_three_servers(transport: str, host: Host, folder: Path) -> None:
    """
    The Inspector's CLI lists all there is, and calls one tool of each server; each answer has its Audit-ID.

    Shortened, it lists the tools over each transport and calls one; the official client, above, has all the rest of the
    same three servers.
    """
    with ExitStack() as stack:
        where: Sequence[str] = (f"{forking.path()}/agtp", "mcp-bridge")
        if transport == "http":
            where = (stack.enter_context(http_bridge(host)).url, "--transport", "http")
        inspected(host, where, folder, calls=length(1, 3))


def inspected(host: Host, where: Sequence[str], folder: Path, *, calls: int) -> None:
    """Everything that the Inspector's CLI can do, where it makes all calls; with one, tools alone."""
    tools = inspect(host, where, "--method", "tools/list")
    names = {tool["name"] for tool in tools["tools"]}
    assert {"everything__echo", "disk__read_text_file", "memory__create_entities", "query_library"} <= names
    if calls > 1:
        inspected_lists(host, where)
    known: tuple[tuple[str, list[str], str], ...] = (
        ("everything__get-sum", ["a=2", "b=3"], "5"),
        ("disk__read_text_file", [f"path={folder / 'note.txt'}"], "read through the bridge"),
        ("memory__read_graph", [], "entities"),
    )
    recorded = set()
    wanted = known[:calls]
    for name, arguments, expected in wanted:
        words = ["--method", "tools/call", "--tool-name", name]
        for argument in arguments:
            words += ["--tool-arg", argument]
        answer = inspect(host, where, *words)
        assert expected in json.dumps(answer["content"])
        meta = answer["_meta"]
        assert isinstance(meta, dict)
        recorded.add(meta["agtp/audit-id"])
    assert len(recorded) == len(wanted)
    assert recorded <= {record.audit_id for record in stored(database(host))}


def inspected_lists(host: Host, where: Sequence[str]) -> None:
    """What it lists and reads besides tools."""
    resources = inspect(host, where, "--method", "resources/list")["resources"]
    assert resources
    got = inspect(host, where, "--method", "prompts/get", "--prompt-name", "everything__simple-prompt")
    assert got["messages"]
    read = inspect(host, where, "--method", "resources/read", "--uri", resources[0]["uri"])
    assert read["contents"]
    assert inspect(host, where, "--method", "resources/templates/list")["resourceTemplates"]
    prompts = inspect(host, where, "--method", "prompts/list")["prompts"]
    assert "everything__simple-prompt" in {prompt["name"] for prompt in prompts}
