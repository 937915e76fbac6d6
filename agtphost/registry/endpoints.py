"""Where a card can say that its agent is."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from agtphost.vocabulary.addresses import LOOPBACK, AddressPolicy, IPNetwork, is_loopback

LONGEST = 2_048
LONGEST_NAME = 254
"""Of a host, with the dot at its end."""

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_FORBIDDEN = frozenset(' "<>\\^`{|}#')


class EndpointFault(ValueError):
    """A URL that no agent can be at; the message is a predicate."""


class Endpoints:
    """
    Tells URLs that can be called from those that cannot.

    That one may stand in a card does not mean that this host calls it: that is for providers to say.

    :param development: whether plain http of this machine's own loopback will do.
    :param allowed: networks that agents may be in although they are not public, as their providers have it.
    """

    def __init__(self, *, development: bool = False, allowed: Sequence[IPNetwork] = ()) -> None:
        self._development = development
        self._policy = AddressPolicy((*allowed, *(LOOPBACK if development else ())))

    @classmethod
    def everywhere(cls) -> Endpoints:
        """For cards that were looked at before: whatever their providers say today decides when they are called."""
        return cls(development=True, allowed=(ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))

    def checked(self, value: Any) -> str:
        """
        The URL as given.

        :raises EndpointFault: it is none that an agent can be at.
        """
        if not isinstance(value, str) or not value:
            raise EndpointFault("is no URL")
        if len(value) > LONGEST:
            raise EndpointFault(f"is longer than {LONGEST} characters")
        if not value.isascii() or not value.isprintable() or _FORBIDDEN & set(value):
            raise EndpointFault("has characters that a URL cannot have")
        try:
            parts = urlsplit(value)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise EndpointFault("is no URL") from None
        if parts.scheme not in ("https", "http", "agtp"):
            raise EndpointFault("must be an https or agtp URL")
        if not host or port == 0:
            raise EndpointFault("names no host")
        if parts.username is not None or parts.password is not None:
            raise EndpointFault("holds a user name: credentials have no place in a card")
        if parts.scheme == "http" and not (self._development and _is_loopback(host)):
            raise EndpointFault("must be https: plain http is for loopback in development")
        if not (":" in host or (len(host) <= LONGEST_NAME and _NAME.fullmatch(host))):
            raise EndpointFault("names a host as no name can be written")
        if not self._reachable(host):
            raise EndpointFault("is within this host's own network, which no provider of [registry] allows")
        return value

    def _reachable(self, host: str) -> bool:
        name = host.rstrip(".").lower()
        if name == "localhost" or name.endswith(".localhost"):
            return self._policy.admits("127.0.0.1")
        if ":" in name or _NUMBER.fullmatch(name.rpartition(".")[2]):
            # What ends in a number is an address, in whichever of the old ways it is written, and never a name.
            return self._policy.admits(name)
        return True


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return is_loopback(ipaddress.ip_address(host))
    except ValueError:
        return False
