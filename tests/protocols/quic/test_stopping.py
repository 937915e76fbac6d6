"""A host that stops: clients that come then are refused, and are told why, at once and within a bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from aioquic.quic.packet import QuicErrorCode

from agtphost.client.quic.errors import ConnectionRefused
from agtphost.protocols.pacing import handshakes_of
from agtphost.protocols.quic.answer_budget import PART
from agtphost.protocols.quic.datagrams import REFUSALS_PER_SECOND
from tests.client.quic.sessions import ADDRESS, SessionClient, credentials_of
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, quic_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


@pytest.mark.parametrize("retry", ["always", "pressed"])
def test_a_client_of_a_host_that_stops_is_refused(site: Site, retry: str) -> None:
    """It gets CONNECTION_REFUSED for its first datagram, and nothing is kept; our client says why."""
    network = Network()
    host = QuicHost(network, site, retry=retry)
    host.endpoint.drain()
    foreign = QuicClient(network, site)
    network.run(lambda: foreign.core._close_event)
    refusal = foreign.core._close_event
    assert (refusal.error_code, refusal.reason_phrase) == (QuicErrorCode.CONNECTION_REFUSED, "the host shuts down")
    client = SessionClient(network, credentials_of(site), address=("198.51.100.8", 1)).connect()
    assert isinstance(client.session.fault, ConnectionRefused)
    assert client.session.fault.explanation == "The host takes no more connections: it shuts down."
    assert network.clock.seconds() < 0.1
    assert host.endpoint.links == host.endpoint.half_open == 0
    assert host.endpoint.counts.handshakes == {"ending": 2} and not host.endpoint.counts.dropped


def test_refusals_of_a_host_that_stops_are_few_and_short(site: Site) -> None:
    """An address gets fewer octets than it has sent, and a few answers a second; what is over gets none."""
    network = Network()
    host = QuicHost(network, site)
    host.endpoint.drain()
    most = REFUSALS_PER_SECOND // PART
    for number in range(3 * most):
        first = QuicClient(network, site, address=(ADDRESS[0], number + 1)).core
        assert first.original_destination_connection_id
    network.pass_time(network.delay)
    answers = [octets for origin, _, octets in network.carried if origin == HOST]
    assert len(answers) == most and max(map(len, answers)) < 100
    assert host.endpoint.counts.dropped == {"ending": 2 * most}


def test_a_handshake_that_waits_when_its_host_stops_is_refused(site: Site) -> None:
    """Its first datagram has no connection yet; it is not forgotten, but answered when its turn comes."""
    network = Network()
    host = QuicHost(network, site)
    turns = handshakes_of(host.endpoint._clock)
    turns.take = lambda arrival: waiting.append(arrival)  # type: ignore[method-assign, assignment]
    waiting: list[object] = []
    client = SessionClient(network, credentials_of(site))
    network.run(lambda: waiting)
    host.endpoint.drain()
    waiting[0].take_turn()  # type: ignore[attr-defined]
    client.connect()
    assert isinstance(client.session.fault, ConnectionRefused)
    assert host.endpoint.half_open == host.endpoint.links == 0 and network.clock.seconds() < 0.1


@pytest.mark.parametrize(("delays", "outcome"), [(1.5, "ending"), (2.5, "ending"), (3.5, "done")])
def test_a_handshake_that_meets_the_stop_is_told_so(site: Site, delays: float, outcome: str) -> None:
    """Wherever the stop comes within it, the error says that no request was begun with; it is counted as refused so."""
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site))
    network.pass_time(delays * network.delay)
    host.endpoint.drain()
    network.run(lambda: client.session.fault)
    fault = client.session.fault
    assert isinstance(fault, ConnectionRefused) or getattr(fault, "unprocessed", False)
    assert network.clock.seconds() < 0.2 and host.endpoint.links == 0
    assert {*host.endpoint.counts.handshakes} == {outcome}
    is_refused = client.core._close_event.error_code == QuicErrorCode.CONNECTION_REFUSED  # as clients of others know it
    assert is_refused is (outcome == "ending")
