"""Hostile clients that make their own packets, and keep the host from forgetting what it holds for a connection."""

from __future__ import annotations

import errno
import gc
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aioquic import tls
from aioquic.buffer import encode_uint_var as number
from twisted.internet.defer import succeed
from twisted.logger import LogEvent, globalLogPublisher

from agtphost.logs.log_throttle import INTERVAL, LOGGED_IN_FULL, LogThrottle
from agtphost.protocols import ConnectionLimits, listener_connections
from agtphost.protocols.limits import HASTE, WAITING
from agtphost.protocols.quic import datagrams, qlog
from agtphost.vocabulary.quic_codes import MOST_RESETS, RESET_SECONDS, Code
from agtphost.wire.quic.connection import (
    MOST_ACKNOWLEDGEMENTS,
    MOST_PACKETS,
    MOST_PEER_IDS,
    MOST_PROBES,
    BoundedConnection,
)
from tests.protocols.links import FakeDispatcher, ask, reply
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, logged_failures, quic_site
from tests.protocols.quic.test_hostile import frame, is_answered

PING, PATH_CHALLENGE, PATH_RESPONSE = b"\x01", b"\x1a", b"\x1b"

PROTOCOL_VIOLATION = 0x0A

FIRST, SECOND = ("198.51.100.7", 50_000), ("198.51.100.7", 50_001)
"""Addresses of one client."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


class SilentClient:
    """A client that has shaken hands, reads nothing any more, and sends packets of its own making."""

    def __init__(self, network: Network, site: Site, host: QuicHost) -> None:
        client = QuicClient(network, site, address=FIRST).connect()
        network.pass_time(0.2)
        [link] = host.endpoint._links
        self.link = link
        self.core: Any = link.core
        link.core.release = lambda: None  # type: ignore[method-assign]  # Tests look at what it was at its end.
        self._network = network
        self._keys: Any = client.core._cryptos[tls.Epoch.ONE_RTT].send
        self._sent = client.core._packet_number
        del network.receivers[FIRST]
        client._timer.cancel()

    def send(self, frames: bytes, address: tuple[str, int] = FIRST, *, to: bytes | None = None) -> None:
        """
        Send a packet.

        :param to: the host's connection ID; None: that in use.
        """
        self._sent += 1
        head = b"\x43" + (to or self.core.host_cid) + self._sent.to_bytes(4, "big")
        plain = frames + bytes(max(0, 4 - len(frames)))  # PADDING
        self._network.carry(self._keys.encrypt_packet(head, plain, self._sent), address, HOST)
        self._network.pass_time(0.03)

    def prove(self, address: tuple[str, int]) -> None:
        """Go on from an address, and answer the host's challenge to it."""
        self.send(PING, address)
        [path] = [each for each in self.core._network_paths if each.addr == address]
        if path.local_challenges:
            self.send(PATH_RESPONSE + path.local_challenges[-1], address)
        assert path.is_validated

    def space(self) -> Any:
        return self.core._spaces[tls.Epoch.ONE_RTT]


@pytest.mark.parametrize("padding", [100, 300, 1_100])
def test_a_lost_request_of_proof_is_repeated_beside_an_answer(site: Site, padding: int) -> None:
    """An address that proves nothing gets three times what came from it, and the answer does not use all of that."""
    network = Network()
    host = QuicHost(network, site, FakeDispatcher())
    client = SilentClient(network, site, host)
    client.send(b"\x0b\0" + number(len(ask())) + ask())
    client.send(PING + bytes(padding), SECOND)
    host.dispatcher.answer(bytes(100_000))
    network.pass_time(1)
    path = client.core._network_paths[0]
    assert path.addr == SECOND and path.bytes_sent == 3 * path.bytes_received
    assert len(path.local_challenges) == 3


def widen_by_one(client: SilentClient, count: int) -> None:
    """Let the host send one further octet of an answer."""
    client.send(b"\x11\0" + number(count + 1))


def probe_the_first_path(client: SilentClient, count: int) -> None:
    """Probe the path that is not in use, although it is proven."""
    client.send(PATH_CHALLENGE + os.urandom(8), FIRST)


@pytest.mark.parametrize("cause", [widen_by_one, probe_the_first_path])
def test_packets_that_are_not_acknowledged_are_few(site: Site, cause: Callable[[SilentClient, int], None]) -> None:
    """
    A client that acknowledges nothing makes the host hold few packets, however short they are and whatever they answer.

    Each takes 700 octets of memory. Without a bound a packet of 34 octets caused one, and each acknowledgement, of
    which a datagram holds 200, costs a look at all of them.
    """
    network = Network()
    host = QuicHost(network, site, FakeDispatcher(lambda request, *_: succeed(reply(request, bytes(200_000)))))
    client = SilentClient(network, site, host)
    client.prove(SECOND)
    client.core._remote_max_stream_data_bidi_local = 0
    client.core._loss._cc.congestion_window = 400_000  # As after some answers that were read quickly.
    client.send(b"\x0b\0" + number(len(ask())) + ask(), SECOND)
    for count in range(MOST_PACKETS + 500):
        cause(client, count)
    kept, in_flight = len(client.space().sent_packets), client.core._loss.bytes_in_flight
    assert (client.link.is_gone, is_answered(network, site)) == (False, True)
    if cause is widen_by_one:
        assert MOST_PACKETS - 100 < kept <= MOST_PACKETS + 2 * MOST_ACKNOWLEDGEMENTS
    else:
        # One packet in eight that only acknowledges asks for an acknowledgement, if it has such a number.
        assert in_flight <= 400_000 + (MOST_PROBES + 1) * 1_200 and kept <= 600


@pytest.mark.parametrize("size", [0, 1_150])
def test_addresses_that_prove_nothing_get_little(site: Site, size: int) -> None:
    """
    Challenges count for the three octets that an address gets for each that came from it.

    They exceed the congestion window, so the packets that the host holds for them are few. Without a bound of their
    rate they were as many as may be.
    """
    network = Network()
    host = QuicHost(network, site, FakeDispatcher(lambda request, *_: succeed(reply(request, bytes(200_000)))))
    client = SilentClient(network, site, host)
    client.send(b"\x0b\0" + number(len(ask())) + ask())
    for count in range(MOST_PACKETS + 200):
        client.send(PING + bytes(size), (FIRST[0], 40_000 + count % 6))
    allowed: Counter[int] = Counter()
    for origin, to, octets in network.carried:
        if origin == HOST:
            allowed[to[1]] -= len(octets)
            assert to == FIRST or allowed[to[1]] >= 0
        else:
            allowed[origin[1]] += 3 * len(octets)
    assert MOST_PACKETS // 4 < len(client.space().sent_packets) < MOST_PACKETS
    assert (client.link.is_gone, is_answered(network, site)) == (False, True)


def test_end_of_a_connection_is_no_more_than_an_address_may_get(site: Site) -> None:
    """An address that is not proven gets three times what came from it, the notice that a connection ends included."""
    network = Network()
    host = QuicHost(network, site)
    client = SilentClient(network, site, host)
    spoofed = ("203.0.113.9", 50_000)
    client.send(PING, spoofed)
    client.link.cut()
    network.pass_time(1)
    came = sum(len(octets) for origin, _, octets in network.carried if origin == spoofed)
    went = sum(len(octets) for _, to, octets in network.carried if to == spoofed)
    assert 0 < went <= 3 * came
    assert host.endpoint.links == 0


def test_ids_are_not_retired_before_they_were_sent(site: Site) -> None:
    """
    A packet retires the connection IDs that its client knows, and none that are made for them.

    Without a bound 400 IDs and keys were made for each packet, at 5 us for each octet.
    """
    network = Network()
    host = QuicHost(network, site)
    client = SilentClient(network, site, host)
    known = len(client.core._host_cids)
    client.send(b"".join(b"\x19" + number(place) for place in range(1, known)))
    assert client.core._host_cid_seq == 2 * known - 1 and host.endpoint.connection_ids == known + 1
    client.send(b"".join(b"\x19" + number(place) for place in range(known, 400)))
    assert client.core.termination and client.core.termination.error_code == PROTOCOL_VIOLATION
    assert client.core._host_cid_seq <= 3 * known and client.link.is_gone
    assert host.endpoint.connection_ids == 0 and is_answered(network, site)


def test_octets_behind_a_gap_end_with_their_stream(site: Site) -> None:
    """
    Streams that are reset hold none of their octets, so that those of a connection stay within its window.

    Without this 49 packets of 45 octets made the host hold 2.7 MB, and eight times as much with 128 ``streams``.
    """
    network = Network()
    host = QuicHost(network, site)
    client = SilentClient(network, site, host)
    window = host.endpoint._settings.window
    for stream in range(0, 4 * 48, 4):
        last = b"\x0e" + number(stream) + number(window - 1) + b"\1x"
        client.send(last + b"\x04" + number(stream) + b"\0" + number(window))
    assert len(client.core._streams) >= 40 and not client.link.is_gone
    assert sum(len(each.receiver._buffer) for each in client.core._streams.values()) == 0
    assert is_answered(network, site)


def test_client_that_retires_all_its_connection_ids_is_closed(site: Site) -> None:
    """A client that leaves the host no connection ID to send to has made an error, and the host's log has no fault."""
    network = Network()
    host = QuicHost(network, site)
    client = SilentClient(network, site, host)

    def use_next_id() -> None:
        """Make the host use another connection ID of the client, by using another one of the host's."""
        client.send(PING, to=next(each.cid for each in client.core._host_cids if each.cid != client.core.host_cid))

    def name(sequence: int, retired: int) -> bytes:
        return b"\x18" + number(sequence) + number(retired) + b"\x08" + os.urandom(8 + 16)

    while client.core._peer_cid_available:
        use_next_id()
    client.send(name(20, 0) + name(10, 0))
    use_next_id()
    use_next_id()
    with logged_failures() as failures:
        client.send(name(20, 20))
    assert client.core.termination and client.core.termination.error_code == PROTOCOL_VIOLATION
    assert client.link.is_gone and not failures
    assert is_answered(network, site)


def test_ids_that_were_retired_are_forgotten(site: Site) -> None:
    """
    A client that makes the host use another of its IDs with each packet names further ones as long as it likes.

    The host remembered the number of each, and looked through them at each frame: 9 ms for a datagram after 6,000.
    """
    network = Network()
    host = QuicHost(network, site)
    client = SilentClient(network, site, host)

    def use_next_id(frames: bytes) -> None:
        client.send(frames, to=next(each.cid for each in client.core._host_cids if each.cid != client.core.host_cid))

    def name(sequence: int) -> bytes:
        return b"\x18" + number(sequence) + b"\0\x08" + os.urandom(8 + 16)

    use_next_id(PING)
    for sequence in range(8, 8 + 4 * MOST_PEER_IDS):
        newest = client.core._packet_number - 1
        use_next_id(b"\x02" + number(newest) + b"\0\0" + number(newest) + name(sequence))
        assert len(client.core._peer_cid_sequence_numbers) <= MOST_PEER_IDS
    client.send(name(8) + name(sequence) + b"\x0b\0" + number(len(ask())) + ask())
    assert sorted(each.sequence_number for each in client.core._peer_cid_available) == [
        *range(sequence - 5, sequence + 1)
    ]
    assert not client.link.is_gone and len(host.dispatcher.requests) == 1


@pytest.mark.parametrize(("octets", "is_closed"), [(b"", True), (ask(), False)], ids=["nothing", "requests"])
def test_streams_without_a_request_count_as_resets(site: Site, octets: bytes, is_closed: bool) -> None:
    """A stream that only ends is cheap for its client and asks for nothing: a hundred in ten seconds are too many."""
    network = Network()
    host = QuicHost(network, site)
    client = SilentClient(network, site, host)
    opened = 0
    while not client.link.is_gone and opened < 160:
        newest = client.core._packet_number - 1
        frames = b"\x02" + number(newest) + b"\0\0" + number(newest)  # ACK
        while opened < client.core._local_max_streams_bidi.sent:
            frames += b"\x0b" + number(4 * opened) + number(len(octets)) + octets
            opened += 1
        client.send(frames)
    assert client.link.is_gone is is_closed and network.clock.seconds() < RESET_SECONDS
    if is_closed:
        assert MOST_RESETS < opened <= MOST_RESETS + 3 * 16 and not host.dispatcher.requests
        assert client.core.termination and client.core.termination.error_code == Code.TOO_MUCH
    else:
        assert len(host.dispatcher.requests) == opened
    assert is_answered(network, site)


@pytest.mark.parametrize("wants_none_first", [True, False])
def test_requests_whose_answers_are_unwanted_count_as_resets(site: Site, wants_none_first: bool) -> None:
    """
    A client that says STOP_SENDING with each request is closed, whichever of the two frames comes first.

    Where STOP_SENDING is first, the request is given up before it begins.
    """
    network = Network()
    host = QuicHost(network, site)
    client = SilentClient(network, site, host)
    opened = 0
    while not client.link.is_gone and opened < 2 * MOST_RESETS:
        newest = client.core._packet_number - 1
        frames = b"\x02" + number(newest) + b"\0\0" + number(newest)  # ACK
        for _ in range(min(5, client.core._local_max_streams_bidi.sent - opened)):
            asks = b"\x0b" + number(4 * opened) + number(len(ask())) + ask()
            stops = b"\x05" + number(4 * opened) + b"\3"
            frames += stops + asks if wants_none_first else asks + stops
            opened += 1
        client.send(frames)
    assert client.link.is_gone and opened <= MOST_RESETS + 5 and network.clock.seconds() < RESET_SECONDS
    assert client.core.termination and client.core.termination.error_code == Code.TOO_MUCH
    assert bool(host.dispatcher.requests) is not wants_none_first
    assert is_answered(network, site)


@pytest.mark.parametrize("where", ["receive_datagram", "datagrams_to_send"])
def test_faults_of_the_library_are_few_lines_in_the_log(
    site: Site, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a datagram makes the library fail: the host's log has a few of them a minute, and a count."""
    lines: list[LogEvent] = []
    network = Network()
    throttle = LogThrottle(lines.append, network.clock.seconds)
    globalLogPublisher.addObserver(throttle)
    try:
        host = QuicHost(network, site)

        def fail(self: Any, *given: Any, **named: Any) -> None:
            raise RuntimeError("the library has a fault")

        with monkeypatch.context() as patch:
            patch.setattr(BoundedConnection, where, fail)
            for number in range(2 * LOGGED_IN_FULL):
                QuicClient(network, site, address=("203.0.113.5", 1 + number))
                network.pass_time(0.02)
        assert host.endpoint.links == 0
        assert len([each for each in lines if "log_failure" in each]) == LOGGED_IN_FULL
        network.pass_time(INTERVAL)
        throttle.flush()
        [count] = [each["count"] for each in lines if "count" in each]
        assert count >= LOGGED_IN_FULL
        assert is_answered(network, site)
    finally:
        globalLogPublisher.removeObserver(throttle)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage collector, which a host lets look at what is older than a moment every thirty thousand connections."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def end_by_client(network: Network, client: QuicClient) -> None:
    client.close()


def end_by_silence(network: Network, client: QuicClient) -> None:
    del network.receivers[client.address]
    client._timer.cancel()


def end_by_error(network: Network, client: QuicClient) -> None:
    client.core._local_next_stream_id_bidi = 4_000
    client.call()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("end", [end_by_client, end_by_silence, end_by_error])
@pytest.mark.parametrize("is_complete", [True, False])
def test_a_connection_that_ended_keeps_no_memory(
    site: Site, end: Callable[[Network, QuicClient], None], is_complete: bool
) -> None:
    """What the library holds for a connection, 60 KiB of parts that refer to each other, is freed with its end."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site)
    network.run(lambda: host.endpoint.links)
    if is_complete:
        client.wait(client.connect().call())
        network.pass_time(1)
    [link] = host.endpoint._links
    core: Any = link.core
    del link
    parts = [weakref.ref(each) for each in (core._loss, core.tls, core._configuration, *core._streams.values())]
    del core
    end(network, client)
    network.pass_time(host.factory.limits.idle_timeout + 60)
    assert host.endpoint.links == 0
    assert [part() for part in parts if part() is not None] == []


def test_a_connection_that_is_refused_costs_no_state_and_no_trace(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A client that has shown its address is counted before anything is made for it.

    One token of a Retry is good for any number of connections in 30 seconds, and a process traces a few.
    """
    monkeypatch.setattr(qlog, "MOST_TRACES", 2)
    network, traces = Network(), tmp_path / "traces"
    host = QuicHost(network, site, limits=ConnectionLimits(connections=1), retry="always", qlog=traces)
    first = QuicClient(network, site).connect()
    with monkeypatch.context() as patch:
        patch.setattr(datagrams, "ServerCore", None)
        for port in range(1, 9):
            assert QuicClient(network, site, address=("203.0.113.9", port)).connect().closed is not None
    assert host.endpoint.counts.handshakes == {"limit": 8} and len(list(traces.iterdir())) == 1
    first.close()
    network.run(lambda: not host.endpoint.links)
    assert is_answered(network, site) and len(list(traces.iterdir())) == 2


def test_answers_that_nobody_reads_count_for_what_all_may_leave(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound of both carriers together the connection that leaves the most unread is cut; others stay."""
    monkeypatch.setattr(listener_connections, "UNREAD_IN_ALL", 1 << 20)
    network, dispatcher = Network(), FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    clients = [QuicClient(network, site, address=(f"198.51.100.{part}", 1), max_stream_data=1_000) for part in (1, 2)]
    for client, size in zip(clients, (900_000, 4 << 20), strict=True):
        client.connect()
        client.core._write_stream_limits = lambda **arguments: None  # type: ignore[method-assign]
        client.call()
        network.run(lambda: dispatcher.waiting)
        dispatcher.answer(bytes(size))
    network.pass_time(0.1)
    host.factory.sweep()
    network.pass_time(1)
    assert [client.closed is not None for client in clients] == [False, True]


def test_short_answers_that_nobody_reads_count_too(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that was handed over to QUIC whole waits there: many of them are as much as a long one."""
    monkeypatch.setattr(listener_connections, "UNREAD_IN_ALL", 100_000)
    network, size = Network(), 30_000
    assert size < ConnectionLimits().output_high_water
    host = QuicHost(network, site, FakeDispatcher(lambda request, *_: succeed(reply(request, bytes(size)))))
    clients = [QuicClient(network, site, address=(f"198.51.100.{part}", 1), max_stream_data=1_000) for part in (1, 2)]
    for client, calls in zip(clients, (1, 8), strict=True):
        client.connect()
        client.core._write_stream_limits = lambda **arguments: None  # type: ignore[method-assign]
        for _ in range(calls):
            client.call()
    network.pass_time(0.1)
    assert host.endpoint.streams == 9
    host.factory.sweep()
    network.pass_time(1)
    assert [client.closed is not None for client in clients] == [False, True]


@pytest.mark.parametrize("reads", [True, False])
def test_a_slow_reader_of_a_large_answer_is_told_from_one_that_reads_nothing(site: Site, reads: bool) -> None:
    """What it acknowledges gives it the time anew, long before the host has room for more of the answer."""
    network, dispatcher = Network(), FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = QuicClient(network, site, max_stream_data=1_000).connect()
    client.core._write_stream_limits = lambda **arguments: None  # type: ignore[method-assign]
    stream = client.call()
    network.run(lambda: dispatcher.waiting)
    client.core._streams[stream].max_stream_data_local = 1 << 30
    dispatcher.answer(bytes(2 * WAITING))
    for half_second in range(1, 12):
        if reads:
            frame(client, 0x11, stream, 10_000 * half_second)  # MAX_STREAM_DATA
        network.pass_time(HASTE / 2)
        host.factory.sweep()
    assert (host.endpoint.streams, stream in client.reset) == ((1, False) if reads else (0, True))


def test_a_datagram_that_the_system_does_not_take_is_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall of the host, or a route that is gone, refuses it: it is counted, and sent again like any other."""
    network = Network()
    host = QuicHost(network, site)
    write, left = host.write, [1, 2, 3]

    def refuse(octets: bytes, address: Any) -> None:
        if left:
            left.pop()
            raise PermissionError(errno.EPERM, "Operation not permitted")
        write(octets, address)

    monkeypatch.setattr(host, "write", refuse)
    client = QuicClient(network, site).connect()
    assert client.wait(client.call())[0].startswith(b"AGTP/1.0 200")
    assert host.endpoint.counts.dropped["unsent"] == 3
