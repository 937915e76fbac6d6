"""
What one tool call over HTTP costs, from the octets of its HTTP request to those of the answer.

As :mod:`tests.bench.tool_path`, whose host and played child it has; the surface is the gateway or the MCP front.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from twisted.internet.address import IPv4Address

from agtphost.http.clients import HttpClients, HttpClientToken
from agtphost.http.http_service import HTTP_LIMITS, HttpFactory
from agtphost.http.mounts import Mount, Mounts
from tests.bench.tool_path import ToolPath
from tests.http.test_mounts import Wire

TOKEN = "0123456789abcdef" * 2
PORT = 8080
HERE = IPv4Address("TCP", "127.0.0.1", PORT)
ARGUMENTS = {"folder": "."}
BEARER = f"Authorization: Bearer {TOKEN}"
LISTEN = f"tcp:{PORT}:interface=127.0.0.1"


class HttpPath(ToolPath):
    """The host of :class:`ToolPath`, called over HTTP."""

    environ = {"TOKEN": TOKEN}

    def __init__(self) -> None:
        super().__init__()
        limits = HTTP_LIMITS.model_copy(update={"requests_per_connection": 1_000_000})
        self._factory = HttpFactory(Mounts([self._mount()]), limits, self._host.clock)
        self._wires: list[tuple[Any, Any, bytes]] = []

    @abstractmethod
    def _mount(self) -> Mount:
        """Return the surface that is called."""

    @abstractmethod
    def _request(self, channel: Any, wire: Any) -> bytes:
        """Return the request that a new connection sends again and again."""

    def _clients(self, surface: str) -> HttpClients:
        client = HttpClientToken(name="tests", token=TOKEN, agent_id=self._caller.agent_id)
        return HttpClients(surface, keyholders=[client])

    def _connect(self) -> tuple[Any, Any, bytes]:
        channel: Any = self._factory.buildProtocol(HERE)
        wire: Any = Wire(hostAddress=HERE)
        channel.makeConnection(wire)
        return channel, wire, self._request(channel, wire)

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

    def answers(self, count: int) -> list[bytes]:
        """Return the bodies of the answers to so many calls at once."""
        self._begin(self.requests(count))
        self._end(self._child.answers())
        self._host.clock.settle()
        return [wire.value().partition(b"\r\n\r\n")[2] for _, wire, _ in self._wires[:count]]

    def statuses(self, count: int) -> list[int]:
        """As the answers say, each of which is the tool's."""
        found = []
        for _, wire, _ in self._wires[:count]:
            head, _, body = wire.value().partition(b"\r\n\r\n")
            assert b"notes.md" in body and b'"isError":true' not in body, wire.value()
            found.append(int(head.split()[1]))
        return found
