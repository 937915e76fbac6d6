"""Datagrams that wait: no client of a port makes the others wait for more than its turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import succeed
from twisted.internet.task import Clock

from agtphost.protocols import ConnectionLimits
from agtphost.protocols.quic import receive_queue, turns
from agtphost.protocols.quic.link import QuicLink
from agtphost.protocols.quic.receive_queue import ReceiveQueue
from agtphost.protocols.quic.turns import COSTLY_SHARE, PortTurns
from tests.protocols.authorities import issue
from tests.protocols.links import FakeDispatcher, ask, reply
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, quic_site
from tests.protocols.quic.test_hostile import OK
from tests.protocols.quic.test_hostile_frames import sealed

COSTLY, OTHER = ("198.51.100.7", 50_000), ("198.51.100.8", 50_000)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


class Flood:
    """
    A client each of whose datagrams takes a whole turn of the host, and another client's call behind them.

    :param count: of datagrams.
    :param connections: of that client, which take turns at sending them.
    :param other: the address of the other one.
    :param dispatcher: of the host; None: one that answers immediately.
    """

    def __init__(
        self,
        site: Site,
        monkeypatch: pytest.MonkeyPatch,
        count: int,
        connections: int = 1,
        other: tuple[str, int] = OTHER,
        dispatcher: FakeDispatcher | None = None,
    ) -> None:
        self.network = Network()
        limits = ConnectionLimits(handshakes_per_second_per_address=connections + 1)
        self.host: Any = QuicHost(self.network, site, dispatcher, limits)
        addresses = [(COSTLY[0], COSTLY[1] + number) for number in range(connections)]
        *clients, self.other = [
            QuicClient(self.network, site, address=address).connect() for address in (*addresses, other)
        ]
        self.network.pass_time(0.1)
        senders = [clients[number % connections] for number in range(count)]
        self._waiting: list[tuple[bytes, Any]] = [(sealed(each.core, bytes(24)), each.address) for each in senders]
        with monkeypatch.context() as patch:
            patch.setattr(self.network, "carry", lambda octets, origin, to: self._waiting.append((octets, origin)))
            self.call = self.other.call()
        self.order: list[Any] = []
        self._seconds = 0.0
        for module in (turns, receive_queue):
            monkeypatch.setattr(module, "time", SimpleNamespace(thread_time=lambda: self._seconds))
        receive, flush = QuicLink.receive, QuicLink.flush
        self.flushed = 0
        self.taken = turns.TURN_SECONDS
        """Seconds that a datagram takes."""

        self.flush_taken = 0.0
        """Seconds that a connection takes to send what it has."""

        def spend(link: QuicLink, datagram: bytes, address: Any) -> None:
            self.order.append(address)
            receive(link, datagram, address)
            self._seconds += self.taken

        def spend_on_flush(link: QuicLink) -> None:
            self.flushed += 1
            flush(link)
            self._seconds += self.flush_taken

        monkeypatch.setattr(QuicLink, "receive", spend)
        monkeypatch.setattr(QuicLink, "flush", spend_on_flush)

    def arrive(self, seconds: float = 0.0) -> int:
        """
        Let the port read what waits, as far as it does in one turn, and return how many datagrams it has read.

        :param seconds: that reading one takes.
        """
        self.host.maxThroughput = turns.TURN_OCTETS
        before = len(self._waiting)
        while self._waiting and self.host.maxThroughput:
            self.host.endpoint.datagramReceived(*self._waiting.pop(0))
            self._seconds += seconds
        return before - len(self._waiting)

    def turn(self) -> int:
        """Let the reactor have one turn, and return how many datagrams connections were given in it."""
        before = len(self.order)
        clock: Any = self.network.clock
        for call in [each for each in clock.getDelayedCalls() if each.getTime() <= clock.seconds()]:
            if call.active():  # Those that it makes belong to the next turn, which Clock would have in the same go.
                clock.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)
        return len(self.order) - before


def test_costly_datagrams_of_a_client_make_no_other_wait(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is handled after one further datagram of the client that came first, not after all of them."""
    flood = Flood(site, monkeypatch, 50)
    assert flood.arrive() == 51 and flood.order == [COSTLY]
    assert flood.other.wait(flood.call)[0].startswith(OK)
    assert flood.order[:3] == [COSTLY, COSTLY, OTHER] and flood.order.count(COSTLY) >= 50


def test_connections_of_a_client_share_its_turn(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call from another address is handled after one further datagram of 40 connections, not after one of each."""
    flood = Flood(site, monkeypatch, 200, 40)
    assert flood.arrive() == 201
    assert flood.other.wait(flood.call)[0].startswith(OK)
    assert flood.order.index(OTHER) == 2


def test_callers_behind_one_address_take_turns(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A translator's clients share an address: one with a costly connection makes no other wait for all of it."""
    neighbour = COSTLY[0], COSTLY[1] + 1
    flood = Flood(site, monkeypatch, 50, other=neighbour)
    assert flood.arrive() == 51
    assert flood.other.wait(flood.call)[0].startswith(OK)
    assert flood.order[:3] == [COSTLY, COSTLY, neighbour]


def test_a_turn_reads_only_for_its_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read ahead of its turn takes the others' time too: the next turn reads on."""
    flood = Flood(site, monkeypatch, 50)
    assert flood.arrive(turns.READ_SECONDS / 10) <= 12


def test_an_answer_is_sent_before_further_datagrams_are_served(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn begins with what connections have to send: an answer waits for no datagram that came after its request."""
    dispatcher = FakeDispatcher()
    flood = Flood(site, monkeypatch, 50, dispatcher=dispatcher)
    flood.arrive()
    while not dispatcher.waiting:
        assert flood.turn()
    flood.turn()
    served, sent = len(flood.order), list[tuple[Any, int]]()
    monkeypatch.setattr(flood.host, "write", lambda octets, address: sent.append((address, len(flood.order))))
    dispatcher.answer()
    flood.turn()
    assert sent[0] == (OTHER, served) and len(flood.order) == served + 1


def test_a_turn_is_over_after_one_datagram_that_takes_long(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A datagram may take as long as a turn: a second one would make each turn of a call twice as long."""
    flood = Flood(site, monkeypatch, 50)
    flood.taken = 0.0015
    flood.arrive()
    assert [flood.turn() for _ in range(5)] == [1] * 5


def test_connections_that_send_share_a_turn(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What connections have to send is part of a turn's time, also where each was given a datagram that took none."""
    flood = Flood(site, monkeypatch, 40, 40)
    flood.taken, flood.flush_taken = 0.0, turns.TURN_SECONDS / 4
    flood.arrive()
    assert len(flood.order) == 41
    flushed = []
    for _ in range(12):
        before = flood.flushed
        flood.turn()
        flushed.append(flood.flushed - before)
    assert max(flushed) == 4 and sum(flushed) >= 41
    assert flood.other.wait(flood.call)[0].startswith(OK)


def test_a_client_has_its_part_of_what_waits(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Datagrams beyond it are lost, and counted; a client that sends one is served."""
    monkeypatch.setattr(receive_queue, "MOST_QUEUED", 20)
    flood = Flood(site, monkeypatch, 50)
    flood.arrive()
    assert flood.host.endpoint.counts.dropped == {"queue": 50 - 1 - 20}
    assert flood.other.wait(flood.call)[0].startswith(OK)


def test_what_waits_for_a_connection_ends_with_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept of it, and nobody is given its datagrams."""
    flood = Flood(site, monkeypatch, 50)
    flood.arrive()
    for link in tuple(flood.host.endpoint._links):
        if link.address == COSTLY[0]:
            link.cut()
    assert len(flood.host.endpoint._turns._queue) == 1
    assert flood.other.wait(flood.call)[0].startswith(OK)
    assert flood.order.count(COSTLY) == 1


class Client:
    """
    A connection that notes what it is given.

    :param served: where.
    :param seconds: that a datagram takes.
    """

    def __init__(
        self, name: str, served: list[str], address: str, *, is_admitted: bool = True, seconds: float = 0.0
    ) -> None:
        self._name, self._served, self._seconds = name, served, seconds
        self.address, self.is_admitted = address, is_admitted
        self.costly = False
        self.spend: Callable[[float], None] = lambda seconds: None

    def is_costly(self, address: tuple[str, int]) -> bool:
        return self.costly

    def flush(self) -> None:
        self.spend(self._seconds)

    def receive(self, datagram: bytes, address: tuple[str, int]) -> None:
        self._served.append(self._name + datagram.decode())
        self.spend(self._seconds)


def put(queue: ReceiveQueue[Client], client: Client, count: int, origin: str = "") -> int:
    """Let so many datagrams wait, from another address if one is given, and return how many do."""
    return sum(queue.put(client, b"%d" % number, (origin or client.address, 50_000)) for number in range(count))


@pytest.mark.parametrize("address", ["198.51.100.%d", "2001:db8:0:%d::1"])
def test_several_clients_share_the_queue(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """The first that wait may be many; each further one gets its part, and at least one datagram."""
    monkeypatch.setattr(receive_queue, "MOST_QUEUED", 4)
    queue, served = ReceiveQueue[Client](), list[str]()
    assert [put(queue, Client(each, served, address % at), 5) for at, each in enumerate("abcdef")] == [4, 2, 1, 1, 1, 1]
    while queue:
        queue.serve_next()
    assert served == ["a0", "b0", "c0", "d0", "e0", "f0", "a1", "b1", "a2", "a3"]


@pytest.mark.parametrize("address", ["198.51.100.7", "2001:db8::%d"])
def test_connections_of_an_address_share_its_part(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Half of what waits is another address's, however many connections there are of the first; an IPv6 /64 is one."""
    monkeypatch.setattr(receive_queue, "MOST_QUEUED", 8)
    queue, served = ReceiveQueue[Client](), list[str]()
    places = [address % number if "%" in address else address for number in range(1, 5)]
    clients = [Client(each, served, place) for each, place in zip("abcd", places, strict=True)]
    assert [put(queue, each, 8) for each in clients] == [8, 4, 2, 2]
    assert put(queue, Client("z", served, "192.0.2.1"), 8) == 4
    while queue:
        queue.serve_next()
    assert served[:8] == ["a0", "z0", "b0", "z1", "c0", "z2", "d0", "z3"]
    assert served[8:] == ["a1", "b1", "c1", "d1", "a2", "b2", "a3", "b3", "a4", "a5", "a6", "a7"]


def test_handshakes_from_addresses_that_may_be_forged_share_a_part() -> None:
    """A client has no more of the queue for claiming many addresses, and takes nothing of the one that it claims."""
    queue, served = ReceiveQueue[Client](), list[str]()
    for number, each in enumerate("abcdef"):
        put(queue, Client(each, served, f"198.51.100.{number}", is_admitted=False), 1)
    put(queue, Client("z", served, "198.51.100.0"), 3)
    while queue:
        queue.serve_next()
    assert served == ["a0", "z0", "b0", "z1", "c0", "z2", "d0", "e0", "f0"]


def test_datagrams_from_elsewhere_take_nothing_of_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sees a connection ID on its way sends for it what cannot be decrypted: the client has its part as before."""
    monkeypatch.setattr(receive_queue, "MOST_QUEUED", 8)
    queue, served = ReceiveQueue[Client](), list[str]()
    client = Client("a", served, COSTLY[0])
    assert put(queue, client, 10, OTHER[0]) == 8
    assert put(queue, client, 4, f"::ffff:{COSTLY[0]}") == 4
    queue.discard(client)
    assert not queue


def test_an_address_whose_datagrams_take_long_has_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it has had more than its part of the time, the others are served; alone it waits for nobody."""
    seconds = 0.0

    def spend(more: float) -> None:
        nonlocal seconds
        seconds += more

    monkeypatch.setattr(receive_queue, "time", SimpleNamespace(thread_time=lambda: seconds))
    queue, served = ReceiveQueue[Client](), list[str]()
    costly = Client("a", served, COSTLY[0], seconds=4 * receive_queue.ROUND_SECONDS)
    cheap = Client("b", served, OTHER[0], seconds=receive_queue.ROUND_SECONDS / 2)
    for each, count in ((costly, 3), (cheap, 6)):
        each.spend = spend
        put(queue, each, count)
    while queue:
        queue.serve_next()
    assert served == ["a0", "b0", "b1", "b2", "b3", "a1", "b4", "b5", "a2"]


def test_what_waits_under_an_earlier_address_ends_with_its_connection() -> None:
    """A connection that has moved may have datagrams that wait under both addresses."""
    queue, served = ReceiveQueue[Client](), list[str]()
    client = Client("a", served, COSTLY[0])
    put(queue, client, 2)
    client.address = OTHER[0]
    put(queue, client, 2)
    assert len(queue) == 2
    queue.discard(client)
    assert not queue


def test_costly_connections_have_a_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty clients whose datagrams have no use take a tenth of the host's time, not all of it."""
    clock: Any = Clock()
    served = list[str]()
    for module in (turns, receive_queue):
        monkeypatch.setattr(module, "time", SimpleNamespace(thread_time=clock.seconds))

    def spend(seconds: float) -> None:
        clock.rightNow += seconds

    class Costly(Client):
        def receive(self, datagram: bytes, address: tuple[str, int]) -> None:
            super().receive(datagram, address)
            port.wake(self)

    clients = [Costly("c", served, f"198.51.100.{number}", seconds=0.0004) for number in range(40)]
    other = Client("o", served, "192.0.2.1")
    port = PortTurns(clock, lambda octets: None)
    for each in clients:
        each.costly, each.spend = True, spend
    for _ in range(1_000):
        for each in clients:
            port.note_datagram()
            port.hand_over(each, b"", (each.address, 50_000))
        assert port.hand_over(other, b"", (other.address, 50_000))
        clock.advance(0.001)
    spent = served.count("c") * 0.0008
    assert 0.5 * COSTLY_SHARE < spent / clock.seconds() < 1.2 * COSTLY_SHARE
    assert served.count("o") == 1_000


def test_a_connection_that_ends_leaves_nothing_that_waits_apart() -> None:
    """What a costly connection has sent is dropped with it, and the port's calls end."""
    clock, served = Clock(), list[str]()
    port, client = PortTurns(clock, lambda octets: None), Client("c", served, COSTLY[0])
    client.costly = True
    assert port.hand_over(client, b"", COSTLY)
    port.discard(client)
    clock.advance(1)
    assert not served and not clock.getDelayedCalls()


@pytest.mark.parametrize(
    "octets",
    [b"\x0a\0\0" * 150 + b"\x15\0\1" * 300, b"\x11\0\1" * 400, b"\1".ljust(24, b"\0")],
    ids=["empty", "windows", "ping"],
)
def test_a_client_that_sends_nothing_of_use_is_costly(site: Site, octets: bytes) -> None:
    """A few datagrams full of frames, or some dozens with one, have a client served apart; calls make up for that."""
    network = Network()
    host: Any = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.call(ends=False)
    network.pass_time(0.1)
    [link] = host.endpoint._links
    most = 8 if len(octets) > 1_000 else 60
    for _ in range(most):
        host.endpoint.datagramReceived(sealed(client.core, octets), client.address)
        network.pass_time(0.001)
        if link.is_costly(client.address):
            break
    else:
        pytest.fail("it is served like others")
    assert not is_costly_after(network, link, client, 15.0)
    assert client.wait(client.call())[0].startswith(OK)


def test_gaps_are_of_no_use(site: Site) -> None:
    """An octet behind a gap is one octet, and makes up for no datagram full of frames that say nothing."""
    network = Network()
    host: Any = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.call(ask()[:9], ends=False)
    network.pass_time(0.1)
    [link] = host.endpoint._links
    for number in range(1, 9):
        octet = b"\x0e\0" + (0x4000 + 1_300 * number).to_bytes(2, "big") + b"\1x"
        host.endpoint.datagramReceived(sealed(client.core, octet + b"\x11\0\1" * 380), client.address)
        network.pass_time(0.001)
    assert not link.is_gone and link.is_costly(client.address)


def is_costly_after(network: Network, link: QuicLink, client: QuicClient, seconds: float) -> bool:
    """Let time pass; return whether a client is served apart then."""
    network.pass_time(seconds)
    return link.is_costly(client.address)


def note_costly(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gets, for each datagram of a connection, whether it waits apart."""
    found = list[bool]()
    hand_over = PortTurns.hand_over

    def note(turns: PortTurns, receiver: Any, datagram: bytes, address: Any) -> bool:
        found.append(receiver.is_costly(address))
        return hand_over(turns, receiver, datagram, address)

    monkeypatch.setattr(PortTurns, "hand_over", note)
    return found


def test_a_handshake_with_a_near_client_is_not_costly(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it comes within milliseconds: full datagrams without an octet of a request."""
    costly, network = note_costly(monkeypatch), Network(delay=0.0005)
    QuicHost(network, site)
    client = QuicClient(network, site, issue(site.root)).connect()
    assert client.wait(client.call())[0].startswith(OK)
    assert len(costly) >= 2 and not any(costly)


def test_what_is_sent_again_after_a_loss_is_of_use(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last datagram of a flight arrives, and the others come again: they fill the gap, and are no repetitions."""
    network = Network()
    QuicHost(network, site)
    client = QuicClient(network, site).connect()
    for _ in range(3):
        client.wait(*[client.call(ask(body=b"y" * 15_000)) for _ in range(8)])
    costly, carry, sent = note_costly(monkeypatch), network.carry, list[tuple[bytes, Any, Any]]()
    with monkeypatch.context() as patch:
        patch.setattr(network, "carry", lambda *datagram: sent.append(datagram))
        calls = [client.call(ask(body=b"y" * 15_000)) for _ in range(8)]
        network.pass_time(0.05)
    assert len(sent) > 20
    carry(*sent[-1])
    assert all(each.startswith(OK) for each in client.wait(*calls))
    assert len(costly) > 50 and not any(costly)


@pytest.mark.parametrize("is_copy", [False, True], ids=["noise", "copies"])
def test_forged_datagrams_make_no_client_costly(site: Site, is_copy: bool) -> None:
    """Who sees a client's packets can send noise, or copies of them, with its address: neither is the client's."""
    network = Network(7)
    host: Any = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.wait(client.call(ask(body=b"y" * 3_000)))
    [link] = host.endpoint._links
    copied = max((octets for _, to, octets in network.carried if to == HOST and octets[0] < 0x80), key=len)
    for _ in range(40):
        noise = b"\x40" + copied[1:9] + network.random.randbytes(1_100)
        host.endpoint.datagramReceived(copied if is_copy else noise, client.address)
        network.pass_time(0.001)
    assert not link.is_costly(client.address)
    assert link.is_costly(OTHER)  # They are counted with what comes from elsewhere.


@pytest.mark.parametrize("loss", [0.0, 0.03], ids=["no loss", "loss"])
def test_a_client_that_makes_calls_is_not_costly(site: Site, monkeypatch: pytest.MonkeyPatch, loss: float) -> None:
    """Long requests and answers, calls that are cancelled, and an address that changes are of use."""
    network = Network(11, loss=loss)
    dispatcher = FakeDispatcher(lambda request, peer, interim: succeed(reply(request, b"x" * 60_000)))
    QuicHost(network, site, dispatcher)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    costly = list[bool]()
    receive = QuicLink.receive

    def note(link: QuicLink, datagram: bytes, address: Any) -> None:
        receive(link, datagram, address)
        costly.append(link.is_costly(address))

    monkeypatch.setattr(QuicLink, "receive", note)
    for _ in range(4):
        calls = [client.call(ask(body=b"y" * 15_000)) for _ in range(8)]
        client.wait(*calls)
    for _ in range(16):
        client.core.reset_stream(client.call(ask()), 3)
        client.flush()
    network.pass_time(5)
    client.rebind(OTHER)
    assert client.wait(client.call())[0].startswith(OK)
    assert len(costly) > 300 and not any(costly)
