"""Fetching a bootstrap document with the Twisted client: one bounded GET, nothing followed, everything verified."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.web.http_headers import Headers

from agtphost.client.bootstrap import MAX_OCTETS, PATH, BootstrapPolicy, HTTPAnswer
from agtphost.client.tls import TLSSettings
from agtphost.upstream.https import HTTPSClient, read, trust_of
from agtphost.vocabulary.foreign_errors import explain


class BootstrapFetcher:
    """
    Asks domains over HTTPS.

    :param settings: whose ``trust`` is that of the AGTP connections too; the client certificate is never shown.
    """

    def __init__(self, reactor: Any, settings: TLSSettings, policy: BootstrapPolicy) -> None:
        self._policy = policy
        self._reactor = reactor
        self._client = HTTPSClient(reactor, trust_of(settings.trust), addresses=policy.addresses)

    async def ask(self, domain: str) -> HTTPAnswer | str:
        """Return what the domain answers, or why it does not: never raises, because it is only advice."""
        asking: Deferred[HTTPAnswer] = Deferred.fromCoroutine(self._get(domain))
        asking.addTimeout(self._policy.timeout, self._reactor)
        try:
            return await asking
        except Exception as error:
            return explain(error)

    async def _get(self, domain: str) -> HTTPAnswer:
        port = "" if self._policy.port == 443 else f":{self._policy.port}"
        url = f"https://{domain}{port}{PATH}"
        response = await self._client.request("GET", url, Headers({b"Accept": [b"application/json"]}))
        values = response.headers.getRawHeaders(b"cache-control") or []
        return HTTPAnswer(
            status=response.code,
            cache_control=b", ".join(values).decode("latin-1") or None,
            body=await read(response, MAX_OCTETS),
        )
