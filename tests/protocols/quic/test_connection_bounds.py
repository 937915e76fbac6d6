"""Bounds that hold later than at the first datagram: of a request that was begun, of a handshake's end, of a stop."""

from __future__ import annotations

from pathlib import Path

import pytest
from aioquic.quic.packet import QuicErrorCode

from agtphost.protocols import ConnectionLimits
from tests.protocols.links import ask
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicClient, QuicHost, quic_site
from tests.protocols.quic.test_hostile import OK, frame

STREAM = 0x0E


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


@pytest.mark.parametrize("surplus", [0, 1])
def test_the_window_of_a_request_follows_what_was_read(site: Site, surplus: int) -> None:
    """After some octets of its head a client may send as many further ones as before, and none besides."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    read = ask()[:10]
    number = client.call(read, ends=False)
    network.pass_time(0.1)
    frame(client, STREAM, number, len(read) + host.endpoint._settings.window - 1 + surplus, 1, octets=b"x")
    network.pass_time(1)
    codes = [] if client.closed is None else [client.closed.error_code]
    assert codes == [QuicErrorCode.FLOW_CONTROL_ERROR] * surplus


def test_the_share_of_an_address_holds_for_handshakes_that_run_together(site: Site) -> None:
    """Two that began while there was room for one: the second to end is closed, and not counted."""
    network = Network()
    host = QuicHost(network, site, limits=ConnectionLimits(connections_per_address=1))
    clients = [QuicClient(network, site, address=("198.51.100.7", number)) for number in (1, 2)]
    network.run(lambda: any(each.closed for each in clients))
    [taken] = [each for each in clients if each.closed is None]
    assert taken.wait(taken.call())[0].startswith(OK)
    assert host.endpoint.counts.retries == 0 and host.endpoint.counts.handshakes == {"limit": 1}
    assert host.factory.connections == host.endpoint.links == 1
