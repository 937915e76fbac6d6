"""
Where this host speaks HTTP: one service for every such listener.

Connections are admitted, timed and drained as those of the AGTP port are, by the same classes
(:mod:`agtphost.protocols`); what is HTTP's own is :mod:`agtphost.http.channel`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from twisted.internet.interfaces import (
    IAddress,
    IOpenSSLServerConnectionCreator,
    IProtocolNegotiationFactory,
    IReactorTime,
)
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import Site
from zope.interface import implementer

from agtphost.errors import ConfigurationError, Problem
from agtphost.http.access import Access, told_of
from agtphost.http.channel import BoundedChannel
from agtphost.http.exchange import Bodies, BoundedRequest
from agtphost.http.mounts import Mount, Mounts
from agtphost.http.tls import Renewable
from agtphost.protocols import ConnectionLimits, ListeningService, server_endpoint
from agtphost.protocols.accepting import AcceptingFactory
from agtphost.protocols.listening import BACKLOG, SYSTEMD

log = Logger()

CONNECTIONS = 1024
"""At once: in front of agents and documents, more is somebody's mistake or malice."""

REQUESTS = 1000
"""Of one connection."""

IDLE = 60.0
"""Seconds between two requests."""

HTTP_LIMITS = ConnectionLimits(connections=CONNECTIONS, requests_per_connection=REQUESTS, idle_timeout=IDLE)


@implementer(IProtocolNegotiationFactory)
class HttpFactory(AcceptingFactory):
    """
    Makes a :class:`BoundedChannel` of every connection that is admitted.

    :param access: takes what is told of each request.
    """

    def __init__(
        self, mounts: Mounts, limits: ConnectionLimits, clock: IReactorTime, access: Access | None = None
    ) -> None:
        super().__init__(limits, clock, room=True)
        self._site = Site(mounts, reactor=clock)  # type: ignore[no-untyped-call]
        self._access = access
        self.bodies = Bodies()

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A connection, or None for one that is closed without a word: see :class:`AcceptingFactory`."""
        address = self.admit_address(addr)
        if address is None:
            return None
        return BoundedChannel(self, self._site, self.bodies, self._limits, self._clock, address)

    def acceptableProtocols(self) -> list[bytes]:
        """What clients may ask for by ALPN."""
        return [b"http/1.1"]

    def log(self, request: BoundedRequest, answered: bool = True) -> None:
        """A request is over: the line that is told of it, where such lines are written."""
        if self._access is not None:
            self._access(told_of(request, self._clock.seconds(), answered=answered))

    def malformed(self, address: str) -> None:
        """Octets that are no request were answered 400."""
        if self._access is not None:
            self._access({"kind": "http", "surface": "", "address": address, "status": 400})


class HttpService(ListeningService):
    """
    Serves the surfaces of one listener.

    :param listen: a Twisted endpoint string; ``ssl:`` without files gets TLS by ``tls``.
    :param tls: makes the TLS side of each connection; None for plain TCP.
    :param mounts: of which no two overlap.
    :param what: the surfaces' names, for the log, and for what is wrong with ``listen``.
    :param names: those of the certificate, see :class:`agtphost.http.mounts.Mounts`.
    :param access: takes what is told of each request, see :func:`agtphost.http.access.told_of`.
    :raises agtphost.errors.ConfigurationError: for an endpoint that is none.
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
    ) -> None:
        self._what = tuple(what)
        self._renewable = None if tls is None else Renewable(tls)
        self._mounts = Mounts(mounts, names)
        bare = listen.removeprefix("ssl:")
        description = bare if tls is None or bare.startswith(SYSTEMD) else f"tcp:{bare}"
        if description.startswith("tcp:") and ":backlog=" not in description:
            description = f"{description}:backlog={BACKLOG}"
        try:
            endpoint = server_endpoint(reactor, address="", port=0, description=description)
        except ConfigurationError as error:
            message = f"{' and '.join(what)} has no endpoint to listen on: {error.problems[0].message}"
            raise ConfigurationError([Problem(message=message, hint='such as "ssl:8443"')]) from None
        factory = HttpFactory(self._mounts, limits, reactor, access)
        super().__init__(endpoint, self._renewable, factory, reactor, limits.drain_timeout)

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before."""
        return int(getattr(self.address, "port", 0))

    def renew(self, tls: IOpenSSLServerConnectionCreator, names: Collection[str] = ()) -> None:
        """Have another make the TLS side, with a certificate of these names: from the next connection on."""
        if self._renewable is not None:
            self._renewable.renew(tls)
            self._mounts.names = frozenset(names)

    def _began(self, port: Any) -> None:
        super()._began(port)
        for what in self._what:
            log.info("{what} is served on port {port}", what=what, port=self.port)

    def _note_failure(self, failure: Failure) -> None:
        # AGTP itself is spoken all the same.
        for what in self._what:
            log.critical("{what} cannot be served: {why}", what=what, why=failure.getErrorMessage())
