"""What an honest client sends besides its calls, over hours: it is never served apart, which a flood still is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aioquic import tls
from aioquic.buffer import encode_uint_var
from aioquic.quic.packet import QuicFrameType, QuicPacketType
from aioquic.quic.packet_builder import QuicPacketBuilder

from agtphost.protocols.quic.link import QuicLink
from tests.protocols.authorities import issue
from tests.protocols.links import FakeDispatcher, ask, at_once
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, quic_site
from tests.protocols.quic.test_hostile import OK
from tests.protocols.quic.test_hostile_frames import sealed
from tests.protocols.quic.test_receive_queue import note_costly

PING, HEADERS = b"\1", 11 + 16
"""A frame, and the octets of a packet besides its frames."""

SIZES = (1_472, 1_336, 1_404, 1_438, 1_455, 1_464)
"""Datagrams of a search for the longest one of a path, which halves the range to within nine octets (RFC 8899)."""

SEARCH_AGAIN, KEEP_ALIVE = 600.0, 15.0
"""Seconds between two searches (RFC 8899 section 5.1.1), and between two PINGs."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def search(network: Network, client: QuicClient) -> None:
    """Look for the longest datagram of the path: one probe after the other, each once the last is acknowledged."""
    for size in SIZES:
        probe(client, size)
        network.pass_time(2 * network.delay + 0.0001)


def probe(client: QuicClient, size: int) -> None:
    """Send a datagram of so many octets, with PING and PADDING."""
    core: Any = client.core
    builder = QuicPacketBuilder(
        host_cid=core.host_cid,
        peer_cid=core._peer_cid.cid,
        version=core._version,
        is_client=True,
        max_datagram_size=size,
        packet_number=core._packet_number,
    )
    builder.start_packet(QuicPacketType.ONE_RTT, core._cryptos[tls.Epoch.ONE_RTT])
    builder.start_frame(QuicFrameType.PING)
    builder.start_frame(QuicFrameType.PADDING).push_bytes(bytes(size - HEADERS - 2))
    [datagram], [packet] = builder.flush()
    assert len(datagram) == size
    packet.sent_time = client.network.clock.seconds()
    core._packet_number = builder.packet_number
    core._loss.on_packet_sent(packet=packet, space=core._spaces[tls.Epoch.ONE_RTT])
    client.network.carry(datagram, client.address, HOST)


def keep_alive(network: Network, client: QuicClient, seconds: float) -> None:
    """Let time pass with a PING now and then."""
    for _ in range(int(seconds / KEEP_ALIVE)):
        network.pass_time(KEEP_ALIVE)
        client.core.send_ping(0)
        client.flush()


@pytest.mark.parametrize("calls", [True, False], ids=["calls", "one long call"])
@pytest.mark.parametrize("delay", [0.0002, 0.05], ids=["near", "far"])
def test_a_client_that_probes_its_path_for_hours_is_not_costly(
    site: Site, monkeypatch: pytest.MonkeyPatch, delay: float, calls: bool
) -> None:
    """Full datagrams of PING and PADDING after the handshake, every ten minutes, and after a change of address."""
    costly, network = note_costly(monkeypatch), Network(delay=delay)
    dispatcher = FakeDispatcher(at_once if calls else None)
    QuicHost(network, site, dispatcher)
    client = QuicClient(network, site, issue(site.root)).connect()
    numbers = [] if calls else [client.call()]
    network.pass_time(4 * delay)  # The client's connection IDs come with the first packets after the handshake.
    for hour in range(3):
        for _ in range(6):
            search(network, client)
            if calls:
                assert client.wait(client.call())[0].startswith(OK)
            keep_alive(network, client, SEARCH_AGAIN)
        client.rebind((f"203.0.113.{hour + 1}", 4_000 + hour))
        client.core.change_connection_id()
        client.core.send_ping(0)
        client.flush()
        network.pass_time(8 * delay)
        search(network, client)
    if not calls:
        dispatcher.answer()
    assert [each[:15] for each in client.wait(*numbers)] == [OK[:15]] * len(numbers)
    assert len(costly) > 700 and not any(costly)


def test_a_late_copy_of_a_request_counts_little(site: Site) -> None:
    """A client that has its answer may send its request again, because the acknowledgements of it were late."""
    network = Network()
    host: Any = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    body = ask(body=b"y" * 14_000)
    number = client.call(body)
    assert client.wait(number)[0].startswith(OK)
    network.pass_time(0.1)
    [link] = host.endpoint._links
    assert not link.core.is_open(number)
    for start in range(0, len(body), 1_300):
        frame = b"\x0e\0" + encode_uint_var(start) + encode_uint_var(1_300) + body[start : start + 1_300].ljust(1_300)
        host.endpoint.datagramReceived(sealed(client.core, frame), client.address)
        network.pass_time(0.001)
        assert not link.is_costly(client.address)
    assert not link.is_gone and client.wait(client.call())[0].startswith(OK)


def full_of(*frames: bytes) -> Iterator[Any]:
    """Yield a parameter for each frame that a datagram is filled with."""
    for each in frames:
        yield pytest.param((each * 1_400)[: 1_400 // len(each) * len(each)], id=each.hex())


@pytest.mark.parametrize(
    "octets",
    [
        *full_of(b"\x14\1\0", b"\x14\1" + bytes(15), b"\x11\0\1", b"\1" + bytes(12)),
        PING.ljust(1_400, b"\0"),
        PING + bytes(3),
    ],
)
def test_padding_makes_no_flood_cheaper(site: Site, octets: bytes) -> None:
    """Whatever a flood is padded with, it is served apart before it has cost ten milliseconds, and stays so."""
    network = Network()
    host: Any = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    [link] = host.endpoint._links
    costly_after = count_until_costly(network, host, link, client, octets)
    assert costly_after <= (3 if len(octets) > 1_000 and octets.count(b"\0") < 1_300 else 40)
    for _ in range(200):
        host.endpoint.datagramReceived(sealed(client.core, octets), client.address)
        network.pass_time(0.005)
    assert link.is_costly(client.address)


def test_a_request_in_shreds_is_a_flood(site: Site) -> None:
    """Its octets are fresh, and each frame of four of them takes as long as a whole packet's."""
    network = Network()
    host: Any = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    body = ask(body=b"y" * 10_000)
    client.call(body[:500], ends=False)
    network.pass_time(0.1)
    [link] = host.endpoint._links
    for start in range(500, 7_500, 4 * 155):
        shreds = (
            b"\x0e\0" + encode_uint_var(at) + b"\4" + body[at : at + 4] for at in range(start, start + 4 * 155, 4)
        )
        host.endpoint.datagramReceived(sealed(client.core, b"".join(shreds)), client.address)
        network.pass_time(0.001)
    assert not link.is_gone and link.is_costly(client.address)


def count_until_costly(network: Network, host: Any, link: QuicLink, client: QuicClient, octets: bytes) -> int:
    """Return how many datagrams, a millisecond apart, a client may send before it is served apart."""
    for count in range(1, 100):
        host.endpoint.datagramReceived(sealed(client.core, octets), client.address)
        network.pass_time(0.001)
        if link.is_costly(client.address):
            return count
    pytest.fail("it is served like others")
