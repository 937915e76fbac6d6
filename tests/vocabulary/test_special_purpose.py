"""The project's lists of addresses against a dated copy of IANA's special-purpose address registries."""

from __future__ import annotations

import ast
import ipaddress
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agtphost.vocabulary.addresses import (
    AddressPolicy,
    IPAddress,
    IPNetwork,
    find_embedded,
    is_loopback,
    is_unspecified,
)
from tests.programmes import seed_of_chance
from tests.rows import each_row

ROOT = Path(__file__).resolve().parents[2]
COPY = Path(__file__).with_name("special_purpose_addresses.tsv")

STRICTER = {
    "192.0.0.9/32": "a service of the network that the host is in, whatever network that is",
    "192.0.0.10/32": "likewise",
    "2001:1::1/128": "likewise",
    "2001:1::2/128": "likewise",
    "2001:1::3/128": "likewise",
    "2001:3::/32": "relays of multicast, and no servers",
    "2001:4:112::/48": "name servers that answer nothing",
    "2001:20::/28": "identifiers, and no addresses",
    "2001:30::/28": "identifiers, and no addresses",
}
"""Blocks that are globally reachable, and that this project does not connect to; with the reason."""

STRICTER_BLOCKS = {ipaddress.ip_network(block) for block in STRICTER}

CARRIERS = {ipaddress.ip_network(block) for block in ("::ffff:0:0/96", "64:ff9b::/96")}
"""Blocks whose addresses are judged by the IPv4 address in their last 32 bits."""

MORE = ("168.63.129.16/32", "224.0.0.0/4")
"""What is refused though no row of the registries has it: a cloud's own service, and multicast."""

VERDICTS = frozenset(
    ("is_private", "is_global", "is_reserved", "is_link_local", "is_site_local", "is_multicast", "is_unspecified")
    + ("is_loopback", "ipv4_mapped", "sixtofour", "teredo")
)
"""What ``ipaddress`` says of an address by tables that differ between Python versions."""


@dataclass(frozen=True)
class Row:
    """A block of the registries."""

    block: IPNetwork
    allocated: str
    terminated: str
    reachable: str


def rows() -> list[Row]:
    found = []
    for line in COPY.read_text().splitlines():
        if not line.startswith("#"):
            block, _, _, allocated, terminated, reachable = line.split("\t")
            found.append(Row(ipaddress.ip_network(block), allocated, terminated, reachable))
    return found


ROWS = rows()


def expected(address: IPAddress) -> bool:
    """What the registries say of an address, by the most specific row; an address without one is an ordinary one."""
    over = [row for row in ROWS if address in row.block]
    if any(address in ipaddress.ip_network(block) for block in MORE):
        return False
    if not over:
        return address.version == 4 or address in ipaddress.ip_network("2000::/3")
    row = max(over, key=lambda each: each.block.prefixlen)
    if row.block in CARRIERS:
        return expected(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return row.reachable == "True" and row.block not in STRICTER_BLOCKS


def samples(block: IPNetwork) -> Iterator[IPAddress]:
    """The first, the last and one in the middle of a block, and the one before and after it."""
    kind = ipaddress.IPv4Address if block.version == 4 else ipaddress.IPv6Address
    first, last = int(block.network_address), int(block.broadcast_address)
    for number in (first - 1, first, (first + last) // 2, last, last + 1):
        if 0 <= number < 1 << block.max_prefixlen:
            yield kind(number)


def test_every_block_of_the_registries_is_judged_as_they_say() -> None:
    """At its edges and in its middle, and just outside of it."""
    policy = AddressPolicy()
    wrong = [
        f"{address} of {row.block}"
        for row in ROWS
        for address in samples(row.block)
        if policy.admits(str(address)) is not expected(address)
    ]
    assert wrong == []


def test_the_copy_has_every_block_and_its_date() -> None:
    """26 blocks of IPv4 and 25 of IPv6, each with a month; what has ended is said to be reachable by none."""
    assert [sum(row.block.version == version for row in ROWS) for version in (4, 6)] == [26, 25]
    assert all(re.fullmatch(r"(19|20)\d\d-(0[1-9]|1[0-2])", row.allocated) for row in ROWS)
    assert {str(row.block) for row in ROWS if row.terminated != "-"} == {"192.88.99.0/24", "2001:10::/28"}
    assert {row.reachable for row in ROWS if row.terminated != "-"} == {"-"}
    assert re.search(r"updated on \d{4}-\d\d-\d\d", COPY.read_text().splitlines()[0])
    assert {row.block for row in ROWS if row.reachable == "True"} > STRICTER_BLOCKS


def test_random_addresses_are_judged_as_the_registries_say() -> None:
    """Drawn from all of either version, and near the blocks."""
    draw, policy, admitted = random.Random(seed_of_chance()), AddressPolicy(), 0
    for _ in range(3_000):
        block = draw.choice(ROWS).block
        bits = block.max_prefixlen
        near = int(block.network_address) ^ draw.getrandbits(draw.randint(1, bits))
        for number in (near, draw.getrandbits(bits)):
            address = ipaddress.IPv4Address(number) if bits == 32 else ipaddress.IPv6Address(number)
            if _translated(address):
                continue
            admitted += policy.admits(str(address))
            assert policy.admits(str(address)) is expected(address), address
    assert admitted > 500


def _translated(address: IPAddress) -> bool:
    """What translators of old send to IPv4 is in no registry, and is judged as what it carries."""
    return address in ipaddress.ip_network("::ffff:0:0:0/96")


@each_row(
    "address",
    ["fec0::1", "feff:ffff::1", "3fff::1", "3fff:fff::1", "5f00::1", "5f00:ffff::1", "192.88.99.1", "192.88.99.2"]
    + ["100:0:0:1::1", "4000::1", "e000::1", "0:1::1", "2001:1::1", "192.0.0.9", "192.0.0.192", "255.255.255.255"],
)
def test_what_interpreters_differ_in_is_refused(address: str) -> None:
    """By the project's list, on every Python."""
    assert not AddressPolicy().admits(address)


@each_row(
    ("address", "carried"),
    [
        ("::ffff:10.0.0.1", ["10.0.0.1"]),
        ("::ffff:0:a00:1", ["10.0.0.1"]),
        ("64:ff9b::a00:1", ["10.0.0.1"]),
        ("64:ff9b:1::a00:1", ["10.0.0.1"]),
        ("64:ff9b:1:808:8:800::", ["8.8.8.8", "8.8.8.0", "8.8.0.0"]),
        ("64:ff9b:1:a:0:100::", ["0.10.0.1", "10.0.1.0", "0.1.0.0"]),
        ("2002:a00:1::5", ["10.0.0.1"]),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", ["65.54.227.120", "127.0.0.1"]),
        ("::10.0.0.1", ["10.0.0.1"]),
        ("::1", []),
        ("::", []),
        ("2606:4700::1111", []),
        ("10.0.0.1", []),
    ],
)
def test_what_an_address_carries(address: str, carried: list[str]) -> None:
    """IPv4-mapped, translated, 6to4, Teredo with its server, and every layout of a local NAT64 prefix."""
    assert [str(each) for each in find_embedded(ipaddress.ip_address(address))] == carried


@each_row(
    ("allowed", "address", "admitted"),
    [
        ("64:ff9b:1::/48", "64:ff9b:1::808:808", True),
        ("64:ff9b:1::/48", "64:ff9b:1::a00:1", False),
        ("64:ff9b:1::/48", "64:ff9b:1:a00:0:100::", False),
        ("2002::/16", "2002:808:808::1", True),
        ("2002::/16", "2002:7f00:1::1", False),
        ("2001::/32", "2001:0:808:808::f7f7:f7f7", True),
        ("2001::/32", "2001:0:7f00:1::f7f7:f7f7", False),
        ("2001::/32", "2001:0:808:808::80ff:fffe", False),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("10.0.0.0/8", "64:ff9b::a00:1", True),
        ("10.0.0.0/8", "2002:a00:1::1", False),
        ("::ffff:0:0/96", "::ffff:10.0.0.1", False),
        ("::/96", "::127.0.0.1", False),
        ("fc00::/7", "fd00::1", True),
    ],
)
def test_an_address_and_what_it_carries_are_both_judged(allowed: str, address: str, admitted: bool) -> None:
    """What the operator allows by its IPv6 form opens no IPv4 address that nobody allowed, and the other way round."""
    assert AddressPolicy([ipaddress.ip_network(allowed)]).admits(address) is admitted


def test_loopback_and_unspecified_are_the_same_on_every_python() -> None:
    """IPv4-mapped forms included, of which interpreters think differently."""
    for text in ("127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1"):
        assert is_loopback(ipaddress.ip_address(text)) and not is_unspecified(ipaddress.ip_address(text))
    for text in ("0.0.0.0", "::", "::ffff:0.0.0.0"):
        assert is_unspecified(ipaddress.ip_address(text)) and not is_loopback(ipaddress.ip_address(text))
    for text in ("128.0.0.1", "::2", "::127.0.0.1", "10.0.0.1"):
        assert not is_loopback(ipaddress.ip_address(text)) and not is_unspecified(ipaddress.ip_address(text))


def verdicts(source: str) -> list[str]:
    """The interpreter's verdicts that a module reads off an address."""
    return [
        f"{node.lineno}: {node.attr}"
        for node in (ast.walk(ast.parse(source)) if any(name in source for name in VERDICTS) else ())
        if isinstance(node, ast.Attribute) and node.attr in VERDICTS
    ]


def test_no_module_goes_by_the_interpreters_tables() -> None:
    """They differ between Python versions: the functions of ``agtphost/vocabulary/addresses.py`` are asked."""
    found = {}
    for path in (*(ROOT / "agtphost").rglob("*.py"), *(ROOT / "packages").rglob("*.py")):
        if wrong := verdicts(path.read_text()):
            found[str(path.relative_to(ROOT))] = wrong
    assert found == {}


def test_a_module_that_does_is_noticed() -> None:
    """The control."""
    assert verdicts("def f(a):\n    return a.is_global and not a.ipv4_mapped") == ["2: is_global", "2: ipv4_mapped"]
    assert verdicts("from agtphost.vocabulary.addresses import is_loopback\nis_loopback(1)") == []
