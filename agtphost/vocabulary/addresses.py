"""Which addresses may be connected to where a name is not the operator's own word (security section 2.4, T-SS)."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_TRANSLATED = ipaddress.IPv6Network("::ffff:0:0:0/96")
"""What translators of old send to IPv4 (SIIT)."""

_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_CLOUD = frozenset({ipaddress.ip_address("168.63.129.16"), ipaddress.ip_address("192.0.0.192")})
"""Addresses that look public, and are a cloud's own services for the machines in it."""


class ForbiddenAddress(Exception):
    """No address of a name may be connected to; the message says why."""


def embedded(address: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv6 address stands for, if it does; else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    octets = address.packed
    if (
        address in _NAT64
        or address in _TRANSLATED
        or (octets[:12] == bytes(12) and octets[12:] not in (bytes(4), b"\0\0\0\1"))
    ):
        return ipaddress.IPv4Address(octets[12:])
    return address


class AddressPolicy:
    """
    What may be connected to: public addresses, and those that the operator, or the caller, allows.

    :param allowed: such as ``allow_addresses`` of an endpoint.
    """

    def __init__(self, allowed: Sequence[IPNetwork] = ()) -> None:
        self._allowed = tuple(allowed)

    def admits(self, text: str) -> bool:
        """Whether the address of that text may be connected to."""
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return False
        true = embedded(address)
        if any(one in network for network in self._allowed for one in {address, true}):
            return True
        return all(
            one.is_global and not one.is_multicast and one not in _CLOUD and one not in _LOCAL_NAT64
            for one in {address, true}
        )
