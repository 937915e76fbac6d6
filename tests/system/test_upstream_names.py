"""An MCP server that has the name of a method, as the well-known server ``fetch`` does, on every surface."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.system.fronting import front, token_of, write_tokens
from tests.system.hosting import free_port, running, sample

GATEWAY = """
[gateway]
listen = "tcp:{}:interface=127.0.0.1"
"""


def test_a_server_named_like_a_method_is_reached_by_every_door(tmp_path: Path) -> None:
    """AGTP by its path and by the name of the tool, its own door of the MCP front, and the gateway."""
    ports = [free_port(), free_port()]
    config = sample(
        tmp_path,
        edit=[('name = "files"', 'name = "fetch"')],
        append=front(ports[0], {"one": "demo"}) + GATEWAY.format(ports[1]),
        eager=True,
    )
    write_tokens(config.parent, {"one": "demo"})

    async def through_the_front() -> tuple[list[str], Any]:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token_of('one')}"}, timeout=30)
        address = f"http://127.0.0.1:{ports[0]}/mcp/fetch"
        async with Client(streamable_http_client(address, http_client=http)) as client:
            listed = await client.list_tools()
            return [tool.name for tool in listed.tools], await client.call_tool("list_files", {})

    def through_the_gateway() -> Any:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{ports[1]}/tools/fetch/list_files",
            data=b"{}",
            headers={"Authorization": f"Bearer {token_of('one')}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)

    with running(config) as host:
        for path, tool in (("/mcp/fetch", "list_files"), ("/", "fetch.list_files")):
            given = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json"}
            words = ["call", "-", "EXECUTE", path, *(f"{name}={value}" for name, value in given.items())]
            done = host.agtp(*words, f'payload:={{"tool": "{tool}"}}', "--as", "demo", "--json")
            assert done.returncode == 0 and "welcome.txt" in done.stdout, done.stdout + done.stderr
        tools, found = asyncio.run(through_the_front())
        assert "list_files" in tools and not found.is_error and "welcome.txt" in [each.text for each in found.content]
        assert "welcome.txt" in json.dumps(through_the_gateway())
