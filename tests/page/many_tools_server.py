"""A server on the official SDK with as many tools as it is told: ``many_tools_server.py COUNT``."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("many")


def work(amount: int) -> str:
    """Work."""
    return f"worked {amount}"


for number in range(int(sys.argv[1])):
    server.add_tool(work, name=f"work-{number:03}", description=f"Works in the way {number}.")

server.run()
