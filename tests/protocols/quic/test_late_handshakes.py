"""A client whose last octets of the handshake come after its host has given the handshake up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aioquic.buffer import Buffer
from aioquic.quic.packet import QuicPacketType, pull_quic_header

from agtphost.wire.quic.connection import CONNECTION_ID
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, quic_site


def test_a_client_that_took_its_handshake_for_complete_gets_a_reset(tmp_path: Path) -> None:
    """It waits for answers then, and would learn of the end by its idle timeout only."""
    site = quic_site(tmp_path)
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    receive = network.receivers.pop(HOST)  # Its last flight is lost, and so is each further one.
    network.run(lambda: not host.endpoint.links)
    assert host.endpoint.counts.handshakes["late"] == 1
    came: list[bytes] = []

    def note(octets: bytes, origin: Any) -> None:
        came.append(octets)
        receive(octets, origin)

    network.receivers[HOST] = note
    token = client.core._peer_cid.stateless_reset_token
    network.run(lambda: came)
    header = pull_quic_header(Buffer(data=came[0]), host_cid_length=CONNECTION_ID)
    assert header.packet_type is QuicPacketType.HANDSHAKE
    _, to, reset = network.carried[-1]
    assert to == client.address and token is not None and reset.endswith(token)
    assert len(reset) < len(came[0]) and host.endpoint.counts.resets == 1
