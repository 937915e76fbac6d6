"""Documents fetched over HTTPS on the operator's word: bounded, verified, never redirected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from OpenSSL import crypto
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import Certificate, trustRootFromCertificates
from twisted.python.failure import Failure
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool, ResponseDone
from twisted.web.http_headers import Headers

MAX_OCTETS = 1 << 20
TIMEOUT = 10.0
"""Seconds for the whole of one fetch."""


class FetchError(Exception):
    """The document did not come; the message says why, for the operator."""


Fetch = Callable[[str], "Deferred[bytes]"]
"""URL to document; fails with :class:`FetchError`."""


def fetcher(reactor: Any, ca: Path | None = None) -> Fetch:
    """
    What fetches documents.

    :param ca: PEM file with the authorities to trust; None for the platform's.
    :raises OSError: the file cannot be read.
    """
    policy = BrowserLikePolicyForHTTPS() if ca is None else BrowserLikePolicyForHTTPS(_roots(ca))  # type: ignore[no-untyped-call]
    pool = HTTPConnectionPool(reactor, persistent=False)  # type: ignore[no-untyped-call]
    agent = Agent(reactor, policy, TIMEOUT, pool=pool)  # type: ignore[no-untyped-call]

    def fetch(url: str) -> Deferred[bytes]:
        fetching = Deferred.fromCoroutine(_get(agent, url))
        return fetching.addTimeout(TIMEOUT, reactor).addErrback(_explained, url)

    return fetch


def _roots(ca: Path) -> Any:
    certificates = [
        Certificate(crypto.load_certificate(crypto.FILETYPE_PEM, block))  # type: ignore[no-untyped-call]
        for block in _blocks(ca.read_bytes())
    ]
    return trustRootFromCertificates(certificates)  # type: ignore[no-untyped-call]


def _blocks(pem: bytes) -> list[bytes]:
    end = b"-----END CERTIFICATE-----"
    return [block + end for block in pem.split(end) if b"-----BEGIN CERTIFICATE-----" in block]


def _explained(failure: Failure, url: str) -> Any:
    if isinstance(failure.value, FetchError):
        return failure
    raise FetchError(f"{url} cannot be fetched: {type(failure.value).__name__}: {failure.value}")


async def _get(agent: Any, url: str) -> bytes:
    response = await agent.request(b"GET", url.encode("ascii"), Headers({b"Accept": [b"application/json"]}))
    if response.code != 200:
        raise FetchError(f"{url} answers {response.code}")
    collected: Deferred[bytes] = Deferred()
    response.deliverBody(_Collector(collected))
    return await collected


class _Collector(Protocol):
    """Collects a body up to :data:`MAX_OCTETS`."""

    def __init__(self, done: Deferred[bytes]) -> None:
        self._done = done
        self._octets = bytearray()

    def dataReceived(self, data: bytes) -> None:
        self._octets += data
        if len(self._octets) > MAX_OCTETS and not self._done.called:
            self._done.errback(FetchError(f"the document is larger than {MAX_OCTETS} octets"))
            transport: Any = self.transport
            transport.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._done.called:
            return
        if isinstance(reason.value, ResponseDone):
            self._done.callback(bytes(self._octets))
        else:
            self._done.errback(FetchError(f"the document ended early: {reason.value}"))
