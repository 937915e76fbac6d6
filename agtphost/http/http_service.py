"""
Provide the service of an HTTP listener.

Connections are admitted, timed and drained by the same classes as those of the AGTP port (:mod:`agtphost.protocols`);
what is specific to HTTP is in :mod:`agtphost.http.channel`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IAddress,
    IOpenSSLServerConnectionCreator,
    IProtocolNegotiationFactory,
    IReactorTime,
)
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import Site
from zope.interface import implementer

from agtphost.errors import ConfigurationError, Problem
from agtphost.http.access_members import Access, access_members
from agtphost.http.bounded_request import BodyCounter, BoundedRequest
from agtphost.http.channel import BoundedChannel
from agtphost.http.mounts import Mount, Mounts
from agtphost.http.tls import RenewableTls
from agtphost.protocols import ConnectionLimits, ListeningService, server_endpoint
from agtphost.protocols.listener import BACKLOG, SYSTEMD, place_of
from agtphost.protocols.listener_connections import AcceptingFactory
from agtphost.vocabulary.foreign_errors import explain, original_of

log = Logger()

MOST_CONNECTIONS = 1024
"""Concurrent connections: agents and documents do not need more."""

MOST_REQUESTS = 1000
"""Requests on one connection."""

IDLE_SECONDS = 60.0
"""Seconds between two requests."""

RETRY_SECONDS = 5.0
"""Seconds until a port that could not be bound is tried again."""

HTTP_LIMITS = ConnectionLimits(
    connections=MOST_CONNECTIONS, requests_per_connection=MOST_REQUESTS, idle_timeout=IDLE_SECONDS
)


@implementer(IProtocolNegotiationFactory)
class HttpFactory(AcceptingFactory):
    """
    A factory that makes a :class:`BoundedChannel` of every admitted connection.

    :param access: takes the members of each request's access line.
    """

    def __init__(
        self, mounts: Mounts, limits: ConnectionLimits, clock: IReactorTime, access: Access | None = None
    ) -> None:
        super().__init__(limits, clock, room=True)
        self._site = Site(mounts, reactor=clock)  # type: ignore[no-untyped-call]
        self._access = access
        self.bodies = BodyCounter()

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return a channel, or None to close the connection without an answer: see :class:`AcceptingFactory`."""
        address = self.admit_address(addr)
        if address is None:
            return None
        return BoundedChannel(self, self._site, self.bodies, self._limits, self._clock, address)

    def acceptableProtocols(self) -> list[bytes]:
        """Return the protocols that clients may select by ALPN."""
        return [b"http/1.1"]

    def log(self, request: BoundedRequest, answered: bool = True) -> None:
        """Write the access line of a finished request, if access lines are on."""
        if self._access is not None:
            self._access(access_members(request, self._clock.seconds(), answered=answered))

    def log_malformed(self, address: str) -> None:
        """Log that octets which are not a request were answered 400."""
        if self._access is not None:
            self._access({"kind": "http", "surface": "", "address": address, "status": 400})


class HttpService(ListeningService):
    """
    A service that serves the surfaces of one listener.

    :param listen: a Twisted endpoint string; ``ssl:`` without files gets TLS by ``tls``.
    :param tls: makes the TLS side of each connection; None for plain TCP.
    :param mounts: of which no two overlap.
    :param what: the surfaces' names, for the log and for messages about ``listen``.
    :param names: those of the certificate, see :class:`agtphost.http.mounts.Mounts`.
    :param access: takes the members of each request's access line, see
        :func:`agtphost.http.access_members.access_members`.
    :param enders: functions that end streams that only wait for news.
    :raises agtphost.errors.ConfigurationError: ``listen`` is not an endpoint.
    """

    def __init__(
        self,
        reactor: Any,
        listen: str,
        tls: IOpenSSLServerConnectionCreator | None,
        mounts: Sequence[Mount],
        what: Sequence[str],
        limits: ConnectionLimits = HTTP_LIMITS,
        *,
        names: Collection[str] = (),
        access: Access | None = None,
        enders: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._what = tuple(what)
        self._enders = tuple(enders)
        self._renewable = None if tls is None else RenewableTls(tls)
        self._mounts = Mounts(mounts, names)
        bare = listen.removeprefix("ssl:")
        description = bare if tls is None or bare.startswith(SYSTEMD) else f"tcp:{bare}"
        if description.startswith("tcp:") and ":backlog=" not in description:
            description = f"{description}:backlog={BACKLOG}"
        try:
            endpoint = server_endpoint(reactor, address="", port=0, description=description)
        except ConfigurationError as error:
            message = f"{' and '.join(what)} has no endpoint to listen on: {error.problems[0].message}"
            hint, original = 'write listen as, for instance, "ssl:8443"', error.problems[0].original
            raise ConfigurationError([Problem(message=message, hint=hint, original=original)]) from None
        factory = HttpFactory(self._mounts, limits, reactor, access)
        super().__init__(endpoint, self._renewable, factory, reactor, limits.drain_timeout)
        self._is_refused = False
        self._retrying = LoopingCall(self._retry)
        self._retrying.clock = reactor

    @property
    def port(self) -> int:
        """Return the port of the listener; 0 before it listens."""
        return int(getattr(self.address, "port", 0))

    def startService(self) -> None:
        """
        Begin to listen; a port that cannot be bound is logged once, and tried again until it can.

        The other listeners serve all the same: a host does not go down, and a standby can take over, because another
        program has the port of its metrics.
        """
        super().startService()
        self._retrying.start(RETRY_SECONDS, now=False)

    def _retry(self) -> None:
        if self._port is not None:
            self._retrying.stop()
        elif self._is_refused:
            self._listening = None
            self._listen()

    def stopService(self) -> Deferred[None]:
        """Stop as :class:`ListeningService` does, and end the streams that only wait for news."""
        if self._retrying.running:
            self._retrying.stop()
        stopping = super().stopService()
        for end in self._enders:
            end()
        return stopping

    def renew(self, tls: IOpenSSLServerConnectionCreator, names: Collection[str] = ()) -> None:
        """Use other TLS settings, with a certificate of these names, from the next connection on."""
        if self._renewable is not None:
            self._renewable.renew(tls)
            self._mounts.names = frozenset(names)

    def _began(self, port: Any) -> None:
        super()._began(port)
        for what in self._what:
            log.info("{what} is served on port {port}", what=what, port=self.port)

    def _note_failure(self, failure: Failure) -> None:
        error = failure.value
        assert error is not None
        is_known, self._is_refused = self._is_refused, True
        for what in () if is_known else self._what:
            log.error(
                "{what} cannot be served on {where}: {why}; the next try is in {seconds:.0f} s; original: {original}",
                what=what,
                where=place_of(self._endpoint),
                why=explain(error),
                seconds=RETRY_SECONDS,
                original=original_of(error),
            )
