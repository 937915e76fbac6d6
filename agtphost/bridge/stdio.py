"""The bridge on stdin and stdout: what a desktop client starts."""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server


async def serve(server: Server[Any]) -> None:
    """Serve one client until it closes stdin."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
