"""Documents fetched over HTTPS on the operator's word: bounded, verified, never redirected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from agtphost.upstream.https import HTTPSClient, read, trust_of

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
    :raises OSError, ValueError: the file cannot be read.
    """
    client = HTTPSClient(reactor, trust_of(ca))

    def fetch(url: str) -> Deferred[bytes]:
        fetching = Deferred.fromCoroutine(_get(client, url))
        return fetching.addTimeout(TIMEOUT, reactor).addErrback(_explained, url)

    return fetch


def _explained(failure: Failure, url: str) -> Any:
    if isinstance(failure.value, FetchError):
        return failure
    raise FetchError(f"{url} cannot be fetched: {type(failure.value).__name__}: {failure.value}")


async def _get(client: HTTPSClient, url: str) -> bytes:
    response = await client.request("GET", url, Headers({b"Accept": [b"application/json"]}))
    if response.code != 200:
        raise FetchError(f"{url} answers {response.code}")
    return await read(response, MAX_OCTETS)
