"""Peers that send a few octets at a time: a bounded number of reads, whatever they send and to whichever listener."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from agtphost.protocols import server_endpoint
from agtphost.protocols.immediate_write import Prompting, PromptPort, PromptServer
from agtphost.protocols.pacing import INTERVAL, READS, SMALL, WORD

OTHERS = 5
"""Peers that find no place in the first round."""


class Portions(Protocol):
    """Keeps what it gets, portion by portion."""

    def connectionMade(self) -> None:
        self.portions: list[bytes] = []

    def dataReceived(self, data: bytes) -> None:
        self.portions.append(data)


class Peer:
    """One end of a connection; at the other end is the host's transport."""

    def __init__(self, clock: MemoryReactorClock) -> None:
        self.clock = clock
        self._theirs, self.own = socket.socketpair()
        self.protocol = Portions()
        self.transport = PromptServer(self._theirs, self.protocol, ("127.0.0.1", 1), None, 0, clock)
        self.protocol.makeConnection(self.transport)

    @property
    def read_from(self) -> bool:
        return self.transport in self.clock.getReaders()

    def says(self, octets: bytes) -> None:
        """The reactor comes by if the transport wants to be told."""
        self.own.send(octets)
        if self.read_from:
            self.transport.doRead()

    def close(self) -> None:
        self.own.close()
        self._theirs.close()


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    clock = MemoryReactorClock()
    found = [Peer(clock) for _ in range(READS + OTHERS)]
    yield found
    for peer in found:
        peer.close()


def trickling(peers: list[Peer]) -> list[Peer]:
    """All have sent two portions; those that wait."""
    for octets in (b"a", b"b"):
        for peer in peers:
            peer.says(octets)
    return [peer for peer in peers if not peer.read_from]


def test_reads_of_small_portions_are_bounded(peers: list[Peer]) -> None:
    """In a round as many as may be, then others wait; what they send meanwhile comes in one read, nothing is lost."""
    waiting = trickling(peers)
    assert waiting == peers[READS:]
    for octets in b"cdef":
        for peer in waiting:
            peer.says(bytes([octets]))
    assert [peer.protocol.portions for peer in waiting] == [[b"a", b"b"]] * OTHERS
    peers[0].clock.advance(INTERVAL)
    for peer in waiting:
        assert peer.read_from
        peer.transport.doRead()
        assert peer.protocol.portions == [b"a", b"b", b"cdef"]


def test_ten_thousand_octets_of_many_are_few_reads(peers: list[Peer]) -> None:
    """However long it goes on: a read each to begin with, and then not more than the rounds have."""
    rounds, octets = 50, 20
    for _ in range(rounds):
        for _ in range(octets):
            for peer in peers:
                peer.says(b"x")
        peers[0].clock.advance(INTERVAL)
    reads = sum(len(peer.protocol.portions) for peer in peers)
    # The portion that makes a peer wait has been read by then.
    assert reads <= len(peers) * 2 + rounds * READS * 2, reads
    sent = rounds * octets
    for peer in peers:
        if peer.read_from:
            peer.transport.doRead()
        assert sum(map(len, peer.protocol.portions)) > sent / 2


def test_a_word_to_the_peer_ends_the_waiting(peers: list[Peer]) -> None:
    """Who is answered is read from at once, and its next small portion is a first one; an alert is no answer."""
    first, *_ = trickling(peers)
    first.transport.write(b"n" * (WORD - 1))
    assert not first.read_from
    first.transport.write(b"y" * WORD)
    assert first.read_from
    first.says(b"c")
    assert first.read_from


def test_one_portion_for_each_answer_never_waits(peers: list[Peer]) -> None:
    """As a caller does that sends each request whole; and one that sends large portions does not wait, either."""
    trickling(peers[1:])
    for _ in range(100):
        peers[0].says(b"a request")
        assert peers[0].read_from
        peers[0].transport.write(b"y" * WORD)
    for _ in range(100):
        peers[0].says(b"x" * SMALL)
        assert peers[0].read_from


def test_a_protocol_that_takes_no_more_is_not_given_more(peers: list[Peer]) -> None:
    """Two reasons not to read: both have to be over."""
    first, second, *_ = trickling(peers)
    first.transport.pauseProducing()
    second.transport.pauseProducing()
    second.transport.resumeProducing()
    assert not second.read_from
    first.clock.advance(INTERVAL)
    assert not first.read_from
    assert second.read_from
    first.transport.resumeProducing()
    assert first.read_from


def test_who_has_gone_has_no_turn(peers: list[Peer]) -> None:
    """Nothing is left of it, and a round that nobody needs is the last."""
    for peer in trickling(peers):
        peer.transport.connectionLost(Failure(ConnectionDone()))
    clock = peers[0].clock
    clock.advance(INTERVAL)
    clock.advance(INTERVAL)
    assert clock.getDelayedCalls() == []


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("description", ["", "tcp:0:interface=127.0.0.1", "tcp6:0:interface=\\:\\:1"])
async def test_every_listener_reads_so(description: str) -> None:
    """The AGTP port, and whatever an endpoint string asks for."""
    port = await server_endpoint(reactor, address="127.0.0.1", port=0, description=description).listen(Factory())
    assert isinstance(port, PromptPort)
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_sockets_of_systemd_read_so() -> None:
    """A listening socket that is there already."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        port = Prompting(reactor).adoptStreamPort(listening.fileno(), socket.AF_INET, Factory())
        assert isinstance(port, PromptPort)
        await port.stopListening()
