"""
Handshakes take turns: a few in each turn of the reactor, whoever else begins one.

A handshake costs about a millisecond. Limits per address bound what one peer can begin, but not what many can begin at
once, and a turn of the reactor that makes four hundred of them answers nobody else for half a second.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

MOST = 2
"""In one turn: two or three milliseconds, and still hundreds a second."""


class Waiting(Protocol):
    """Somebody whose handshake waits."""

    def go_on(self) -> None:
        """It is its turn."""


class HandshakeTurns:
    """
    The turns of all listeners of a reactor: :func:`turns_of`.

    :param clock: whose calls without delay are made once a turn.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._left = MOST
        self._waiting: deque[Waiting] = deque()
        self._call: IDelayedCall | None = None

    def take(self, waiting: Waiting) -> bool:
        """Whether it is its turn now; otherwise it is told when it is."""
        now = self._left > 0 and not self._waiting
        if now:
            self._left -= 1
        else:
            self._waiting.append(waiting)
        if self._call is None:
            self._call = self._clock.callLater(0, self._turn)
        return now

    def _turn(self) -> None:
        self._call = None
        self._left = MOST
        while self._waiting and self._left:
            self._left -= 1
            self._waiting.popleft().go_on()
        if self._left < MOST and self._call is None:
            self._call = self._clock.callLater(0, self._turn)


@cache
def turns_of(clock: IReactorTime) -> HandshakeTurns:
    """Those of a reactor, as long as the process lives: its time is what all listeners share."""
    return HandshakeTurns(clock)
