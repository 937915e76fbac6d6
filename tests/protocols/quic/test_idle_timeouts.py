"""Calls that take longer than a host lets connections be idle."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.protocols import ConnectionLimits
from tests.client.quic.sessions import SessionClient, call_of, credentials_of
from tests.protocols.links import FakeDispatcher
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicClient, QuicHost, quic_site

OK = b"AGTP/1.0 200 OK\r\n"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


@pytest.mark.parametrize("idle", [0.5, 4.0, 14.0])
def test_a_call_outlasts_a_short_idle_timeout(site: Site, idle: float) -> None:
    """As over TLS, where that bounds the time between two calls; a client sends PING every 15 seconds."""
    network = Network()
    host = QuicHost(network, site, FakeDispatcher(), ConnectionLimits(idle_timeout=idle))
    client = QuicClient(network, site).connect()
    call = client.call()
    for number in range(4):
        network.pass_time(15)
        host.factory.sweep()
        client.core.send_ping(number)
        client.flush()
    host.dispatcher.answer()
    assert client.wait(call)[0].startswith(OK)
    network.pass_time(idle + 1)  # The acknowledgement of the answer counts.
    host.factory.sweep()
    network.pass_time(0.1)
    assert host.endpoint.links == 0, "without a call it is idle"


@pytest.mark.parametrize("idle", [2.0, 4.0, 14.0])
def test_our_client_keeps_a_call_within_the_idle_timeout_of_any_host(
    site: Site, monkeypatch: pytest.MonkeyPatch, idle: float
) -> None:
    """A host of others may end a connection on which nothing comes for so long."""
    monkeypatch.setattr("agtphost.protocols.quic.core.LEAST_IDLE", 0.0)
    network = Network()
    host = QuicHost(network, site, FakeDispatcher(), ConnectionLimits(idle_timeout=idle))
    client = SessionClient(network, credentials_of(site)).connect()
    client.ask(call_of())
    network.pass_time(60)
    host.dispatcher.answer()
    assert client.wait().status == 200
