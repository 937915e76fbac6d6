"""One upstream over HTTPS: pooled connections, verified certificates, no redirects, no cookies, bounded answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IConsumer, IHostnameResolver
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer

from agtphost.handlers.addresses import AddressPolicy, ForbiddenAddress, PinnedEndpoints

IDLE_CONNECTION = 30
"""Seconds an unused connection is kept."""

KEPT_CONNECTIONS = 8
"""Unused connections kept."""

OVERHEAD = 64 << 10
"""Octets of status lines, header fields and chunk headers that an answer may have besides its body."""

SMALL = 64 << 10
"""Octets of an error's body that are read to keep its connection; nobody looks at them."""

PATIENCE = 1.0
"""Seconds for the same, at most: the status is known by then, and must not turn into a timeout."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Sent once more where a kept connection turns out to be closed: they change nothing."""


class Unreachable(Exception):
    """No answer, because of the name, the connection or TLS; the message is for the operator."""


class TooLong(Exception):
    """The answer is longer than it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the upstream said."""

    status: int
    content_encoding: str
    body: bytes
    """Empty unless the status is 2xx."""


@implementer(IBodyProducer)
class _Octets:
    """A request body that is at hand."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self.length = len(octets)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        consumer.write(self._octets)
        return succeed(None)

    def pauseProducing(self) -> None:
        """Nothing to pause: the body is written already."""

    def resumeProducing(self) -> None:
        """Nothing to resume."""

    def stopProducing(self) -> None:
        """Nothing to stop."""


class _Body(Protocol):
    """Reads one answer's body."""

    def __init__(self, most: int) -> None:
        self.done: Deferred[bytes] = Deferred(self._abandon)
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0

    def _abandon(self, _: Deferred[bytes]) -> None:
        if self.transport is not None:
            self.transport.loseConnection()

    def dataReceived(self, data: bytes) -> None:
        if self.done.called:
            return
        self._size += len(data)
        if self._size > self._most:
            self._parts.clear()
            self.done.errback(TooLong())
            self._abandon(self.done)
            return
        self._parts.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.done.called:
            return
        if isinstance(reason.value, ResponseDone):
            self.done.callback(b"".join(self._parts))
        elif isinstance(reason.value, PotentialDataLoss):
            self.done.errback(Unreachable("the answer does not say how long it is: a cut one could not be told"))
        else:
            self.done.errback(Unreachable("the connection was lost in the middle of the answer"))


class Upstream:
    """
    Speaks HTTP with one upstream.

    :param trust: the authorities whose certificates are accepted.
    :param most: octets of an answer's body.
    """

    def __init__(
        self, reactor: Any, resolver: IHostnameResolver, policy: AddressPolicy, trust: Any, method: str, most: int
    ) -> None:
        self._reactor = reactor
        self._method = method
        self._most = most
        self._pool = HTTPConnectionPool(reactor, persistent=True)  # type: ignore[no-untyped-call]
        self._pool.maxPersistentPerHost = KEPT_CONNECTIONS
        self._pool.cachedConnectionTimeout = IDLE_CONNECTION
        # Another request may have had its effect when its connection was lost: it is never sent twice.
        self._pool.retryAutomatically = method in SAFE
        tls = BrowserLikePolicyForHTTPS(trustRoot=trust)  # type: ignore[no-untyped-call]
        endpoints = PinnedEndpoints(reactor, resolver, policy, tls, most + OVERHEAD)
        self._agent = Agent.usingEndpointFactory(reactor, endpoints, self._pool)  # type: ignore[no-untyped-call]

    def exchange(self, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float) -> Deferred[Answer]:
        """
        Ask, and read the answer.

        :param url: ASCII, without places.
        :param seconds: for everything.
        :return: fails with TimeoutError, :exc:`Unreachable` or :exc:`TooLong`.
        """
        return Deferred.fromCoroutine(self._exchange(url, headers, body, seconds)).addTimeout(seconds, self._reactor)

    async def _exchange(self, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float) -> Answer:
        fields = Headers({name: [value] for name, value in headers.items()})
        producer = None if body is None else _Octets(body)
        try:
            response = await self._agent.request(self._method.encode("ascii"), url.encode("ascii"), fields, producer)
        except (CancelledError, TimeoutError):
            raise
        except ForbiddenAddress as error:
            raise Unreachable(str(error)) from None
        except Exception as error:
            if any(reason.check(CancelledError) for reason in getattr(error, "reasons", None) or ()):
                # The HTTP client wraps the end of its own time, or of its caller's.
                raise CancelledError from None
            raise Unreachable(_why(error)) from None
        encodings = response.headers.getRawHeaders("content-encoding") or [""]
        octets = await self._read(response, 200 <= response.code < 300, min(PATIENCE, seconds / 4))
        return Answer(status=response.code, content_encoding=",".join(encodings).strip().lower(), body=octets)

    async def _read(self, response: Any, wanted: bool, patience: float) -> bytes:
        if self._method == "HEAD":
            return b""
        reader = _Body(self._most if wanted else SMALL)
        if wanted and isinstance(response.length, int) and response.length > self._most:
            reader.done.addErrback(lambda _: b"")
            response.deliverBody(reader)
            reader.done.cancel()
            raise TooLong
        response.deliverBody(reader)
        if wanted:
            return await reader.done
        reader.done.addTimeout(patience, self._reactor)
        with suppress(TimeoutError, TooLong, Unreachable):
            # The status has said all that matters.
            await reader.done
        return b""

    def close(self) -> Deferred[Any]:
        """Close the kept connections."""
        closing: Deferred[Any] = self._pool.closeCachedConnections()  # type: ignore[no-untyped-call]
        return closing


def _why(error: Exception) -> str:
    """The names of what went wrong, for the operator's log; never what the upstream said."""
    reasons = getattr(error, "reasons", None) or ()
    inner = [str(getattr(getattr(reason, "value", None), "args", "") or reason.type.__name__) for reason in reasons]
    return f"{type(error).__name__}: {'; '.join(inner)[:300] or ascii(str(error))[:300]}"
