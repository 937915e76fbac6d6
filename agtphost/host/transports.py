"""The carriers at which a host listens, as its manifest states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALPN = "agtp"


class OfferedTransports:
    """
    The carriers that clients may choose from; none are stated while the host listens for TLS alone.

    Only what listens is stated: a UDP port that could not be bound is in no manifest.
    """

    def __init__(self) -> None:
        self._entries: tuple[Mapping[str, Any], ...] = ()

    def entries(self) -> tuple[Mapping[str, Any], ...]:
        """Return the entries of the manifest's member ``transports``; empty: the manifest has no such member."""
        return self._entries

    def offer(self, tcp: int, udp: int) -> None:
        """
        State both carriers.

        :param tcp: the port of TLS; 0 where it listens at no port of TCP.
        :param udp: the port of QUIC.
        """
        own = {"carrier": "tls", "port": tcp} if tcp else {"carrier": "tls"}
        self._entries = (own, {"carrier": "quic", "port": udp, "alpn": ALPN})
