"""Vectors from an embeddings service with OpenAI's interface: ``POST`` of ``model`` and ``input``."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.logger import Logger
from twisted.web.http_headers import Headers
from zope.interface import implementer

from agtphost.iagtp import IEmbedder
from agtphost.search.engine import EmbedderError
from agtphost.upstream.failures import AnswerTooLong, UpstreamLost
from agtphost.upstream.https import HTTPSClient, read
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.addresses import AddressPolicy

log = Logger()

AT_ONCE = 64
"""Texts of one request."""

LARGEST = 16 * 1024 * 1024
"""Octets of one answer; 64 vectors of 4,096 numbers fit."""

MOST_NUMBERS = 8_192
"""Numbers of one vector."""


@implementer(IEmbedder)
class RemoteEmbedder:
    """
    Client of one embeddings service. It gets descriptions of what is hosted, and queries; the operator configured it.

    :param url: URL of the embeddings, such as ``https://models.example/v1/embeddings``; ``http`` only on loopback.
    :param model: the name of its model.
    :param headers: header fields of every request, including its key.
    :param trust: see :func:`agtphost.upstream.https.trust_of`.
    :param allowed: networks that it may be in, in addition to public ones.
    :param run: calls a function in a thread.
    """

    engine = "http"

    def __init__(
        self,
        reactor: Any,
        run: Callable[..., Awaitable[Any]],
        *,
        url: str,
        model: str,
        headers: Mapping[str, str],
        trust: Any,
        allowed: Sequence[Any] = (),
        timeout: float = 10.0,
    ) -> None:
        policy = None if urlsplit(url).scheme == "http" else AddressPolicy(allowed)
        self._client = HTTPSClient(reactor, trust, addresses=policy, connections=2, repeats=True)
        self._reactor = reactor
        self._run = run
        self._url = url
        self._model = model
        self._timeout = timeout
        self._headers = Headers({"content-type": ["application/json"], "accept": ["application/json"]})
        for name, value in headers.items():
            self._headers.setRawHeaders(name, [value])
        self.name = f"http:{url}:{model}"
        self.dimensions = 0

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        found: list[bytes] = []
        for start in range(0, len(texts), AT_ONCE):
            found += await self._some(texts[start : start + AT_ONCE])
        return found

    async def _some(self, texts: Sequence[str]) -> list[bytes]:
        body = json.dumps({"model": self._model, "input": list(texts), "encoding_format": "float"}).encode()
        asking: Deferred[tuple[int, bytes]] = Deferred.fromCoroutine(self._post(body))
        asking.addTimeout(self._timeout, self._reactor)
        try:
            status, octets = await asking
        except (TimeoutError, CancelledError):
            raise EmbedderError(f"the embeddings service did not answer within {self._timeout:g} s") from None
        except AnswerTooLong:
            raise EmbedderError("the answer of the embeddings service is too long") from None
        except UpstreamLost as error:
            raise EmbedderError(f"the embeddings service: {error}") from None
        if status != 200:
            raise EmbedderError(f"the embeddings service answered {status}")
        vectors: list[bytes] = await self._run(_read, octets, len(texts))
        self.dimensions = len(vectors[0]) // 4
        return vectors

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        response = await self._client.request("POST", self._url, self._headers, body)
        return response.code, await read(response, LARGEST, measured=False)

    def close(self) -> None:
        closing = self._client.close()
        closing.addErrback(lambda failure: log.failure("connections were not closed", failure=failure))


def _read(octets: bytes, count: int) -> list[bytes]:
    """
    Return the vectors of an answer, ordered by ``index``.

    :raises EmbedderError: the answer does not have that many vectors.
    """
    try:
        data = jsontext.decode(octets)["data"]
        rows = {entry.get("index", place): entry["embedding"] for place, entry in enumerate(data)}
        return [_unit(rows[place]) for place in range(count)]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise EmbedderError("the answer of the embeddings service has no valid embeddings") from None


def _unit(numbers: Sequence[float]) -> bytes:
    if not isinstance(numbers, list) or not 1 <= len(numbers) <= MOST_NUMBERS:
        raise ValueError
    length = math.sqrt(math.fsum(number * number for number in numbers))
    if not math.isfinite(length):
        raise ValueError
    vector = array("f", (number / length if length else 0.0 for number in numbers))
    return vector.tobytes()
