"""Datagrams that wait: no client of a port makes the others wait for more than its turn."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.protocols.quic import datagrams, receive_queue
from agtphost.protocols.quic.link import QuicLink
from agtphost.protocols.quic.receive_queue import ReceiveQueue
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicClient, QuicHost, quic_site
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
    """

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.network = Network()
        self.host: Any = QuicHost(self.network, site)
        clients = [QuicClient(self.network, site, address=address).connect() for address in (COSTLY, OTHER)]
        self.other = clients[1]
        self.network.pass_time(0.1)
        self._waiting: list[tuple[bytes, Any]] = [(sealed(clients[0].core, bytes(24)), COSTLY) for _ in range(count)]
        with monkeypatch.context() as patch:
            patch.setattr(self.network, "carry", lambda octets, origin, to: self._waiting.append((octets, origin)))
            self.call = self.other.call()
        self.order: list[Any] = []
        self._seconds = 0.0
        monkeypatch.setattr(datagrams, "time", SimpleNamespace(perf_counter=lambda: self._seconds))
        receive = QuicLink.receive

        def spend(link: QuicLink, datagram: bytes, address: Any) -> None:
            self.order.append(address)
            receive(link, datagram, address)
            self._seconds += datagrams.TURN_SECONDS

        monkeypatch.setattr(QuicLink, "receive", spend)

    def arrive(self, seconds: float = 0.0) -> int:
        """
        Let the port read what waits, as far as it does in one turn, and return how many datagrams it has read.

        :param seconds: that reading one takes.
        """
        self.host.maxThroughput = datagrams.TURN_OCTETS
        before = len(self._waiting)
        while self._waiting and self.host.maxThroughput:
            self.host.endpoint.datagramReceived(*self._waiting.pop(0))
            self._seconds += seconds
        return before - len(self._waiting)


def test_costly_datagrams_of_a_client_make_no_other_wait(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is handled after one further datagram of the client that came first, not after all of them."""
    flood = Flood(site, monkeypatch, 50)
    assert flood.arrive() == 51 and flood.order == [COSTLY]
    assert flood.other.wait(flood.call)[0].startswith(OK)
    assert flood.order[:3] == [COSTLY, COSTLY, OTHER] and flood.order.count(COSTLY) >= 50


def test_a_turn_reads_only_for_its_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read ahead of its turn takes the others' time too: the next turn reads on."""
    flood = Flood(site, monkeypatch, 50)
    assert flood.arrive(datagrams.READ_SECONDS / 10) <= 12


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
    assert len(flood.host.endpoint._queue) == 1
    assert flood.other.wait(flood.call)[0].startswith(OK)
    assert flood.order.count(COSTLY) == 1


def test_several_clients_share_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that wait may be many; each further one gets its part, and at least one datagram."""
    monkeypatch.setattr(receive_queue, "MOST_QUEUED", 4)
    queue, served = ReceiveQueue(), []

    class Client:
        def __init__(self, name: str) -> None:
            self._name = name

        def receive(self, datagram: bytes, address: tuple[str, int]) -> None:
            served.append(self._name + datagram.decode())

    clients = [Client(name) for name in "abcdef"]
    taken = [sum(queue.put(each, b"%d" % number, COSTLY) for number in range(5)) for each in clients]
    assert taken == [4, 2, 1, 1, 1, 1]
    while queue:
        queue.serve_next()
    assert served == ["a0", "b0", "c0", "d0", "e0", "f0", "a1", "b1", "a2", "a3"]
