"""The bridge on stdin and stdout: which messages belong to which era, and the end of stdin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from agtphost.bridge import stdio
from agtphost.bridge.stdio import LAST_ANSWERS_SECONDS, StdioClient
from agtphost.mcp.context import Context
from agtphost.mcp.server import Server
from tests.bridge.nobody import Nobody

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Talk:
    """A conversation whose tools answer when they are told to."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.transport = StringTransport()
        self.server = Server(Nobody(), self.clock, endpoints=False)
        self.server.handlers["tools/call"] = self._call
        self.client = StdioClient(self.server, self.clock)
        self.client.makeConnection(self.transport)
        self.calls: list[Deferred[dict[str, Any]]] = []
        self.cancelled = 0

    async def _call(self, context: Context) -> dict[str, Any]:
        call: Deferred[dict[str, Any]] = Deferred()
        self.calls.append(call)
        try:
            return await call
        except CancelledError:
            self.cancelled += 1
            raise

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        """One line of the client's."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.client.dataReceived(json.dumps(message if number is None else {**message, "id": number}).encode() + b"\n")

    def call(self, number: int) -> None:
        """A tool is called, in the later era."""
        self.send("tools/call", number, name="slow", _meta=ENVELOPE)

    @property
    def heard(self) -> list[Mapping[str, Any]]:
        """What the client was sent."""
        return [json.loads(line) for line in self.transport.value().splitlines()]

    @property
    def over(self) -> bool:
        return bool(self.transport.disconnecting)


def test_both_eras_are_spoken_and_each_keeps_to_itself() -> None:
    """A request with an envelope needs no handshake; after one there are no envelopes."""
    talk = Talk()
    talk.send("tools/list", 1)
    assert talk.heard[-1]["error"]["code"] == -32602
    talk.send("server/discover", 2, _meta=ENVELOPE)
    assert talk.heard[-1]["result"]["supportedVersions"] == ["2026-07-28"]
    talk.send("initialize", 3, **HANDSHAKE)
    assert talk.heard[-1]["result"]["protocolVersion"] == "2025-11-25"
    talk.send("ping", 4)
    assert talk.heard[-1] == {"jsonrpc": "2.0", "id": 4, "result": {}}
    talk.send("server/discover", 5, _meta=ENVELOPE)
    assert talk.heard[-1]["error"]["code"] == -32600


def test_a_line_in_pieces_and_lines_in_one_piece_are_messages() -> None:
    """Pipes cut where they like; empty lines are nothing, and what is no message is said to be none."""
    talk = Talk()
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    for octet in b"\r\n" + line:
        talk.client.dataReceived(bytes([octet]))
    assert talk.heard == []
    talk.client.dataReceived(b"\n" + line.replace(b"1,", b"2,") + b"\n{]\n")
    assert [each["id"] for each in talk.heard] == [1, 2, None]
    assert talk.heard[-1]["error"]["code"] == -32700


def test_the_end_is_told_after_the_last_answer() -> None:
    """Two requests are owed an answer each; the end comes behind both."""
    talk = Talk()
    talk.call(1)
    talk.call(2)
    talk.client.readConnectionLost()
    talk.calls[1].callback({"content": []})
    assert not talk.over
    talk.calls[0].callback({"content": []})
    assert talk.over and [each["id"] for each in talk.heard] == [2, 1]


@pytest.mark.parametrize("before", ["nothing", "cancelled", "endless"])
def test_what_gets_no_answer_is_not_waited_for(before: str) -> None:
    """Nothing asked, a request that was cancelled, one that only its client ends."""
    talk = Talk()
    if before == "cancelled":
        talk.call(1)
        talk.send("notifications/cancelled", requestId=1)
        assert talk.cancelled == 1
    elif before == "endless":
        talk.send("subscriptions/listen", 1, notifications={"toolsListChanged": True}, _meta=ENVELOPE)
        assert talk.heard[-1]["method"] == "notifications/subscriptions/acknowledged"
    talk.client.readConnectionLost()
    assert talk.over


def test_it_is_not_waited_for_ever() -> None:
    """A request that stays without an answer holds the end up for a while, and is taken back then."""
    talk = Talk()
    talk.call(1)
    talk.client.readConnectionLost()
    talk.clock.advance(LAST_ANSWERS_SECONDS - 1)
    assert not talk.over
    talk.clock.advance(1)
    assert talk.over and talk.cancelled == 1


def test_nobody_who_reads_is_the_end() -> None:
    """Where stdout is closed nothing is waited for."""
    talk = Talk()
    talk.call(1)
    talk.client.writeConnectionLost()
    assert talk.over and talk.cancelled == 1


def test_more_than_are_under_way_at_a_time_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a client asks at once is refused; what is taken back while it waits is not made."""
    monkeypatch.setattr(stdio, "MOST_RUNNING", 4)
    monkeypatch.setattr(stdio, "MOST_WAITING", 5)
    talk = Talk()
    for number in range(1, 9):
        talk.call(number)
    assert (len(talk.calls), talk.heard) == (3, [])
    talk.call(9)
    assert [answer["id"] for answer in talk.heard] == [9], "six would wait"
    talk.send("notifications/cancelled", requestId=4)
    talk.send("tools/call", 10, name="slow", _meta=ENVELOPE)
    talk.client.readConnectionLost()
    for call in talk.calls:  # which grows meanwhile
        call.callback({"content": []})
    assert [answer["id"] for answer in talk.heard] == [9, 1, 2, 3, 5, 6, 7, 8, 10]
    assert talk.over


def test_a_long_queue_of_what_is_answered_at_once_is_no_tower(monkeypatch: pytest.MonkeyPatch) -> None:
    """One slow request before thousands that are answered as soon as they begin."""
    monkeypatch.setattr(stdio, "MOST_RUNNING", 2)
    talk = Talk()
    talk.call(1)
    for number in range(2, 3002):
        talk.send("server/discover", number, _meta=ENVELOPE)
    assert talk.heard == []
    talk.calls[0].callback({"content": []})
    assert len(talk.heard) == 3001


def test_a_line_may_have_several_messages_in_one_revision() -> None:
    """2025-03-26: each is answered; before its handshake, and in all others, lines have one."""
    pings = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (7, 8)]
    line = json.dumps([pings[0], {"jsonrpc": "2.0", "method": "notifications/initialized"}, pings[1]]).encode() + b"\n"
    talk = Talk()
    talk.client.dataReceived(line)
    assert talk.heard[-1]["error"]["code"] == -32600
    talk.send("initialize", 1, **{**HANDSHAKE, "protocolVersion": "2025-03-26"})
    talk.client.dataReceived(line)
    assert [each["id"] for each in talk.heard[-2:]] == [7, 8]
    other = Talk()
    other.send("initialize", 1, **HANDSHAKE)
    other.client.dataReceived(line)
    assert other.heard[-1]["error"]["code"] == -32600
