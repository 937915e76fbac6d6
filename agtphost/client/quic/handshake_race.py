"""Handshakes of the blocking client with the addresses of a name, of which the first that succeeds is used."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Collection
from typing import Any, Generic, Protocol, TypeVar

from agtphost.client.address_race import choose_fault
from agtphost.client.deadline import Clock
from agtphost.client.quic.driver import MISSES, SHORTEST
from agtphost.client.quic.errors import ConnectionRefused, Unanswered
from agtphost.client.tcp_attempts import ATTEMPT_DELAY
from agtphost.client.tcp_rival import TcpRival


class Handshake(Protocol):
    """A connection whose server is not verified yet."""

    @property
    def is_ready(self) -> bool:
        """Whether the server is verified."""

    @property
    def channel(self) -> Any:
        """The socket that the datagrams of the server arrive at."""

    def begin_wait(self) -> float:
        """Send what there is; return the seconds until there is something to do."""

    def end_wait(self, seconds: float) -> None:
        """Wait for a datagram for so many seconds, and go on; raise the error of a handshake that has failed."""

    def close(self) -> None:
        """End the connection, and close its socket."""


H = TypeVar("H", bound=Handshake)


class HandshakeRace(Generic[H]):
    """
    Handshakes with the addresses of a host, begun one after the other.

    Their times are those of :class:`~agtphost.client.tcp_attempts.TcpAttempts`.

    :param places: entries of ``getaddrinfo``, at least one, in their order.
    :param open_link: begins a handshake.
    :param count_seconds: returns the seconds that are left, or raises the error of a call without any.
    :param rival: tries TCP besides.
    """

    def __init__(
        self,
        places: list[Any],
        open_link: Callable[[Any], H],
        count_seconds: Callable[[], float],
        clock: Clock,
        rival: TcpRival | None,
    ) -> None:
        self._places = places
        self._open_link = open_link
        self._count_seconds = count_seconds
        self._clock = clock
        self._rival = rival
        self._next_at = clock()
        self._links: list[H] = []
        self._fault: ConnectionRefused | Unanswered | OSError | None = None

    def run(self) -> H:
        """
        Return the first connection whose server is verified; all others are closed.

        :raises ConnectionRefused, Unanswered, OSError: if no address answers, or none takes a connection.
        :raises agtphost.client.errors.ClientError: if a handshake fails in another way, or the time is over.
        :raises agtphost.client.tcp_rival.Overtaken: if TCP was there first.
        """
        try:
            while True:
                self._begin()
                for link in self._links:
                    if link.is_ready:
                        self._links.remove(link)
                        return link
                self._wait()
        finally:
            for link in self._links:
                link.close()

    def _begin(self) -> None:
        """Begin with the next address, if it is time for it or no other attempt is left."""
        while self._places and (not self._links or self._clock() >= self._next_at):
            self._next_at = self._clock() + ATTEMPT_DELAY
            try:
                self._links.append(self._open_link(self._places.pop(0)))
            except OSError as error:
                self._note(error)
        if not self._links:
            assert self._fault is not None
            raise self._fault

    def _note(self, fault: ConnectionRefused | Unanswered | OSError) -> None:
        self._fault = choose_fault(self._fault, fault, MISSES)

    def _wait(self) -> None:
        """Wait for a datagram, or until there is something to do, and let each handshake go on."""
        seconds = min(self._count_seconds(), *(each.begin_wait() for each in self._links))
        if self._places:
            seconds = min(seconds, self._next_at - self._clock())
        seconds = max(seconds, SHORTEST)
        if self._rival is None and len(self._links) == 1:
            self._go_on(self._links[0], seconds)
            return
        wait = wait_for_any if self._rival is None else self._rival.wait
        ready = wait([each.channel for each in self._links], seconds)
        for link in tuple(self._links):
            self._go_on(link, SHORTEST if link.channel in ready else 0.0)
            if link.is_ready:
                return  # The others are not needed, nor are their errors.

    def _go_on(self, link: H, seconds: float) -> None:
        try:
            link.end_wait(seconds)
        except (ConnectionRefused, Unanswered) as error:
            self._note(error)
            self._links.remove(link)
            link.close()


def wait_for_any(channels: Collection[Any], seconds: float) -> Collection[Any]:
    """Wait for so many seconds at most, and return the sockets that have datagrams."""
    with selectors.DefaultSelector() as selector:
        for each in channels:
            selector.register(each, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(seconds)]
