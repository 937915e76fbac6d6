"""Answers to datagrams of no connection: how many one address gets, and all together."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.protocols.quic.answer_budget import NETWORK_PART, PART
from agtphost.protocols.quic.datagrams import RESETS_PER_SECOND
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, quic_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("203.0.113.5", PART),
        ("::ffff:203.0.113.5", PART),
        ("64:ff9b::203.0.113.5", PART),
        ("64:ff9b::203.0.%d.%d", NETWORK_PART),
        ("2001:db8::%x", PART),
        ("203.0.%d.%d", NETWORK_PART),
        ("2001:db8:%x:%x::1", NETWORK_PART),
    ],
)
def test_who_uses_up_resets_leaves_those_of_others(site: Site, address: str, part: int) -> None:
    """
    A stranger that sends for unknown connections keeps no client of a restarted host waiting.

    All addresses of a /64 count as one, and those that it forges of its operator's network have a part together.
    """
    network = Network()
    QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(1)
    host = QuicHost(network, site)
    for number in range(3_000):
        numbers = divmod(number, 256) if address.count("%") == 2 else (number,) * address.count("%")
        host.endpoint.datagramReceived(b"\x40" + bytes(40), (address % numbers, 1))
    assert host.endpoint.counts.resets == RESETS_PER_SECOND // part
    client.core.send_ping(0)
    client.flush()
    network.pass_time(0.1)
    assert [to for origin, to, _ in network.carried if origin == HOST][-1] == client.address
    assert host.endpoint.counts.resets > RESETS_PER_SECOND // part


def test_all_addresses_together_get_a_thousand_resets_a_second(site: Site) -> None:
    """Forged addresses get no more than that; the next second has as many again."""
    network = Network()
    host = QuicHost(network, site)
    for second in range(1, 3):
        for number in range(3_000):
            host.endpoint.datagramReceived(b"\x40" + bytes(40), (f"10.{number & 255}.0.{number >> 8}", 1))
        assert host.endpoint.counts.resets == second * RESETS_PER_SECOND
        network.pass_time(1)
