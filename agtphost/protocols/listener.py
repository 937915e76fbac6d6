"""The service that accepts AGTP connections, and lets them finish when the host stops."""

from __future__ import annotations

import errno
import ipaddress
import os
from collections.abc import Awaitable, Iterator
from typing import Any, Protocol

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.endpoints import (
    AdoptedStreamServerEndpoint,
    TCP4ServerEndpoint,
    TCP6ServerEndpoint,
    serverFromString,
)
from twisted.internet.error import CannotListenError, ConnectionDone
from twisted.internet.interfaces import (
    IAddress,
    IListeningPort,
    IOpenSSLServerConnectionCreator,
    IProtocolFactory,
    IReactorFDSet,
    IReactorTime,
    IStreamServerEndpoint,
)
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.errors import ConfigurationError, Problem
from agtphost.protocols.holder import holder
from agtphost.protocols.immediate_write import Prompting
from agtphost.protocols.listener_connections import AcceptingFactory
from agtphost.protocols.server import SecureServerFactory
from agtphost.vocabulary.foreign_errors import explain, original_of, split

log = Logger()

SWEEP_INTERVAL = 0.5
"""Seconds between two looks at the deadlines: how late one is noticed. 10,000 connections take 2 ms."""

SYSTEMD = "systemd:"
"""What descriptions of sockets begin with that are handed over."""

SOCKET_UNIT = "start the host by its socket unit, or write address and port instead of endpoint"

BACKLOG = 1024
"""Connections that the system completes before they are accepted: half a second of a flood."""


@implementer(IStreamServerEndpoint)
class InheritedSocket:
    """
    A socket that systemd handed over, to listen on more than once: each port has a copy of it.

    A standby answers probes at a socket, or finds out whether it could listen, before it serves there.

    :param given: closes its socket once it listens.
    """

    def __init__(self, given: AdoptedStreamServerEndpoint) -> None:
        self._given = given

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Listen on a copy; see :class:`twisted.internet.interfaces.IStreamServerEndpoint`."""
        given = self._given
        try:
            copied = os.dup(given.fileno)
        except OSError:
            return fail()
        endpoint = AdoptedStreamServerEndpoint(given.reactor, copied, given.addressFamily)  # type: ignore[no-untyped-call]
        return endpoint.listen(protocolFactory)  # type: ignore[no-untyped-call, no-any-return]


def server_endpoint(reactor: Any, *, address: str, port: int, description: str = "") -> IStreamServerEndpoint:
    """
    Return the endpoint to listen on; TLS is put on top by :class:`ListeningService`.

    :param address: an IP address of this machine.
    :param port: 0 lets the system choose.
    :param description: a Twisted endpoint string such as ``tcp:4480`` or ``systemd:...``, instead of the two.
    :raises ConfigurationError: if the description is invalid, or has TLS.
    """
    made_by = Prompting(reactor) if IReactorFDSet.providedBy(reactor) else reactor
    if description:
        if description.startswith(("ssl:", "tls:")):
            raise ConfigurationError(
                [Problem(message="the endpoint must be without TLS, which is added", hint="write tcp:...")]
            )
        faults = list(systemd_faults(description))
        if faults:
            raise ConfigurationError(faults)
        try:
            made: IStreamServerEndpoint = serverFromString(made_by, description)  # type: ignore[no-untyped-call]
            return InheritedSocket(made) if isinstance(made, AdoptedStreamServerEndpoint) else made
        except (ValueError, TypeError, KeyError, IndexError) as error:
            if description.startswith(SYSTEMD):
                message = f"systemd has handed over no socket for {description!r}"
                raise ConfigurationError([Problem(message=message, hint=SOCKET_UNIT)]) from None
            what = explain(error) if isinstance(error, ValueError) else "a part of it is unknown or missing"
            problem = Problem(
                message=f"{description!r} is not an endpoint description: {what}",
                hint="such as tcp:4480:interface=127.0.0.1",
                original=original_of(error) or repr(error),
            )
            raise ConfigurationError([problem]) from error
    kind = TCP6ServerEndpoint if ipaddress.ip_address(address).version == 6 else TCP4ServerEndpoint
    return kind(made_by, port, backlog=BACKLOG, interface=address)


def systemd_faults(description: str) -> Iterator[Problem]:
    """Yield the faults of a ``systemd:`` description that do not depend on the sockets; nothing for another kind."""
    if not description.startswith(SYSTEMD):
        return
    words = description.removeprefix(SYSTEMD).split(":")
    named = dict(word.split("=", 1) for word in words if "=" in word)
    domain = named.pop("domain", words[0] if "=" not in words[0] else "")
    right = domain in ("INET", "INET6", "UNIX") and set(named) in ({"index"}, {"name"})
    if not right or not named.get("index", "0").isdecimal() or not named.get("name", "x"):
        problem = f"{description!r} does not describe a socket that systemd hands over"
        yield Problem(message=problem, hint="such as systemd:domain=INET:index=0")


def place_of(endpoint: IStreamServerEndpoint | None) -> str:
    """Return where an endpoint listens, for messages; empty where it does not tell."""
    path, port = getattr(endpoint, "_address", None), getattr(endpoint, "_port", None)
    if isinstance(path, str):
        return path
    return f"{getattr(endpoint, '_interface', '') or 'any address'} port {port}" if isinstance(port, int) else ""


def to_problem(failure: Failure, endpoint: IStreamServerEndpoint | None = None) -> Problem:
    """Return why the host cannot listen, with the address and who listens there."""
    error = failure.value
    assert error is not None
    what, cure = split(error)
    where = place_of(endpoint)
    if isinstance(error, CannotListenError) and getattr(error.socketError, "errno", None) == errno.EADDRINUSE:
        who = holder(int(error.port)) if _is_port(error.port) else ""
        cure = f"{who} listens there: stop it, or choose another port" if who else cure
    if isinstance(error, CannotListenError) and isinstance(error.socketError, PermissionError):
        what = "this user has no right to listen there"
        cure = "choose a port above 1023, or give the host CAP_NET_BIND_SERVICE or a socket of systemd"
    return Problem(
        message=f"the host cannot listen{f' on {where}' if where else ''}: {what}",
        hint=f"{cure or 'choose another address or port'}, in [listen]",
        original=original_of(error),
    )


def _is_port(named: object) -> bool:
    """Return whether a socket's place is a port, and no path."""
    return isinstance(named, int) and named > 0


class Companion(Protocol):
    """A listener of another carrier whose connections count with those of a :class:`ListeningService`."""

    def drain(self) -> None:
        """Take no more connections."""

    def close(self) -> Awaitable[object]:
        """Close the port, and cut the connections that are left."""


class ListeningService(Service):
    """
    Listens while it runs, sweeps the connections, and drains them when it stops.

    :param endpoint: where to listen.
    :param tls: makes each connection's TLS; see :class:`agtphost.protocols.tls.ServerTLS`. None: plain TCP.
    :param factory: makes the connections; used by no other service.
    :param clock: the reactor.
    :param drain_timeout: seconds that owed answers get when the service stops.
    """

    def __init__(
        self,
        endpoint: IStreamServerEndpoint,
        tls: IOpenSSLServerConnectionCreator | None,
        factory: AcceptingFactory,
        clock: IReactorTime,
        drain_timeout: float,
    ) -> None:
        self._endpoint = endpoint
        self._listener = factory if tls is None else SecureServerFactory(tls, factory, clock)
        self._factory = factory
        self._clock = clock
        self._drain_timeout = drain_timeout
        self._listening: Deferred[Any] | None = None
        self._failure: Failure | None = None
        self._port: IListeningPort | None = None
        self._waiting: list[Deferred[IAddress]] = []
        self._is_stopped = False
        self._stops: list[Deferred[None]] = []  # those that wait for the same end
        self.companions: list[Companion] = []
        """The listeners that stop with this one, so that one time bounds the calls of all."""

        self._sweeping = LoopingCall(factory.sweep)
        self._sweeping.clock = clock

    @property
    def factory(self) -> AcceptingFactory:
        """Makes the connections, and counts those of other carriers with them."""
        return self._factory

    @property
    def address(self) -> IAddress | None:
        """The address where connections are accepted, with the chosen port; None while the service does not listen."""
        return None if self._port is None else self._port.getHost()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._factory.connections

    @property
    def calls(self) -> int:
        """Requests in dispatch."""
        return self._factory.calls

    @property
    def is_stopping(self) -> bool:
        """Whether a stop waits for the answers that are owed; it ends :attr:`companions` too."""
        return bool(self._stops)

    def when_listening(self) -> Deferred[IAddress]:
        """
        Wait for the port.

        :return: fires with :attr:`address`; fails as the endpoint did.
        """
        waiting: Deferred[IAddress] = Deferred()
        if self._port is not None:
            waiting.callback(self._port.getHost())
        else:
            self._waiting.append(waiting)
        return waiting

    def start_problems(self) -> Iterator[Problem]:
        """
        Listen for a moment, and tell what is against it; see :class:`agtphost.host.rehearsal.IPrecondition`.

        For a reactor that does not run, and a service that is not started.
        """
        try:
            self._listen()
        except ConfigurationError as error:
            yield from error.problems
        if self._port is not None:
            self._port.connectionLost(Failure(ConnectionDone()))  # type: ignore[attr-defined, no-untyped-call]
        self._listening = self._failure = self._port = None

    def privilegedStartService(self) -> None:
        """
        Begin to listen, while ports below 1024 may still be taken.

        :raises ConfigurationError: if the port cannot be bound, as when it is in use.
        """
        super().privilegedStartService()  # type: ignore[no-untyped-call]
        self._listen()

    def startService(self) -> None:
        """
        Begin to listen, if that has not been done, and to watch the deadlines.

        :raises ConfigurationError: see :meth:`privilegedStartService`.
        """
        self._listen()
        super().startService()  # type: ignore[no-untyped-call]
        self._sweeping.start(SWEEP_INTERVAL, now=False)

    def stopService(self) -> Deferred[None]:
        """
        Stop accepting, and end the connections: idle ones immediately, the others after their answer.

        :return: fires once all are gone; after ``drain_timeout`` those that are left are cut. So does that of a further
            call.
        """
        super().stopService()  # type: ignore[no-untyped-call]
        if self._is_stopped:
            return succeed(None)
        ended: Deferred[None] = Deferred()
        self._stops.append(ended)
        if len(self._stops) == 1:
            Deferred.fromCoroutine(self._stop()).addBoth(self._end_stops)
        return ended

    def _end_stops(self, result: Failure | None) -> None:
        """Tell all who wait for the stop that it is over, or why it failed."""
        self._is_stopped = not isinstance(result, Failure)
        stops, self._stops = self._stops, []
        for each in stops:
            each.callback(result)

    def _listen(self) -> None:
        if self._listening is not None:
            return
        self._listening = self._endpoint.listen(self._listener)
        self._listening.addCallbacks(self._began, self._note_failure)
        if self._failure is not None:
            raise ConfigurationError([to_problem(self._failure, self._endpoint)])

    def _began(self, port: IListeningPort) -> None:
        self._port = port
        for waiting in self._waiting:
            waiting.callback(port.getHost())
        self._waiting.clear()

    def _note_failure(self, failure: Failure) -> None:
        self._failure = failure
        if self.running and not isinstance(failure.value, CancelledError):
            log.failure("the host cannot listen", failure=failure)
        for waiting in self._waiting:
            waiting.errback(failure)
        self._waiting.clear()

    async def _stop(self) -> None:
        closing: Any = None
        if self._listening is not None:
            self._listening.cancel()
        if self._port is not None:
            closing = self._port.stopListening()
            self._port = None
        for each in self.companions:
            each.drain()
        cutting = self._clock.callLater(self._drain_timeout, self._factory.cut)
        await self._factory.drain()
        if cutting.active():
            cutting.cancel()
        if self._sweeping.running:
            self._sweeping.stop()
        for each in self.companions:
            await each.close()
        if isinstance(closing, Deferred):
            await closing
