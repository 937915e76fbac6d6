"""
Where this host speaks HTTP: one service for every such listener.

Connections are admitted, timed and drained as those of the AGTP port are, by the same classes
(:mod:`agtphost.protocols`); what is HTTP's own is :mod:`agtphost.http.channel`.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import (
    IAddress,
    IOpenSSLServerConnectionCreator,
    IProtocolNegotiationFactory,
    IReactorTime,
)
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import Site
from zope.interface import implementer

from agtphost.errors import ConfigurationError, Problem
from agtphost.http.channel import BoundedChannel
from agtphost.http.exchange import Bodies
from agtphost.http.tls import Renewable
from agtphost.protocols import ConnectionLimits, ListeningService, server_endpoint
from agtphost.protocols.accepting import AcceptingFactory
from agtphost.protocols.listening import BACKLOG

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

    :param resource: a leaf, see :class:`agtphost.http.exchange.Gatekeeper`.
    """

    def __init__(self, resource: Resource, limits: ConnectionLimits, clock: IReactorTime) -> None:
        super().__init__(limits, clock, room=True)
        self._site = Site(resource, reactor=clock)  # type: ignore[no-untyped-call]
        self.bodies = Bodies()

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A connection, or None for one that is closed without a word: see :class:`AcceptingFactory`."""
        address = self.admitted(addr)
        if address is None:
            return None
        return BoundedChannel(self, self._site, self.bodies, self._limits, self._clock, address)

    def acceptableProtocols(self) -> list[bytes]:
        """What clients may ask for by ALPN."""
        return [b"http/1.1"]

    def log(self, request: object) -> None:
        """What is asked over HTTP has no line of its own: what came of it is on record."""


class HttpService(ListeningService):
    """
    Serves a resource.

    :param listen: a Twisted endpoint string; ``ssl:`` without files gets TLS by ``tls``.
    :param tls: makes the TLS side of each connection; None for plain TCP.
    :param what: for the log, and for what is wrong with ``listen``.
    :raises agtphost.errors.ConfigurationError: for an endpoint that is none.
    """

    def __init__(
        self,
        reactor: Any,
        listen: str,
        tls: IOpenSSLServerConnectionCreator | None,
        resource: Resource,
        what: str,
        limits: ConnectionLimits = HTTP_LIMITS,
    ) -> None:
        self._what = what
        self._renewable = None if tls is None else Renewable(tls)
        description = listen if tls is None else f"tcp:{listen.removeprefix('ssl:')}"
        if description.startswith("tcp:") and ":backlog=" not in description:
            description = f"{description}:backlog={BACKLOG}"
        try:
            endpoint = server_endpoint(reactor, address="", port=0, description=description)
        except ConfigurationError as error:
            message = f"{what} has no endpoint to listen on: {error.problems[0].message}"
            raise ConfigurationError([Problem(message=message, hint='such as "ssl:8443"')]) from None
        factory = HttpFactory(resource, limits, reactor)
        super().__init__(endpoint, self._renewable, factory, reactor, limits.drain_timeout)

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before."""
        return int(getattr(self.address, "port", 0))

    def renew(self, tls: IOpenSSLServerConnectionCreator) -> None:
        """Have another make the TLS side: from the next connection on."""
        if self._renewable is not None:
            self._renewable.renew(tls)

    def _began(self, port: Any) -> None:
        super()._began(port)
        log.info("{what} is served on port {port}", what=self._what, port=self.port)

    def _failed(self, failure: Failure) -> None:
        # AGTP itself is spoken all the same.
        log.critical("{what} cannot listen: {why}", what=self._what, why=failure.getErrorMessage())
