"""
What one tool call through the MCP front costs, from the octets of its HTTP request to those of the answer.

As :mod:`tests.bench.tool_path`, whose host and played child it has; ``python -m tests.bench.front_path``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from agtphost.http.mounts import Mount
from agtphost.mcp.feature import McpFront
from agtphost.mcp.front import McpFrontResource
from agtphost.vocabulary.mount_paths import MountPath
from tests.bench import mcp_requests
from tests.bench.http_path import ARGUMENTS, BEARER, LISTEN, PORT, HttpPath
from tests.host.carried import carried

OF_SESSIONS = (mcp_requests.ACCEPTED, BEARER)


class FrontPath(HttpPath):
    """
    The host of :class:`HttpPath`, called through its MCP front.

    :param session: whether calls are of the handshake era, in one session for each connection.
    :param name: of the tool, as clients say it.
    """

    settings = {
        "mcp": {"front": {"listen": LISTEN}},
        "http": {"client": [{"name": "tests", "token": "env:TOKEN", "agent": "caller"}]},
    }

    def __init__(self, *, session: bool = False, name: str = "files__list_files") -> None:
        super().__init__()
        self._session = session
        self._name = name

    def _mount(self) -> Mount:
        facts = replace(carried(self._host, "mcp", McpFront).facts, clients=self._clients("mcp"))
        front = McpFrontResource(facts, self._host.dispatcher, self._host.clock)
        return Mount(surface="mcp", path=MountPath("/mcp"), resource=front)

    def _request(self, channel: Any, wire: Any) -> bytes:
        if not self._session:
            return mcp_requests.call(PORT, self._name, ARGUMENTS, BEARER)
        begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": mcp_requests.CLIENT}
        channel.dataReceived(mcp_requests.post(PORT, "/mcp", begin, *OF_SESSIONS))
        self._host.clock.settle()
        head = wire.value().partition(b"\r\n\r\n")[0].decode()
        named = next(line for line in head.split("\r\n") if line.lower().startswith("mcp-session-id"))
        wire.clear()
        params = {"name": self._name, "arguments": ARGUMENTS}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        fields = (*OF_SESSIONS, f"MCP-Protocol-Version: {mcp_requests.WITH_SESSIONS}", named)
        return mcp_requests.post(PORT, "/mcp", message, *fields)


def main() -> None:
    for session in (False, True):
        with FrontPath(session=session) as path:
            counted = path.function_calls()
            best = {at_once: min(path.calls(at_once) for _ in range(2000 // at_once)) for at_once in (1, 8)}
        era = mcp_requests.WITH_SESSIONS if session else mcp_requests.STATELESS
        said = ", ".join(
            f"{seconds * 1e6:.1f} us of CPU a call, {at_once} at once" for at_once, seconds in best.items()
        )
        sys.stdout.write(f"{era}: {said}; {counted:.1f} function calls\n")


if __name__ == "__main__":
    main()
