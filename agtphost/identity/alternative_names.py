"""The names of a server in its certificate: the host's name, and the addresses at which its own commands reach it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from cryptography import x509

from agtphost.vocabulary.addresses import is_loopback, is_unspecified

_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*",
    re.ASCII | re.IGNORECASE,
)

LOOPBACK = ("127.0.0.1", "::1")


def reachable_addresses(listened: str) -> tuple[str, ...]:
    """
    Return the addresses at which the host's own commands reach it.

    :param listened: ``[listen] address``.
    """
    try:
        address = ipaddress.ip_address(listened)
    except ValueError:
        return LOOPBACK
    return LOOPBACK if is_unspecified(address) or is_loopback(address) else (str(address),)


def addresses_of(certificate: x509.Certificate) -> set[str]:
    """Return the IP addresses that a certificate names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(each) for each in names.get_values_for_type(x509.IPAddress)}


def alternative_names(server_id: str, addresses: Sequence[str] | None, listened: str) -> list[x509.GeneralName]:
    """
    Return the alternative names of a server's certificate.

    :param server_id: named, if it is a host name or an address.
    :param addresses: as for :func:`agtphost.identity.certificates.issue_server_certificate`.
    """
    names: list[x509.GeneralName] = [] if addresses is not None else [x509.DNSName("localhost")]
    wanted = dict.fromkeys((*LOOPBACK, *reachable_addresses(listened))) if addresses is None else addresses
    names += [x509.IPAddress(ipaddress.ip_address(each)) for each in wanted]
    try:
        address: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(server_id))
    except ValueError:
        if _HOST_NAME.fullmatch(server_id) is None:
            return names
        address = x509.DNSName(server_id.lower())
    if address not in names:
        names.insert(0, address) if addresses is not None else names.append(address)
    return names
