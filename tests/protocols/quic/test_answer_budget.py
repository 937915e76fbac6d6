"""Answers to datagrams of no connection: how many one address gets, and all together."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.protocols.quic.answer_budget import PART
from agtphost.protocols.quic.datagrams import RESETS_PER_SECOND
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, quic_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


@pytest.mark.parametrize("address", ["203.0.113.5", "::ffff:203.0.113.5", "2001:db8::%x"])
def test_an_address_that_uses_up_its_resets_leaves_those_of_others(site: Site, address: str) -> None:
    """A stranger that sends for unknown connections keeps no client of a restarted host waiting; a /64 is one."""
    network = Network()
    QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(1)
    host = QuicHost(network, site)
    for number in range(3_000):
        host.endpoint.datagramReceived(b"\x40" + bytes(40), (address.replace("%x", f"{number:x}"), 1))
    assert host.endpoint.counts.resets == RESETS_PER_SECOND // PART
    client.core.send_ping(0)
    client.flush()
    network.pass_time(0.1)
    assert [to for origin, to, _ in network.carried if origin == HOST][-1] == client.address
    assert host.endpoint.counts.resets > RESETS_PER_SECOND // PART


def test_all_addresses_together_get_a_thousand_resets_a_second(site: Site) -> None:
    """Forged addresses get no more than that; the next second has as many again."""
    network = Network()
    host = QuicHost(network, site)
    for second in range(1, 3):
        for number in range(3_000):
            host.endpoint.datagramReceived(b"\x40" + bytes(40), (f"10.0.{number >> 8}.{number & 255}", 1))
        assert host.endpoint.counts.resets == second * RESETS_PER_SECOND
        network.pass_time(1)
