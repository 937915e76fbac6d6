"""Hostile clients whose handshake is, or seems to be, in order: streams, resets, tokens, connection IDs and paths."""

from __future__ import annotations

import gc
import itertools
import logging
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from aioquic import tls
from aioquic.buffer import Buffer
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicErrorCode, pull_quic_header
from twisted.internet.defer import succeed

from agtphost.client import CannotConnect
from agtphost.protocols import ConnectionLimits
from agtphost.protocols.quic import datagrams
from agtphost.protocols.quic.core import FORMER_PAUSE
from agtphost.protocols.quic.link import QuicLink
from agtphost.vocabulary.quic_codes import CRYPTO_ERROR, RESET_SECONDS, Code
from tests.client.quic.sessions import SessionClient, credentials_of
from tests.protocols.links import FakeDispatcher, ask, reply
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, logged_failures, quic_site
from tests.protocols.quic.test_hostile import OK, frame, is_answered

HANDSHAKE_FAILURE, UNRECOGNIZED_NAME = 40, 112
"""Alerts of TLS."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def test_streams_that_a_client_never_ends_are_bounded(site: Site) -> None:
    """Answered streams free others before they are over; a client that leaves them open gets so many and no more."""
    network = Network()
    host = QuicHost(network, site, streams=4)
    client = QuicClient(network, site).connect()
    client.core.reset_stream = lambda *_: None  # type: ignore[method-assign, assignment]
    handlers: Any = client.core._QuicConnection__frame_handlers  # type: ignore[attr-defined]
    handlers[0x05] = (lambda context, kind, buffer: (buffer.pull_uint_var(), buffer.pull_uint_var()), handlers[0x05][1])
    for _ in range(20):
        client.call(ends=False)
        network.pass_time(0.2)
    [link] = host.endpoint._links
    assert len(host.dispatcher.requests) == len(link.core._streams) == 3 * 4
    assert client.core._remote_max_streams_bidi == 3 * 4
    assert is_answered(network, site)


@pytest.mark.parametrize("resets", [1, 4])
def test_each_answer_that_is_read_makes_up_for_one_reset(site: Site, resets: int) -> None:
    """A client that cancels half of its calls may be as fast as it is; one that cancels most of them is closed."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    answered = 0
    while client.closed is None and answered < 110:
        for _ in range(resets):
            number = client.call(ask()[:10], ends=False)
            client.core.reset_stream(number, Code.CANCELLED)
        answered += client.wait(client.call())[0].startswith(OK)
    assert network.clock.seconds() < RESET_SECONDS
    if resets == 1:
        assert (answered, client.closed, host.endpoint.links) == (110, None, 1)
    else:
        assert client.closed is not None and client.closed.error_code == Code.TOO_MUCH
        assert 30 <= answered < 40


class OtherGroup(QuicConnection):
    """A client's connection that offers a key of one group of its choice."""

    group = tls.Group.SECP256R1

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)  # type: ignore[misc]
        self.tls._supported_groups = [self.group]


@pytest.mark.parametrize(
    ("group", "is_used"),
    [
        (tls.Group.X25519, True),
        (tls.Group.SECP256R1, True),
        (tls.Group.SECP384R1, False),
        (tls.Group.SECP521R1, False),
        (tls.Group.X448, False),
    ],
)
def test_handshake_takes_keys_of_two_groups(
    site: Site, group: tls.Group, is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client without a key of X25519 or P-256 is refused with the alert handshake_failure."""
    monkeypatch.setattr(OtherGroup, "group", group)
    network = Network()
    QuicHost(network, site)
    client = QuicClient(network, site, core=OtherGroup).connect()
    if is_used:
        assert client.is_connected
    else:
        assert client.closed is not None and client.closed.error_code == CRYPTO_ERROR + HANDSHAKE_FAILURE


@pytest.mark.parametrize("name", ["a" * 256, "local\0host"])
def test_name_that_openssl_refuses_is_refused(site: Site, name: str) -> None:
    """A name of more than 255 octets, or with a zero octet, ends the handshake with the alert that TLS has for it."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, name=name).connect()
    assert client.closed is not None and client.closed.error_code == CRYPTO_ERROR + UNRECOGNIZED_NAME
    assert host.endpoint.links == 0
    assert is_answered(network, site)


def test_a_replayed_token_opens_no_more_than_an_address_may(site: Site) -> None:
    """A recorded first datagram with its token, sent again and again from its address, counts for that address."""
    network = Network()
    limits = ConnectionLimits(connections_per_address=4)
    host = QuicHost(network, site, limits=limits, retry="always", half_open=8)
    client = QuicClient(network, site).connect()
    [recorded] = [
        octets
        for origin, _, octets in network.carried
        if origin == client.address and pull_quic_header(Buffer(data=octets), 8).token
    ][:1]
    client.close()
    network.run(lambda: not host.endpoint.links)
    for _ in range(100):
        host.endpoint.datagramReceived(recorded, client.address)
        network.pass_time(0.01)
        assert host.endpoint.links <= 1 and host.endpoint.half_open <= 1
    assert is_answered(network, site)
    network.pass_time(limits.handshake_timeout + 1)
    assert len(host.dispatcher.requests) == 1


def test_a_client_without_a_connection_left_is_told_so(site: Site) -> None:
    """
    An address with all its connections gets CONNECTION_REFUSED, which costs no handshake, and its clients say so.

    Without an answer they blamed the network after three seconds.
    """
    network = Network()
    host = QuicHost(network, site, limits=ConnectionLimits(connections_per_address=2))
    for number in range(2):
        assert QuicClient(network, site, address=("198.51.100.7", 50_000 + number)).connect().is_connected
    began = network.clock.seconds()
    further = SessionClient(network, credentials_of(site), address=("198.51.100.7", 60_000)).connect()
    assert isinstance(further.session.fault, CannotConnect)
    assert "takes no more connections" in further.session.fault.explanation
    assert network.clock.seconds() - began < 0.5
    assert sum(len(octets) for _, to, octets in network.carried if to == further.address) < 300
    foreign = QuicClient(network, site, address=("198.51.100.7", 60_001)).connect()
    assert foreign.closed is not None and foreign.closed.error_code == QuicErrorCode.CONNECTION_REFUSED
    assert host.endpoint.counts.handshakes == {"limit": 2} and (host.endpoint.links, host.endpoint.half_open) == (2, 0)


def test_a_connection_that_cannot_be_made_is_not_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address has its share back, and the others that wait for their handshake have it."""
    network = Network()
    host = QuicHost(network, site, limits=ConnectionLimits(connections_per_address=1), retry="always")
    made, faults = datagrams.QuicLink, ["first"]

    def make(*given: Any, **named: Any) -> QuicLink:
        if faults:
            raise MemoryError(faults.pop())
        return made(*given, **named)

    monkeypatch.setattr(datagrams, "QuicLink", make)
    with logged_failures() as failures:
        first, *others = [QuicClient(network, site, address=(f"198.51.100.{number}", 1)) for number in range(7, 12)]
        network.run(lambda: all(each.is_connected for each in others))
    assert len(failures) == 1 and host.factory._admission.connections == len(host.endpoint._links) >= 4
    assert host.endpoint.counts.handshakes == {"broken": 1}
    assert first.connect().is_connected, "it sends again"
    network.pass_time(0.2)
    assert host.factory.connections == host.endpoint.count_admitted() == 5


def test_an_address_without_handshakes_left_costs_none(site: Site) -> None:
    """
    Once an address has used its handshakes its clients have to prove it, and are refused before their handshake.

    Clients that nobody vouches for could connect as fast as they liked, a handshake's processor time each.
    """
    network = Network()
    host = QuicHost(network, site, limits=ConnectionLimits(handshakes_per_second_per_address=3))
    clients = [QuicClient(network, site, address=("198.51.100.7", 50_000 + number)).connect() for number in range(3)]
    assert [client.closed for client in clients] == [None] * 3
    further = [QuicClient(network, site, address=("198.51.100.7", 60_000 + number)) for number in range(5)]
    network.pass_time(0.1)
    assert host.endpoint.counts.retries == 5 and host.endpoint.counts.handshakes == {"limit": 5}
    assert host.endpoint.links == 3 and not any(client.is_connected for client in further)
    assert is_answered(network, site)
    network.pass_time(1)
    assert clients[0].wait(clients[0].call())[0].startswith(OK)


def test_handshakes_that_end_early_press_as_those_that_are_open(site: Site) -> None:
    """
    A first datagram costs its time also where its sender, who may be anybody, ends the handshake with the next one.

    No more than ``half_open`` of such handshakes are begun without a Retry in the time that a handshake may take.
    """
    network = Network()
    host = QuicHost(network, site, half_open=8)
    for count in range(100):
        client = QuicClient(network, site, address=(f"203.0.113.{count}", 50_000))
        network.receivers.pop(client.address)
        client.close()
        client._timer.cancel()
        network.pass_time(0.03)
        assert host.endpoint.links == 0
    assert host.endpoint.counts.handshakes == {"broken": 8} and host.endpoint.counts.retries >= 92
    assert is_answered(network, site)
    network.pass_time(host.factory.limits.handshake_timeout)
    retries = host.endpoint.counts.retries
    QuicClient(network, site).connect()
    assert host.endpoint.counts.retries == retries


def test_failed_handshakes_of_proven_addresses_press_nobody(site: Site) -> None:
    """They count for their addresses, which have no more than their share; others are asked for no proof for them."""
    network = Network()
    host = QuicHost(network, site, half_open=2)
    patience = host.factory.limits.handshake_timeout
    for count in range(4):
        client = QuicClient(network, site, address=(f"203.0.113.{count}", 50_000))
        if count >= 2:
            network.pass_time(0.025)  # It has got a Retry, and not the host's part of the handshake.
        client.close()
        client._timer.cancel()
        network.pass_time(patience / 2 if count == 1 else 0.05)
    assert host.endpoint.counts.handshakes == {"broken": 4} and host.endpoint.counts.retries == 2
    network.pass_time(patience / 2)
    QuicClient(network, site).connect()
    assert host.endpoint.counts.retries == 2


def test_half_a_client_hello_is_forgotten(site: Site) -> None:
    """A handshake of which only the beginning ever arrives ends after its time, and nothing of it is left."""
    network = Network()
    host = QuicHost(network, site)
    for number in range(1, 9):
        client = QuicClient.__new__(QuicClient)
        write = QuicConnection._write_crypto_frame

        def write_half(self: Any, builder: Any, space: Any, stream: Any, write: Any = write) -> Any:
            sender = stream.sender
            sender._pending.subtract(len(sender._buffer) // 2, len(sender._buffer))
            return write(self, builder, space, stream)

        QuicConnection._write_crypto_frame = write_half  # type: ignore[method-assign]
        try:
            client.__init__(network, site, address=("203.0.113.5", number))  # type: ignore[misc]
        finally:
            QuicConnection._write_crypto_frame = write  # type: ignore[method-assign]
        client._timer.cancel()
    network.pass_time(1)
    assert host.endpoint.half_open == 8
    assert is_answered(network, site)
    network.pass_time(host.factory.limits.handshake_timeout)
    assert (host.endpoint.links, host.endpoint.half_open) == (1, 0)


@pytest.mark.parametrize("kind", ["new", "retired"])
def test_connection_ids_are_few_however_often_they_change(site: Site, kind: str) -> None:
    """A client that names new IDs all the time, or retires those of the host, makes it hold no more of them."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    [link] = host.endpoint._links
    for number in range(8, 208):
        if client.closed is not None:
            break
        if kind == "new":
            octets = b"\x08" + number.to_bytes(8, "big") + number.to_bytes(16, "big")
            frame(client, 0x18, number, number, octets=octets)
        else:
            client.core.change_connection_id()
            client.flush()
        network.pass_time(0.05)
        assert host.endpoint.connection_ids <= 9
        assert len(link.core._peer_cid_available) <= 8 and len(link.core._retire_connection_ids) <= 100
    assert client.closed is None and is_answered(network, site)
    network.pass_time(host.factory.limits.idle_timeout + 60)
    assert (host.endpoint.links, host.endpoint.connection_ids) == (0, 0)


@pytest.mark.parametrize("retry", ["pressed", "always"])
@pytest.mark.parametrize("spoofs", ["the first datagram", "the end of the handshake"])
def test_address_of_a_client_is_the_one_of_its_whole_handshake(site: Site, retry: str, spoofs: str) -> None:
    """
    Datagrams of a handshake that come from another address are not read.

    Who got the host's part at an address of its own could end the handshake in the name of another one, which counted
    as proven: for shares, gates and records, and for answers of any length.
    """
    network = Network()
    host = QuicHost(
        network, site, FakeDispatcher(lambda request, *_: succeed(reply(request, bytes(60_000)))), retry=retry
    )
    own, another = ("203.0.113.9", 50_000), ("127.0.0.1", 50_000)
    first, last = (another, own) if spoofs == "the first datagram" else (own, another)
    client = QuicClient(network, site, address=first)
    if retry == "always":
        network.run(lambda: network.carried[-1][0] == first and host.endpoint.counts.retries)
    number = client.core.get_next_available_stream_id()
    client.core.send_stream_data(number, ask(), end_stream=True)
    client.rebind(last)
    network.receivers[first], receive = client._receive, network.receivers.pop(last)
    client.core.send_ping(1)
    client.flush()
    network.pass_time(host.factory.limits.handshake_timeout + 1)
    assert client.is_connected and not host.dispatcher.requests
    assert (host.endpoint.links, host.factory.connections) == (0, 0)
    sent = sum(len(octets) for origin, to, octets in network.carried if to == last and origin == HOST)
    assert sent <= 3 * sum(len(octets) for origin, _, octets in network.carried if origin == last)
    assert receive == client._receive and is_answered(network, site)


@pytest.mark.parametrize("first", [True, False])
def test_port_of_a_client_may_change_within_its_handshake(site: Site, first: bool) -> None:
    """A translator of addresses that forgets gives another port of the same address."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site)
    if not first:
        network.run(lambda: client.is_connected)
    client.rebind((client.address[0], 50_001))
    client.core.send_ping(1)
    assert client.wait(client.call())[0].startswith(OK)
    assert [peer.address for peer in host.dispatcher.peers] == [client.address[0]]


def test_copies_from_elsewhere_delay_a_client_and_no_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Who sees a client's datagrams sends a copy of each first, from a new address each time.

    None of these can be proven, so that the client's own address counts again after three seconds.
    """
    network = Network()
    QuicHost(network, site, FakeDispatcher(lambda request, *_: succeed(reply(request, bytes(3_000)))))
    client = QuicClient(network, site).connect()
    network.pass_time(0.3)
    carry, addresses = network.carry, itertools.count(1)

    def race(octets: bytes, origin: Any, to: Any) -> None:
        if to == HOST:
            elsewhere = (f"203.0.113.{next(addresses) % 200}", 5)
            network.clock.callLater(network.delay / 2, network._deliver, octets, elsewhere, HOST)
        carry(octets, origin, to)

    monkeypatch.setattr(network, "carry", race)
    for _ in range(8):
        assert client.wait(client.call(), seconds=20)[0].startswith(OK)


def test_packets_that_another_address_forwards_take_no_connection_away(site: Site) -> None:
    """
    Who forwards a few packets in both directions proves its address, and drops the answer then.

    The address before is asked too (RFC 9000 section 9.3.3): what the client says there brings the connection back.
    """
    network = Network()
    host = QuicHost(network, site, FakeDispatcher())
    client = QuicClient(network, site).connect()
    number, thief = client.call(), ("203.0.113.9", 5)
    network.pass_time(1)
    [link] = host.endpoint._links

    def forward(octets: bytes, _: Any) -> None:
        if not link.core._network_paths[0].is_validated:
            client._receive(octets, HOST)

    network.receivers[thief] = forward
    client.core.send_ping(0)
    for octets, _ in client.core.datagrams_to_send(now=network.clock.seconds()):
        network.carry(octets, thief, HOST)
    network.run(lambda: any(each.addr == thief and each.is_validated for each in link.core._network_paths))
    host.dispatcher.answer(b"x" * 3_000)
    assert client.wait(number, seconds=1)[0].endswith(b"x" * 3_000)


def test_an_address_before_that_may_not_be_asked_yet_is_asked_later(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who forwards packets again within the pause has the connection until its end, not until the client speaks."""
    network = Network()
    host = QuicHost(network, site, FakeDispatcher())
    client = QuicClient(network, site).connect()
    number, thief = client.call(), ("203.0.113.9", 5)
    network.pass_time(1)
    [link] = host.endpoint._links
    carry, forwards = network.carry, [False]

    def take(octets: bytes, origin: Any, to: Any) -> None:
        carry(octets, thief if to == HOST and forwards[0] else origin, to)

    monkeypatch.setattr(network, "carry", take)
    network.receivers[thief] = lambda octets, _: client._receive(octets, HOST) if forwards[0] else None
    for forwards[0] in (True, False, True):
        client.core.send_ping(0)
        client.flush()
        network.pass_time(1)
        assert (link.address == thief[0]) is forwards[0]
    forwards[0] = False
    host.dispatcher.answer(b"x" * 3_000)
    assert client.wait(number, seconds=FORMER_PAUSE)[0].endswith(b"x" * 3_000)


def test_a_lost_request_of_proof_to_a_port_before_slows_nothing_down(site: Site) -> None:
    """A client has another port and the one before never answers, as behind a translator: nothing is congested."""
    network = Network()
    host = QuicHost(network, site, FakeDispatcher())
    client = QuicClient(network, site).connect()
    number = client.call()
    network.pass_time(1)
    [link] = host.endpoint._links
    window, in_flight = link.core._loss.congestion_window, link.core._loss.bytes_in_flight
    before = client.address
    network.carried.clear()
    client.rebind((before[0], before[1] + 1))
    client.core.send_ping(0)
    client.flush()
    network.pass_time(1)
    host.dispatcher.answer(b"x" * 9_000)
    assert client.wait(number)[0].endswith(b"x" * 9_000)
    network.pass_time(5)
    there, here = ({octets[1:9] for _, to, octets in network.carried if to == at} for at in (before, client.address))
    assert there and here and not there & here  # It was asked there, by an ID of that path (RFC 9000 section 9.5).
    assert link.core._loss.congestion_window >= window and link.core._loss.bytes_in_flight == in_flight == 0


def test_a_client_with_another_port_for_each_datagram_costs_few_datagrams(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A translator that knows no connection gives the proof of a port another one, which is asked for a proof in turn.

    Calls are answered, and between them both sides send a few datagrams in each probe timeout. Without a bound these
    were 5,000 a second at a round trip of 2 ms, until the connection was idle too long.
    """
    network = Network(delay=0.001)
    QuicHost(network, site)
    client = QuicClient(network, site).connect()
    carry, ports = network.carry, itertools.count(20_000)

    def translate(octets: bytes, origin: Any, to: Any) -> None:
        if to == HOST:
            origin = (origin[0], next(ports))
            network.receivers[origin] = client._receive
        carry(octets, origin, to)

    monkeypatch.setattr(network, "carry", translate)
    for _ in range(2):
        assert client.wait(client.call())[0].startswith(OK)
        before = len(network.carried)
        network.pass_time(10)
        assert len(network.carried) - before < 10 * 300 and client.closed is None


def test_a_client_that_left_is_probed_seldom(site: Site) -> None:
    """
    It took the handshake and says nothing more: without a call the pause between probes doubles, as RFC 9002 has it.

    A probe every three seconds cost the host more than the handshake.
    """
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    del network.receivers[client.address]
    client._timer.cancel()
    network.run(lambda: any(link.core._handshake_confirmed for link in host.endpoint._links))
    before = len(network.carried)
    network.pass_time(host.factory.limits.idle_timeout + 5)
    assert host.endpoint.links == 0 and 3 <= len(network.carried) - before <= 12


def test_paths_that_are_not_proven_are_few(site: Site) -> None:
    """Packets of one connection from twenty addresses, none of which answers, are no twenty paths, and it goes on."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    [link] = host.endpoint._links
    for number in range(1, 21):
        client.core.send_ping(number)
        sent = client.core.datagrams_to_send(now=network.clock.seconds())
        for octets, _ in sent:
            before = len(network.carried)
            host.endpoint.datagramReceived(octets, (f"203.0.113.{number}", 4000))
            network.pass_time(0.05)
            answered = sum(len(each) for _, to, each in network.carried[before:] if to not in (client.address, HOST))
            assert answered <= 3 * len(octets) * number
        assert len(link.core._network_paths) <= 8
    assert (host.factory.connections, link.address) == (1, client.address[0])
    assert client.wait(client.call(), seconds=20)[0].startswith(OK)


def test_an_idle_connection_holds_little(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A connection that has answered a call and waits for the next one holds at most 90 KiB."""
    caplog.set_level(logging.CRITICAL, "quic")  # Records of a log that another test turned on would count.
    network = Network()
    host = QuicHost(network, site)
    addresses = itertools.count(1)

    def connect(clients: int) -> None:
        for number in itertools.islice(addresses, clients):
            client = QuicClient(network, site, address=("198.51.100.7", number)).connect()
            client.wait(client.call())
            network.pass_time(1)
            client._timer.cancel()
            del network.receivers[client.address]
        network.carried.clear()
        host.dispatcher.requests.clear()
        host.dispatcher.peers.clear()
        gc.collect()

    connect(2)  # What is made once.
    held = []
    tracemalloc.start()
    for _ in range(3):  # What a library keeps, or another thread makes, is in one of them and not in all.
        before = tracemalloc.get_traced_memory()[0]
        connect(4)
        held.append((tracemalloc.get_traced_memory()[0] - before) // 4)
    tracemalloc.stop()
    assert host.endpoint.links == 14
    assert min(held) < 90 << 10, held


def test_a_sweep_does_not_wake_idle_connections(site: Site) -> None:
    """A connection that waits for its next call is looked at; nothing is computed until it is idle too long."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.wait(client.call())
    network.pass_time(1)
    [link] = host.endpoint._links
    before = set(network.clock.getDelayedCalls())
    host.factory.sweep()
    assert set(network.clock.getDelayedCalls()) == before and not link.is_gone
    network.pass_time(host.factory.limits.idle_timeout)
    host.factory.sweep()
    network.pass_time(0.1)
    assert link.is_gone and host.endpoint.links == 0


class Unwalked(dict[Any, Any]):
    """A table that may not be walked."""

    def __iter__(self) -> Any:
        raise AssertionError("all connections are looked at")

    keys = values = items = __iter__  # type: ignore[assignment]


@pytest.mark.parametrize("retry", ["always", "pressed"])
def test_a_first_datagram_does_not_cost_a_look_at_all_connections(site: Site, retry: str) -> None:
    """With 10,000 connections that look took 0.8 ms, thirty times a Retry, and anybody can send first datagrams."""
    network = Network()
    host = QuicHost(network, site, retry=retry)
    host.endpoint._links = Unwalked(host.endpoint._links)
    assert is_answered(network, site)
    assert (host.endpoint.links, host.endpoint.half_open) == (1, 0)
