"""A server on the official SDK that tells of changes: a tool that comes, and resources that were written."""

from __future__ import annotations

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("telling")


@server.resource("note://one")
def one() -> str:
    """One note."""
    return "one"


@server.resource("note://two")
def two() -> str:
    """Another note."""
    return "two"


@server.tool()
async def grow(context: Context) -> str:
    """Add a tool, and say so."""
    server.add_tool(lambda: "grown", name="grown", description="New.")
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def write(uri: str, context: Context) -> str:
    """Say that a note was written."""
    await context.notify_resource_updated(uri)
    await context.session.send_resource_updated(uri)
    return "written"


server.run("stdio")
