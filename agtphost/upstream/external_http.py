"""One upstream over HTTPS: pooled connections, verified certificates, no redirects, no cookies, bounded answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IHostnameResolver
from twisted.web.http_headers import Headers

from agtphost.upstream.failures import AnswerTooLong, UpstreamLost
from agtphost.upstream.https import HTTPSClient, read
from agtphost.vocabulary.addresses import AddressPolicy

IDLE_CONNECTION = 30
"""Seconds an unused connection is kept."""

KEPT_CONNECTIONS = 8
"""Unused connections kept."""

OVERHEAD = 64 << 10
"""Octets of status lines, header fields and chunk headers that an answer may have besides its body."""

SMALL = 64 << 10
"""Octets of an error's body that are read to keep its connection; they are discarded."""

PATIENCE = 1.0
"""Seconds for the same, at most: the status is known by then, and must not turn into a timeout."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Sent once more where a kept connection turns out to be closed: they change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of an upstream."""

    status: int
    content_encoding: str
    body: bytes
    """Empty unless the status is 2xx."""


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
        self._client = HTTPSClient(
            reactor,
            trust,
            connections=KEPT_CONNECTIONS,
            idle=IDLE_CONNECTION,
            most=most + OVERHEAD,
            addresses=policy,
            resolver=resolver,
            repeats=method in SAFE,
        )

    def exchange(self, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float) -> Deferred[Answer]:
        """
        Ask, and read the answer.

        :param url: ASCII, without places.
        :param seconds: for everything.
        :return: fails with TimeoutError, :exc:`UpstreamLost` or :exc:`AnswerTooLong`.
        """
        return Deferred.fromCoroutine(self._exchange(url, headers, body, seconds)).addTimeout(seconds, self._reactor)

    async def _exchange(self, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float) -> Answer:
        fields = Headers({name: [value] for name, value in headers.items()})
        response = await self._client.request(self._method, url, fields, body)
        encodings = response.headers.getRawHeaders("content-encoding") or [""]
        octets = await self._read(response, 200 <= response.code < 300, min(PATIENCE, seconds / 4))
        return Answer(status=response.code, content_encoding=",".join(encodings).strip().lower(), body=octets)

    async def _read(self, response: Any, wanted: bool, patience: float) -> bytes:
        if self._method == "HEAD":
            return b""
        if wanted:
            return await read(response, self._most)
        with suppress(TimeoutError, AnswerTooLong, UpstreamLost):
            # The status is enough; the body is only read to keep the connection.
            await read(response, SMALL).addTimeout(patience, self._reactor)
        return b""

    def close(self) -> Deferred[Any]:
        """Close the kept connections."""
        return self._client.close()
