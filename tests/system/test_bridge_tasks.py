"""Tools that work as tasks alone, through the bridge: how far they are reaches whoever asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.npm import document, node
from tests.rows import each_row
from tests.system.bridging import http_bridge, stdio
from tests.system.hosting import Host, running, sample

pytestmark = [pytest.mark.npm, pytest.mark.slow, pytest.mark.timeout(240)]

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Such a server on the official SDK for TypeScript; the one for Python makes no tasks of 2025-11-25 any more."""
    sdk = document("@modelcontextprotocol/sdk", "package.json").parent
    command = [str(node()), str(HERE / "task_server.mjs"), str(sdk)]
    servers = f'\n[[mcp.server]]\nname = "tasks"\ncommand = {json.dumps(command)}\n'
    with running(sample(tmp_path_factory.mktemp("tasks"), append=servers)) as host:
        yield host


@each_row("transport", ["stdio", "http"])
@each_row("mode", ["legacy", "2026-07-28"])
def test_progress_of_a_task_reaches_whoever_asked(host: Host, mode: str, transport: str) -> None:
    """Every step, though the request that had the token was answered with the task; calls at once keep theirs apart."""

    async def story(where: Any) -> None:
        async with Client(where, mode=mode) as mcp:
            steps: dict[int, list[tuple[float, float | None, str | None]]] = {0: [], 1: []}

            async def call(which: int) -> None:
                async def step(progress: float, total: float | None, message: str | None) -> None:
                    steps[which].append((progress, total, message))

                result = await mcp.call_tool("tasks__work", {}, progress_callback=step)
                assert not result.is_error and "worked" in str(result.content), result

            async with anyio.create_task_group() as both:
                both.start_soon(call, 0)
                both.start_soon(call, 1)
            told = [(float(at), 3.0, f"step {at}") for at in (1, 2, 3)]
            assert steps == {0: told, 1: told}
            assert "worked" in str((await mcp.call_tool("tasks__work", {})).content)

    if transport == "stdio":
        anyio.run(story, stdio(host))
        return
    with http_bridge(host) as bridge:
        anyio.run(story, bridge.url)
