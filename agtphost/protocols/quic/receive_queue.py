"""
Datagrams that wait until it is their connection's turn.

All connections of a port share the system's buffer of its socket. Served in the order of arrival, a client whose
datagrams take as long as the host has time would make every other one wait until that buffer is empty: for seconds.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Protocol

MOST_QUEUED = 256
"""Datagrams that wait if they are of one connection; of several, each has its part of that."""

Address = tuple[str, int]


class Receiver(Protocol):
    """A connection that takes datagrams."""

    def receive(self, datagram: bytes, address: Address) -> None:
        """Take a datagram."""


class ReceiveQueue:
    """The datagrams that wait, of which each connection takes one in a round."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Receiver, deque[tuple[bytes, Address]]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many connections have datagrams that wait."""
        return len(self._waiting)

    def put(self, receiver: Receiver, datagram: bytes, address: Address) -> bool:
        """Let a datagram wait; False where as many of its connection wait as may, and it is lost."""
        own = self._waiting.setdefault(receiver, deque())
        if len(own) >= max(1, MOST_QUEUED // len(self._waiting)):
            return False
        own.append((datagram, address))
        return True

    def serve_next(self) -> None:
        """Give the connection that has waited longest its next datagram."""
        receiver, own = self._waiting.popitem(last=False)
        datagram, address = own.popleft()
        if own:
            self._waiting[receiver] = own
        receiver.receive(datagram, address)

    def discard(self, receiver: Receiver) -> None:
        """Drop what waits for a connection that is over."""
        self._waiting.pop(receiver, None)
