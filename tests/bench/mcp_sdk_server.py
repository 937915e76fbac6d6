"""
The official MCP SDK's Streamable HTTP server doing a trivial tool call over TLS: ``CERT KEY PORT best|default``.

Its best mode has no sessions and answers JSON; the default one has sessions and answers with streams of events.
"""

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
    certificate, key, port, mode = sys.argv[1:5]
    best = mode == "best"
    app = server.streamable_http_app(stateless_http=best, json_response=best)
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
