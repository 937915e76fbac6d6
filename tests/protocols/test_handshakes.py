"""Handshakes that begin together do not keep a turn of the reactor to themselves."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from agtphost.protocols import ConnectionLimits
from agtphost.protocols.listener_connections import AcceptingFactory
from agtphost.protocols.pacing import HANDSHAKES, Pacing, handshakes_of
from agtphost.protocols.records import RecordwiseTLS
from agtphost.protocols.server import SecureServerFactory
from agtphost.protocols.tls import ServerTLS
from tests.protocols.loopback import Site, make_site

CROWD = 2 * HANDSHAKES + 12


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return make_site(tmp_path_factory.mktemp("site"))


CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Of all clients: none comes to a certificate, and to read the system's authorities takes longer than a handshake."""


def hello() -> bytes:
    """What a client begins with."""
    outgoing = ssl.MemoryBIO()
    tls = CONTEXT.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def turn(clock: Clock) -> None:
    """One of the reactor: unlike ``Clock.advance``, it leaves what is called later meanwhile to the next one."""
    (call,) = clock.getDelayedCalls()
    made = call.func
    call.cancel()
    made()


class Crowd:
    """Peers that greet in the same turn."""

    def __init__(self, site: Site, turns: Pacing | None) -> None:
        factory = TLSMemoryBIOFactory(ServerTLS.load(site.files), False, Factory.forProtocol(Protocol))
        self.peers = []
        for _ in range(CROWD):
            peer = RecordwiseTLS(factory, Protocol())  # type: ignore[no-untyped-call]
            peer.turns = turns
            peer.makeConnection(StringTransport())
            self.peers.append(peer)
        for peer in self.peers:
            octets = hello()
            peer.dataReceived(octets[:100])
            peer.dataReceived(octets[100:])

    @property
    def answered(self) -> list[bool]:
        return [bool(peer.transport.value()) for peer in self.peers]


def test_a_few_in_each_turn(site: Site) -> None:
    """In the order of their coming; who waits is not read from, and nothing is lost of what it said."""
    clock = Clock()
    crowd = Crowd(site, Pacing(clock, HANDSHAKES, 0))
    counts = [sum(crowd.answered)]
    states = [peer.transport.producerState for peer in crowd.peers]
    assert states[-1] == "paused"
    while clock.getDelayedCalls():
        turn(clock)
        counts.append(sum(crowd.answered))
    steps = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert max(steps) <= HANDSHAKES, steps
    assert crowd.answered == [True] * CROWD
    assert {peer.transport.producerState for peer in crowd.peers} == {"producing"}


@pytest.mark.release
def test_without_turns_all_are_at_once(site: Site) -> None:
    """The control."""
    assert Crowd(site, None).answered == [True] * CROWD


def test_who_has_gone_has_no_turn(site: Site) -> None:
    """One that waits and is lost is passed over, and its successors are not."""
    clock = Clock()
    crowd = Crowd(site, Pacing(clock, HANDSHAKES, 0))
    gone = crowd.peers[-2]
    gone.connectionLost(Failure(ConnectionDone()))
    last = gone.transport.value()
    while clock.getDelayedCalls():
        turn(clock)
    assert gone.transport.value() == last
    assert all(crowd.answered[:-2]) and crowd.answered[-1]


def test_nothing_is_called_when_nobody_begins(tmp_path: Path) -> None:
    """No timer is left behind."""
    clock = Clock()
    turns = Pacing(clock, HANDSHAKES, 0)

    class One:
        def take_turn(self) -> None:
            raise AssertionError("it had its turn")

    assert turns.take(One())
    turn(clock)
    assert clock.getDelayedCalls() == []


def test_listeners_of_a_reactor_share_their_turns(site: Site) -> None:
    """Crowds at two listeners in the same turn: as many handshakes together as at one."""
    clock = Clock()
    crowds = [Crowd(site, handshakes_of(clock)) for _ in range(2)]
    listener = SecureServerFactory(ServerTLS.load(site.files), AcceptingFactory(ConnectionLimits(), clock), clock)
    assert listener._turns is handshakes_of(clock)
    counts = [sum(map(sum, (crowd.answered for crowd in crowds)))]
    while clock.getDelayedCalls():
        turn(clock)
        counts.append(sum(map(sum, (crowd.answered for crowd in crowds))))
    steps = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert max(steps) <= HANDSHAKES, steps
    assert counts[-1] == 2 * CROWD
