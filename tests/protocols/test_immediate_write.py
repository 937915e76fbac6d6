"""Prompt writes: the same octets in the same order as Twisted's own, and the same back-pressure."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Factory, Protocol
from zope.interface import implementer

from agtphost.protocols import immediate_write
from agtphost.protocols.immediate_write import Prompting, PromptServer


@implementer(IPushProducer)
class Speaker(Protocol):
    """Waits for a word, then writes in pieces; counts how often it is asked to pause."""

    pieces: list[bytes] = []
    paused = 0

    def dataReceived(self, data: bytes) -> None:
        self.transport.registerProducer(self, True)
        for piece in self.pieces:
            self.transport.write(piece)
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    def pauseProducing(self) -> None:
        type(self).paused += 1

    def resumeProducing(self) -> None:
        pass

    def stopProducing(self) -> None:
        pass


async def heard(pieces: list[bytes]) -> bytes:
    """What a slow reader gets of ``pieces``."""
    Speaker.pieces, Speaker.paused = pieces, 0
    seen: list[type[Any]] = []

    class Remembering(Factory):
        def buildProtocol(self, addr: object) -> Speaker:
            return Speaker()

    port = await TCP4ServerEndpoint(Prompting(reactor), 0, 5, "127.0.0.1").listen(Remembering())
    seen.append(port.transport)
    assert seen == [PromptServer]
    with socket.create_connection(("127.0.0.1", port.getHost().port)) as client:
        client.setblocking(False)
        client.send(b"go")
        octets = b""
        while True:
            pause: Deferred[None] = Deferred()
            reactor.callLater(0.002, pause.callback, None)  # type: ignore[attr-defined]
            await pause
            try:
                portion = client.recv(50_000)
            except BlockingIOError:
                continue
            if not portion:
                break
            octets += portion
    await port.stopListening()
    return octets


@pytest_twisted.ensureDeferred
async def test_small_and_large_writes_arrive_whole_and_in_order() -> None:
    """Pieces that fit, pieces that do not, and small ones behind those."""
    pieces = [b"a" * 10, b"b" * 3_000_000, b"c" * 10, b"", b"d" * 100_000, b"e"]
    assert await heard(pieces) == b"".join(pieces)
    assert Speaker.paused


@pytest_twisted.ensureDeferred
async def test_a_small_answer_never_asks_for_a_pause() -> None:
    """What the system takes at once is no reason to stop."""
    assert await heard([b"x" * 500]) == b"x" * 500
    assert not Speaker.paused


async def in_turns(most: int) -> list[int]:
    """How many of 60 connections that wait are accepted in each turn, with at most so many."""
    accepted: list[int] = []
    over: Deferred[None] = Deferred()

    class Counting(Factory):
        def buildProtocol(self, addr: object) -> Protocol:
            accepted[-1] += 1
            if sum(accepted) == 60:
                over.callback(None)
            return Protocol()

    port = await TCP4ServerEndpoint(Prompting(reactor), 0, 100, "127.0.0.1").listen(Counting())
    read = port.doRead

    def counted() -> None:
        accepted.append(0)
        immediate_write.MOST_ACCEPTED, kept = most, immediate_write.MOST_ACCEPTED
        try:
            read()
        finally:
            immediate_write.MOST_ACCEPTED = kept

    port.doRead = counted
    clients = [socket.create_connection(("127.0.0.1", port.getHost().port)) for _ in range(60)]
    try:
        await over
    finally:
        for client in clients:
            client.close()
        await port.stopListening()
    return accepted


@pytest_twisted.ensureDeferred
async def test_a_crowd_is_accepted_a_few_at_a_time() -> None:
    """Sixty connections wait: no turn of the reactor takes more than it may, also once it has taken many."""
    assert max(await in_turns(immediate_write.MOST_ACCEPTED)) == immediate_write.MOST_ACCEPTED
    # The control: Twisted's own number takes all of them in one turn.
    assert max(await in_turns(100)) == 60


@pytest_twisted.ensureDeferred
async def test_who_has_reset_its_connection_costs_no_protocol() -> None:
    """Of a row of connections the one that lives is the first that a protocol is made for; it can be spoken to."""
    built: list[Protocol] = []
    spoken: Deferred[bytes] = Deferred()

    class Listening(Protocol):
        def dataReceived(self, data: bytes) -> None:
            spoken.callback(data)

    class Counting(Factory):
        def buildProtocol(self, addr: object) -> Protocol:
            built.append(Listening())
            return built[-1]

    port = await TCP4ServerEndpoint(Prompting(reactor), 0, 50, "127.0.0.1").listen(Counting())
    place = ("127.0.0.1", port.getHost().port)
    for number in range(20):
        gone = socket.create_connection(place)
        if number % 2:
            gone.send(b"half a greeting")
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
    with socket.create_connection(place) as client:
        client.send(b"whole")
        assert await spoken == b"whole"
        assert len(built) == 1
        built[0].transport.loseConnection()
    await port.stopListening()
