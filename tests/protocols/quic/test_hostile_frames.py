"""Hostile clients that know the protocol: frames that are allowed, and meant to cost the host much."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aioquic import tls
from aioquic.buffer import Buffer
from aioquic.buffer import encode_uint_var as number
from aioquic.quic.packet import encode_quic_retry, pull_quic_transport_parameters
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.logger import LogEvent

from agtphost.client import TLSRefused
from agtphost.client.quic.core import ClientCore
from agtphost.protocols.quic.core import ServerCore
from agtphost.vocabulary.quic_codes import CRYPTO_ERROR
from agtphost.wire.quic.connection import (
    MOST_ACKNOWLEDGEMENTS,
    MOST_CRYPTO_FRAMES,
    MOST_DATAGRAM,
    MOST_FRAMES,
    MOST_GAPS,
)
from tests.client.quic.sessions import SessionClient, call_of, credentials_of
from tests.protocols.links import FakeDispatcher, ask
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, logged_failures, quic_site
from tests.protocols.quic.test_hostile import OK, frame, is_answered
from tests.protocols.test_tls import good

BAD_CERTIFICATE = 42
"""An alert of TLS."""

PING, ACK, RESET, STOP_SENDING, CRYPTO, STREAM_WITHOUT_END, STREAM = 0x01, 0x02, 0x04, 0x05, 0x06, 0x0A, 0x0E


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def send(client: QuicClient, octets: bytes) -> None:
    """Send frames of a hostile client's own making in one packet."""
    frame(client, PING, octets=octets)


@pytest.mark.parametrize(("kind", "head"), [(STREAM, b"\x0e\x00"), (CRYPTO, b"\x06")], ids=["stream", "crypto"])
def test_gaps_are_few(site: Site, kind: int, head: bytes) -> None:
    """
    Octets with a gap before each close the connection before they are many.

    Each further octet costs a look at all gaps: without a bound 186 kB took 20 seconds of processor time.
    """
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    [link] = host.endpoint._links
    streams, crypto = link.core._streams, link.core._crypto_streams[tls.Epoch.ONE_RTT]
    offsets = iter(range(1, 50_000, 2))
    most = 0
    while client.closed is None and (first := next(offsets, None)) is not None:
        some = (first, *(next(offsets) for _ in range(99)))
        send(client, b"".join(head + number(offset) + b"\x01x" for offset in some))
        network.pass_time(0.05)
        most = max(most, *(len(each.receiver._ranges) for each in (crypto, *streams.values())))
    assert client.closed is not None and (client.closed.error_code, client.closed.frame_type) == (0x0A, kind)
    assert most == MOST_GAPS + 1
    assert is_answered(network, site)


@pytest.mark.parametrize("octets", [b"", b"x"], ids=["no octets", "single octets"])
def test_frames_of_handshake_messages_are_few(site: Site, octets: bytes) -> None:
    """
    A message that comes octet by octet closes the connection before it has cost much.

    The library copies what it has of a message with each frame: without a bound 840 kB took 7 seconds.
    """
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    message = b"\x0b\x01\0\0" + bytes(65_536)
    sent = 0
    while client.closed is None and sent < 4 * MOST_CRYPTO_FRAMES:
        places = range(sent, sent + 128)
        parts = ((place, message[place : place + 1]) if octets else (0, b"") for place in places)
        send(client, b"".join(b"\x06" + number(place) + number(len(part)) + part for place, part in parts))
        sent += 128
        network.pass_time(0.5)
    assert client.closed is not None and client.closed.error_code == 0x0D  # CRYPTO_BUFFER_EXCEEDED
    assert sent <= MOST_CRYPTO_FRAMES + 128
    assert host.endpoint.links == 0 and is_answered(network, site)


@pytest.mark.parametrize(
    ("kind", "octets", "count"),
    [
        (STREAM_WITHOUT_END, b"\x0a\0\0", MOST_FRAMES),
        (ACK, b"\x02\0\0\0\0", MOST_FRAMES // 2),
        (STOP_SENDING, b"\x05\0\3", MOST_FRAMES),
        (PING, b"\1", MOST_FRAMES),
    ],
    ids=["stream", "ack", "stop sending", "ping"],
)
@pytest.mark.parametrize("more", [0, 1])
def test_frames_of_a_packet_are_few(site: Site, kind: int, octets: bytes, count: int, more: int) -> None:
    """
    Frames that take long for their length close the connection from a number that no client needs.

    Without a bound a datagram full of acknowledgements took 2.2 ms, and one of empty STREAM frames 1.6 ms: more than a
    turn of the reactor has.
    """
    network = Network()
    QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.call(ends=False)
    network.pass_time(0.1)
    send(client, octets * (count - 1 + more))  # It begins with a PING.
    network.pass_time(1)
    closed = None if client.closed is None else (client.closed.error_code, client.closed.frame_type)
    assert closed == ((0x0A, kind) if more else None)
    assert is_answered(network, site)


def test_all_requests_of_a_client_may_end_in_one_packet(site: Site) -> None:
    """A frame for each of the most streams that a host may allow is no fault."""
    network = Network()
    host = QuicHost(network, site, FakeDispatcher(), streams=128)
    client = QuicClient(network, site).connect()
    calls = [client.call(ends=False) for _ in range(128)]
    network.run(lambda: host.endpoint.streams == 128)
    network.pass_time(1)
    network.carried.clear()
    for each in calls:
        client.core.send_stream_data(each, b"", end_stream=True)
    client.flush()
    assert len(network.carried) == 1
    network.pass_time(1)
    assert client.closed is None and host.endpoint.streams == 128


def test_loss_and_another_order_leave_few_gaps(site: Site) -> None:
    """The control: a network that loses a tenth and delivers in any order is far from the bound."""
    network = Network(7, loss=0.1, jitter=0.2)
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    most = 0

    client.ask(call_of(body=bytes(900_000)))
    [link] = host.endpoint._links
    while client.last is not None and client.last.is_out:
        network.pass_time(0.01)
        most = max([most, *(len(each.receiver._ranges) for each in link.core._streams.values())])
    assert client.wait().status == 200
    assert 2 < most < MOST_GAPS // 4


class Altered:
    """
    A certificate of which some octets are others.

    :param octets: each to be found in it, with what takes its place.
    """

    def __init__(self, certificate: Any, *octets: tuple[bytes, bytes]) -> None:
        self._der = certificate.public_bytes(Encoding.DER)
        for old, new in octets:
            assert old in self._der and len(old) == len(new)
            self._der = self._der.replace(old, new, 1)

    def public_bytes(self, encoding: Encoding) -> bytes:
        """Return it as it is sent."""
        return self._der


VERSION = (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x7f")
P_256 = (bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d027f"))
ED25519 = (bytes.fromhex("06032b6570032100"), bytes.fromhex("06032b657f032100"))


@pytest.fixture
def failures() -> Iterator[list[LogEvent]]:
    """What was logged with a traceback."""
    with logged_failures() as seen:
        yield seen


@pytest.mark.parametrize("octets", [VERSION, ED25519], ids=["version", "key"])
def test_certificate_that_cannot_be_read_is_refused(site: Site, octets: Any, failures: list[LogEvent]) -> None:
    """A version or a kind of key that nobody knows is a bad certificate, and no fault of the host in its log."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, good(site.root))
    client.core._configuration.certificate = None
    client.core.tls.certificate = Altered(client.core.tls.certificate, octets)  # type: ignore[assignment]
    network.run(lambda: client.closed)
    assert client.closed is not None and client.closed.error_code == CRYPTO_ERROR + BAD_CERTIFICATE
    assert (host.endpoint.links, failures) == (0, [])
    assert is_answered(network, site)


@pytest.mark.parametrize("octets", [VERSION, P_256], ids=["version", "key"])
def test_servers_certificate_that_cannot_be_read_is_refused(
    site: Site, octets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client says that it has refused the server, not that the server has refused it."""
    choose = ServerCore._choose_certificate

    def choose_altered(self: ServerCore, context: Any, name: str | None) -> None:
        choose(self, context, name)
        context.certificate = Altered(context.certificate, octets)

    monkeypatch.setattr(ServerCore, "_choose_certificate", choose_altered)
    network = Network()
    QuicHost(network, site)
    client = SessionClient(network, credentials_of(site, good(site.root))).connect()
    assert isinstance(client.session.fault, TLSRefused)
    assert "This client refused the server" in str(client.session.fault)


def later(client: QuicClient, count: int, octets: bytes) -> None:
    """Send a packet whose number leaves a gap."""
    client.core._packet_number += 1 + count % 3
    send(client, octets)


def update_keys(client: QuicClient, count: int) -> None:
    """Send a packet with keys that are new again."""
    pair: Any = client.core._cryptos[tls.Epoch.ONE_RTT]
    pair._update_key("remote_update")
    send(client, b"")


def to_host(make: Callable[[QuicClient], bytes], client: QuicClient, count: int) -> None:
    """Send a datagram that is no packet of the connection."""
    client.network.carry(make(client), client.address, HOST)


def version_list(client: QuicClient) -> bytes:
    ours, theirs = client.core.host_cid, client.core._peer_cid.cid
    return b"\xc0\0\0\0\0" + bytes((len(theirs),)) + theirs + bytes((len(ours),)) + ours + b"\0\0\0\1"


def retry(client: QuicClient) -> bytes:
    return encode_quic_retry(
        version=1,
        source_cid=os.urandom(8),
        destination_cid=client.core._peer_cid.cid,
        original_destination_cid=bytes(8),
        retry_token=os.urandom(40),
    )


def coalesced(client: QuicClient) -> bytes:
    ours, theirs = client.core.host_cid, client.core._peer_cid.cid
    ids = bytes((len(theirs),)) + theirs + bytes((len(ours),)) + ours
    return (b"\xe0\0\0\0\1" + ids + b"\x40\x20" + os.urandom(32)) * 16 + os.urandom(100)


def repeated(octets: bytes, client: QuicClient, count: int) -> None:
    send(client, octets)


FLOODS: dict[str, Callable[[QuicClient, int], None]] = {
    "pings whose packet numbers leave gaps": lambda client, count: later(client, count, b""),
    "many acknowledgements": partial(repeated, b"\x02\1\0\0\1" * (MOST_FRAMES // 2 - 1)),
    "acknowledgements with counts of ECN": partial(repeated, b"\x03\1\0\0\1\1\0\0"),
    "keys that are new with each packet": update_keys,
    "challenges of the path": lambda client, count: send(client, b"".join(b"\x1a" + os.urandom(8) for _ in range(99))),
    "answers to challenges": lambda client, count: send(client, b"".join(b"\x1b" + os.urandom(8) for _ in range(99))),
    "limits that grow and shrink": lambda client, count: send(
        client, b"\x10" + number(count % 2 << 61) + b"\x12" + number(count % 2 << 60) + b"\x11\0" + number(1 << 61)
    ),
    "reports of being blocked": partial(repeated, b"\x14\1\x15\0\2\x16\3" * 100),
    "streams that are opened by a later one": partial(repeated, b"\x0a\x3c\0"),
    "lists of versions": partial(to_host, version_list),
    "retries": partial(to_host, retry),
    "packets of no keys in one datagram": partial(to_host, coalesced),
}


@pytest.mark.parametrize("name", FLOODS)
def test_flood_within_the_protocol_costs_no_state(site: Site, name: str) -> None:
    """However many there are: few octets are sent for them, little is kept, and the connection and others go on."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    [link] = host.endpoint._links
    network.carried.clear()
    for count in range(200):
        FLOODS[name](client, count)
        network.pass_time(0.02)
    sent, got = (
        sum(len(octets) for origin, _, octets in network.carried if (origin == HOST) is of_host)
        for of_host in (False, True)
    )
    assert got <= max(2 * sent, 200 * 60)
    space: Any = link.core._spaces[tls.Epoch.ONE_RTT]
    assert len(space.ack_queue) <= 64 and len(space.sent_packets) <= 2 * MOST_ACKNOWLEDGEMENTS + 16
    assert (len(link.core._network_paths), host.endpoint.links, host.endpoint.streams) == (1, 1, 0)
    assert len(link.core._streams) <= 16 and host.endpoint.connection_ids <= 9
    assert (client.closed, host.dispatcher.requests) == (None, [])
    client.core._local_next_stream_id_bidi = 4 * len(link.core._streams)
    if client.core._local_next_stream_id_bidi < 64:
        assert client.wait(client.call())[0].startswith(OK)
    assert is_answered(network, site)


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (b"\x0f\0\0\2xx", 0x06),  # FINAL_SIZE_ERROR: it ends before octets that have arrived
        (b"\x04\0\1\1", 0x06),  # the same by a reset
        (b"\x0f\0\x08\1x\x0f\0\x08\2xx", 0x06),  # two ends
        (b"\x06\0\5\x18\0\0\1\0", CRYPTO_ERROR + 10),  # a KeyUpdate of TLS (RFC 9001 section 6)
        (b"\x06\0\x28\1\0\0\x24" + bytes(36), CRYPTO_ERROR + 10),  # a second ClientHello
        (b"\x07\3abc", 0x0A),  # NEW_TOKEN of a client
        (b"\x11\3\1", 0x05),  # MAX_STREAM_DATA for a stream of the host that is not there
        (b"\x12" + number((1 << 60) + 1), 0x07),
        (b"\x02" + number(1 << 40) + b"\0\0\0", 0x0A),  # ACK of a packet that was never sent
    ],
)
def test_frame_of_a_wrong_time_closes_its_connection_alone(site: Site, octets: bytes, code: int) -> None:
    """Frames that this state of the connection forbids end it with QUIC's own code."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.call(ask()[:8], ends=False)
    network.pass_time(0.1)
    send(client, octets)
    network.run(lambda: client.closed)
    assert client.closed is not None and client.closed.error_code == code
    assert (host.endpoint.links, host.endpoint.connection_ids) == (0, 0)
    assert is_answered(network, site)


@pytest.mark.parametrize("ahead", [1, 0])
def test_no_packet_is_acknowledged_before_it_is_sent(site: Site, ahead: int) -> None:
    """A client that acknowledges in advance would widen the host's windows for packets that it never gets."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    [link] = host.endpoint._links
    newest: Any = link.core._packet_number - 1
    send(client, b"\x02" + number(newest + ahead) + b"\0\0\0")
    network.pass_time(1)
    assert [each.error_code for each in (client.closed,) if each is not None] == [0x0A] * ahead


def test_another_end_of_a_stream_that_is_over_is_ignored(site: Site) -> None:
    """A stream that is over has no state, so that frames of it, whatever they say, change nothing."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.wait(client.call())
    network.pass_time(2)
    for count in range(5):
        send(client, b"\x0f\0\0" + bytes((count,)) + bytes(count))
        network.pass_time(0.1)
    assert (client.closed, host.endpoint.streams, len(host.dispatcher.requests)) == (None, 0, 1)
    assert client.wait(client.call())[0].startswith(OK)


def test_challenges_from_many_ports_open_few_paths(site: Site) -> None:
    """Each address gets three times what came from it at most, and the paths of a connection are few."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    [link] = host.endpoint._links
    carried: list[bytes] = []
    for port in range(1, 101):
        carry, network.carry = network.carry, lambda octets, *_: carried.append(octets)  # type: ignore[method-assign]
        send(client, b"\x1a" + os.urandom(8) + b"\x1a" + os.urandom(8))
        network.carry = carry  # type: ignore[method-assign]
        for octets in carried:
            host.endpoint.datagramReceived(octets, ("203.0.113.9", port))
        sent = sum(map(len, carried))
        carried.clear()
        network.pass_time(0.05)
        got = sum(len(octets) for _, to, octets in network.carried if to == ("203.0.113.9", port))
        assert got <= 3 * sent
        assert len(link.core._network_paths) <= 8
    assert (link.address, host.factory.connections, client.closed) == (client.address[0], 1, None)
    assert client.wait(client.call(), seconds=30)[0].startswith(OK)
    assert is_answered(network, site)


@pytest.mark.parametrize("wants_none_first", [True, False])
def test_request_whose_answer_is_unwanted_is_cancelled(
    site: Site, wants_none_first: bool, failures: list[LogEvent]
) -> None:
    """A request and STOP_SENDING in one packet are a cancelled call, or none, and no fault of the host."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    asks, stops = b"\x0b\0" + number(len(ask())) + ask(), b"\x05\0\3"
    send(client, stops + asks if wants_none_first else asks + stops)
    network.pass_time(0.1)
    assert (host.endpoint.streams, client.closed, failures) == (0, None, [])
    assert len(host.dispatcher.requests) == (0 if wants_none_first else 1) and is_answered(network, site)


def sealed(core: Any, octets: bytes) -> bytes:
    """A packet with these frames, however many they are; the core does not know of it."""
    number = core._packet_number
    core._packet_number += 1  # That of the core's next packet, which would be a copy of this one.
    head = b"\x41" + core._peer_cid.cid + (number & 0xFFFF).to_bytes(2, "big")
    packet: bytes = core._cryptos[tls.Epoch.ONE_RTT].encrypt_packet(head, octets, number)
    return packet


@pytest.mark.parametrize(("size", "is_read"), [(MOST_DATAGRAM, True), (60_000, False)])
def test_datagrams_are_as_long_as_those_of_ethernet(site: Site, size: int, is_read: bool) -> None:
    """
    A datagram of 60 kB, which Initials and the smallest frames make cost up to 70 ms, is not read; peers are told so.

    One datagram is the least that a turn of the reactor takes.
    """
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    [link] = host.endpoint._links
    ends = b"\x0b\0\0" + bytes(size - 30)
    datagram = sealed(client.core, ends)
    assert len(datagram) == size
    host.endpoint.datagramReceived(datagram, client.address)
    assert (link.core.is_open(0), host.endpoint.counts.dropped["long"]) == (is_read, not is_read)
    caller = SessionClient(network, credentials_of(site), address=("198.51.100.8", 1)).connect()
    network.pass_time(0.1)
    link = next(each for each in host.endpoint._links if each is not link)
    before = caller.core._spaces[tls.Epoch.ONE_RTT].largest_received_packet
    caller.session.receive(sealed(link.core, bytes(size - 27)), network.clock.seconds())
    assert (caller.core._spaces[tls.Epoch.ONE_RTT].largest_received_packet > before) == is_read
    assert is_answered(network, site) and caller.call(call_of()).status == 200


def test_peers_are_told_how_long_datagrams_may_be(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides name the length in their transport parameters."""
    seen: list[int | None] = []
    for core in (ServerCore, ClientCore):

        def note(self: Any, data: bytes, *more: Any, parse: Any = core._parse_transport_parameters) -> None:
            seen.append(pull_quic_transport_parameters(Buffer(data=data)).max_udp_payload_size)
            parse(self, data, *more)

        monkeypatch.setattr(core, "_parse_transport_parameters", note)
    network = Network()
    QuicHost(network, site)
    assert SessionClient(network, credentials_of(site)).connect().call(call_of()).status == 200
    assert seen == [MOST_DATAGRAM] * 2
