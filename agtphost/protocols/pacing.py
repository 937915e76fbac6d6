"""
Limit per-event work per peer: handshakes and tiny reads are served round-robin, a few per reactor turn.

Handshakes. One costs about a millisecond. Limits per address bound what one peer can begin, but not what many can begin
together, and a reactor turn with four hundred handshakes delays every other peer for half a second.

Small portions. A read costs about the same whether it brings one octet or ten thousand: an event of the reactor, a TLS
record, a pass of a parser. Deadlines bound how long a peer may take for a request, but not into how many portions it
cuts it. So of peers that send a second small portion before they are sent anything, only a few are read from in each
round; the others wait for their turn, while the system gathers what they send, so that it comes in one read. It makes
no difference what the octets are: parts of a handshake, of a head or a body, records without content, words after the
last answer.

TLS records. What was gathered may be hundreds of records with one octet each, and one costs OpenSSL about three
microseconds, whatever it holds. So a connection decrypts a bounded number of records in one go, and those that have
more wait for their turn.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

HANDSHAKES = 2
"""In one turn of the reactor: two or three milliseconds, and still hundreds a second."""

SMALL = 512
"""Octets: a read of fewer is a small one. Segments of a link in use have 500 and more, until the last of a message."""

WORD = 64
"""Octets written that are a word to the peer: more than an alert or a key update, less than any answer."""

INTERVAL = 0.01
"""Seconds between two rounds of small reads."""

READS = 8
"""Small reads in one round, of all listeners' peers: 800 a second, which is less than a tenth of a core."""


RECORDS = 64
"""TLS records that a connection decrypts in one go: a fifth of a millisecond where they are tiny."""

PORTIONS = 2
"""Further portions of so many records that all connections decrypt in one turn of the reactor."""


class TurnWaiter(Protocol):
    """A connection that waits for its turn."""

    def take_turn(self) -> None:
        """Go on, because it is the waiter's turn."""


class Pacing:
    """
    The turns of all listeners of a reactor: :func:`handshakes_of`, :func:`trickles_of`, :func:`records_of`.

    :param clock: makes the calls.
    :param most: that have their turn in one round.
    :param interval: seconds between two rounds; 0: one in each turn of the reactor.
    """

    def __init__(self, clock: IReactorTime, most: int, interval: float) -> None:
        self._clock = clock
        self._most = self._left = most
        self._interval = interval
        self._waiting: OrderedDict[TurnWaiter, None] = OrderedDict()
        self._call: IDelayedCall | None = None

    def take(self, waiting: TurnWaiter) -> bool:
        """Return whether it is the waiter's turn now; otherwise :meth:`TurnWaiter.take_turn` is called later."""
        if self._call is None:
            self._call = self._clock.callLater(self._interval, self._round)
        if self._left > 0 and not self._waiting:
            self._left -= 1
            return True
        self._waiting[waiting] = None
        return False

    def leave(self, waiting: TurnWaiter) -> None:
        """Remove a waiter, which needs no turn any more."""
        self._waiting.pop(waiting, None)

    def _round(self) -> None:
        self._call = None
        self._left = self._most
        while self._waiting and self._left:
            self._left -= 1
            waiting, _ = self._waiting.popitem(last=False)
            waiting.take_turn()
        if self._left < self._most and self._call is None:
            self._call = self._clock.callLater(self._interval, self._round)


@cache
def handshakes_of(clock: IReactorTime) -> Pacing:
    """Return the turns of handshakes of a reactor, which all listeners share."""
    return Pacing(clock, HANDSHAKES, 0)


@cache
def trickles_of(clock: IReactorTime) -> Pacing:
    """Return the turns of reads from peers that send a few octets at a time."""
    return Pacing(clock, READS, INTERVAL)


@cache
def records_of(clock: IReactorTime) -> Pacing:
    """Return the turns of connections that have sent more TLS records than are decrypted in one go."""
    return Pacing(clock, PORTIONS, 0)
