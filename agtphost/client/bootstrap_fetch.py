"""Fetching a bootstrap document with the Twisted client: one bounded GET, nothing followed, everything verified."""

from __future__ import annotations

from typing import Any

from cryptography import x509
from OpenSSL import crypto
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import Certificate, trustRootFromCertificates
from twisted.python.failure import Failure
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool, ResponseDone
from twisted.web.http_headers import Headers

from agtphost.client.bootstrap import MAX_OCTETS, PATH, BootstrapPolicy, HTTPAnswer
from agtphost.client.tls import TLSSettings


class BootstrapFetcher:
    """
    Asks domains over HTTPS.

    :param settings: whose ``trust`` is that of the AGTP connections too; the client certificate is never shown.
    """

    def __init__(self, reactor: Any, settings: TLSSettings, policy: BootstrapPolicy) -> None:
        self._policy = policy
        self._reactor = reactor
        pool = HTTPConnectionPool(reactor, persistent=False)  # type: ignore[no-untyped-call]
        verification = _verification(settings)
        self._agent = Agent(reactor, verification, policy.timeout, pool=pool)  # type: ignore[no-untyped-call]

    async def ask(self, domain: str) -> HTTPAnswer | str:
        """What the domain answers, or why it does not: never raises, because it is only advice."""
        asking: Deferred[HTTPAnswer] = Deferred.fromCoroutine(self._get(domain))
        asking.addTimeout(self._policy.timeout, self._reactor)
        try:
            return await asking
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    async def _get(self, domain: str) -> HTTPAnswer:
        port = "" if self._policy.port == 443 else f":{self._policy.port}"
        url = f"https://{domain}{port}{PATH}".encode("ascii")
        response = await self._agent.request(b"GET", url, Headers({b"Accept": [b"application/json"]}))
        collected: Deferred[bytes] = Deferred()
        response.deliverBody(_Collector(collected))  # type: ignore[no-untyped-call]
        values = response.headers.getRawHeaders(b"cache-control") or []
        return HTTPAnswer(
            status=response.code,
            cache_control=b", ".join(values).decode("latin-1") or None,
            body=await collected,
        )


def _verification(settings: TLSSettings) -> BrowserLikePolicyForHTTPS:
    if settings.trust is None:
        return BrowserLikePolicyForHTTPS()  # type: ignore[no-untyped-call]
    authorities = [
        Certificate(crypto.X509.from_cryptography(found))  # type: ignore[no-untyped-call]
        for found in x509.load_pem_x509_certificates(settings.trust.read_bytes())
    ]
    root = trustRootFromCertificates(authorities)  # type: ignore[no-untyped-call]
    return BrowserLikePolicyForHTTPS(root)  # type: ignore[no-untyped-call]


class _Collector(Protocol):
    """Collects a body, as long as it is of a size that a document has."""

    def __init__(self, done: Deferred[bytes]) -> None:
        self._done = done
        self._octets = b""

    def dataReceived(self, data: bytes) -> None:
        self._octets += data
        if len(self._octets) > MAX_OCTETS and self.transport is not None:
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if len(self._octets) > MAX_OCTETS:
            self._done.errback(ValueError(f"the document has more than {MAX_OCTETS} octets"))
        elif isinstance(reason.value, ResponseDone):
            self._done.callback(self._octets)
        else:
            self._done.errback(reason)
