"""Which TCP connections are worth a TLS handshake: security section 2.2, floods."""

from __future__ import annotations

import ipaddress
from enum import Enum
from functools import lru_cache

from agtphost.protocols.limits import ConnectionLimits, Network
from agtphost.vocabulary.addresses import find_origin, unmap
from agtphost.vocabulary.addresses import is_loopback as is_loopback_address


def canonical_address(address: str) -> str:
    """
    Return the canonical spelling of an IP address: IPv4 inside IPv6 as IPv4, without a scope.

    Anything else, such as the path of a UNIX socket, is returned as it is.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(unmap(parsed))


def is_loopback(address: str) -> bool:
    """Return whether a canonical address is this machine's own; a name that is not an IP address is local too."""
    try:
        return is_loopback_address(ipaddress.ip_address(address))
    except ValueError:
        return True


@lru_cache(maxsize=1024)
def origin_of(address: str, exempt: tuple[Network, ...]) -> str | None:
    """
    Return the origin that a canonical address counts as: see :func:`agtphost.vocabulary.addresses.find_origin`.

    :return: None for an address that is not counted.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return None if any(parsed in network for network in exempt) else find_origin(parsed)


class FullLimit(Enum):
    """The limit that a new connection would exceed."""

    LISTENER = "the listener has as many connections as it takes"
    ORIGIN = "the address has its share"


class _Origin:
    """The open connections of one origin, and its remaining allowance of handshakes."""

    __slots__ = ("allowance", "connections", "renewed")

    def __init__(self, allowance: float, now: float) -> None:
        self.connections = 0
        self.allowance = allowance
        self.renewed = now


class Admission:
    """
    Counts connections, in all and per origin, and handshakes per origin and second.

    An origin's handshakes are an allowance that grows back; one that ends with a verified client certificate is given
    back, so that only unknown clients use it up. Nothing is kept of an origin without connections once its allowance is
    whole again.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._origins: dict[str, _Origin] = {}
        self.connections = 0
        """Admitted and not yet released."""

    @property
    def origins(self) -> int:
        """Return of how many origins there is state."""
        return len(self._origins)

    def admit(self, address: str, now: float) -> bool:
        """
        Return whether a new connection may begin its handshake; if so, it is counted.

        :param address: canonical.
        :param now: the clock's seconds.
        """
        if self.connections >= self._limits.connections:
            return False
        origin = self._origin(address, now)
        if origin is not None:
            if origin.connections >= self._limits.connections_per_address or origin.allowance < 1:
                return False
            origin.connections += 1
            origin.allowance -= 1
        self.connections += 1
        return True

    def origin(self, address: str) -> str | None:
        """Return the origin that a canonical address counts as; None for one that is not counted."""
        return origin_of(address, self._limits.exempt_addresses)

    def find_full_limit(self, address: str) -> FullLimit | None:
        """Return the limit that a connection from this address would exceed; None if it may connect."""
        if self.connections >= self._limits.connections:
            return FullLimit.LISTENER
        origin = self._find_origin(address)
        if origin is not None and origin.connections >= self._limits.connections_per_address:
            return FullLimit.ORIGIN
        return None

    def may_admit(self, address: str, now: float) -> bool:
        """Return whether :meth:`admit` would; nothing is counted."""
        if self.find_full_limit(address) is not None:
            return False
        origin = self._find_origin(address)
        rate = self._limits.handshakes_per_second_per_address
        return origin is None or min(rate, origin.allowance + (now - origin.renewed) * rate) >= 1

    def vouch(self, address: str) -> None:
        """Note that the client of an admitted connection has proven who it is, for example by its certificate."""
        origin = self._find_origin(address)
        if origin is not None:
            origin.allowance += 1

    def move(self, before: str, after: str, now: float) -> bool:
        """
        Count an open connection for another address, without a handshake; False if that has its share.

        :param before: the canonical address that it is counted for.
        :param after: the canonical address that its client has now.
        """
        old, new = self._find_origin(before), self._origin(after, now)
        if new is not None and new is not old:
            if new.connections >= self._limits.connections_per_address:
                return False
            new.connections += 1
        if old is not None and old is not new:
            old.connections -= 1
        return True

    def release(self, address: str) -> None:
        """Note that an admitted connection ended."""
        self.connections -= 1
        origin = self._find_origin(address)
        if origin is not None:
            origin.connections -= 1

    def prune(self, now: float) -> None:
        """Forget whom nothing is to be remembered of."""
        whole = self._limits.handshakes_per_second_per_address
        for name, origin in tuple(self._origins.items()):
            if not origin.connections and origin.allowance + (now - origin.renewed) * whole >= whole:
                del self._origins[name]

    def _find_origin(self, address: str) -> _Origin | None:
        name = origin_of(address, self._limits.exempt_addresses)
        return None if name is None else self._origins.get(name)

    def _origin(self, address: str, now: float) -> _Origin | None:
        name = origin_of(address, self._limits.exempt_addresses)
        if name is None:
            return None
        rate = self._limits.handshakes_per_second_per_address
        origin = self._origins.get(name)
        if origin is None:
            origin = self._origins[name] = _Origin(rate, now)
        else:
            origin.allowance = min(rate, origin.allowance + (now - origin.renewed) * rate)
            origin.renewed = now
        return origin
