"""
What one tool call through the MCP front costs, from the octets of its HTTP request to those of the answer.

As :mod:`tests.bench.tool_path`, whose host and played child it has; ``python -m tests.bench.front_path``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from twisted.internet.address import IPv4Address

from agtphost.http.clients import HttpClients, HttpClientToken
from agtphost.http.http_service import HTTP_LIMITS, HttpFactory
from agtphost.http.mounts import Mount, Mounts
from agtphost.mcp.front import McpFrontResource
from agtphost.vocabulary.mount_paths import MountPath
from tests.bench import mcp_requests
from tests.bench.tool_path import ToolPath
from tests.http.test_mounts import Wire

TOKEN = "0123456789abcdef" * 2
PORT = 8080
HERE = IPv4Address("TCP", "127.0.0.1", PORT)
ARGUMENTS = {"folder": "."}
OF_SESSIONS = (mcp_requests.ACCEPTED, f"Authorization: Bearer {TOKEN}")


class FrontPath(ToolPath):
    """
    The host of :class:`ToolPath`, called through its MCP front.

    :param session: whether calls are of the handshake era, in one session for each connection.
    :param name: of the tool, as clients say it.
    """

    settings = {
        "mcp": {"front": {"listen": f"tcp:{PORT}:interface=127.0.0.1"}},
        "http": {"client": [{"name": "tests", "token": "env:TOKEN", "agent": "caller"}]},
    }
    environ = {"TOKEN": TOKEN}

    def __init__(self, *, session: bool = False, name: str = "files__list_files") -> None:
        super().__init__()
        facts: Any = self._host.core.mcp_front
        client = HttpClientToken(name="tests", token=TOKEN, agent_id=self._caller.agent_id)
        facts = replace(facts, clients=HttpClients("mcp", keyholders=[client]))
        front = McpFrontResource(facts, self._host.dispatcher, self._host.clock)
        mount = Mount(surface="mcp", path=MountPath("/mcp"), resource=front)
        limits = HTTP_LIMITS.model_copy(update={"requests_per_connection": 1_000_000})
        self._factory = HttpFactory(Mounts([mount]), limits, self._host.clock)
        self._session = session
        self._wires: list[tuple[Any, Any, bytes]] = []
        self._name = name

    def _connect(self) -> tuple[Any, Any, bytes]:
        channel: Any = self._factory.buildProtocol(HERE)
        wire: Any = Wire(hostAddress=HERE)
        channel.makeConnection(wire)
        if not self._session:
            said = mcp_requests.call(PORT, self._name, ARGUMENTS, OF_SESSIONS[1])
            return channel, wire, said
        begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": mcp_requests.CLIENT}
        channel.dataReceived(mcp_requests.post(PORT, "/mcp", begin, *OF_SESSIONS))
        self._host.clock.settle()
        head = wire.value().partition(b"\r\n\r\n")[0].decode()
        named = next(line for line in head.split("\r\n") if line.lower().startswith("mcp-session-id"))
        wire.clear()
        params = {"name": self._name, "arguments": ARGUMENTS}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        fields = (*OF_SESSIONS, f"MCP-Protocol-Version: {mcp_requests.WITH_SESSIONS}", named)
        return channel, wire, mcp_requests.post(PORT, "/mcp", message, *fields)

    def requests(self, count: int) -> list[Any]:
        """Each on a connection of its own, which the next calls use again."""
        while len(self._wires) < count:
            self._wires.append(self._connect())
        for _, wire, _ in self._wires:
            wire.clear()
        return self._wires[:count]

    def _begin(self, requests: list[Any]) -> None:
        for channel, _, octets in requests:
            channel.dataReceived(octets)
        self._host.clock.advance(0)

    def statuses(self, count: int) -> list[int]:
        """As the answers say, each of which is the tool's."""
        found = []
        for _, wire, _ in self._wires[:count]:
            head, _, body = wire.value().partition(b"\r\n\r\n")
            assert b"notes.md" in body and b'"isError":true' not in body, wire.value()
            found.append(int(head.split()[1]))
        return found


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
