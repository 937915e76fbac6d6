"""An MCP server on the official SDK with one tool, one prompt, two resources and a template."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("offering")


@server.tool()
def send() -> str:
    """Send it."""
    return "sent"


@server.prompt()
def summarize() -> str:
    """Ask for a summary."""
    return "Summarize."


@server.resource("note://inbox")
def inbox() -> str:
    """What came."""
    return "inbox"


@server.resource("note://other")
def other() -> str:
    """What else there is."""
    return "other"


@server.resource("note://box/{number}")
def box(number: str) -> str:
    """One box of many."""
    return f"box {number}"


server.run("stdio")
