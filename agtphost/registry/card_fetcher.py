"""Fetches of cards from their URLs: https, 1 MiB, 10 seconds, no redirects, no address in the operator's network."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.web.http_headers import Headers
from twisted.web.iweb import IResponse

from agtphost.errors import Refusal
from agtphost.handlers.parameters import invalid
from agtphost.registry.card import MEDIA_TYPE
from agtphost.registry.endpoints import EndpointChecker, EndpointFault
from agtphost.registry.providers import Providers
from agtphost.registry.registration import FetchedCard
from agtphost.upstream.failures import AnswerTooLong, UpstreamLost
from agtphost.upstream.https import HTTPSClient, read
from agtphost.vocabulary.reasons import Reason

MAX_OCTETS = 1 << 20
TIMEOUT = 10.0
"""Seconds for one whole fetch."""

NOT_MODIFIED = 304


class NotModified(Exception):
    """The card at the URL is the one that was fetched before."""


class CardFetcher:
    """
    Fetcher of cards.

    :param endpoints: the URLs that may be fetched.
    """

    def __init__(self, reactor: Any, providers: Providers, endpoints: EndpointChecker) -> None:
        self._reactor = reactor
        self._providers = providers
        self._endpoints = endpoints

    async def __call__(self, url: str, etag: str = "") -> FetchedCard:
        """
        Fetch the card at a URL.

        :param etag: ETag of the version that is known.
        :raises Refusal: 422 if the URL may not be fetched, 503 if the fetch fails.
        :raises NotModified: the card is the known version.
        """
        try:
            self._endpoints.check(url)
        except EndpointFault as error:
            raise invalid("url", f"url {error}.", "Send the https URL of the card.") from None
        provider = self._providers.find(url)
        plain = provider is not None and provider.settings.origin.startswith("http:")
        if not url.startswith("https:") and not plain:
            raise invalid("url", "url must be an https URL.", "Send the https URL of the card.")
        client = self._providers.unlisted_client if provider is None else provider.client
        fields = {**({} if provider is None else provider.fields), "Accept": f"{MEDIA_TYPE}, application/json"}
        if etag:
            fields["If-None-Match"] = etag
        fetching = Deferred.fromCoroutine(_get(client, url, Headers({name: [value] for name, value in fields.items()})))
        fetching.addTimeout(TIMEOUT, self._reactor)
        try:
            response, octets = await fetching
        except (UpstreamLost, AnswerTooLong, TimeoutError, CancelledError) as error:
            why = f"it took longer than {TIMEOUT:g} seconds" if isinstance(error, TimeoutError) else str(error)
            raise Refusal(Reason.CARD_FETCH_FAILED, f"The card could not be fetched: {why}.") from None
        if response.code == NOT_MODIFIED and etag:
            raise NotModified
        if response.code != 200:
            raise Refusal(
                Reason.CARD_FETCH_FAILED,
                f"The card could not be fetched: its URL answered with status {response.code}.",
            )
        tags = response.headers.getRawHeaders(b"etag", [])
        tag = tags[0].decode("latin-1") if len(tags) == 1 and len(tags[0]) <= 256 else ""
        return FetchedCard(octets=octets, etag=tag if tag.isascii() and tag.isprintable() else "")


async def _get(client: HTTPSClient, url: str, fields: Headers) -> tuple[IResponse, bytes]:
    response = await client.request("GET", url, fields)
    reading = read(response, MAX_OCTETS, measured=False)
    if response.code == 200:
        return response, await reading
    # The body of an error is not a card: close the connection instead of reading it.
    reading.addErrback(lambda failure: None)
    reading.cancel()
    return response, b""
