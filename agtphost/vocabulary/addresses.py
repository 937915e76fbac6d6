"""
Which addresses may be connected to where a name is not the operator's own word (security section 2.4, T-SS).

The lists here are the project's own. The tables of the interpreter's ``ipaddress`` differ between Python versions, so
none of its verdicts is used anywhere (``tests/vocabulary/test_special_purpose.py`` forbids them, and compares the lists
with a dated copy of IANA's two special-purpose address registries).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def _networks(*texts: str) -> tuple[IPNetwork, ...]:
    return tuple(map(ipaddress.ip_network, texts))


LOOPBACK = _networks("127.0.0.0/8", "::1/128")

NOT_PUBLIC = _networks(
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private use
    "100.64.0.0/10",  # shared address space of carriers
    "127.0.0.0/8",  # loopback
    "168.63.129.16/32",  # a cloud's own service for the machines in it; it looks public
    "169.254.0.0/16",  # link local: metadata services of clouds
    "172.16.0.0/12",  # private use
    "192.0.0.0/24",  # protocol assignments: services of the network that this host is in
    "192.0.2.0/24",  # documentation
    "192.88.99.0/24",  # 6to4 relays, which ended in 2015; in it 6a44 relays
    "192.168.0.0/16",  # private use
    "198.18.0.0/15",  # benchmarking
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved; its last address is the limited broadcast
    "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID, anycast of protocols
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4: whose relay it is, the address does not tell
    "3fff::/20",  # documentation
)
"""
What no connection goes to unless the operator allows it; of IPv6 also everything outside :data:`GLOBAL_UNICAST`.

It is stricter than IANA's registries where a block within ``192.0.0.0/24`` or ``2001::/23`` is globally reachable:
those are anycast addresses of network protocols and identifiers, and no server of an agent is there.
"""

GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""
The only part of IPv6 that is allocated as global unicast.

Outside of it are loopback, unique local (``fc00::/7``), link local (``fe80::/10``), the former site local
(``fec0::/10``), multicast (``ff00::/8``), segment identifiers (``5f00::/16``), discarded (``100::/64``), and what is
not assigned.
"""

_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_TRANSLATED = ipaddress.IPv6Network("::ffff:0:0:0/96")
"""What translators of old send to IPv4 (SIIT)."""

_CARRIERS = (_MAPPED, _NAT64, _TRANSLATED)
"""An address in one of them is nothing but the IPv4 address in its last 32 bits, and is judged by that alone."""

_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
_TEREDO = ipaddress.IPv6Network("2001::/32")


class ForbiddenAddress(Exception):
    """No address of a name may be connected to; the message says why."""


def unmap(address: IPAddress) -> IPAddress:
    """Return the IPv4 address of an IPv4-mapped IPv6 address, and every other address as it is."""
    if isinstance(address, ipaddress.IPv6Address) and address in _MAPPED:
        return ipaddress.IPv4Address(address.packed[12:])
    return address


def to_counted(address: IPAddress) -> IPAddress:
    """
    Return the address that limits per address count, and nothing else may use.

    An IPv4 address within one of IPv6 counts as itself: all clients behind a translator with the well-known prefix
    (RFC 6052) would have one share otherwise. A local prefix is the operator's, and may be anybody's in the network.
    """
    if isinstance(address, ipaddress.IPv6Address) and any(address in network for network in _CARRIERS):
        return ipaddress.IPv4Address(address.packed[12:])
    return address


def find_origin(address: IPAddress) -> str:
    """Return the origin that an address counts as: an IPv4 address, or the /64 that one IPv6 customer gets."""
    counted = to_counted(address)
    if isinstance(counted, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((counted, 64), strict=False))
    return str(counted)


def is_loopback(address: IPAddress) -> bool:
    """Return whether an address is one of this machine's loopback addresses, IPv4-mapped ones included."""
    true = unmap(address)
    return any(true in network for network in LOOPBACK)


def is_unspecified(address: IPAddress) -> bool:
    """Return whether an address means all of this machine's addresses: ``0.0.0.0`` or ``::``."""
    return not int(unmap(address))


def is_public(address: IPAddress) -> bool:
    """Return whether an address, without what it embeds, is globally reachable as far as this project connects."""
    if any(address in network for network in NOT_PUBLIC):
        return False
    return isinstance(address, ipaddress.IPv4Address) or address in GLOBAL_UNICAST


def find_embedded(address: IPAddress) -> tuple[ipaddress.IPv4Address, ...]:
    """
    Return the IPv4 addresses that packets to an IPv6 address can end at or pass through; none for other addresses.

    A local NAT64 prefix may have one of several lengths, which the address does not tell: then it is
    the IPv4 address in each layout that the address can be of.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    octets = address.packed
    if any(address in network for network in _CARRIERS):
        return (ipaddress.IPv4Address(octets[12:]),)
    if address in _SIX_TO_FOUR:
        return (ipaddress.IPv4Address(octets[2:6]),)
    if address in _TEREDO:
        # The server, and the client's address behind its NAT, whose bits are inverted.
        return ipaddress.IPv4Address(octets[4:8]), ipaddress.IPv4Address(bytes(octet ^ 0xFF for octet in octets[12:]))
    if address in _COMPATIBLE and int(address) > 1:
        return (ipaddress.IPv4Address(octets[12:]),)
    return tuple(_layouts(octets)) if address in _LOCAL_NAT64 else ()


def _layouts(octets: bytes) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 address of each layout that translators have within a prefix of 48 bits or more."""
    if any(octets[12:]):
        yield ipaddress.IPv4Address(octets[12:])
    if octets[8]:
        return
    without = octets[:8] + octets[9:]
    for begin in (6, 7, 8):
        if not any(without[begin + 4 :]):
            yield ipaddress.IPv4Address(without[begin : begin + 4])


class AddressPolicy:
    """
    A rule for addresses that may be connected to: public ones, and those that the operator, or the caller, allows.

    An IPv6 address that embeds an IPv4 address is judged by both: each has to be public or allowed.

    :param allowed: such as ``allow_addresses`` of an endpoint.
    """

    def __init__(self, allowed: Sequence[IPNetwork] = ()) -> None:
        self._allowed = tuple(allowed)

    def admits(self, text: str) -> bool:
        """Return whether the address of a text may be connected to; a text that is not an address may not."""
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return False
        carried = any(address in network for network in _CARRIERS)
        judged = (*find_embedded(address), *(() if carried else (address,)))
        return all(is_public(each) or any(each in network for network in self._allowed) for each in judged)
