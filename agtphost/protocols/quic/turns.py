"""
What a UDP port does in a turn of the reactor: what connections send first, then the datagrams that wait.

Datagrams of costly connections, which send much that has no use, wait apart: they get a part of the host's time,
however many they are, since each turn in which one is read makes the calls of all others longer, also over TLS.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from agtphost.protocols.quic.receive_queue import Address, ReceiveQueue, Receiver

TURN_SECONDS = 0.001
"""
Seconds of processor time after which a turn of the reactor begins with no further datagram or connection.

A datagram may take 0.8 ms. A call has four or five turns, through the threads of the store, and each is as long.
"""

READ_SECONDS = 0.0005
"""Seconds for which a turn still reads datagrams then, so that the next one knows whose turn it is."""

COSTLY_SHARE = 0.1
"""Part of the host's time that all costly connections together have."""

TURN_OCTETS = 262_144
"""Octets of datagrams of one turn, as Twisted has it."""


class Sender(Receiver, Protocol):
    """A connection that takes datagrams and sends some."""

    def flush(self) -> None:
        """Send what there is."""


class PortTurns:
    """
    The turns of a port.

    :param clock: makes the calls.
    :param limit_octets: lets the port read datagrams of so many octets in this turn of the reactor.
    """

    def __init__(self, clock: IReactorTime, limit_octets: Callable[[int], None]) -> None:
        self._clock = clock
        self._limit_octets = limit_octets
        self._queue, self._costly = ReceiveQueue[Sender](), ReceiveQueue[Sender]()
        self._costly_call: IDelayedCall | None = None  # serves the next of the costly ones
        self._sending: dict[Sender, None] = {}  # have something to send, or may have; who asked first is first
        self._has_next = False
        self._began: float | None = None
        self._reads_until = math.inf

    def note_datagram(self) -> None:
        """Note that a datagram was read: a turn begins with it, unless one is under way."""
        if self._began is None:
            self._begin()

    def limit_reading(self) -> None:
        """Let the port read on until READ_SECONDS after the turn's time is over."""
        if self._is_over():
            now = time.thread_time()
            self._reads_until = min(self._reads_until, now + READ_SECONDS)
            if now >= self._reads_until:
                self._limit_octets(0)

    def hand_over(self, receiver: Sender, datagram: bytes, address: Address) -> bool:
        """Give a connection a datagram, now or when it is its turn; False where too many wait, and it is lost."""
        if receiver.is_costly(address):
            is_taken = self._costly.put(receiver, datagram, address)
            if self._costly_call is None:
                self._costly_call = self._clock.callLater(0, self._serve_costly)
            return is_taken
        if not self._queue and not self._is_over():
            receiver.receive(datagram, address)
            return True
        return self._queue.put(receiver, datagram, address)

    def wake(self, sender: Sender) -> None:
        """Let a connection send what it has in one of the next turns."""
        self._sending[sender] = None
        self._plan_next()

    def discard(self, link: Sender) -> None:
        """Forget a connection that is over, and what waits for it."""
        self._queue.discard(link)
        self._costly.discard(link)
        self._sending.pop(link, None)

    def _serve_costly(self) -> None:
        """Serve a datagram of a costly connection and its answer, then none until the others had their part."""
        self._costly_call = None
        if not self._costly:
            return
        began = time.thread_time()
        receiver = self._costly.serve_next()
        if receiver in self._sending:
            del self._sending[receiver]
            receiver.flush()
        pause = (time.thread_time() - began) * (1 / COSTLY_SHARE - 1)
        self._costly_call = self._clock.callLater(pause, self._serve_costly)

    def _begin(self) -> None:
        self._began = time.thread_time()
        self._reads_until = math.inf
        self._plan_next()

    def _plan_next(self) -> None:
        if not self._has_next:
            self._has_next = True
            self._clock.callLater(0, self._take_turn)

    def _is_over(self) -> bool:
        return self._began is not None and time.thread_time() - self._began >= TURN_SECONDS

    def _take_turn(self) -> None:
        """Begin a turn with what connections send, which no datagram that waits may delay; then serve those."""
        self._has_next = False
        self._began = None
        self._limit_octets(TURN_OCTETS)
        if not self._sending and not self._queue:
            return
        self._begin()
        for sender in tuple(self._sending):
            if sender in self._sending:
                del self._sending[sender]
                sender.flush()
            if self._is_over():
                break
        if self._queue:
            self._queue.serve_next()
        while self._queue and not self._is_over():
            self._queue.serve_next()
