"""Attempts of the Twisted client to connect to the addresses of a name."""

from __future__ import annotations

import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from twisted.internet import error as network
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.interfaces import IHostResolution, IProtocolFactory, IResolutionReceiver
from zope.interface import provider

from agtphost.client.address_race import AddressRace
from agtphost.client.connection import fire
from agtphost.client.errors import CannotConnect
from agtphost.client.requests import Destination
from agtphost.client.tcp_attempts import interleave
from agtphost.client.tls import cannot_connect

A = TypeVar("A")
P = TypeVar("P")

MISSES = (network.ConnectError, OSError)
"""The errors of TCP after which another address is tried."""


def start_attempt(work: Coroutine[Any, Any, A], end: Callable[[A | BaseException], object]) -> Callable[[], None]:
    """Run an attempt of a race between carriers or addresses; return what cancels it."""
    running: Deferred[A | BaseException] = Deferred.fromCoroutine(work)
    running.addErrback(lambda failure: failure.value)
    running.addCallback(end)
    return running.cancel


async def connect_to_first(
    reactor: Any,
    places: Sequence[P],
    connect: Callable[[P], Coroutine[Any, Any, A]],
    misses: tuple[type[BaseException], ...],
    drop: Callable[[A], object],
) -> A:
    """Return the first connection that an :class:`.address_race.AddressRace` has; its parameters are the same."""
    winner: Deferred[A] = Deferred(lambda _: race.stop())
    later = reactor.callLater
    race: AddressRace[P, A] = AddressRace(
        start_attempt, later, places, connect, misses, drop, lambda found: fire(winner, found)
    )
    return await winner


async def find_places(reactor: Any, destination: Destination, transport: str = "TCP") -> list[tuple[int, str]]:
    """
    Return the addresses of a name with their families, which take turns.

    :param transport: "TCP" or "UDP".
    :raises CannotConnect: if it has none.
    """
    found: list[tuple[int, str]] = []
    ended: Deferred[None] = Deferred()

    @provider(IResolutionReceiver)
    class Receiver:
        @staticmethod
        def resolutionBegan(resolution: IHostResolution) -> None:
            pass

        @staticmethod
        def addressResolved(address: IPv4Address | IPv6Address) -> None:
            found.append((socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET, address.host))

        @staticmethod
        def resolutionComplete() -> None:
            if not ended.called:
                ended.callback(None)

    try:
        destination.host.encode("idna")  # The resolver would never end with a name that cannot be one.
    except UnicodeError as error:
        raise cannot_connect(error, destination) from error
    reactor.nameResolver.resolveHostName(Receiver, destination.host, destination.port, transportSemantics=transport)
    await ended
    if not found:
        raise CannotConnect(
            f"Cannot connect to {destination}: no address is known for {destination.host}.",
            "Check host and port, and that the host is running.",
        )
    return interleave(list(dict.fromkeys(found)))


async def connect_by_tcp(reactor: Any, destination: Destination, factory: IProtocolFactory, seconds: float) -> Any:
    """
    Return the protocol that is connected to one of the addresses of a name.

    :param seconds: that an attempt may take.
    :raises CannotConnect: if no address takes a connection.
    """

    async def connect(place: tuple[int, str]) -> Any:
        family, host = place
        kind = TCP6ClientEndpoint if family == socket.AF_INET6 else TCP4ClientEndpoint
        return await _cancel_plainly(kind(reactor, host, destination.port, seconds).connect(factory))

    def drop(late: Any) -> None:
        late.transport.abortConnection()

    places = await find_places(reactor, destination)
    try:
        return await connect_to_first(reactor, places, connect, MISSES, drop)
    except MISSES as error:
        raise cannot_connect(error, destination) from error


def _cancel_plainly(connecting: Deferred[Any]) -> Deferred[Any]:
    """Return a Deferred that is cancelled with CancelledError, which endpoints report as another failure."""

    def give_up(waiting: Deferred[Any]) -> None:
        waiting.errback(CancelledError())
        connecting.cancel()

    def pass_on(found: Any) -> None:
        if not waiting.called:
            waiting.callback(found)

    waiting: Deferred[Any] = Deferred(give_up)
    connecting.addBoth(pass_on)
    return waiting
