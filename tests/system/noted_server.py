"""A server on the official SDK whose resources say whose they are: ``noted_server.py NAME``."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer
from mcp_types import ResourceLink

NAME = sys.argv[1]
server = MCPServer(NAME)


@server.resource("note://shared")
def shared() -> str:
    """One that every such server has."""
    return f"shared of {NAME}"


@server.resource(f"note://{NAME}/own")
def own() -> str:
    """One that no other has."""
    return f"own of {NAME}"


@server.resource("note://{number}/numbered")
def numbered(number: str) -> str:
    """One of many, after a template that every such server has."""
    return f"{number} of {NAME}"


@server.tool(structured_output=False)
def link() -> list[ResourceLink]:
    """Link a resource that is in no list."""
    return [ResourceLink(uri="note://7/numbered", name="seven")]


server.run("stdio")
