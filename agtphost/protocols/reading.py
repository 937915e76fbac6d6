"""Whether a peer reads what it is sent: what its system has acknowledged, where ours says so."""

from __future__ import annotations

import math
import socket
import struct
from typing import Any

from agtphost.protocols.limits import HASTE

_ACKNOWLEDGED = struct.Struct("=120xQ")
"""``tcpi_bytes_acked`` of Linux's ``struct tcp_info``, from 4.1 on."""


def acknowledged(transport: Any) -> int | None:
    """
    Octets that a peer's system has taken since the connection began; None where that is not known.

    Sockets take megabytes that a peer has not read, and say that they take more only when a third of that is gone.
    A peer that does not read acknowledges no more than its own system keeps for it.

    :param transport: Twisted's, with TLS over it or without.
    """
    while (under := getattr(transport, "transport", None)) is not None:
        transport = under
    link = getattr(transport, "socket", None)
    if link is None or link.family not in (socket.AF_INET, socket.AF_INET6) or not hasattr(socket, "TCP_INFO"):
        return None
    try:
        told = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKNOWLEDGED.size)
    except OSError:
        return None
    return int(_ACKNOWLEDGED.unpack(told)[0]) if len(told) == _ACKNOWLEDGED.size else None


class Reading:
    """What one peer has taken, as it was found by looks in the course of time."""

    __slots__ = ("_marked", "_since", "_taken")

    def __init__(self) -> None:
        self._taken = -1
        self._marked: int | None = None
        self._since = math.inf

    def idle(self, transport: Any, now: float) -> bool:
        """
        Whether nothing was taken for :data:`agtphost.protocols.limits.HASTE`; the first look says no.

        :param now: seconds.
        """
        taken = acknowledged(transport)
        if taken is None:
            return False
        if taken != self._taken:
            self._taken, self._since = taken, now
        return now - self._since >= HASTE

    def mark(self, transport: Any) -> None:
        """From now on it is to be seen how much is taken."""
        self._marked = acknowledged(transport)

    def took(self, transport: Any, octets: int) -> bool:
        """Whether so many octets were taken since the mark; no where that is not known."""
        taken = acknowledged(transport)
        return taken is not None and self._marked is not None and taken - self._marked >= octets
