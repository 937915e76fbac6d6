"""How much of what a client of QUIC sends brings neither its requests nor the answers on (RFC 9000 section 21.9)."""

from __future__ import annotations

OCTETS_OF_UNIT = 128
"""
Octets of short frames without use that count as much as a datagram, which takes 60 to 120 us to read and to
acknowledge. A frame that is allowed, has no use and takes 1 to 2 us has three or four.
"""

LONG_OCTETS_OF_UNIT = 4_096
"""
Octets of long frames without use that count as much: 1,400 of PADDING take 45 us, and copies of a stream's octets less.
A client that looks for the longest datagram of its path sends full ones of PING and PADDING (RFC 8899).
"""

FRESH_OCTETS = 100
"""
Octets of a request that make up for a datagram: a full one makes up for eleven others. Those of short frames make up
for nothing: 155 frames of four octets take 1.2 ms.
"""

ACKNOWLEDGED, REQUEST = 1.5, 8.0
"""What a packet that is acknowledged and a request that begins make up for: a datagram, and more than a request has."""

HANDSHAKE = 48.0
"""
What a client may send until it is known: a ClientHello of two datagrams, its padded acknowledgement, and a chain of
certificates of three, all within milliseconds where it is near.
"""

UNITS_PER_SECOND = 20.0
"""What a client may send without use: PINGs, repeated packets, and what it says about its windows and addresses."""

MOST_CREDIT, ALLOWED, MOST_DEBT = 32.0, 20.0, 256.0
"""
Units. A client that made calls may cancel some dozens of them; one that sent nothing of use may name its connection IDs
and probe its path ten times within milliseconds, and is costly after two datagrams that are full of short frames, since
forty clients may come; and one that was costly, and is so no more, is served like others after twelve seconds.
"""


class ProgressAccount:
    """The balance of a connection: datagrams without use against requests, their octets, and acknowledgements."""

    __slots__ = ("_at", "_debt")

    def __init__(self, now: float, credit: float = 0.0) -> None:
        self._at = now
        self._debt = -credit

    def note_datagram(self, octets: int, long: int, fresh: int, acknowledged: int, now: float) -> None:
        """
        Count a datagram.

        :param octets: that it has.
        :param long: those of PADDING, streams and the handshake, but for the first of each frame.
        :param fresh: octets of streams in it that did not come before, those of a gap included that it fills, but for
            the first of each frame.
        :param acknowledged: packets that are so since.
        :param now: seconds, never going back.
        """
        useless, short = max(0, long - fresh), octets - max(long, fresh)
        cost = 1 + short / OCTETS_OF_UNIT + useless / LONG_OCTETS_OF_UNIT
        self._add(cost - fresh / FRESH_OCTETS - ACKNOWLEDGED * max(0, acknowledged), now)

    def note_request(self, now: float) -> None:
        """Count a request that begins."""
        self._add(-REQUEST, now)

    def is_costly(self, now: float) -> bool:
        """Return whether more came without use than may."""
        return self._find_debt(now) > ALLOWED

    def clear(self) -> None:
        """Forget what was counted: the datagrams of a handshake have an allowance."""
        self._debt = 0.0

    def _find_debt(self, now: float) -> float:
        if self._debt <= 0:
            return self._debt
        return max(0.0, self._debt - UNITS_PER_SECOND * max(0.0, now - self._at))

    def _add(self, units: float, now: float) -> None:
        debt = self._find_debt(now)
        self._debt = min(MOST_DEBT, max(min(debt, -MOST_CREDIT), debt + units))
        self._at = now
