"""Hostile clients of QUIC: what a datagram can cause is bounded, and a neighbour is answered."""

from __future__ import annotations

import os
import random
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aioquic import tls
from aioquic.buffer import Buffer
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import StopSendingReceived
from aioquic.quic.packet import QuicErrorCode, QuicPacketType, QuicProtocolVersion, pull_quic_header
from cryptography.hazmat.primitives.asymmetric import ec

from agtphost.protocols import ConnectionLimits
from agtphost.protocols.pacing import HANDSHAKES
from agtphost.protocols.quic import core, datagrams, turns
from agtphost.protocols.quic.answer_budget import PART
from agtphost.vocabulary.quic_codes import Code
from agtphost.wire.quic import connection
from tests.protocols.authorities import issue
from tests.protocols.links import FakeDispatcher, ask
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, quic_site

OK = b"AGTP/1.0 200 OK\r\n"
SEED = 20_261_128


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def is_answered(network: Network, site: Site) -> bool:
    """Whether another client is served."""
    neighbour = QuicClient(network, site, address=("198.51.100.200", 1)).connect()
    return neighbour.wait(neighbour.call())[0].startswith(OK)


def frame(client: QuicClient, kind: int, *values: int, octets: bytes = b"") -> None:
    """Send a frame of a hostile client's own making in a packet of its connection."""
    link = client.core
    original = link._write_application

    def write(builder: Any, path: Any, now: float) -> None:
        builder.start_packet(QuicPacketType.ONE_RTT, link._cryptos[tls.Epoch.ONE_RTT])
        buffer = builder.start_frame(kind, capacity=100 + len(octets))
        for value in values:
            buffer.push_uint_var(value)
        buffer.push_bytes(octets)
        original(builder, path, now)

    link._write_application = write  # type: ignore[method-assign]
    client.flush()
    link._write_application = original  # type: ignore[method-assign]


def test_sparse_frames_hold_no_more_than_the_windows(site: Site) -> None:
    """Frames that leave gaps make the host hold the windows of a connection at most, which never grow."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    window = host.endpoint._settings.window
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(8):
        for number in range(0, 64, 4):
            frame(client, 0x0E, number, window - 2, 1, octets=b"x")
            network.pass_time(0.02)
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert client.closed is not None  # more than the connection's window
    assert held < 2 << 20
    assert is_answered(network, site)


@pytest.mark.parametrize("surplus", [0, 1])
def test_a_request_has_one_window_before_it_is_accepted(site: Site, surplus: int) -> None:
    """One more octet is a fault, although the connection has room for it."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    frame(client, 0x0E, 0, host.endpoint._settings.window - 1 + surplus, 1, octets=b"x")
    network.pass_time(1)
    codes = [] if client.closed is None else [client.closed.error_code]
    assert codes == [QuicErrorCode.FLOW_CONTROL_ERROR] * surplus


def test_a_connection_has_four_windows_of_a_stream(site: Site) -> None:
    """Octets of three requests that wait behind gaps leave room for another call; more than four are a fault."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    most = host.endpoint._settings.window - 1
    for number in (32, 36, 40):
        frame(client, 0x0E, number, most, 1, octets=b"x")
    assert client.wait(client.call())[0].startswith(OK) and client.closed is None
    for number in (44, 48):
        frame(client, 0x0E, number, most, 1, octets=b"x")
    network.run(lambda: client.closed)
    assert client.closed is not None and client.closed.error_code == QuicErrorCode.FLOW_CONTROL_ERROR


@pytest.mark.parametrize(
    ("kind", "values", "octets", "code"),
    [
        (0x0E, (0, 10_000_000, 1), b"x", 0x03),  # FLOW_CONTROL_ERROR
        (0x0A, (4 * 16, 1), b"x", 0x04),  # STREAM_LIMIT_ERROR
        (0x0A, (2, 1), b"x", 0x04),  # a unidirectional stream
        (0x30, (), b"datagram", 0x0A),  # PROTOCOL_VIOLATION
        (0x06, (140_000, 1), b"x", 0x0D),  # CRYPTO_BUFFER_EXCEEDED
        (0x21, (), b"", 0x07),  # FRAME_ENCODING_ERROR
        (0x1E, (), b"", 0x0A),  # HANDSHAKE_DONE of a client
    ],
)
def test_forbidden_frame_closes_its_connection_alone(
    site: Site, kind: int, values: tuple[int, ...], octets: bytes, code: int
) -> None:
    """A frame that the protocol forbids ends the connection with QUIC's own code."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    frame(client, kind, *values, octets=octets)
    network.run(lambda: client.closed)
    assert client.closed is not None and client.closed.error_code == code
    assert host.endpoint.links == 0
    assert is_answered(network, site)


def test_octets_for_a_stream_that_has_ended_begin_no_second_request(site: Site) -> None:
    """A client that goes on after the answer, against STOP_SENDING, is not answered again on that stream."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.core.reset_stream = lambda *_: None  # type: ignore[method-assign, assignment]
    handlers: Any = client.core._QuicConnection__frame_handlers  # type: ignore[attr-defined]
    read = handlers[0x05][0]

    def read_and_go_on(context: Any, kind: int, buffer: Buffer) -> None:
        reset = client.core._streams[number].sender.reset
        client.core._streams[number].sender.reset = lambda **_: None  # type: ignore[method-assign, assignment]
        read(context, kind, buffer)
        client.core._streams[number].sender.reset = reset  # type: ignore[method-assign]

    handlers[0x05] = (read_and_go_on, handlers[0x05][1])
    number = client.call(ends=False)
    client.wait(number)
    network.run(lambda: number in client.stopped)
    network.pass_time(1)
    [link] = host.endpoint._links
    assert not host.endpoint.streams and link.core.is_open(number)
    client.core.send_stream_data(number, ask(), end_stream=True)
    client.flush()
    network.pass_time(1)
    assert len(host.dispatcher.requests) == 1
    assert client.answers[number].count(b"AGTP/1.0") == 1
    assert (client.closed, host.endpoint.streams, link._served) == (None, 0, set())
    assert client.wait(client.call())[0].startswith(OK)


@pytest.mark.parametrize("way", ["refused by the client", "too slow a reader"])
def test_an_answer_that_is_not_sent_any_more_is_not_kept(site: Site, way: str) -> None:
    """Its octets are freed with the reset, while the stream stays open for as long as the client does not end it."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher, limits=ConnectionLimits(write_timeout=10))
    client = QuicClient(network, site, max_stream_data=1000).connect()
    client.core._write_stream_limits = lambda **arguments: None  # type: ignore[method-assign, assignment]
    number = client.call()
    network.run(lambda: dispatcher.waiting)
    dispatcher.answer(b"x" * (4 << 20))
    network.pass_time(0.1)
    [link] = host.endpoint._links
    sender = link.core._streams[number].sender
    assert len(sender._buffer) > 60_000
    network.silent_until = network.clock.seconds() + 30  # The client acknowledges nothing more.
    if way == "refused by the client":
        link._cancel(StopSendingReceived(stream_id=number, error_code=Code.CANCELLED))
    else:
        for _ in range(20):
            network.pass_time(1)
            host.factory.sweep()
    assert link.core.is_open(number) and len(sender._buffer) == 0
    network.pass_time(40)
    assert client.wait(client.call(b""))[0] == b"" and client.closed is None


def test_rapid_reset_closes_the_connection(site: Site) -> None:
    """A hundred requests that are reset unanswered within ten seconds end the connection."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = QuicClient(network, site).connect()
    count = 0
    while client.closed is None and count < 400:
        number = client.call(ends=False)
        client.core.reset_stream(number, Code.CANCELLED)
        client.flush()
        network.pass_time(0.05)
        count += 1
    assert client.closed is not None and client.closed.error_code == Code.TOO_MUCH
    assert 100 <= count <= 110
    assert len(dispatcher.requests) <= count
    assert host.endpoint.links == 0


def initial(site: Site, network: Network, number: int) -> bytes:
    """The first datagram of a client that sends no other."""
    QuicClient(network, site, address=("203.0.113.99", number))
    return network.carried.pop()[2]


def silent(seed: int = 0) -> Network:
    """A network that loses what clients send, so that a test carries it."""
    return Network(seed, loss=1)


def test_spoofed_first_datagrams_get_no_more_than_handshakes_that_are_open(site: Site) -> None:
    """Beyond half_open handshakes each gets a Retry, which needs no state; the owner of the address is served."""
    elsewhere, network = silent(), Network()
    host = QuicHost(network, site, half_open=8)
    sent = 0
    for number in range(1, 201):
        datagram = initial(site, elsewhere, number)
        sent += len(datagram)
        host.endpoint.datagramReceived(datagram, ("203.0.113.5", number))
        network.pass_time(0.001)
        assert host.endpoint.half_open <= 8
    assert host.endpoint.counts.retries == 192
    assert host.factory.connections == 0
    answered = sum(len(octets) for origin, _, octets in network.carried if origin == HOST)
    assert answered <= 3 * sent
    owner = QuicClient(network, site, address=("203.0.113.5", 4444)).connect()
    assert owner.wait(owner.call())[0].startswith(OK)
    network.pass_time(host.factory.limits.handshake_timeout + 1)
    owner.close()
    network.pass_time(1)
    assert (host.endpoint.links, host.endpoint.connection_ids) == (0, 0)


def test_a_first_datagram_that_comes_twice_while_it_waits_begins_one_connection(site: Site) -> None:
    """A client sends again before its turn: the second copy is dropped, and no half of a connection is left."""
    network = Network()
    host = QuicHost(network, site)
    waiter = type("Waiter", (), {"take_turn": lambda self: None})
    while host.endpoint._handshakes.take(waiter()):
        pass  # The turns of this round are taken.
    client = QuicClient(network, site)
    datagram = network.carried[-1][2]
    for _ in range(3):
        host.endpoint.datagramReceived(datagram, client.address)
    assert (host.endpoint.links, host.endpoint.half_open) == (0, 1)
    assert host.endpoint.counts.dropped["waiting"] == 2
    client.connect()
    network.pass_time(1)
    assert (host.endpoint.links, host.endpoint.half_open) == (1, 0)
    assert client.wait(client.call())[0].startswith(OK)
    client.close()
    network.pass_time(1)
    assert (host.endpoint.links, host.endpoint.connection_ids) == (0, 0)


def test_a_long_client_hello_that_waits_is_read_whole(site: Site) -> None:
    """One with a key of ML-KEM has two datagrams: the second waits with the first, and need not be sent again."""
    network = Network()
    host = QuicHost(network, site)
    waiter = type("Waiter", (), {"take_turn": lambda self: None})
    network.silent_until = 0.01
    client = QuicClient(network, site, quantum_readiness_test=True)
    hello = [octets for _, to, octets in network.carried if to == HOST]
    network.pass_time(network.silent_until)
    while host.endpoint._handshakes.take(waiter()):
        pass  # The turns of this round are taken.
    for each in (*hello, *hello):
        host.endpoint.datagramReceived(each, client.address)
    assert len(hello) == 2 and host.endpoint.counts.dropped["waiting"] == 2
    host.endpoint.datagramReceived(hello[1], ("203.0.113.5", 1))
    assert host.endpoint.counts.dropped["waiting"] == 3
    network.pass_time(network.delay * 2.5)
    assert client.is_connected and network.clock.seconds() < 0.1
    assert client.wait(client.call())[0].startswith(OK)


def test_first_datagrams_that_wait_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a first datagram is dropped, and its client sends it again."""
    monkeypatch.setattr(datagrams, "MOST_WAITING", 3)
    elsewhere, network = silent(), Network()
    host = QuicHost(network, site)
    for number in range(1, 8):
        host.endpoint.datagramReceived(initial(site, elsewhere, number), ("203.0.113.5", number))
    assert (host.endpoint.links, host.endpoint.half_open) == (HANDSHAKES, HANDSHAKES + 3)
    assert host.endpoint.counts.dropped["waiting"] == 7 - HANDSHAKES - 3
    assert is_answered(network, site)


def test_amplification_is_three_at_most(site: Site) -> None:
    """An address that was not proven gets three times the octets that came from it, however long nothing else comes."""
    elsewhere, network = silent(), Network()
    host = QuicHost(network, site)
    datagram = initial(site, elsewhere, 1)
    host.endpoint.datagramReceived(datagram, ("203.0.113.5", 1))
    network.pass_time(60)
    answered = sum(len(octets) for origin, _, octets in network.carried if origin == HOST)
    assert 0 < answered <= 3 * len(datagram)
    assert host.endpoint.links == 0


def test_retry_proves_the_address(site: Site) -> None:
    """With retry = always a client is served after a Retry; its token does for no other address, and for 30 s only."""
    network = Network()
    host = QuicHost(network, site, retry="always")
    client = QuicClient(network, site).connect()
    assert client.wait(client.call())[0].startswith(OK)
    assert host.endpoint.counts.retries == 1
    with_token = [
        octets
        for origin, _, octets in network.carried
        if origin == client.address and pull_quic_header(Buffer(data=octets), 8).token
    ]
    client.close()
    network.run(lambda: not host.endpoint.links)
    host.endpoint.datagramReceived(with_token[0], ("203.0.113.5", 1))
    network.pass_time(31)
    host.endpoint.datagramReceived(with_token[0], client.address)
    assert (host.endpoint.links, host.endpoint.counts.retries) == (0, 1)
    assert [to for origin, to, octets in network.carried[-2:]] == [("203.0.113.5", 1), client.address]
    assert all(len(octets) < 100 for _, _, octets in network.carried[-2:])  # They are refused with INVALID_TOKEN.
    network.pass_time(1)
    sent = len(network.carried)
    for number in range(2 * datagrams.REFUSALS_PER_SECOND):  # Each takes longer than a Retry.
        host.endpoint.datagramReceived(with_token[0], (f"10.{number}.0.1", 1))
        host.endpoint.datagramReceived(with_token[0], client.address)
    assert len(network.carried) - sent == datagrams.REFUSALS_PER_SECOND
    assert sum(to == client.address for _, to, _ in network.carried[sent:]) == datagrams.REFUSALS_PER_SECOND // PART


@pytest.mark.parametrize("retry", ["pressed", "always"])
@pytest.mark.parametrize("octets", [1, 60, 500])
def test_a_token_of_another_server_is_as_good_as_none(site: Site, retry: str, octets: int) -> None:
    """A client may have one of a server that had the address before: it is served, after a Retry where it is asked."""
    network = Network()
    host = QuicHost(network, site, retry=retry)
    client = QuicClient(network, site, token=b"t" * octets).connect()
    assert client.wait(client.call())[0].startswith(OK)
    assert host.endpoint.counts.retries == (retry == "always")


def test_a_turn_takes_no_more_datagrams_after_its_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn between two datagrams, each of which may be a whole call; the next turn goes on."""
    network = Network()
    host: Any = QuicHost(network, site)
    for seconds, octets in ((3600.0, turns.TURN_OCTETS), (0.0, 0)):
        network.pass_time(0.001)
        monkeypatch.setattr(turns, "TURN_SECONDS", seconds)
        monkeypatch.setattr(turns, "READ_SECONDS", seconds)
        host.maxThroughput = turns.TURN_OCTETS
        for _ in range(2):
            host.endpoint.datagramReceived(b"x", ("203.0.113.5", 4444))
        assert host.maxThroughput == octets
    network.pass_time(0.001)
    assert host.maxThroughput == turns.TURN_OCTETS


def test_share_of_an_address(site: Site) -> None:
    """An address has as many connections as limits allow, of both carriers together."""
    network = Network()
    host = QuicHost(network, site, limits=ConnectionLimits(connections_per_address=2))
    clients = [QuicClient(network, site, address=("198.51.100.7", number)) for number in (1, 2)]
    network.run(lambda: all(each.is_connected for each in clients))
    network.pass_time(1)
    third = QuicClient(network, site, address=("198.51.100.7", 3))
    network.pass_time(3)
    assert not third.is_connected
    assert host.factory.connections == 2
    assert host.endpoint.counts.retries > 0
    assert is_answered(network, site)


@pytest.mark.parametrize("version", [0x6B3343CF, 0xFF00001D, 0x1A2A3A4A])
def test_other_versions_are_told(site: Site, version: int) -> None:
    """Another version gets the list of versions, which is shorter than its datagram; short datagrams get nothing."""
    elsewhere, network = silent(), Network()
    host = QuicHost(network, site)
    datagram = bytearray(initial(site, elsewhere, 1))
    host.endpoint.datagramReceived(bytes(datagram[:1199]), ("203.0.113.5", 1))  # Of this version, and too short.
    assert (host.endpoint.half_open, host.endpoint.counts.handshakes.total()) == (0, 0)
    datagram[1:5] = version.to_bytes(4, "big")
    host.endpoint.datagramReceived(bytes(datagram), ("203.0.113.5", 1))
    host.endpoint.datagramReceived(bytes(datagram[:1199]), ("203.0.113.5", 1))
    datagram[1:5] = bytes(4)
    for length in range(1200, 1204):  # One of them ends with a whole number of versions: it could be answered for ever.
        host.endpoint.datagramReceived(bytes(datagram).ljust(length, b"\0"), ("203.0.113.5", 1))
    assert host.endpoint.counts.dropped["malformed"] < 4
    [answer] = [octets for origin, _, octets in network.carried if origin == HOST]
    assert answer[1:5] == bytes(4) and len(answer) < 60
    assert answer.endswith(int(QuicProtocolVersion.VERSION_1).to_bytes(4, "big"))
    assert host.endpoint.links == 0


def test_resets_are_shorter_and_bounded(site: Site) -> None:
    """Packets of unknown connections get resets that are shorter than they, fifty a second; the shortest none."""
    network = Network()
    host = QuicHost(network, site)
    lengths = [*range(1, 60), *[1200] * 100]
    for length in lengths:
        host.endpoint.datagramReceived(b"\x40" + bytes(length - 1), ("203.0.113.5", 1))
    answers = [octets for origin, _, octets in network.carried if origin == HOST]
    assert len(answers) == 50 == host.endpoint.counts.resets
    assert [len(each) for each in answers] == [min(length - 1, 42) for length in lengths if length > 21][:50]


def test_no_ticket_is_given_and_early_data_is_dropped(site: Site) -> None:
    """The host gives no ticket, so nothing is resumed; a packet of early data is not read."""
    network = Network()
    host = QuicHost(network, site)
    tickets: list[object] = []
    taking: Any = partial(QuicConnection, session_ticket_handler=tickets.append)
    client = QuicClient(network, site, core=taking).connect()
    client.wait(client.call())
    network.pass_time(5)
    assert tickets == []
    [link] = host.endpoint._links
    assert not link.core._cryptos[tls.Epoch.ZERO_RTT].recv.is_valid()
    requests = len(host.dispatcher.requests)
    early = bytearray(initial(site, silent(), 9))
    early[0] = early[0] & 0xCF | 0x10  # ZERO_RTT
    host.endpoint.datagramReceived(bytes(early), ("203.0.113.5", 1))
    assert len(host.dispatcher.requests) == requests
    assert host.endpoint.links == 1


def test_mutated_datagrams_do_no_harm(site: Site) -> None:
    """Whatever octets of real datagrams are changed: nothing fails, no state is left, and others are served."""
    chance = random.Random(SEED)
    network = Network()
    host = QuicHost(network, site, half_open=4)
    client = QuicClient(network, site).connect()
    client.wait(client.call())
    seen = [octets for origin, _, octets in network.carried if origin == client.address]
    for number in range(10_000):
        datagram = bytearray(chance.choice(seen))
        for _ in range(chance.choice((1, 1, 2, 8))):
            datagram[chance.randrange(min(len(datagram), chance.choice((30, 2000))))] = chance.randrange(256)
        cut = chance.choice((len(datagram), len(datagram), chance.randrange(len(datagram))))
        host.endpoint.datagramReceived(bytes(datagram[:cut]), ("203.0.113.5", 1 + number % 60_000))
        if not number % 100:
            network.pass_time(0.001)
            assert host.endpoint.half_open <= 5
    assert client.wait(client.call())[0].startswith(OK)
    network.pass_time(host.factory.limits.handshake_timeout + 1)
    assert host.endpoint.links == 1


def test_moves_are_bounded(site: Site) -> None:
    """A client that has another address all the time loses its connection; the counts are those of one connection."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    for number in range(1, 20):
        client.rebind((f"203.0.113.{number}", 4000))
        client.core.send_ping(number)
        client.flush()
        network.pass_time(1)
        assert host.factory.connections <= 1
        if client.closed is not None:
            break
    assert client.closed is not None and client.closed.error_code == Code.TOO_MUCH
    assert number <= 10
    assert (host.factory.connections, host.endpoint.connection_ids) == (0, 0)


def test_slow_request_is_late(site: Site) -> None:
    """A request that does not come to its end is answered 408 and its stream ends, as on TCP."""
    network = Network()
    host = QuicHost(network, site, limits=ConnectionLimits(header_timeout=5))
    client = QuicClient(network, site).connect()
    number = client.call(ask()[:10], ends=False)
    for _ in range(8):
        network.pass_time(1)
        host.factory.sweep()
    network.run(lambda: number in client.ended)
    assert b"AGTP/1.0 408" in client.answers[number]


def test_reader_that_opens_no_window_is_cut(site: Site) -> None:
    """A client that takes nothing of a long answer loses that answer; what waits for it is bounded, others go on."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher, limits=ConnectionLimits(write_timeout=10))
    client = QuicClient(network, site, max_stream_data=1000).connect()
    client.core._write_stream_limits = lambda **arguments: None  # type: ignore[method-assign, assignment]
    number = client.call()
    network.run(lambda: dispatcher.waiting)
    dispatcher.answer(b"x" * (4 << 20))
    for _ in range(20):
        network.pass_time(1)
        host.factory.sweep()
        assert host.endpoint.streams <= 1
    assert host.endpoint.streams == 0
    assert client.reset[number] == Code.LATE


def test_connections_leave_nothing(site: Site) -> None:
    """After connections that end in every way nothing is left of them."""
    network = Network()
    host = QuicHost(network, site, half_open=1000)
    for number in range(60):
        client = QuicClient(network, site, address=("198.51.100.7", 1 + number))
        if number % 3:
            client.connect()
            client.call(ends=bool(number % 2))
        if number % 3 == 1:
            client.close()
        else:
            del network.receivers[client.address]
            client.core._close_at = None  # it is gone
            if client._timer is not None and client._timer.active():
                client._timer.cancel()
    network.pass_time(host.factory.limits.idle_timeout + 60)
    assert (host.endpoint.links, host.endpoint.connection_ids, host.endpoint.streams) == (0, 0, 0)
    assert (host.factory.connections, host.factory.calls) == (0, 0)
    assert not network.clock.getDelayedCalls()


@pytest.mark.parametrize(
    ("place", "name"),
    [(QuicConnection, "_write_stream_limits"), (tls.Context, "_server_handle_hello"), (tls, "pull_client_hello")],
)
def test_other_library_is_named(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> None:
    """Where a private name of the library is missing, the fault names it and the version that is needed."""
    assert connection.find_fault() == ""
    monkeypatch.delattr(place, name)
    assert name in connection.find_fault() and "aioquic 1.7.1 or later" in connection.find_fault()


def test_other_version_of_the_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of the library is not used, however much it looks like this one."""
    for version in ("1.7.0", "1.8.0", "2.0"):
        monkeypatch.setattr(connection.aioquic, "__version__", version)
        assert version in connection.find_fault()


@pytest.mark.parametrize(("algorithm", "taken"), [(0x0503, True), (0x0403, False)])
def test_signature_counts_by_the_algorithm_of_its_curve(site: Site, algorithm: int, taken: bool) -> None:
    """A key of P-384 proves itself by SHA-384 alone, as in TLS 1.3, not by any hash that the client names."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, issue(site.root, key=ec.generate_private_key(ec.SECP384R1())))
    client.core.tls._signature_algorithms_for_private_key = lambda: [algorithm]  # type: ignore[method-assign, list-item]
    network.run(lambda: host.endpoint.links)
    [link] = host.endpoint._links
    assert 0x0201 not in map(int, link.core.tls._signature_algorithms)  # SHA-1
    client.connect()
    client.call()
    network.run(lambda: client.ended or client.closed)
    assert (client.closed is None) is taken


def test_token_of_a_reset_survives_a_restart() -> None:
    """The token of a connection ID depends on the secret and the ID alone."""
    connection_id = os.urandom(8)
    assert core.reset_token(b"a", connection_id) == core.reset_token(b"a", connection_id)
    assert core.reset_token(b"a", connection_id) != core.reset_token(b"b", connection_id)
