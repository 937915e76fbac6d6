"""Proofs of addresses by Retry: they outlive the process that asked for them, and nothing else counts as one."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from aioquic.buffer import Buffer
from aioquic.quic.packet import QuicErrorCode, QuicHeader, pull_quic_header

from agtphost.client.errors import CannotConnect
from agtphost.protocols.quic.retry_tokens import LIFETIME, RetryTokens, StaleToken
from tests.client.quic.sessions import SessionClient, call_of, credentials_of
from tests.protocols.links import ask
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, SECRET, Network, QuicClient, QuicHost, quic_site

OK = b"AGTP/1.0 200 OK\r\n"
CLIENT = ("198.51.100.7", 50_000)
CHOSEN, ORIGINAL = b"8 octets", b"12 of client"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def header_of(destination: bytes, token: bytes = b"") -> QuicHeader:
    """Return the header of a client's first packet."""
    octets = b"\xc0\0\0\0\1" + bytes((len(destination),)) + destination + b"\0"
    octets += (0x4000 | len(token)).to_bytes(2, "big") + token
    return pull_quic_header(Buffer(data=octets + b"\x10" + bytes(16)), 8)


@pytest.mark.parametrize("retry", ["always", "pressed"])
def test_a_host_that_starts_again_takes_the_proof_that_it_asked_for(site: Site, retry: str) -> None:
    """It, or its standby, serves a client that was asked by the process before, as soon as that one would have."""
    network = Network()
    QuicHost(network, site, retry="always")
    client = QuicClient(network, site)
    network.run(lambda: network.carried[-1][0] == HOST)
    host = QuicHost(network, site, retry=retry)
    began = network.clock.seconds()
    client.connect()
    assert client.closed is None and network.clock.seconds() - began < 0.1
    assert client.wait(client.call(ask()))[0].startswith(OK)
    assert host.endpoint.counts.retries == 0


def test_our_client_is_answered_by_a_host_that_starts_again(site: Site) -> None:
    """Its call is not blamed on a network that drops UDP."""
    network = Network()
    QuicHost(network, site, retry="always")
    client = SessionClient(network, credentials_of(site))
    network.run(lambda: network.carried[-1][0] == HOST)
    QuicHost(network, site, retry="always")
    assert client.connect().call(call_of()).status == 200


@pytest.mark.parametrize("retry", ["always", "pressed"])
def test_a_proof_for_a_host_with_another_secret_is_refused_immediately(site: Site, retry: str) -> None:
    """Its client takes no second Retry (RFC 9000 section 17.2.5.2), and would wait for its idle timeout."""
    network = Network()
    QuicHost(network, site, retry="always", secret=b"o" * 32)
    client = QuicClient(network, site)
    network.run(lambda: network.carried[-1][0] == HOST)
    host = QuicHost(network, site, retry=retry)
    began = network.clock.seconds()
    client.connect()
    assert client.closed is not None and client.closed.error_code == QuicErrorCode.INVALID_TOKEN
    assert network.clock.seconds() - began < 1, "the library reports it after three probe timeouts"
    assert host.endpoint.links == 0


@pytest.mark.parametrize("seconds", [LIFETIME + 1, -LIFETIME - 1])
def test_our_client_begins_again_where_its_proof_does_not_count(site: Site, seconds: float) -> None:
    """The host's clock was set while its Retry was on the way: a client without the proof is asked anew, and served."""
    network = Network()
    host = QuicHost(network, site, retry="always")
    host.endpoint._wall = lambda: 1_000.0
    client = SessionClient(network, credentials_of(site))
    network.run(lambda: network.carried[-1][0] == HOST)
    host.endpoint._wall = lambda: 1_000.0 + seconds
    assert client.connect().call(call_of()).status == 200
    assert host.endpoint.counts.retries == 2 and host.endpoint.counts.handshakes == {"late": 1}
    assert network.clock.seconds() < 0.5


def test_our_client_begins_again_once(site: Site) -> None:
    """A host that takes no proof at all, as between two translators of addresses, is an error that says so."""
    network = Network()
    host = QuicHost(network, site, retry="always")
    moments = count(0.0, LIFETIME + 1)
    host.endpoint._wall = lambda: next(moments)
    client = SessionClient(network, credentials_of(site)).connect()
    assert isinstance(client.session.fault, CannotConnect)
    assert "takes the proof no more" in client.session.fault.explanation
    assert host.endpoint.counts.handshakes == {"late": 2} and host.endpoint.links == 0
    assert network.clock.seconds() < 0.5


def test_a_proof_counts_for_what_it_was_issued_for() -> None:
    """It is stale at another address, port, connection ID, time or secret, and with an octet changed, cut or added."""
    tokens = RetryTokens(SECRET)
    token = tokens.issue(header_of(ORIGINAL), CLIENT, CHOSEN, 1_000.0)
    assert tokens.find_original(header_of(CHOSEN, token), CLIENT, 1_000.0 + LIFETIME) == ORIGINAL
    assert RetryTokens(SECRET).find_original(header_of(CHOSEN, token), CLIENT, 999.0) == ORIGINAL, "another clock"
    changed = [token[:place] + bytes((token[place] ^ 1,)) + token[place + 1 :] for place in range(4, len(token))]
    others = [*(token[:size] for size in range(4, len(token))), *(token + bytes(size) for size in (1, 20, 300, 1_100))]
    for secret, destination, shown, address, now in (
        (b"o" * 32, CHOSEN, token, CLIENT, 1_000.0),
        (SECRET, ORIGINAL, token, CLIENT, 1_000.0),
        (SECRET, CHOSEN, token, ("198.51.100.8", 50_000), 1_000.0),
        (SECRET, CHOSEN, token, ("198.51.100.7", 50_001), 1_000.0),
        (SECRET, CHOSEN, token, CLIENT, 1_001.0 + LIFETIME),
        (SECRET, CHOSEN, token, CLIENT, 999.0 - LIFETIME),
        *((SECRET, CHOSEN, each, CLIENT, 1_000.0) for each in (*changed, *others)),
    ):
        with pytest.raises(StaleToken):
            RetryTokens(secret).find_original(header_of(destination, shown), address, now)


def test_a_proof_counts_at_a_socket_of_the_other_kind() -> None:
    """A standby that listens at an address of IPv6 sees a client of IPv4 as one within IPv6."""
    token = RetryTokens(SECRET).issue(header_of(ORIGINAL), CLIENT, CHOSEN, 0.0)
    mapped = (f"::ffff:{CLIENT[0]}", CLIENT[1])
    assert RetryTokens(SECRET).find_original(header_of(CHOSEN, token), mapped, 0.0) == ORIGINAL
