"""What other QUIC libraries may choose: connection IDs of any length and transport parameters, absurd ones included."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from aioquic.buffer import Buffer, encode_uint_var
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicErrorCode

from tests.protocols.authorities import AGENT_ID
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicClient, QuicHost, quic_site
from tests.protocols.test_tls import good
from tests.rows import each_row

OK = b"AGTP/1.0 200 OK\r\n"
MOST = (1 << 62) - 1


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def with_ids(first: int) -> type[QuicConnection]:
    """A client whose first datagram has a destination ID of so many octets; one without an ID of its own adds none."""

    class Client(QuicConnection):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self._peer_cid.cid = self._original_destination_connection_id = os.urandom(first)

        def _replenish_connection_ids(self) -> None:
            if self._configuration.connection_id_length:
                super()._replenish_connection_ids()

    return Client


@each_row(("own", "first"), [(own, first) for own in (0, 1, 8, 20) for first in (8, 20)])
def test_a_client_may_have_connection_ids_of_any_length(site: Site, own: int, first: int) -> None:
    """Also none, as clients with one connection a port have: it is served, asked for proof, and may move."""
    network = Network()
    host = QuicHost(network, site, retry="always")
    identity = good(site.root)
    client = QuicClient(network, site, identity, core=with_ids(first), connection_id_length=own).connect()
    assert client.wait(client.call())[0].startswith(OK)
    client.rebind(("203.0.113.9", 4_000))
    assert client.wait(client.call())[0].startswith(OK)
    network.pass_time(1)
    [link] = host.endpoint._links
    assert (host.endpoint.counts.retries, host.endpoint.counts.moves, link.address) == (1, 1, "203.0.113.9")
    assert [peer.certificate and peer.certificate.agent_id for peer in host.dispatcher.peers] == [AGENT_ID] * 2


@each_row("size", [0, 7])
def test_a_first_datagram_with_a_short_connection_id_is_dropped(site: Site, size: int) -> None:
    """A destination ID that the client has chosen has eight octets at least (RFC 9000 section 7.2)."""
    network = Network()
    host = QuicHost(network, site)
    QuicClient(network, site, core=with_ids(size))
    network.pass_time(0.1)
    assert (host.endpoint.counts.dropped, host.endpoint.links) == ({"malformed": 1}, 0)


def with_parameter(number: int, *values: bytes) -> type[QuicConnection]:
    """A client that has this transport parameter, in place of its own."""

    class Client(QuicConnection):
        def _serialize_transport_parameters(self) -> bytes:
            own, kept = Buffer(data=super()._serialize_transport_parameters()), b""
            while not own.eof():
                known, octets = own.pull_uint_var(), own.pull_bytes(own.pull_uint_var())
                kept += b"" if known == number else parameter(known, octets)
            return kept + b"".join(parameter(number, value) for value in values)

    return Client


def parameter(number: int, value: bytes) -> bytes:
    return encode_uint_var(number) + encode_uint_var(len(value)) + value


@each_row(
    ("number", "value"),
    [
        (0x00, bytes(8)),  # original_destination_connection_id: a server's
        (0x02, bytes(16)),  # stateless_reset_token: a server's
        (0x03, encode_uint_var(1_199)),  # max_udp_payload_size
        (0x08, encode_uint_var((1 << 60) + 1)),  # initial_max_streams_bidi
        (0x09, encode_uint_var(MOST)),
        (0x0A, encode_uint_var(21)),  # ack_delay_exponent
        (0x0B, encode_uint_var(1 << 14)),  # max_ack_delay
        (0x0C, b"\1"),  # disable_active_migration has no value
        (0x0D, bytes(24) + b"\x08" + bytes(24)),  # preferred_address: a server's
        (0x0E, encode_uint_var(1)),  # active_connection_id_limit
        (0x0F, b"another."),  # initial_source_connection_id
        (0x10, bytes(8)),  # retry_source_connection_id: a server's
    ],
)
def test_a_forbidden_parameter_ends_the_handshake(site: Site, number: int, value: bytes) -> None:
    """The client is told so with QUIC's own code, and nothing is kept."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, core=with_parameter(number, value)).connect()
    assert client.closed is not None and client.closed.error_code == QuicErrorCode.TRANSPORT_PARAMETER_ERROR
    assert (host.endpoint.links, host.endpoint.connection_ids, host.dispatcher.requests) == (0, 0, [])


@each_row("number", [0x01, 0x0C, 31 * 5 + 27])
def test_a_parameter_that_is_named_twice_ends_the_handshake(site: Site, number: int) -> None:
    """One that is known, one without a value, and one that nobody knows (RFC 9000 section 7.4)."""
    network = Network()
    host = QuicHost(network, site)
    value = b"" if number == 0x0C else encode_uint_var(60_000)
    client = QuicClient(network, site, core=with_parameter(number, value, value)).connect()
    assert client.closed is not None and client.closed.error_code == QuicErrorCode.TRANSPORT_PARAMETER_ERROR
    assert client.closed.reason_phrase == f"transport parameter {number:#x} is named twice"
    assert (host.endpoint.links, host.endpoint.connection_ids, host.dispatcher.requests) == (0, 0, [])


@each_row(
    ("number", "value"),
    [
        *((number, encode_uint_var(MOST)) for number in (0x01, 0x04, 0x05, 0x06, 0x07, 0x0E, 0x20)),
        (0x03, encode_uint_var(65_535)),
        (0x08, encode_uint_var(1 << 60)),
        (0x0A, encode_uint_var(20)),
        (0x0B, encode_uint_var((1 << 14) - 1)),
        (0x0C, b""),
        (31 * 7 + 27, bytes(30)),  # reserved, to be ignored (RFC 9000 section 18.1)
    ],
)
def test_the_largest_parameters_are_taken(site: Site, number: int, value: bytes) -> None:
    """However much a client offers, it is served, and the host keeps no more for it."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, core=with_parameter(number, value)).connect()
    assert client.wait(client.call())[0].startswith(OK)
    network.pass_time(1)
    assert host.endpoint.connection_ids <= 9 and host.endpoint.streams == 0
