"""
One upstream over HTTP: pooled connections, verified TLS, no redirects, no cookies, everything bounded.

A request is sent at most once: it may have had its effect when its connection
was lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.protocol import Factory
from twisted.internet.ssl import Certificate, platformTrust, trustRootFromCertificates
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory, IResponse
from zope.interface import implementer

from agtphost.adapters.mcp.http_body import Answer, Octets
from agtphost.handlers.octet_limit import LimitedFactory
from agtphost.upstream.failures import Lost, Refused, Timeout, TooLong, Unreadable
from agtphost.vocabulary import jsontext

CONNECT_TIMEOUT = 5.0
"""Seconds until an address that does not answer counts as down."""

IDLE_CONNECTION = 60
"""Seconds an unused connection is kept."""

LONGEST_BODY = 16 << 20
"""Octets of one answer, or of one event of a stream."""

LONGEST_EXCHANGE = 64 << 20
"""Octets of everything that comes back for one request, header fields and streams included."""

LONGEST_ERROR = 64 << 10
"""Octets of the body of an answer outside 2xx."""

WAITING_EVENTS = 32
"""Events read ahead of whoever takes them; beyond, the upstream is not read."""

STREAM = "text/event-stream"

Take = Callable[[bytes], Awaitable[None]]
"""Takes the data of one event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of 2xx."""

    status: int
    body: bytes
    """Empty where the answer was a stream."""

    streamed: bool = False


class _Bounded:
    """An endpoint whose connections carry so much in and no more."""

    def __init__(self, endpoint: Any) -> None:
        self._endpoint = endpoint

    def connect(self, factory: Factory) -> Deferred[Any]:
        """Connect."""
        connecting: Deferred[Any] = self._endpoint.connect(LimitedFactory(factory, LONGEST_EXCHANGE))
        return connecting.addCallback(lambda protocol: protocol.wrappedProtocol)


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """Where :class:`~twisted.web.client.Agent` connects to."""

    def __init__(self, reactor: Any, policy: BrowserLikePolicyForHTTPS) -> None:
        self._reactor = reactor
        self._policy = policy

    def endpointForURI(self, uri: Any) -> _Bounded:
        """The endpoint of a URI; TLS verifies its host."""
        host = uri.host.decode("ascii").strip("[]")
        endpoint: Any = HostnameEndpoint(self._reactor, host, uri.port, timeout=CONNECT_TIMEOUT)
        if uri.scheme == b"https":
            endpoint = wrapClientTLS(self._policy.creatorForNetloc(host.encode("ascii"), uri.port), endpoint)
        return _Bounded(endpoint)


def _trust(ca: str | None) -> Any:
    if ca is None:
        return platformTrust()  # type: ignore[no-untyped-call]
    with open(ca, encoding="ascii") as file:
        blocks = file.read().split("-----END CERTIFICATE-----")[:-1]
    if not blocks:
        raise ValueError(f"{ca} has no certificate")
    certificates = [Certificate.loadPEM(f"{block}-----END CERTIFICATE-----\n".encode()) for block in blocks]
    return trustRootFromCertificates(certificates)  # type: ignore[no-untyped-call]


class HttpPeer:
    """
    Speaks HTTP with one upstream.

    :param ca: PEM file of the only authorities to trust; None means the platform's.
    :param headers: sent with every request.
    :param connections: idle ones to keep.
    """

    def __init__(self, reactor: Any, *, ca: str | None, headers: Mapping[str, str], connections: int) -> None:
        self._reactor = reactor
        self._fixed = tuple(headers.items())
        self._pool = HTTPConnectionPool(reactor, persistent=True)  # type: ignore[no-untyped-call]
        self._pool.maxPersistentPerHost = connections
        self._pool.cachedConnectionTimeout = IDLE_CONNECTION
        self._pool.retryAutomatically = False
        self._ca = ca
        self._agent: Agent | None = None

    async def exchange(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        headers: Sequence[tuple[str, str]] = (),
        body: object = None,
        take: Take | None = None,
        errors: bool = False,
    ) -> Reply:
        """
        Ask, and read the answer.

        :param body: JSON; None for no body.
        :param seconds: for everything.
        :param take: gets the events of a stream, one after another; without it a stream is no answer.
        :param errors: whether it gets events of type ``error`` too, as :class:`ErrorEvent`.
        :raises UpstreamFailure: for everything but a complete answer of 2xx.
        """
        fields = Headers()
        for name, value in (*self._fixed, ("Accept-Encoding", "identity"), *headers):
            fields.setRawHeaders(name, [value])
        octets = None
        if body is not None:
            fields.setRawHeaders("Content-Type", fields.getRawHeaders("Content-Type") or ["application/json"])
            octets = jsontext.encode(body)
        working = Deferred.fromCoroutine(self._exchange(method, url, fields, octets, take, errors))
        working.addTimeout(max(seconds, 0.001), self._reactor)
        try:
            return await working
        except TimeoutError:
            raise Timeout(f"it did not answer within {seconds:.3g} s") from None

    async def close(self) -> None:
        """Close the kept connections."""
        await self._pool.closeCachedConnections()  # type: ignore[no-untyped-call]

    async def _exchange(
        self, method: str, url: str, fields: Headers, octets: bytes | None, take: Take | None, errors: bool
    ) -> Reply:
        if self._agent is None:
            policy = BrowserLikePolicyForHTTPS(trustRoot=_trust(self._ca))  # type: ignore[no-untyped-call]
            endpoints = _Endpoints(self._reactor, policy)
            self._agent = Agent.usingEndpointFactory(self._reactor, endpoints, self._pool)  # type: ignore[no-untyped-call]
        try:
            producer = None if octets is None else Octets(octets)
            response = await self._agent.request(method.encode("ascii"), url.encode("ascii"), fields, producer)
        except (CancelledError, TimeoutError):
            raise
        except Exception as error:
            if any(reason.check(CancelledError) for reason in getattr(error, "reasons", None) or ()):
                raise CancelledError from None
            unsent = isinstance(error, (ConnectError, DNSLookupError))
            raise Lost(_cause(error), sent=not unsent) from None
        return await _read(response, take, errors)


async def _read(response: IResponse, take: Take | None, errors: bool) -> Reply:
    code = int(response.code)
    kind = (response.headers.getRawHeaders("Content-Type") or [""])[0].partition(";")[0].strip().lower()
    good = 200 <= code < 300
    if good and kind == STREAM:
        if take is None:
            await _Reading(response, stream=True).discard()
            raise Unreadable("it answered with a stream where none was asked for")
        await _Reading(response, stream=True, errors=errors).each(take)
        return Reply(status=code, body=b"", streamed=True)
    reading = _Reading(response, stream=False, limit=LONGEST_BODY if good else LONGEST_ERROR)
    if not good:
        try:
            body = await reading.whole()
        except (Lost, Unreadable):
            body = b""  # the status has said all that matters
        raise Refused(code, body=body)
    body = await reading.whole()
    if body and kind != "application/json" and not kind.endswith("+json"):
        raise Unreadable(f"it answered with the content type {kind[:64]!r}")
    return Reply(status=code, body=body)


class _Reading:
    """Reads one answer's body."""

    def __init__(self, response: IResponse, *, stream: bool, limit: int = LONGEST_BODY, errors: bool = False) -> None:
        self._texts: deque[bytes] = deque()
        self._waiter: Deferred[None] | None = None
        self._ended = False
        self._reason: str | None = None
        self._paused = False
        self._limit = limit
        self._answer = Answer(stream, self._take, self._end, limit, errors=errors)
        response.deliverBody(self._answer)  # type: ignore[no-untyped-call]

    async def whole(self) -> bytes:
        """The body."""
        found: list[bytes] = []

        async def take(text: bytes) -> None:
            found.append(text)

        await self.each(take)
        return b"".join(found)

    async def each(self, take: Take) -> None:
        """
        Hand each text over, as fast as they are taken.

        :raises Lost: the answer ended in its middle.
        :raises Unreadable: a text is too long.
        """
        try:
            while self._texts or not self._ended:
                if not self._texts:
                    self._waiter = Deferred()
                    await self._waiter
                    continue
                await take(self._texts.popleft())
                if self._paused and len(self._texts) <= WAITING_EVENTS // 2:
                    self._paused = False
                    self._answer.resume()
        finally:
            if not self._ended:
                self._answer.abandon("nobody reads on")
        if self._reason is not None:
            if self._answer.lost:
                raise Lost(self._reason)
            raise TooLong(self._limit) if self._answer.too_long else Unreadable(self._reason)

    async def discard(self) -> None:
        """Let go of it."""
        self._answer.abandon("nobody reads it")

    def _take(self, text: bytes) -> None:
        self._texts.append(text)
        if len(self._texts) >= WAITING_EVENTS and not self._paused:
            self._paused = True
            self._answer.pause()
        self._wake()

    def _end(self, reason: str | None) -> None:
        self._ended, self._reason = True, reason
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.called:
            waiter.callback(None)


def _cause(error: BaseException) -> str:
    """One sentence about what went wrong below HTTP; never what the upstream said."""
    reasons = getattr(error, "reasons", None)
    if reasons:
        return _cause(reasons[0].value)
    return f"the request failed: {type(error).__name__}: {str(error)[:200]}"
