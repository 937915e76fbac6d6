"""Checks of the endpoint URLs that a card may have."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from agtphost.vocabulary.addresses import LOOPBACK, AddressPolicy, IPNetwork, is_loopback

LONGEST = 2_048
LONGEST_NAME = 254
"""Characters of a host name, with the dot at its end."""

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_FORBIDDEN = frozenset(' "<>\\^`{|}#')


class EndpointFault(ValueError):
    """A URL that cannot be an agent's endpoint; the message is a predicate."""


class EndpointChecker:
    """
    Checker of endpoint URLs.

    A URL that passes may be in a card. Whether this host calls it is decided by its providers.

    :param development: whether plain http to this machine's loopback is accepted.
    :param allowed: non-public networks that agents may be in, from the configured providers.
    """

    def __init__(self, *, development: bool = False, allowed: Sequence[IPNetwork] = ()) -> None:
        self._development = development
        self._policy = AddressPolicy((*allowed, *(LOOPBACK if development else ())))

    @classmethod
    def allow_all(cls) -> EndpointChecker:
        """
        Return a checker for cards that were checked before: providers decide at each call whether the URL is called.
        """
        return cls(development=True, allowed=(ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))

    def check(self, value: Any) -> str:
        """
        Return the URL unchanged if it is valid.

        :raises EndpointFault: the URL cannot be an agent's endpoint.
        """
        if not isinstance(value, str) or not value:
            raise EndpointFault("is not a URL")
        if len(value) > LONGEST:
            raise EndpointFault(f"is longer than {LONGEST} characters")
        if not value.isascii() or not value.isprintable() or _FORBIDDEN & set(value):
            raise EndpointFault("has characters that are not allowed in a URL")
        try:
            parts = urlsplit(value)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise EndpointFault("is not a URL") from None
        if parts.scheme not in ("https", "http", "agtp"):
            raise EndpointFault("must be an https or agtp URL")
        if not host or port == 0:
            raise EndpointFault("has no host name")
        if parts.username is not None or parts.password is not None:
            raise EndpointFault("has a user name or password: remove them, because cards are public")
        if parts.scheme == "http" and not (self._development and _is_loopback(host)):
            raise EndpointFault("must be https: plain http is accepted only for loopback in development")
        if not (":" in host or (len(host) <= LONGEST_NAME and _NAME.fullmatch(host))):
            raise EndpointFault("has an invalid host name")
        if not self._reachable(host):
            raise EndpointFault("is within this host's own network, which no provider of [registry] allows")
        return value

    def _reachable(self, host: str) -> bool:
        name = host.rstrip(".").lower()
        if name == "localhost" or name.endswith(".localhost"):
            return self._policy.admits("127.0.0.1")
        if ":" in name or _NUMBER.fullmatch(name.rpartition(".")[2]):
            # A name that ends in a number is an IP address, also in the older notations.
            return self._policy.admits(name)
        return True


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return is_loopback(ipaddress.ip_address(host))
    except ValueError:
        return False
