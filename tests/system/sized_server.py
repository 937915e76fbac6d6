"""
A server on the official SDK whose one tool answers with a text of a given size, over stdio or HTTP.

``sized_server.py stdio``, ``sized_server.py http`` (streams) and ``sized_server.py http json``; over HTTP the first
line of its output is the port.
"""

from __future__ import annotations

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

LINE = 'x = "the quick brown fox"  # and so on\n'


def text(octets: int) -> str:
    """A text whose JSON has about so many octets, with things to escape in it."""
    line = len(LINE.encode()) + 3  # Two quotation marks and a newline are escaped.
    return LINE * (octets // line) + "." * (octets % line)


def main() -> None:
    server = MCPServer("sized")
    server.tool(structured_output=False)(text)
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    app = server.streamable_http_app(json_response="json" in sys.argv)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
