"""The MCP bridge over both carriers: its messages of MCP at one end, the host's listener at the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred, succeed
from twisted.internet.testing import StringTransport

from agtphost.bridge.host_link import HostLink
from agtphost.bridge.stdio import StdioClient
from agtphost.mcp.server import Server
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire import Headers, Response
from tests.bridge.test_stdio import ENVELOPE
from tests.client.quic.test_blocking import QuicHost
from tests.client.quic.test_twisted import client_of, event
from tests.protocols.links import FakeDispatcher, reply
from tests.protocols.loopback import make_site

CANCELLED = 100


class Bridge:
    """A bridge on a stdin that a test writes."""

    def __init__(self, link: HostLink, reactor: Any) -> None:
        self.transport = StringTransport()
        self.server = Server(link, reactor, endpoints=False)
        self.client = StdioClient(self.server, reactor)
        self.client.makeConnection(self.transport)

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.client.dataReceived(json.dumps(message if number is None else {**message, "id": number}).encode() + b"\n")

    def call(self, number: int) -> None:
        self.send("tools/call", number, name="files__slow", arguments={}, _meta=ENVELOPE)

    @property
    def heard(self) -> list[Any]:
        return [json.loads(line) for line in self.transport.value().splitlines()]


class SlowTool(FakeDispatcher):
    """
    A host whose tool answers when ``is_quick`` says so.

    It notes the calls that their caller has left, or cancelled by a message; those it answers.
    """

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.is_quick = False
        self.begun = 0
        self.left: list[int] = []
        self._asked: dict[int, Any] = {}
        self._waiting: dict[str, tuple[int, Deferred[Response], Response]] = {}

    def _leave(self, number: int) -> None:
        if number not in self.left:
            self.left.append(number)

    def _answer(self, request: Any, peer: Any, interim: Any) -> Any:
        asked = jsontext.decode(request.body)["parameters"]
        if asked["action"] == "mcp.tools.call" and not self.is_quick:
            self.begun += 1
            peer.leaving.add(lambda number=self.begun: self._leave(number))
            waiting: Deferred[Response] = Deferred()
            cancelled = Response(status=499, headers=Headers(reply(request).headers), body=b"")
            self._asked[self.begun] = request
            self._waiting[request.headers.get("task-id")] = (self.begun, waiting, cancelled)
            return waiting
        if asked["action"] == "mcp.requests.cancel":
            number, waiting, cancelled = self._waiting.pop(asked["payload"]["task_id"])
            if number not in self.left:
                self.left.append(number)
                waiting.callback(cancelled)
        return succeed(self._done(request, asked["action"]))

    def _done(self, request: Any, action: str) -> Response:
        result = {
            "mcp.tools.list": {"tool_response": {"tools": []}},
            "mcp.tools.call": {"tool_response": {"content": [{"type": "text", "text": "done"}], "isError": False}},
        }.get(action, {})
        fields = [*reply(request).headers, ("Content-Type", media_types.AGTP_JSON)]
        body = jsontext.encode({"status": 200, "result": result})
        return Response(status=200, headers=Headers(fields), body=body)

    def finish_all(self) -> None:
        """Answer the calls that wait."""
        waiting, self._waiting = self._waiting, {}
        for number, answer, _ in waiting.values():
            answer.callback(self._done(self._asked[number], "mcp.tools.call"))


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("carrier", ["quic", "tls"])
async def test_a_cancelled_request_costs_the_bridge_no_connection(tmp_path: Path, carrier: str) -> None:
    """A hundred cancelled calls are known to the host, cost five handshakes at most, and the next call is answered."""
    from twisted.internet import reactor

    dispatcher = SlowTool()
    site = make_site(tmp_path)
    async with QuicHost(site, dispatcher) as host:
        client = client_of(site, quic=carrier == "quic")
        link = HostLink(client=client, clock=reactor, uri=host.uri)  # type: ignore[arg-type]
        bridge = Bridge(link, reactor)
        for number in range(1, CANCELLED + 1):
            bridge.call(number)
            await event(lambda number=number: dispatcher.begun == number or bridge.heard)
            assert bridge.heard == [], (bridge.heard, dispatcher.requests)
            bridge.send("notifications/cancelled", requestId=number)
            await event(lambda number=number: dispatcher.left == [*range(1, number + 1)])
        dispatcher.is_quick = True
        bridge.call(CANCELLED + 1)
        await event(lambda: bridge.heard)
        bridge.server.end()
        await bridge.server.relay.wait_for_cancellations()
        await link.close()
    [answer] = bridge.heard
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (CANCELLED + 1, "done")
    assert {peer.carrier for peer in dispatcher.peers} == {carrier}
    assert len({id(peer.link) for peer in dispatcher.peers}) <= 5


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize(("carrier", "connections"), [("quic", 1), ("tls", 8)])
async def test_slow_calls_of_the_bridge_share_a_connection(tmp_path: Path, carrier: str, connections: int) -> None:
    """Twelve slow calls run at a time over one connection by QUIC; by TLS eight connections serve eight of them."""
    from twisted.internet import reactor

    dispatcher = SlowTool()
    site = make_site(tmp_path)
    async with QuicHost(site, dispatcher) as host:
        client = client_of(site, quic=carrier == "quic")
        link = HostLink(client=client, clock=reactor, uri=host.uri)  # type: ignore[arg-type]
        bridge = Bridge(link, reactor)
        for number in range(1, 13):
            bridge.call(number)
        await event(lambda: dispatcher.begun == (12 if carrier == "quic" else 8))
        assert bridge.heard == []
        assert host.factory.connections == connections
        dispatcher.is_quick = True
        dispatcher.finish_all()
        await event(lambda: len(bridge.heard) == 12)
        bridge.server.end()
        await link.close()
    assert sorted(each["id"] for each in bridge.heard) == [*range(1, 13)]
    assert len({id(peer.link) for peer in dispatcher.peers}) == connections
