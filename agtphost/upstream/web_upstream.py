"""
Call upstreams over HTTP: the client and the base of their services, for every protocol.

Pooled connections, verified TLS, no redirects, no cookies, everything bounded. A request is sent at most once: it may
have had its effect when its connection was lost.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, TimeoutError
from twisted.logger import LogLevel
from twisted.web.http_headers import Headers
from twisted.web.iweb import IResponse

from agtphost.config.web_upstreams import WebUpstreamSection
from agtphost.handlers.log_context import client_span
from agtphost.handlers.tracing import ClientSpan
from agtphost.upstream.bodies import AnswerBody
from agtphost.upstream.failures import AnswerTooLong, UnreadableAnswer, UpstreamLost, UpstreamRefused, UpstreamTimeout
from agtphost.upstream.https import HTTPSClient, read, trust_of
from agtphost.upstream.log import UpstreamLog
from agtphost.upstream.pins import Pins
from agtphost.upstream.service import UpstreamService, UpstreamSnapshot
from agtphost.vocabulary import jsontext

LONGEST_BODY = 16 << 20
"""Octets of one answer, or of one event of a stream."""

LONGEST_EXCHANGE = 64 << 20
"""Octets of everything that is received for one request, including header fields and streams."""

LONGEST_ERROR = 64 << 10
"""Octets of the body of an answer outside 2xx."""

WAITING_EVENTS = 32
"""Events read ahead of their taker; with more, reading pauses."""

STREAM = "text/event-stream"

Take = Callable[[bytes], Awaitable[None]]
"""Takes the data of one event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebReply:
    """An answer of 2xx."""

    status: int
    body: bytes
    """The body; empty where the answer was a stream."""

    streamed: bool = False


class WebClient:
    """
    The HTTP client for one upstream.

    :param ca: PEM file of the only authorities to trust; None means the platform's.
    :param headers: sent with every request.
    :param connections: idle ones to keep.
    """

    def __init__(self, reactor: Any, *, ca: Path | str | None, headers: Mapping[str, str], connections: int) -> None:
        self._reactor = reactor
        self._fixed = tuple(headers.items())
        self._ca = ca
        self._connections = connections
        self._client: HTTPSClient | None = None

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
    ) -> WebReply:
        """
        Send a request, and read the answer.

        :param body: JSON; None for no body.
        :param seconds: for everything.
        :param take: gets the events of a stream, one after another; without it a stream is an error.
        :param errors: whether it gets events of type ``error`` too, as :class:`~agtphost.upstream.bodies.ErrorEvent`.
        :raises agtphost.upstream.failures.UpstreamFailure: for all but a complete answer of 2xx.
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
            raise UpstreamTimeout(f"it did not answer within {seconds:.3g} s") from None

    async def close(self) -> None:
        """Close the kept connections."""
        if self._client is not None:
            await self._client.close()

    async def _exchange(
        self, method: str, url: str, fields: Headers, octets: bytes | None, take: Take | None, errors: bool
    ) -> WebReply:
        if self._client is None:
            trust = trust_of(self._ca)
            self._client = HTTPSClient(
                self._reactor, trust, addresses=None, connections=self._connections, most=LONGEST_EXCHANGE
            )
        response = await self._client.request(method, url, fields, octets)
        return await _read(response, take, errors)


async def _read(response: IResponse, take: Take | None, errors: bool) -> WebReply:
    code = int(response.code)
    kind = (response.headers.getRawHeaders("Content-Type") or [""])[0].partition(";")[0].strip().lower()
    good = 200 <= code < 300
    if good and kind == STREAM:
        reading = _EventReader(response, errors)
        if take is None:
            reading.discard()
            raise UnreadableAnswer("it answered with a stream where none was asked for")
        await reading.each(take)
        return WebReply(status=code, body=b"", streamed=True)
    if not good:
        body = b""
        with suppress(UpstreamLost, UnreadableAnswer):  # the status is enough
            body = await read(response, LONGEST_ERROR, measured=False)
        raise UpstreamRefused(code, body=body)
    body = await read(response, LONGEST_BODY, measured=False)
    if body and kind != "application/json" and not kind.endswith("+json"):
        raise UnreadableAnswer(f"it answered with the content type {kind[:64]!r}")
    return WebReply(status=code, body=body)


class _EventReader:
    """A reader of one answer that is a stream of events."""

    def __init__(self, response: IResponse, errors: bool) -> None:
        self._texts: deque[bytes] = deque()
        self._waiter: Deferred[None] | None = None
        self._ended = False
        self._reason: str | None = None
        self._paused = False
        self._answer = AnswerBody(True, self._take, self._end, LONGEST_BODY, errors=errors)
        response.deliverBody(self._answer)  # type: ignore[no-untyped-call]

    async def each(self, take: Take) -> None:
        """
        Hand each text over, as fast as they are taken.

        :raises UpstreamLost: the answer ended in its middle.
        :raises UnreadableAnswer: a text is too long.
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
                self._answer.abandon("the reader stopped")
        if self._reason is not None:
            if self._answer.was_cut:
                raise UpstreamLost(self._reason)
            raise AnswerTooLong(LONGEST_BODY) if self._answer.too_long else UnreadableAnswer(self._reason)

    def discard(self) -> None:
        """Close the stream unread."""
        self._answer.abandon("the stream is not read")

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


@dataclass(frozen=True, kw_only=True)
class WebSnapshot(UpstreamSnapshot):
    """The state of one upstream at one moment."""

    protocol: str

    def to_json(self) -> dict[str, object]:
        """Return the members for DESCRIBE."""
        return {**super().to_json(), "failures": self.calls.errors}

    def to_full_json(self) -> dict[str, object]:
        """Return everything, for operators."""
        return {**super().to_full_json(), "protocol": self.protocol.upper()}


class WebUpstream(UpstreamService):
    """
    The service of one upstream over HTTP: described at start, and again from time to time.

    Subclasses implement the description: :meth:`_establish`.

    :param protocol: ``a2a`` or ``acp``.
    :param pins: the approved definitions.
    """

    late_reason = "it did not say what it is"

    def __init__(
        self,
        reactor: Any,
        settings: WebUpstreamSection,
        protocol: str,
        pins: Pins,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        log = UpstreamLog(reactor, f"{protocol}.{settings.name}", settings.secrets(), kind="upstream")
        super().__init__(reactor, settings, protocol, log, jitter=jitter)
        headers = settings.opened_headers()
        self._http = WebClient(reactor, ca=settings.ca, headers=headers, connections=settings.max_concurrency)
        self.protocol = protocol
        self.pins = pins
        pins.on_approval = self._approval

    def snapshot(self) -> WebSnapshot:
        """Return the state for operators."""
        return WebSnapshot(protocol=self.protocol, **self.snapshot_members())

    def request_span(self, name: str) -> ClientSpan | None:
        """
        Return a span for a request that is about to be sent.

        :param name: one of the operations of its protocol.
        :return: None where the call is not traced.
        """
        return client_span(name, {"rpc.method": name, "agtp.upstream": f"{self.protocol}.{self.settings.name}"})

    @property
    @abstractmethod
    def description(self) -> object:
        """The upstream's approved description; it is another object once the description has changed."""

    @abstractmethod
    def list_pending(self) -> Mapping[str, str]:
        """Return the digests of what is off until it is approved, by name."""

    def _approval(self) -> None:
        """Attempt again, since an operator approved something that is off."""
        self.attempt_again()

    def _note_up(self, *, first: bool) -> None:
        if first:
            self._log.event("up", LogLevel.info)
        self._schedule(self.settings.refresh, self._attempt_now)

    def _wait_until_ended(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._http.close())
