"""How many datagrams that belong to no connection a port answers, so that one peer leaves answers for the others."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from ipaddress import ip_address, ip_network

from agtphost.protocols.admission import canonical_address, origin_of
from agtphost.vocabulary.addresses import to_counted

PART, NETWORK_PART = 20, 4
"""
Parts of a second's answers: an address takes one of 20 at most, and all addresses of a network one of 4. Many networks
let their customers forge addresses of the same network only. A stranger who can forge any address can still take all.
"""

_PREFIXES = {4: 16, 6: 32}
"""Bits of a network's addresses, by version of IP: what an operator is given, or less."""


@lru_cache(maxsize=1024)
def _network_of(address: str) -> str | None:
    """Return the network of a canonical address; None for another name than an IP address."""
    try:
        counted = to_counted(ip_address(address))
    except ValueError:
        return None
    return str(ip_network((counted, _PREFIXES[counted.version]), strict=False))


class AnswerBudget:
    """
    Counts the answers of a second.

    :param most: answers to all addresses; one address, or customer's network of IPv6, gets ``most // PART`` of them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._began = -math.inf
        self._spent = 0
        self._spent_by: Counter[str | None] = Counter()

    def spend(self, address: str, now: float) -> bool:
        """
        Return whether an answer may be sent to an address, and count it.

        :param now: seconds, never going back.
        """
        if now - self._began >= 1:
            self._began, self._spent = now, 0
            self._spent_by.clear()
        if self._spent >= self._most:
            return False
        canonical = canonical_address(address)
        origin, network = origin_of(canonical, ()), _network_of(canonical)
        if self._spent_by[origin] >= self._most // PART or self._spent_by[network] >= self._most // NETWORK_PART:
            return False
        self._spent += 1
        self._spent_by[origin] += 1
        self._spent_by[network] += 1
        return True
