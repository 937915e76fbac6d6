"""Fetch documents over HTTPS: bounded, verified, never redirected."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from agtphost.upstream.https import HTTPSClient, read, trust_of
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.addresses import AddressPolicy
from agtphost.vocabulary.foreign_errors import explain

MAX_OCTETS = 1 << 20
TIMEOUT = 10.0
"""Seconds for one whole fetch."""


class FetchError(Exception):
    """A failed fetch; the message says why, for the operator."""


class Fetcher:
    """
    A client that fetches documents.

    :param ca: PEM file with the authorities to trust; None for the platform's.
    :param foreign: the addresses that may be reached if a document names them; the operator's own URLs may be anywhere.
    :raises OSError, ValueError: the file cannot be read.
    """

    def __init__(self, reactor: Any, ca: Path | None = None, foreign: AddressPolicy | None = None) -> None:
        self._reactor = reactor
        trust = trust_of(ca)
        self._own = HTTPSClient(reactor, trust, addresses=None)
        self._foreign = HTTPSClient(reactor, trust, addresses=foreign or AddressPolicy())

    def __call__(self, url: str) -> Deferred[bytes]:
        """Return the document of a URL that the operator named; fails with :class:`FetchError`."""
        return self._fetch(self._own, url)

    async def key_set(self, discovery: str, issuer: str) -> bytes:
        """
        Return the key set of an issuer, found by its discovery document.

        The document names the keys' URL. Outside the document's own origin, that URL may not be within the operator's
        network.

        :param discovery: named by the operator.
        :raises FetchError, ValueError: the issuer has no key set.
        """
        document = jsontext.decode(await self(discovery))
        if not isinstance(document, dict) or document.get("issuer") != issuer:
            raise FetchError(f"{discovery} is not the discovery document of {issuer}")
        url = document.get("jwks_uri")
        if not isinstance(url, str) or not url.startswith("https://"):
            raise FetchError(f"{discovery} has no jwks_uri that begins with https://")
        same = urlsplit(url)[:2] == urlsplit(discovery)[:2]
        return await self._fetch(self._own if same else self._foreign, url)

    def _fetch(self, client: HTTPSClient, url: str) -> Deferred[bytes]:
        fetching = Deferred.fromCoroutine(_get(client, url))
        return fetching.addTimeout(TIMEOUT, self._reactor).addErrback(_explain, url)


def _explain(failure: Failure, url: str) -> Any:
    error = failure.value
    if error is None or isinstance(error, FetchError):
        return failure
    raise FetchError(f"{url} cannot be fetched: {explain(error)}") from error


async def _get(client: HTTPSClient, url: str) -> bytes:
    response = await client.request("GET", url, Headers({b"Accept": [b"application/json"]}))
    if response.code != 200:
        raise FetchError(f"{url} answered HTTP {response.code}, not 200; check the URL")
    return await read(response, MAX_OCTETS)
