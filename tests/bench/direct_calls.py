"""
Clients that call the sample's MCP server directly, in a process of their own: the host's peer, and the official SDK's.

``python -m tests.bench.direct_calls peer|sdk`` starts the server; each line of its input is a number of calls to make,
one after the other, and each line of its output the seconds that each took.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable

from tests import forking
from tests.system.hosting import ETC

TOOL, ARGUMENTS = "list_files", {"folder": "."}


def command() -> list[str]:
    """Return the command of the sample's server, whose start is no part of what is measured."""
    return forking.mcp_server(ETC / "mcp/files_server.py", ETC / "mcp/files")


Call = Callable[[], Awaitable[object]]


async def timed(call: Call, times: int) -> list[float]:
    """Seconds of each of so many calls."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - begun)
    return taken


def answer(taken: list[float]) -> None:
    """One line."""
    print(json.dumps(taken), flush=True)


def peer() -> None:
    """The host's own peer, without a host around it."""
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred, ensureDeferred
    from twisted.internet.stdio import StandardIO
    from twisted.protocols.basic import LineOnlyReceiver

    from agtphost.adapters.mcp.server import McpServer
    from agtphost.config.upstreams import MCPServerSection

    running = reactor
    server = McpServer(running, MCPServerSection(name="files", command=tuple(command())), os.environ)

    async def call() -> None:
        result = await server.call_tool(TOOL, ARGUMENTS, {}, 30.0)
        assert not result.get("isError"), result

    class Orders(LineOnlyReceiver):
        delimiter = b"\n"

        def lineReceived(self, line: bytes) -> None:
            measuring: Deferred[list[float]] = ensureDeferred(self.measured(int(line)))
            measuring.addCallback(answer)
            measuring.addErrback(lambda failure: (failure.printTraceback(), running.stop()))  # type: ignore[attr-defined]

        async def measured(self, times: int) -> list[float]:
            await server.wait_until_up()
            return await timed(call, times)

        def connectionLost(self, reason: object = None) -> None:
            server.stopService().addBoth(lambda _: running.stop())  # type: ignore[attr-defined]

    StandardIO(Orders())
    server.startService()
    running.run()  # type: ignore[attr-defined]


async def sdk() -> None:
    """The official SDK's client."""
    from mcp import Client, StdioServerParameters

    program, *words = command()
    parameters = StdioServerParameters(command=program, args=words)
    async with Client(parameters) as client:

        async def call() -> None:
            result = await client.call_tool(TOOL, ARGUMENTS)
            assert not result.is_error, result

        while line := await asyncio.to_thread(sys.stdin.readline):
            answer(await timed(call, int(line)))


if __name__ == "__main__":
    if sys.argv[1] == "peer":
        peer()
    else:
        asyncio.run(sdk())
