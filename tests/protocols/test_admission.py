"""Who gets a handshake, and what is remembered of whom."""

from __future__ import annotations

import ipaddress

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from agtphost.dispatch.gates.limits import address_origin
from agtphost.protocols import AGTPServerFactory, ConnectionLimits
from agtphost.protocols.admission import Admission, canonical_address, is_loopback, origin_of
from agtphost.protocols.connection import ServerConnection
from tests.protocols.links import FakeDispatcher, Link
from tests.rows import each_row

LIMITS = ConnectionLimits(connections=200)
STRANGER = "192.0.2.7"


@each_row(
    ("address", "canonical", "loopback"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("::ffff:192.0.2.7", "192.0.2.7", False),
        ("::1", "::1", True),
        ("2001:DB8:0::1", "2001:db8::1", False),
        ("fe80::1%eth0", "fe80::1", False),
        ("/run/agtp.sock", "/run/agtp.sock", True),
    ],
)
def test_addresses_have_one_spelling(address: str, canonical: str, loopback: bool) -> None:
    """IPv4 inside IPv6 counts as IPv4; a socket of this machine is local."""
    assert canonical_address(address) == canonical
    assert is_loopback(canonical) is loopback


def test_an_ipv6_network_is_one_origin() -> None:
    """T-DS-5: whoever has a /64 does not get the limit of each of its addresses."""
    exempt = LIMITS.exempt_addresses
    assert origin_of("2001:db8::1", exempt) == origin_of("2001:db8::ffff:1", exempt)
    assert origin_of("2001:db8::1", exempt) != origin_of("2001:db8:0:1::1", exempt)


@each_row(
    ("address", "origin"),
    [
        ("64:ff9b::192.0.2.7", "192.0.2.7"),
        ("64:ff9b::127.0.0.1", "127.0.0.1"),
        ("::ffff:0:192.0.2.7", "192.0.2.7"),
        ("64:ff9b:1::192.0.2.7", "64:ff9b:1::/64"),
        ("2001:db8::192.0.2.7", "2001:db8::/64"),
    ],
)
def test_an_address_of_ipv4_behind_a_translator_counts_as_itself(address: str, origin: str) -> None:
    """
    All clients of IPv4 have one /64 behind NAT64 with its own prefix (RFC 6052), so each counts by its address.

    It is counted so and no more: an address of loopback in that prefix is a stranger's, and not exempt.
    """
    canonical = canonical_address(address)
    assert origin_of(canonical, LIMITS.exempt_addresses) == origin == address_origin(address)
    assert canonical != origin and not is_loopback(canonical)


def test_clients_behind_nat64_have_a_share_each() -> None:
    """One of them that uses up its connections leaves those of the others."""
    admission = Admission(ConnectionLimits(connections_per_address=1))
    assert admission.admit("64:ff9b::c000:207", 0.0) and not admission.admit("64:ff9b::c000:207", 10.0)
    assert admission.admit("64:ff9b::c000:208", 10.0)
    assert not admission.admit("192.0.2.7", 20.0), "the same client without a translator"
    admission.release("64:ff9b::c000:207")
    assert admission.admit("192.0.2.7", 30.0)


def test_connections_per_address() -> None:
    """T-DS-6: 64 at a time, and one more for each that ends."""
    admission = Admission(LIMITS)
    now = 0.0
    for _ in range(64):
        now += 0.2
        assert admission.admit(STRANGER, now)
    assert not admission.admit(STRANGER, now + 10)
    assert admission.admit("192.0.2.8", now + 10)
    admission.release(STRANGER)
    assert admission.admit(STRANGER, now + 10)


def test_connections_in_all() -> None:
    """The limit on all connections holds for exempt addresses too."""
    admission = Admission(LIMITS)
    for _ in range(200):
        assert admission.admit("127.0.0.1", 0)
    assert not admission.admit("127.0.0.1", 0)
    assert not admission.admit(STRANGER, 0)
    assert admission.origins == 0


def test_handshakes_per_second() -> None:
    """T-DS-7: ten at once, then ten a second, however quickly the connections end."""
    admission = Admission(LIMITS)

    def burst(now: float) -> int:
        count = 0
        while admission.admit(STRANGER, now):
            admission.release(STRANGER)
            count += 1
        return count

    assert burst(0) == 10
    assert burst(0.5) == 5
    assert burst(100) == 10


def test_a_certificate_gives_the_handshake_back() -> None:
    """Only strangers use the allowance up."""
    admission = Admission(LIMITS)
    for _ in range(50):
        assert admission.admit(STRANGER, 0)
        admission.vouch(STRANGER)
    admission.vouch("203.0.113.1")
    assert admission.connections == 50


def test_who_has_gone_is_forgotten() -> None:
    """T-ID-40: what is kept of addresses does not grow with how many there were."""
    admission = Admission(LIMITS)
    for number in range(100):
        address = str(ipaddress.IPv4Address(0x0A000000 + number))
        assert admission.admit(address, 0)
        admission.release(address)
    admission.prune(0)
    assert admission.origins == 100
    admission.admit("10.0.0.5", 0.05)
    admission.prune(1)
    assert admission.origins == 1


def test_the_factory_refuses_without_a_protocol() -> None:
    """Over a limit there is no protocol, so no TLS state and no octet; the refusal is counted."""
    clock = Clock()
    factory = AGTPServerFactory(FakeDispatcher(), ConnectionLimits(connections_per_address=2), clock)
    address = IPv4Address("TCP", STRANGER, 1)
    made = [factory.buildProtocol(address) for _ in range(3)]
    assert [each is None for each in made] == [False, False, True]
    assert factory.refused == 1


def test_a_failing_sweep_spares_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection's fault at its deadline costs that connection, and keeps no other from its own."""
    dispatcher = FakeDispatcher()
    first = Link(dispatcher)
    second = Link(dispatcher, factory=first.factory)
    give_up = ServerConnection._give_up

    def fail_once(connection: ServerConnection) -> None:
        monkeypatch.setattr(ServerConnection, "_give_up", give_up)
        raise RuntimeError("seeded")

    monkeypatch.setattr(ServerConnection, "_give_up", fail_once)
    first.clock.advance(1000)
    first.factory.sweep()
    assert sorted([first.calls, second.calls]) == [["abort"], ["lose"]]
    assert first.factory.connections == 1
