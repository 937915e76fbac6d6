"""A small HTTP server with bounded requests: its listener, its requests, its answers."""

from __future__ import annotations

import io
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort, IOpenSSLServerConnectionCreator
from twisted.logger import Logger
from twisted.protocols.policies import WrappingFactory
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from agtphost.errors import ConfigurationError, Problem
from agtphost.http.sidecar import Renewable

log = Logger()

CONNECTIONS = 256
"""At once."""

PATIENCE = 15.0
"""Seconds without an octet until a connection is closed, while a request is being sent."""

LONGEST_BODY = 1 << 20
"""Octets of a request's body."""


_TOO_LARGE = (
    b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 23\r\n\r\nThe body is too large.\n"
)


class _Bounded(io.BytesIO):
    """Takes a body of bounded length; the request of a longer one is cut."""

    def __init__(self, request: BoundedRequest) -> None:
        super().__init__()
        self._request = request

    def write(self, octets: Any) -> int:
        """Some octets."""
        if self._request.is_cut:
            return len(octets)
        if self.tell() + len(octets) > LONGEST_BODY:
            self._request.cut()
            return len(octets)
        return super().write(octets)


class BoundedRequest(Request):
    """A request whose body is kept in memory, and is not long."""

    is_cut = False
    """Whether its body was too long: then it was answered, and nothing of it is ever read."""

    def gotLength(self, length: int | None) -> None:
        """How long the body says it is."""
        self.content = _Bounded(self)
        if length is not None and length > LONGEST_BODY:
            self.cut()

    def cut(self) -> None:
        """Too much: 413, and the connection ends; what came of the body is forgotten."""
        self.is_cut = True
        if self.content is not None:
            self.content.seek(0)
            self.content.truncate()
        transport: Any = self.channel.transport if self.channel is not None else None
        if transport is not None:
            transport.write(_TOO_LARGE)
            transport.loseConnection()

    def process(self) -> None:
        """The whole request is there."""
        if not self.is_cut:
            super().process()  # type: ignore[no-untyped-call]


def tail_of(
    request: Request, status: int, octets: bytes, *fields: tuple[str, str], kind: str = "text/plain"
) -> bytes:
    """Set the head of an answer; its body, for the caller to return or write."""
    request.setResponseCode(status)
    everything = (("Content-Type", kind), ("Content-Length", str(len(octets))), ("Cache-Control", "no-store"), *fields)
    for name, value in everything:
        request.responseHeaders.setRawHeaders(name, [value])
    return b"" if request.method == b"HEAD" else octets


def field_of(request: Request, name: str) -> str | None:
    """
    A header field's last value, whatever octets it has.

    :return: None where it is absent; what is not ASCII is there as U+FFFD, so that it equals nothing.
    """
    values = request.requestHeaders.getRawHeaders(name.encode("ascii"))
    return values[-1].decode("ascii", "replace") if values else None


def host_of(request: Request) -> str:
    """The address that a client asked, as it sees it."""
    scheme = "https" if request.isSecure() else "http"  # type: ignore[no-untyped-call]
    host = request.getHost()  # type: ignore[no-untyped-call]
    name = getattr(host, "host", "localhost")
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{getattr(host, 'port', 0)}"


class _Limited(WrappingFactory):
    """No more than :data:`CONNECTIONS` at once; one beyond that is closed unanswered."""

    noisy = False

    def buildProtocol(self, addr: Any) -> Any:
        """A connection, if there is room."""
        return None if len(self.protocols) >= CONNECTIONS else super().buildProtocol(addr)


class Listening(Service):
    """
    Serves a resource.

    :param endpoint: a Twisted endpoint string; ``ssl:`` without files gets TLS by ``tls``.
    :param tls: makes the TLS side of each connection; None for plain TCP.
    :param what: for the log.
    :raises agtphost.errors.ConfigurationError: for an endpoint that is none.
    """

    def __init__(self, reactor: Any, endpoint: str, tls: Any, resource: Resource, what: str) -> None:
        self._what = what
        site = Site(resource, BoundedRequest, timeout=PATIENCE, reactor=reactor)  # type: ignore[no-untyped-call]
        site.noisy = False
        site.log = lambda request: None  # type: ignore[method-assign]
        limited = _Limited(site)  # type: ignore[no-untyped-call]
        self._tls: Renewable | None = None
        self._factory: Any = limited
        if tls is not None:
            self._tls = Renewable(tls)
            self._factory = TLSMemoryBIOFactory(self._tls, False, limited, reactor)
        try:
            description = f"tcp:{endpoint.removeprefix('ssl:')}" if tls is not None else endpoint
            self._endpoint = serverFromString(reactor, description)  # type: ignore[no-untyped-call]
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(
                [Problem(message=f"{what} has no endpoint to listen on: {error}", hint='such as "ssl:8443"')]
            ) from None
        self._port: IListeningPort | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before."""
        return 0 if self._port is None else int(getattr(self._port.getHost(), "port", 0))

    def renew(self, tls: IOpenSSLServerConnectionCreator) -> None:
        """Have another make the TLS side: from the next connection on."""
        if self._tls is not None:
            self._tls.renew(tls)

    def startService(self) -> None:
        """Listen."""
        super().startService()  # type: ignore[no-untyped-call]
        self._endpoint.listen(self._factory).addCallbacks(self._bound, self._failed)

    def stopService(self) -> Deferred[None]:
        """Listen no more."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._port is None:
            return succeed(None)
        stopping: Deferred[None] = Deferred.fromCoroutine(_stopped(self._port))
        return stopping

    def _bound(self, port: IListeningPort) -> None:
        self._port = port
        log.info("{what} is served on port {port}", what=self._what, port=self.port)

    def _failed(self, failure: Failure) -> None:
        log.critical("{what} cannot listen: {why}", what=self._what, why=failure.getErrorMessage())


async def _stopped(port: IListeningPort) -> None:
    stopping: object = port.stopListening()
    if isinstance(stopping, Deferred):
        await stopping
