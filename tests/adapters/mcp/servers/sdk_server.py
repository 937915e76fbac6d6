"""
A well-behaved server on the official SDK: ``sdk_server.py stdio``, or ``sdk_server.py http`` on a free
port.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

server = MCPServer("fixture", version="1.2.3")
calls: list[str] = []


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(title="Said again", annotations=ToolAnnotations(destructive_hint=False))
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def fail(reason: str) -> str:
    """Fail."""
    raise ToolError(reason)


@server.tool()
async def sleep(seconds: float) -> str:
    """Sleep, and remember having finished."""
    calls.append("began")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        calls.append("cancelled")
        raise
    calls.append("ended")
    return "slept"


@server.tool()
def history() -> list[str]:
    """What sleep remembers."""
    return calls


@server.tool()
def routed(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Has an argument that HTTP repeats as a header."""
    return region


@server.tool()
async def noisy(times: int, context: Context) -> str:
    """Report progress before answering."""
    for step in range(times):
        await context.report_progress(step, times, f"step {step}")
        await context.info(f"log {step}")
    return "done"


@server.tool()
async def grow(context: Context) -> str:
    """Add a tool, and say so."""
    server.add_tool(lambda: "grown", name="grown", description="New.")
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "ok"


@server.tool()
def die(code: int) -> str:
    """End the process at once."""
    os._exit(code)


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    app = server.streamable_http_app(json_response="json" in sys.argv)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    tls = {}
    if len(sys.argv) > 3 and sys.argv[2] == "tls":
        tls = {"ssl_certfile": sys.argv[3], "ssl_keyfile": sys.argv[4]}
    config = uvicorn.Config(app, log_level="warning", **tls)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
