"""Whether a peer reads what it is sent, and whether it is still there, as far as our system says so."""

from __future__ import annotations

import math
import socket
import struct
from typing import Any

from agtphost.protocols.limits import HASTE

_ACKNOWLEDGED = struct.Struct("=120xQ")
"""``tcpi_bytes_acked`` of Linux's ``struct tcp_info``, from 4.1 on."""

_LEFT = frozenset({7, 8})
"""``tcpi_state`` of a peer that has reset its connection or ended its side: TCP_CLOSE and TCP_CLOSE_WAIT."""


def count_acknowledged(transport: Any) -> int | None:
    """
    Return how many octets a peer's system has taken since the connection began; None if that is unknown.

    Sockets take megabytes that a peer has not read, and say that they take more only when a third of that is gone.
    A peer that does not read acknowledges no more than its own system keeps for it.

    :param transport: Twisted's, with TLS over it or without; or one that knows it, as a stream of QUIC does.
    """
    known: int | None = getattr(transport, "acknowledged_octets", None)
    if known is not None:
        return known
    told = _ask_system(transport, _ACKNOWLEDGED.size)
    return int(_ACKNOWLEDGED.unpack(told)[0]) if len(told) == _ACKNOWLEDGED.size else None


def has_left(transport: Any) -> bool:
    """
    Return whether a peer has ended its side, even if octets before that are unread; False where that is unknown.

    A reactor says so of what it reads from alone.

    :param transport: as of :func:`count_acknowledged`.
    """
    told = _ask_system(transport, 1)
    return bool(told) and told[0] in _LEFT


def _ask_system(transport: Any, octets: int) -> bytes:
    """Return the beginning of ``struct tcp_info`` of a transport's socket; empty where there is none."""
    while (under := getattr(transport, "transport", None)) is not None:
        transport = under
    link = getattr(transport, "socket", None)
    if link is None or link.family not in (socket.AF_INET, socket.AF_INET6) or not hasattr(socket, "TCP_INFO"):
        return b""
    try:
        told: bytes = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, octets)
    except OSError:
        return b""
    return told


class ReadProgress:
    """The progress of one peer's reading, by repeated measurements."""

    __slots__ = ("_marked", "_since", "_taken")

    def __init__(self) -> None:
        self._taken = -1
        self._marked: int | None = None
        self._since = math.inf

    def is_over(self, transport: Any, now: float, *, waits: bool, held: bool) -> bool:
        """
        Return whether a peer is to be cut: it takes nothing of what waits for it, or it has left.

        :param waits: whether so much waits for it that it must take something.
        :param held: whether it is not read from: else the reactor tells that it has left.
        """
        return (waits and self.idle(transport, now)) or (held and has_left(transport))

    def idle(self, transport: Any, now: float) -> bool:
        """
        Return whether nothing was taken for :data:`agtphost.protocols.limits.HASTE`; the first look says no.

        :param now: seconds.
        """
        taken = count_acknowledged(transport)
        if taken is None:
            return False
        if taken != self._taken:
            self._taken, self._since = taken, now
        return now - self._since >= HASTE

    def mark(self, transport: Any) -> None:
        """Measure from now on how much the peer takes."""
        self._marked = count_acknowledged(transport)

    def took(self, transport: Any, octets: int) -> bool:
        """Return whether so many octets were taken since the mark; no where that is not known."""
        taken = count_acknowledged(transport)
        return taken is not None and self._marked is not None and taken - self._marked >= octets
