"""An MCP server on the official SDK whose tools answer with the ``_meta`` of their own request."""

from __future__ import annotations

import json

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("meta")


@server.tool(structured_output=False)
def meta(context: Context, secret: str = "") -> str:  # type: ignore[type-arg]
    """What this request says of itself."""
    return json.dumps(dict(context.request_context.meta or {}), default=str)


@server.resource("note://{name}/tell-no-one")
def note(name: str) -> str:
    """A note."""
    return f"the note {name}"


@server.tool(structured_output=False)
def broken(context: Context) -> str:  # type: ignore[type-arg]
    """Fail."""
    raise ValueError("it is broken")


server.run("stdio")
