"""The connections of a listener for any protocol: admission, deadlines and closing."""

from __future__ import annotations

import time
from collections import deque
from sys import getsizeof
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import ServerFactory
from twisted.logger import Logger

from agtphost.protocols.admission import Admission, FullLimit, canonical_address
from agtphost.protocols.limits import LAGGING_IN_ALL, UNREAD, UNREAD_IN_ALL, ConnectionLimits
from agtphost.vocabulary.steps import TURN

AT_ONCE = 8
"""Connections whose deadlines are looked at between two looks at the clock."""

log = Logger()


def compact(waiting: bytearray) -> bytearray:
    """
    Return the octets that wait for a peer, in as much memory as they need.

    A bytearray that is eaten from its front keeps up to twice of what is left. It is copied once a quarter of its
    memory is unused, so that all copies together are a few times its size, however small the pieces are.
    """
    return bytearray(waiting) if getsizeof(waiting) * 3 > len(waiting) * 4 else waiting


class Accepted(Protocol):
    """A connection, as its listener sees it."""

    address: str
    """The peer's, canonical."""

    @property
    def unread(self) -> int:
        """Octets that wait here for the peer to read on."""

    @property
    def expendable(self) -> int:
        """Return how readily the connection is cut to make room; 0: never, because an answer is owed."""

    def sweep(self, now: float) -> None:
        """Act on the deadline, if it is over."""

    def drain(self) -> None:
        """End it, after the answer that is owed, if one is."""

    def cut(self) -> None:
        """End the connection immediately."""


class Lagging(Accepted, Protocol):
    """A connection whose peer has more than ``UNREAD`` to read."""

    deadline: float
    """When the peer is late, in the clock's seconds: the sooner, the longer it has taken nothing."""


class AcceptingFactory(ServerFactory):
    """
    Keeps the connections of one listener.

    :param limits: of connections.
    :param clock: whose seconds all deadlines are counted in.
    :param room: whether one that is owed nothing makes room for a new connection where a number of connections is
        reached: of those that are cut most readily the oldest, from the same address where it is its share.
    """

    noisy = False

    def __init__(self, limits: ConnectionLimits, clock: IReactorTime, *, room: bool = False) -> None:
        self._limits = limits
        self._clock = clock
        self._room = room
        self._admission = Admission(limits)
        self._connections: dict[Accepted, None] = {}  # oldest first
        self._unswept: deque[Accepted] = deque()
        self._lagging: dict[Lagging, None] = {}  # more than UNREAD waits for them, or did
        self._drained: Deferred[None] | None = None
        self._patient = True
        self.refused = 0
        """Connections that were closed on arrival, because a limit was reached or the host is stopping."""

    @property
    def connections(self) -> int:
        """Open connections, those that shake hands included."""
        return len(self._connections)

    @property
    def calls(self) -> int:
        """Requests in dispatch, those whose peer has gone included."""
        return 0

    def admit_address(self, addr: IAddress | None) -> str | None:
        """Count a new connection and return its canonical address; None if it must be closed without an answer."""
        address = canonical_address(str(getattr(addr, "host", "") or "unix"))
        now = self._clock.seconds()
        if self._drained is None and (self._admission.admit(address, now) or self._made_room(address, now)):
            return address
        self.refused += 1
        return None

    @property
    def limits(self) -> ConnectionLimits:
        """The limits of connections."""
        return self._limits

    def admit(self, address: str) -> bool:
        """Count a connection of another carrier, with those that come in by TCP."""
        now = self._clock.seconds()
        if self._drained is None and self._admission.admit(address, now):
            return True
        self.refused += 1
        return False

    def release(self, address: str) -> None:
        """Count a connection no more that was admitted and could not be made."""
        self._admission.release(address)

    def is_full(self, address: str) -> bool:
        """Return whether the listener or a canonical address has all the connections that it may have."""
        return self._admission.find_full_limit(address) is not None

    def may_admit(self, address: str) -> bool:
        """Return whether :meth:`admit` would count a connection from a canonical address."""
        return self._admission.may_admit(address, self._clock.seconds())

    def move(self, connection: Accepted, address: str) -> bool:
        """Count an open connection for another address, without a handshake; False if that has its share."""
        if not self._admission.move(connection.address, address, self._clock.seconds()):
            return False
        connection.address = address
        return True

    def _made_room(self, address: str, now: float) -> bool:
        crowded = self._admission.find_full_limit(address) if self._room else None
        if crowded is None:
            return False
        origin, chosen, most = self._admission.origin(address), None, 0
        for connection in self._connections:
            readily = connection.expendable
            if readily > most and (
                crowded is FullLimit.LISTENER or self._admission.origin(connection.address) == origin
            ):
                chosen, most = connection, readily
        if chosen is None:
            return False
        chosen.cut()
        self.connection_closed(chosen)  # its transport says so a turn of the reactor later
        return self._admission.admit(address, now)

    def sweep(self) -> None:
        """
        Act on every deadline that is over. To be called every now and then, once a second or so.

        Many that are over at the same moment are acted on in several turns of the reactor.
        """
        if not self._unswept:
            self._unswept.extend(self._connections)
        self._sweep(0)

    def _sweep(self, unread: int) -> None:
        """
        Sweep the remaining connections, in several turns of the reactor.

        :param unread: octets that wait for the peers of those that were swept before.
        """
        now, began, unswept = self._clock.seconds(), time.thread_time(), self._unswept
        while unswept:
            if not len(unswept) % AT_ONCE and time.thread_time() - began > TURN / 2:
                self._clock.callLater(0, self._sweep, unread)
                return
            connection = unswept.popleft()
            if connection not in self._connections:
                continue
            try:
                connection.sweep(now)
                unread += connection.unread
            except Exception:
                # One connection's fault must not keep the others from their deadlines.
                log.failure("a connection failed at its deadline, and is cut")
                connection.cut()
        if unread > UNREAD_IN_ALL:
            self._relieve(unread)
        self._admission.prune(now)

    def _relieve(self, unread: int) -> None:
        """Cut those who leave the most unread, until the rest is bearable."""
        for connection in sorted(self._connections, key=lambda each: each.unread, reverse=True):
            if unread <= UNREAD_IN_ALL:
                return
            unread -= connection.unread
            connection.cut()

    def lagging(self, connection: Lagging) -> None:
        """Note that much of an answer waits for a slow peer, and cut the slowest ones if too much waits in all."""
        self._lagging[connection] = None
        self._lagging = {each: None for each in self._lagging if each.unread > UNREAD}
        waiting = sum(each.unread for each in self._lagging)
        while waiting > LAGGING_IN_ALL and len(self._lagging) > 1:
            slowest = min(self._lagging, key=lambda each: each.deadline)
            waiting -= slowest.unread
            del self._lagging[slowest]
            slowest.cut()

    # Ending

    def drain(self) -> Deferred[None]:
        """
        Take no more connections, close those that wait for nothing, and the others after their answer.

        To be called once.

        :return: fires when no connection is left and no call is running.
        """
        self._drained = drained = Deferred[None]()
        for connection in tuple(self._connections):
            connection.drain()
        self._note_end()
        return drained

    def cut(self) -> None:
        """End every connection immediately, without waiting for calls."""
        self._patient = False
        for connection in tuple(self._connections):
            connection.cut()
        self._note_end()

    def _note_end(self) -> None:
        drained = self._drained
        ended = not self._connections and not (self.calls and self._patient)
        if drained is not None and ended and not drained.called:
            drained.callback(None)

    # What connections tell

    def connection_opened(self, connection: Accepted) -> None:
        """Count a connection that has its transport; it is swept from now on."""
        self._connections[connection] = None

    def connection_authenticated(self, connection: Accepted) -> None:
        """Note that the client of a connection has authenticated."""
        self._admission.vouch(connection.address)

    def connection_closed(self, connection: Accepted) -> None:
        """Forget a connection that lost its transport; a second call does nothing."""
        if connection not in self._connections:
            return
        del self._connections[connection]
        self._lagging.pop(connection, None)  # type: ignore[call-overload]
        self._admission.release(connection.address)
        self._note_end()
