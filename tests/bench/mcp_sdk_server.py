"""The comparison: the official MCP SDK's stateless Streamable HTTP server doing a trivial tool call over TLS."""

from __future__ import annotations

import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("trivial", log_level="ERROR")


@server.tool()
def echo(text: str) -> str:
    """Return the text."""
    return text


def main() -> None:
    certificate, key, port = sys.argv[1:4]
    app = server.streamable_http_app(stateless_http=True, json_response=True)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(port),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="error",
        access_log=False,
    )


if __name__ == "__main__":
    main()
