"""A server on the official SDK whose tool is as a file says: ``changing_server.py FILE``; ``leave`` ends it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("changing")


@server.tool(description=Path(sys.argv[1]).read_text(), structured_output=False)
def work(amount: int) -> str:
    """Described by the file."""
    return f"worked {amount}"


@server.tool()
def leave() -> str:
    """End, without an answer."""
    os._exit(3)


server.run()
