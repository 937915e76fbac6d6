"""A server on the SDK with a tool that waits; ``waiting_server.py FIFO`` writes when a call begins and ends."""

from __future__ import annotations

import os
import sys
import time

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("waiting")
told = os.open(sys.argv[1], os.O_WRONLY)


def tell(what: str) -> None:
    """Write what happened, and when by the clock that all processes of a machine share."""
    os.write(told, f"{what} {time.monotonic()}\n".encode())


@server.tool()
async def wait() -> None:
    """Wait until the call is cancelled."""
    tell("begun")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        tell("cancelled")
        raise


if __name__ == "__main__":
    server.run()
