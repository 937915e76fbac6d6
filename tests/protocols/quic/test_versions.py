"""Which version of QUIC is spoken, whatever the other side offers, and which versions of the library speak it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from aioquic.buffer import Buffer
from aioquic.quic.packet import (
    QuicProtocolVersion,
    QuicVersionInformation,
    encode_quic_version_negotiation,
    pull_quic_header,
)

from agtphost.client.errors import HandshakeEnded
from agtphost.wire.quic.connection import VERSIONS
from tests.client.quic.sessions import ADDRESS, SessionClient, call_of, credentials_of
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, quic_site

ROOT = Path(__file__).resolve().parents[3]
LOWEST, BEYOND = (".".join(map(str, version)) for version in VERSIONS)
TESTS = ("protocols/quic", "client/quic", "attacks", "conformance/test_carriers.py", "system/test_quic.py")
"""What is run with another version of the library: of each, tests that have quic in their names."""

V1, V2 = int(QuicProtocolVersion.VERSION_1), int(QuicProtocolVersion.VERSION_2)
ONLY_V1 = QuicVersionInformation(chosen_version=V1, available_versions=[V1])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def spoken(network: Network) -> set[int | None]:
    """Return the versions of all packets that name one."""
    headers = (pull_quic_header(Buffer(data=octets), 8) for _, _, octets in network.carried if octets[0] & 0x80)
    return {header.version for header in headers}


def test_a_client_that_prefers_version_2_is_served_by_version_1(site: Site) -> None:
    """The host names version 1 alone, and changes to no compatible version."""
    network = Network()
    QuicHost(network, site)
    client = QuicClient(network, site, supported_versions=[V2, V1], original_version=V1).connect()
    assert client.wait(client.call())[0].startswith(b"AGTP/1.0 200 OK\r\n")
    core: Any = client.core
    assert (core._version, core._remote_version_information) == (V1, ONLY_V1)
    assert spoken(network) == {V1}


def foreign(version: int, *, first: int = 0xC3, destination: int = 8, source: int = 8, length: int = 1200) -> bytes:
    """Return a datagram of another version: only what all versions share is as it has to be (RFC 8999 section 5.1)."""
    ids = b"".join(bytes((octets,)) + os.urandom(octets) for octets in (destination, source))
    return (bytes((first,)) + version.to_bytes(4, "big") + ids).ljust(length, b"\xff")


@pytest.mark.parametrize("version", [V2, 0xFF00001D, 0x1A2A3A4A, 0xFFFFFFFF])
@pytest.mark.parametrize("octets", [0, 1, 20, 21, 160, 255])
@pytest.mark.parametrize("first", [0x80, 0x8F, 0xC3, 0xFF])
def test_the_version_is_told_whatever_else_another_one_changes(
    site: Site, version: int, octets: int, first: int
) -> None:
    """Connection IDs may have 255 octets, and the other octets mean anything; the answer is less than half as long."""
    network = Network()
    host = QuicHost(network, site)
    asked = foreign(version, first=first, destination=octets, source=255 - octets)
    host.endpoint.datagramReceived(asked, ADDRESS)
    host.endpoint.datagramReceived(foreign(version, destination=octets, length=1199), ADDRESS)
    [answer] = [sent for _, to, sent in network.carried if to == ADDRESS]
    middle = 6 + octets
    swapped = asked[middle : middle + 256 - octets] + asked[5:middle]
    assert answer[0] & 0x80 and answer[1:] == bytes(4) + swapped + V1.to_bytes(4, "big")
    assert 2 * len(answer) < len(asked) and host.endpoint.counts.dropped == {"version": 1}


@pytest.mark.parametrize("octets", [0, 8, 20, 21, 255])
def test_a_list_of_versions_gets_none(site: Site, octets: int) -> None:
    """Two servers that answered each other's lists would never end (RFC 9000 section 6.1)."""
    network = Network()
    host = QuicHost(network, site)
    for length in range(1200, 1204):
        host.endpoint.datagramReceived(foreign(0, destination=octets, source=octets, length=length), ADDRESS)
    assert not network.carried and host.endpoint.counts.dropped == {"version": 4}


def test_a_packet_of_another_version_for_a_connection_is_dropped(site: Site) -> None:
    """A connection has one version, and is not disturbed by what names another (RFC 9000 section 5.2)."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    network.pass_time(0.1)
    [link] = host.endpoint._links
    packet = bytearray(foreign(V2))
    packet[6:14] = link.core.host_cid
    sent = len(network.carried)
    host.endpoint.datagramReceived(bytes(packet), client.address)
    network.pass_time(0.1)
    assert len(network.carried) == sent and host.endpoint.counts.dropped == {"version": 1}
    assert client.wait(client.call())[0].startswith(b"AGTP/1.0 200 OK\r\n")


@pytest.mark.parametrize("length", [0, 1, 4, 5, 6])
def test_a_datagram_that_ends_in_its_head_is_dropped(site: Site, length: int) -> None:
    """It is neither answered nor a fault of the host, whatever version it names."""
    network = Network()
    host = QuicHost(network, site)
    for version in (V1, V2, 0):
        host.endpoint.datagramReceived(foreign(version)[:length], ADDRESS)
    assert not network.carried and host.endpoint.counts.dropped.total() == 3


def test_a_client_that_begins_with_version_2_changes_to_version_1(site: Site) -> None:
    """It gets a list of versions that has version 1 and nothing else, and is served by that."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, supported_versions=[V2, V1]).connect()
    assert client.wait(client.call())[0].startswith(b"AGTP/1.0 200 OK\r\n")
    [answer] = [octets for origin, _, octets in network.carried if origin == HOST and octets[1:5] == bytes(4)]
    assert pull_quic_header(Buffer(data=answer)).supported_versions == [V1]
    assert host.endpoint.links == 1


def test_our_client_offers_version_1_alone(site: Site) -> None:
    """Its transport parameters name no version that a server could change to."""
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    assert client.call(call_of()).status == 200
    [link] = host.endpoint._links
    core: Any = link.core
    assert core._remote_version_information == ONLY_V1
    assert spoken(network) == {V1}


def test_our_client_follows_no_list_of_versions_to_version_2(site: Site) -> None:
    """Where a list has version 2 alone the connection cannot be made; no packet of version 2 is sent."""
    network = Network()
    client = SessionClient(network, credentials_of(site))
    header = pull_quic_header(Buffer(data=network.carried[-1][2]), 8)
    versions = encode_quic_version_negotiation(
        source_cid=header.destination_cid, destination_cid=header.source_cid, supported_versions=[V2]
    )
    network.receivers[ADDRESS](versions, HOST)
    client.connect()
    assert isinstance(client.session.fault, HandshakeEnded), client.session.fault
    assert spoken(network) == {V1}


def test_the_extra_brings_a_version_that_is_used() -> None:
    """The package's metadata and the check at a host's start name the same versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["quic"] == [f"aioquic>={LOWEST},<{BEYOND}"]


@pytest.mark.release
@pytest.mark.timeout(1200)
def test_the_lowest_version_of_the_library_passes(tmp_path: Path) -> None:
    """The tests of QUIC, attacks and conformance included, pass with the oldest version that the extra allows."""
    wanted = ("--quiet", "--no-deps", "--target", str(tmp_path), f"aioquic=={LOWEST}")
    subprocess.run([sys.executable, "-m", "pip", "install", *wanted], check=True)
    left = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ = {**left, "PYTHONPATH": str(tmp_path)}
    asked = [sys.executable, "-c", "import aioquic; print(aioquic.__version__)"]
    assert subprocess.run(asked, env=environ, capture_output=True, text=True, check=True).stdout.strip() == LOWEST
    where = [f"tests/{name}" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "-k", "quic", *where]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert int(done.stdout.rpartition(" passed")[0].split()[-1]) > 250
