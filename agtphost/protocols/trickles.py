"""
Whoever sends a few octets at a time is read from now and then, not at every octet.

A read costs about the same whether it brings one octet or ten thousand: an event of the reactor, a TLS record, a pass
of a parser. Deadlines bound how long a peer may take for a request, but not into how many portions it cuts it. So of
peers that send a second small portion before they are sent anything, a few are read from at once in each round; the
others wait for their turn, and what they send meanwhile is gathered by the system, and comes in one read. It makes no
difference what the octets are: parts of a handshake, of a head or a body, records without content, words after the
last answer.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

SMALL = 512
"""Octets: a read of fewer is a small one. Segments of a link in use have 500 and more, until the last of a message."""

WORD = 64
"""Octets written that are a word to the peer: more than an alert or a key update, less than any answer."""

INTERVAL = 0.01
"""Seconds between two rounds."""

MOST = 8
"""Reads in one round, of all listeners' peers: 800 a second, which is less than a tenth of a core."""


class Waiting(Protocol):
    """Somebody who is not read from for a moment."""

    def read_on(self) -> None:
        """It is its turn."""


class Trickles:
    """
    The rounds of all listeners of a reactor: :func:`trickles_of`.

    :param clock: makes the calls.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._left = MOST
        self._waiting: OrderedDict[Waiting, None] = OrderedDict()
        self._call: IDelayedCall | None = None

    def take(self, waiting: Waiting) -> bool:
        """Whether it may be read from as it is; otherwise it is told when it is its turn."""
        if self._call is None:
            self._call = self._clock.callLater(INTERVAL, self._round)
        if self._left > 0 and not self._waiting:
            self._left -= 1
            return True
        self._waiting[waiting] = None
        return False

    def leave(self, waiting: Waiting) -> None:
        """It needs no turn any more."""
        self._waiting.pop(waiting, None)

    def _round(self) -> None:
        self._call = None
        self._left = MOST
        while self._waiting and self._left:
            self._left -= 1
            waiting, _ = self._waiting.popitem(last=False)
            waiting.read_on()
        if self._left < MOST and self._call is None:
            self._call = self._clock.callLater(INTERVAL, self._round)


@cache
def trickles_of(clock: IReactorTime) -> Trickles:
    """Those of a reactor, as long as the process lives: its time is what all listeners share."""
    return Trickles(clock)
