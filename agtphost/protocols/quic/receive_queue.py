"""
Datagrams that wait until it is the turn of their address, and of their connection there.

All connections of a port share the system's buffer of its socket. Served in the order of arrival, a client whose
datagrams take as long as the host has time would make every other one wait until that buffer is empty: for seconds.
Served by connection, a client with 64 of them would have 64 parts. So each address has one datagram in a round, or
fewer where they take long, and its connections take turns at that.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar

from agtphost.protocols.admission import canonical_address, origin_of

MOST_QUEUED = 256
"""Datagrams that wait if they are of one connection; of several, each address and connection has its part of that."""

ROUND_SECONDS = 0.0005
"""
Seconds of processor time that an address may take in a round. One that took more is left out of rounds until it has
made up for it; time that other processes or threads have had is not its own.
"""

Address = tuple[str, int]


class Receiver(Protocol):
    """A connection that takes datagrams."""

    address: str
    """The client's, canonical."""

    is_admitted: bool
    """Whether the client has shown that it receives there."""

    def is_costly(self, address: Address) -> bool:
        """Return whether a datagram from an address waits behind those of other connections."""

    def receive(self, datagram: bytes, address: Address) -> None:
        """Take a datagram."""


R = TypeVar("R", bound=Receiver)


class _Origin(Generic[R]):
    """The datagrams that wait for the connections of an address, and the seconds that it has had beyond its part."""

    __slots__ = ("excess", "waiting")

    def __init__(self) -> None:
        self.excess = 0.0
        self.waiting: OrderedDict[R, deque[tuple[bytes, Address]]] = OrderedDict()


class ReceiveQueue(Generic[R]):
    """
    The datagrams that wait. Those from addresses that are not proven share the part of one address: handshakes, and
    what comes for a connection from elsewhere, be it of its client that has moved or of another one.
    """

    def __init__(self) -> None:
        self._origins: OrderedDict[str | None, _Origin[R]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many addresses have datagrams that wait."""
        return len(self._origins)

    def put(self, receiver: R, datagram: bytes, address: Address) -> bool:
        """Let a datagram wait; False where as many of its connection wait as may, and it is lost."""
        # Who has seen an ID may send for it, and takes nothing of its client's part from another address.
        is_its_own = receiver.is_admitted and canonical_address(address[0]) == receiver.address
        name = origin_of(receiver.address, ()) if is_its_own else None
        if (origin := self._origins.get(name)) is None:
            origin = self._origins[name] = _Origin()
        own = origin.waiting.setdefault(receiver, deque())
        if len(own) >= max(1, MOST_QUEUED // (len(self._origins) * len(origin.waiting))):
            return False
        own.append((datagram, address))
        return True

    def serve_next(self) -> R:
        """
        Give a connection its next datagram: the one that has waited longest, of the address whose turn it is.

        :return: the connection.
        """
        name, origin = self._origins.popitem(last=False)
        while origin.excess > 0:
            origin.excess -= ROUND_SECONDS
            self._origins[name] = origin
            name, origin = self._origins.popitem(last=False)
        receiver, own = origin.waiting.popitem(last=False)
        datagram, address = own.popleft()
        if own:
            origin.waiting[receiver] = own
        if origin.waiting:
            self._origins[name] = origin
        began = time.thread_time()
        receiver.receive(datagram, address)
        origin.excess = max(0.0, time.thread_time() - began - ROUND_SECONDS)
        return receiver

    def discard(self, receiver: R) -> None:
        """Drop what waits for a connection that is over, also under an address that it had before."""
        for name, origin in tuple(self._origins.items()):
            if origin.waiting.pop(receiver, None) is not None and not origin.waiting:
                del self._origins[name]
