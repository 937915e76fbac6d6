"""
The one HTTPS client of this project: pooled connections, verified TLS, no redirects, no cookies.

Heads are bounded on every connection, bodies by their reader (:func:`read`,
:class:`agtphost.upstream.bodies.AnswerBody`). Each use sets the addresses that it may reach: the operator's own
upstreams may be anywhere, whereas a URL from a foreign text must not lead into the operator's network. For code without
a reactor there is :mod:`agtphost.client.blocking_https`.
"""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

from cryptography import x509
from OpenSSL import crypto
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, succeed
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.interfaces import IConsumer, IHostnameResolver
from twisted.internet.ssl import Certificate, platformTrust, trustRootFromCertificates
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory, IBodyProducer, IPolicyForHTTPS, IResponse
from zope.interface import implementer

from agtphost.upstream.addresses import PinnedEndpoints
from agtphost.upstream.bodies import AnswerBody
from agtphost.upstream.failures import AnswerTooLong, UpstreamLost
from agtphost.upstream.octet_limit import LimitedEndpoint
from agtphost.vocabulary.addresses import AddressPolicy, ForbiddenAddress
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.remembered_files import read_named

CONNECT_TIMEOUT = 5.0
"""Seconds until a connection attempt to an address fails."""

IDLE_CONNECTION = 60
"""Seconds an unused connection is kept."""


def trust_only(pem: bytes) -> Any:
    """
    Return a trust root with only these certificates.

    :raises ValueError: there is none, or an unreadable one.
    """
    found = x509.load_pem_x509_certificates(pem)
    certificates = [Certificate(crypto.X509.from_cryptography(each)) for each in found]  # type: ignore[no-untyped-call]
    return trustRootFromCertificates(certificates)  # type: ignore[no-untyped-call]


def trust_of(path: Any) -> Any:
    """
    Return a trust root with the certificates of a PEM file; None: with the platform's.

    :raises OSError, ValueError: the file cannot be used.
    """
    if path is None:
        return platformTrust()  # type: ignore[no-untyped-call]
    return trust_only(read_named(Path(path)))


@implementer(IBodyProducer)
class BytesProducer:
    """A request body that is complete in memory."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self.length = len(octets)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        consumer.write(self._octets)
        return succeed(None)

    def pauseProducing(self) -> None:
        """Do nothing, since the body is written already."""

    def resumeProducing(self) -> None:
        """Do nothing, since the body is written already."""

    def stopProducing(self) -> None:
        """Do nothing, since the body is written already."""


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """A factory of endpoints for any address."""

    def __init__(self, reactor: Any, tls: IPolicyForHTTPS, most: float) -> None:
        self._reactor = reactor
        self._tls = tls
        self._most = most

    def endpointForURI(self, uri: Any) -> LimitedEndpoint:
        """Return the endpoint of a URI: TLS verifies its host, and received octets are bounded."""
        host = uri.host.decode("ascii").strip("[]")
        endpoint: Any = HostnameEndpoint(self._reactor, host, uri.port, timeout=CONNECT_TIMEOUT)
        if uri.scheme == b"https":
            endpoint = wrapClientTLS(self._tls.creatorForNetloc(host.encode("ascii"), uri.port), endpoint)
        return LimitedEndpoint(endpoint, self._most)


class HTTPSClient:
    """
    A client for HTTP requests to upstreams.

    :param trust: the authorities whose certificates are accepted: see :func:`trust_of`.
    :param addresses: the addresses that may be connected to, only over TLS; None: any, for URLs that the operator
        named.
    :param connections: idle ones to keep; 0: each ends with its answer.
    :param most: octets that may be received for one request, in all.
    :param resolver: looks names up where addresses are checked.
    :param repeats: whether a request is sent again if a kept connection turns out to be closed. Only for requests that
        change nothing, since one may have had its effect when its connection was lost.
    """

    def __init__(
        self,
        reactor: Any,
        trust: Any,
        *,
        addresses: AddressPolicy | None,
        connections: int = 0,
        idle: int = IDLE_CONNECTION,
        most: float = inf,
        resolver: IHostnameResolver | None = None,
        repeats: bool = False,
    ) -> None:
        self.pool = HTTPConnectionPool(reactor, persistent=connections > 0)  # type: ignore[no-untyped-call]
        self.pool.maxPersistentPerHost = connections
        self.pool.cachedConnectionTimeout = idle
        self.pool.retryAutomatically = repeats
        tls = BrowserLikePolicyForHTTPS(trustRoot=trust)  # type: ignore[no-untyped-call]
        endpoints: Any = _Endpoints(reactor, tls, most)
        if addresses is not None:
            endpoints = PinnedEndpoints(reactor, resolver or reactor.nameResolver, addresses, tls, most)
        self.agent = Agent.usingEndpointFactory(reactor, endpoints, self.pool)  # type: ignore[no-untyped-call]

    async def request(self, method: str, url: str, fields: Headers, body: bytes | None = None) -> IResponse:
        """
        Send a request and return the response, whose body is still to be read.

        :param url: ASCII.
        :raises UpstreamLost: without an answer; ``sent`` where the request may have had its effect.
        """
        producer = None if body is None else BytesProducer(body)
        try:
            response: IResponse = await self.agent.request(
                method.encode("ascii"), url.encode("ascii"), fields, producer
            )
        except (CancelledError, TimeoutError):
            raise
        except Exception as error:
            if any(reason.check(CancelledError) for reason in getattr(error, "reasons", None) or ()):
                # The HTTP client wraps the cancellation by its own timer or its caller.
                raise CancelledError from None
            unsent = isinstance(error, (ConnectError, DNSLookupError, ForbiddenAddress))
            raise UpstreamLost(_cause(error), sent=not unsent) from None
        return response

    def close(self) -> Deferred[Any]:
        """Close the kept connections."""
        closing: Deferred[Any] = self.pool.closeCachedConnections()  # type: ignore[no-untyped-call]
        return closing


def _cause(error: BaseException) -> str:
    """Return one sentence about the failure below HTTP, without text of the upstream."""
    if isinstance(error, ForbiddenAddress):
        return str(error)
    reasons = getattr(error, "reasons", None)
    if reasons:
        return _cause(reasons[0].value)
    return f"the request failed: {explain(error)[:200]}"


def read(response: IResponse, most: int, *, measured: bool = True) -> Deferred[bytes]:
    """
    Return the body of an answer.

    :param measured: whether an answer without a length is refused, since it could be cut unnoticed.
    :return: fails with :exc:`AnswerTooLong`, or :exc:`UpstreamLost` where it is cut or may be; cancelling ends the
        connection.
    """
    found: list[bytes] = []

    def finish(reason: str | None) -> None:
        if answer.too_long:
            done.errback(AnswerTooLong(most))
        elif reason is not None or (measured and answer.has_no_length):
            done.errback(UpstreamLost(reason or "the answer has no length, so that it could be cut unnoticed"))
        else:
            done.callback(b"".join(found))

    answer = AnswerBody(False, found.append, finish, most)
    done: Deferred[bytes] = Deferred(lambda _: answer.drop())
    response.deliverBody(answer)  # type: ignore[no-untyped-call]
    if isinstance(response.length, int) and response.length > most:
        answer.refuse()
    return done
