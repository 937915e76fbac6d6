"""Which addresses may be connected to (T-SS-13 to T-SS-40)."""

from __future__ import annotations

import ipaddress

from agtphost.vocabulary.addresses import AddressPolicy
from tests.rows import each_row

FORBIDDEN = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "169.254.0.1",
    "192.0.0.192",
    "168.63.129.16",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "::10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",
    "::ffff:0:7f00:1",
    "::ffff:0:a9fe:a9fe",
    "2002:7f00:1::",
    "2002:c0a8:101::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "fe80::1",
    "fe80::1%lo",
    "fd00:ec2::254",
    "fc00::1",
    "ff02::1",
    "2001:db8::1",
    "not an address",
    "",
]

PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "::ffff:0:808:808"]


@each_row("address", FORBIDDEN)
def test_what_is_not_public_is_refused(address: str) -> None:
    """Loopback, private, link-local, multicast, reserved and metadata addresses, in every disguise."""
    assert not AddressPolicy().admits(address)


@each_row("address", PUBLIC)
def test_what_is_public_is_not(address: str) -> None:
    """The control."""
    assert AddressPolicy().admits(address)


def test_the_operator_may_list_more() -> None:
    """``allow_addresses`` opens what it names, also where it is embedded, and nothing beside."""
    policy = AddressPolicy([ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("::1")])
    assert policy.admits("10.1.2.3") and policy.admits("::ffff:10.1.2.3") and policy.admits("::1")
    assert not policy.admits("10.2.0.1") and not policy.admits("127.0.0.1")
