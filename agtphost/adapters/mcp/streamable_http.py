"""
The Streamable HTTP transport, in both eras.

Every message is a separate POST. The answer to a request comes as JSON, or as the last event of a stream that belongs
to that request. In the handshake era (to 2025-11-25) the server may give an ``Mcp-Session-Id`` that every later message
carries; in the stateless one (from 2026-07-28) headers mirror the method and name, and closing the stream cancels a
call.

The link is lost when the server cannot be reached, or forgets the session: then the supervisor negotiates again. A call
is never sent twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import LogLevel
from twisted.web.http_headers import Headers
from twisted.web.iweb import IResponse

from agtphost.adapters.mcp.links import HeaderPairs, Message, Receiver
from agtphost.adapters.mcp.long_lines import find_call_id
from agtphost.adapters.mcp.token_source import TokenSource
from agtphost.upstream.bodies import MAX_MESSAGE, AnswerBody
from agtphost.upstream.failures import (
    AnswerTooLong,
    UnreadableAnswer,
    UpstreamBusy,
    UpstreamFailure,
    UpstreamLost,
    UpstreamRefused,
)
from agtphost.upstream.https import HTTPSClient
from agtphost.upstream.log import UpstreamLog
from agtphost.upstream.throttle import ReadThrottle
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain

STATELESS_FROM = "2026-07-28"
"""The first version without sessions. Only known versions reach a link, so text order is date order."""

LINGER = 1.0
"""Seconds a stream may stay open after its answer."""

RESUMPTIONS = 10
"""Times that the stream of one call is resumed in a row without an event."""

RETRY = 1.0
SHORTEST_RETRY = 0.05
LONGEST_RETRY = 30.0
"""Seconds before a stream is resumed: the default, the least, and the most."""

ANSWERS_AT_ONCE = 16
"""Answers to requests of the server that are being sent; further requests get no answer."""

UNANSWERED_SECONDS = 10.0
"""Seconds within which a server has to take a message that gets no answer."""

OPEN_SECONDS = 1.0
"""Seconds that the first calls wait for the server's own stream to open."""

DELETE_SECONDS = 2.0
"""Seconds for the DELETE that ends a session."""


class _Post:
    """A POST that is being sent or answered."""

    __slots__ = ("answer", "answered", "answers", "call_id", "deferred", "last_id", "pause", "throttle")

    def __init__(self, call_id: int | None) -> None:
        self.call_id = call_id
        self.answered = False
        self.answers = False
        """Whether it answers a request of the server."""

        self.answer: AnswerBody | None = None
        self.throttle: ReadThrottle | None = None
        self.deferred: Deferred[None] | None = None
        self.last_id = ""
        self.pause: Deferred[None] | None = None


class HttpLink:
    """
    A link to one Streamable HTTP endpoint.

    :param clock: for the time limits of streams.
    :param receiver: takes messages and the end.
    :param client: sends requests; its connections are closed with the link.
    :param url: the endpoint.
    :param headers: sent with every request, such as a bearer token.
    :param log: gets refusals.
    :param bearer: the current token; None where ``headers`` have what the server needs.
    """

    pid = None
    takes_headers = True

    def __init__(
        self,
        clock: IReactorTime,
        receiver: Receiver,
        client: HTTPSClient,
        url: str,
        headers: Mapping[str, str],
        log: UpstreamLog,
        bearer: TokenSource | None = None,
    ) -> None:
        self._bearer = bearer
        self._clock = clock
        self._receiver = receiver
        self._client = client
        self._url = url
        self._log = log
        self._fixed = [(name, value) for name, value in headers.items()]
        self._version = ""
        self._session: str | None = None
        self._posts: set[_Post] = set()
        self._lost = False
        self._closed: Deferred[None] | None = None
        self._garbage = 0
        self._answering = 0
        self._held_back: list[Deferred[None]] | None = None  # calls that wait for the server's own stream
        self._open_timer: IDelayedCall | None = None

    def facts(self) -> Mapping[str, object]:
        """Return the counts of unreadable messages and of open POSTs; never the session's id."""
        return {"garbage": self._garbage, "posts": len(self._posts)}

    def set_version(self, version: str) -> None:
        """Name the version in every later message, and open the server's own stream."""
        self._version = version
        if not self._stateless and self._session is not None:
            # A server that sends messages outside of calls uses one stream for them. What it sends before that stream
            # is open is lost, including questions of the first call.
            self._held_back = []
            self._open_timer = self._clock.callLater(OPEN_SECONDS, self._release_calls)
            post = _Post(None)
            self._posts.add(post)
            post.deferred = Deferred.fromCoroutine(self._keep_open(post))
            post.deferred.addErrback(lambda _: self._posts.discard(post))
            post.deferred.addBoth(lambda _: self._release_calls())

    def send(self, message: Message, headers: HeaderPairs = ()) -> None:
        """Send a message; see :class:`agtphost.adapters.mcp.links.McpLink`."""
        if self._lost:
            raise UpstreamLost("the link was closed")
        if message.get("method") == "notifications/cancelled":
            self._cancel(message["params"]["requestId"])
            if self._stateless:
                return
        body = jsontext.encode(message)
        post = _Post(message["id"] if "method" in message and "id" in message else None)
        if "method" not in message:
            # Each is a separate request, and the server decides how many there are.
            if self._answering >= ANSWERS_AT_ONCE:
                raise UpstreamBusy("the server asks faster than it takes answers")
            self._answering += 1
            post.answers = True
        fields = self._headers(headers)
        self._posts.add(post)
        post.deferred = Deferred.fromCoroutine(self._exchange(post, fields, body))
        if post.call_id is None:
            # A call has a deadline; other messages have none.
            unheard = self._clock.callLater(UNANSWERED_SECONDS, self._drop, post)
            post.deferred.addBoth(self._finish_post, post, unheard)
        post.deferred.addErrback(partial(self._take_failure, post))

    def close(self) -> Deferred[None]:
        """End every stream and the session."""
        if self._closed is None:
            self._closed = Deferred.fromCoroutine(self._end_session())
        waiter: Deferred[None] = Deferred()
        self._closed.addBoth(lambda _: waiter.callback(None))
        return waiter

    def abort(self, reason: str) -> None:
        """Fail every call now and drop the endpoint."""
        self._end(UpstreamLost(reason))

    @property
    def _stateless(self) -> bool:
        return self._version >= STATELESS_FROM

    def _headers(self, extra: HeaderPairs) -> Headers:
        fields = Headers()
        for name, value in self._fixed:
            fields.addRawHeader(name, value)
        if self._bearer is not None:
            fields.setRawHeaders("Authorization", [f"Bearer {self._bearer.token}"])
        fields.setRawHeaders("Content-Type", ["application/json"])
        fields.setRawHeaders("Accept", ["application/json, text/event-stream"])
        if self._session is not None:
            fields.setRawHeaders("Mcp-Session-Id", [self._session])
        if self._version:
            fields.setRawHeaders("MCP-Protocol-Version", [self._version])
        for name, value in extra:
            fields.setRawHeaders(name, [value])
        return fields

    async def _exchange(self, post: _Post, fields: Headers, body: bytes) -> None:
        if self._bearer is not None and not self._bearer.token:
            await self._bearer.ready()
            fields.setRawHeaders("Authorization", [f"Bearer {self._bearer.token}"])
        if post.call_id is not None and self._held_back is not None:
            turn: Deferred[None] = Deferred()
            self._held_back.append(turn)
            await turn
        response = await self._client.request("POST", self._url, fields, body)
        self._note_session(response)
        if not 200 <= response.code < 300:
            await self._take_refusal(post, response)
        elif post.call_id is None:
            await self._read_body(response, post, lambda _: None)
        elif response.code == 202:
            raise UpstreamRefused(202, "the server accepted a request but will not answer it")
        else:
            await self._read_body(response, post, partial(self._take_text, post))
            await self._resume(post)
        if post.call_id is not None and not post.answered:
            streamed = post.answer is not None and post.answer.stream
            why = "the answer ended without a result"
            self._receiver.fail_call(post.call_id, UpstreamLost(why) if streamed else UnreadableAnswer(why))
        self._posts.discard(post)

    async def _resume(self, post: _Post) -> None:
        """
        Resume a stream that ended before the answer came (2025-11-25, transports, Resumability and Redelivery).

        The request itself is never repeated. The call's deadline, or its cancellation, ends the attempts.
        """
        tries = 0
        while not post.answered and not self._lost and post.last_id and tries < RESUMPTIONS:
            before = post.last_id
            answer = post.answer
            wait = RETRY if answer is None or answer.retry is None else answer.retry
            await self._pause(post, min(max(wait, SHORTEST_RETRY), LONGEST_RETRY))
            if post.answered:
                return
            fields = self._headers((("Last-Event-ID", before),))
            fields.removeHeader("Content-Type")
            fields.setRawHeaders("Accept", ["text/event-stream"])
            response = await self._client.request("GET", self._url, fields)
            if response.code != 200:
                await self._read_body(response, post, lambda _: None, limit=65536, final=False)
                return
            await self._read_body(response, post, partial(self._take_text, post), final=False)
            tries = 0 if post.last_id != before else tries + 1

    async def _keep_open(self, post: _Post) -> None:
        """Keep the server's own stream open, and reopen it as often as needed."""
        while not self._lost:
            fields = self._headers((("Last-Event-ID", post.last_id),) if post.last_id else ())
            fields.removeHeader("Content-Type")
            fields.setRawHeaders("Accept", ["text/event-stream"])
            response = await self._client.request("GET", self._url, fields)
            self._release_calls()
            kind = (response.headers.getRawHeaders("Content-Type") or [""])[0].lower()
            if response.code != 200 or not kind.startswith("text/event-stream"):
                await self._read_body(response, post, lambda _: None, limit=65536, final=False)
                break
            await self._read_body(response, post, partial(self._take_text, post), final=False)
            retry = None if post.answer is None else post.answer.retry
            await self._pause(post, min(max(retry or RETRY, RETRY), LONGEST_RETRY))
        self._posts.discard(post)

    def _release_calls(self) -> None:
        """Send the calls that wait: the stream is open, or there is none, or the server takes too long."""
        held_back, self._held_back = self._held_back or [], None
        timer, self._open_timer = self._open_timer, None
        if timer is not None and timer.active():
            timer.cancel()
        for turn in held_back:
            turn.callback(None)

    async def _pause(self, post: _Post, seconds: float) -> None:
        post.pause = deferLater(self._clock, seconds)
        try:
            await post.pause
        finally:
            post.pause = None

    def _note_session(self, response: IResponse) -> None:
        given = response.headers.getRawHeaders("Mcp-Session-Id")
        if given and self._session is None and not self._stateless and 0 < len(given[0]) <= 1024:
            self._session = given[0]

    async def _take_refusal(self, post: _Post, response: IResponse) -> None:
        texts: list[bytes] = []
        await self._read_body(response, post, texts.append, limit=65536)
        if post.call_id is None:
            self._log.say(f"refused a notification with HTTP {response.code}")
            return
        post.answered = True
        if response.code == 401 and self._bearer is not None:
            self._bearer.drop_token()
        if response.code == 404 and self._session is not None:
            self._session = None
            self._end(UpstreamLost("the server forgot the session"))
            return
        error = _rpc_error(texts)
        if error is not None:
            # The body has no id, or a foreign one, where the refusal came before parsing.
            self._receiver.take_message({"jsonrpc": "2.0", "id": post.call_id, "error": error})
            return
        refusal = UpstreamRefused(response.code, f"the server refused the request with HTTP {response.code}")
        self._receiver.fail_call(post.call_id, refusal)

    async def _read_body(
        self, response: IResponse, post: _Post, take: Any, limit: int = 0, *, final: bool = True
    ) -> None:
        kind = (response.headers.getRawHeaders("Content-Type") or [""])[0].partition(";")[0].strip().lower()
        stream = kind == "text/event-stream"
        expected = stream or kind == "application/json" or post.call_id is None
        if 200 <= response.code < 300 and not expected:
            raise UpstreamRefused(response.code, f"the server answered with {kind[:64] or 'no'} content type")
        ended: Deferred[str | None] = Deferred()
        post.answer = answer = AnswerBody(stream, take, ended.callback, limit or MAX_MESSAGE)
        response.deliverBody(answer)  # type: ignore[no-untyped-call]
        reason = await ended
        post.last_id = answer.last_id or post.last_id
        if not final or (answer.was_cut and post.last_id and not post.answered and not self._stateless):
            # The stream can be resumed from its last event.
            return
        if reason is not None and post.call_id is not None and not post.answered:
            post.answered = True
            ending: UpstreamFailure = UpstreamLost(reason) if answer.was_cut else UnreadableAnswer(reason)
            if answer.too_long:
                ending = AnswerTooLong(limit or MAX_MESSAGE)
            self._receiver.fail_call(post.call_id, ending)

    def _take_text(self, post: _Post, octets: bytes) -> None:
        """Process one JSON text of an answer."""
        try:
            message = jsontext.decode(octets)
        except ValueError as error:
            self._garbage += 1
            # A single text that came for a call is that call's answer, readable or not.
            alone = post.answer is not None and not post.answer.stream
            if post.call_id is not None and (alone or find_call_id(octets) == post.call_id):
                post.answered = True
                refusal = UnreadableAnswer(f"the server's answer is refused: {error}")
                self._receiver.fail_call(post.call_id, refusal)
            else:
                self._log.say(f"sent an event that is not a message: {octets[:200].decode('utf-8', 'replace')}")
            return
        if self._receiver.take_message(message, post.call_id):
            post.answered = True
            self._clock.callLater(LINGER, self._close_overstayed, post)
        elif post.answer is not None:
            if post.throttle is None:
                post.throttle = ReadThrottle(self._clock, post.answer.pause, post.answer.resume)
            post.throttle.spend(len(octets))

    def _finish_post(self, result: Any, post: _Post, unheard: IDelayedCall) -> Any:
        if unheard.active():
            unheard.cancel()
        self._answering -= post.answers
        return result

    def _close_overstayed(self, post: _Post) -> None:
        if post in self._posts and post.answer is not None:
            post.answer.abandon("the stream stayed open after its answer")

    def _cancel(self, call_id: object) -> None:
        for post in list(self._posts):
            if post.call_id == call_id:
                self._drop(post)

    def _drop(self, post: _Post) -> None:
        post.answered = True
        self._posts.discard(post)
        if post.pause is not None:
            post.pause.cancel()
        elif post.answer is not None:
            post.answer.abandon("the call was given up")
        elif post.deferred is not None:
            post.deferred.cancel()

    def _take_failure(self, post: _Post, failure: Any) -> None:
        """Fail the call of a POST that ended with an exception."""
        self._posts.discard(post)
        error = failure.value
        if self._lost or (isinstance(error, CancelledError) and post.answered):
            return
        if isinstance(error, UpstreamRefused):
            if post.call_id is not None:
                self._receiver.fail_call(post.call_id, error)
            return
        if isinstance(error, UpstreamLost):
            reason = str(error)
        else:
            reason = f"the request failed: {explain(error)[:200]}"
        self._log.say(reason, LogLevel.warn)
        if isinstance(error, UpstreamLost) and not error.sent:
            self._end(UpstreamLost(reason))
        elif post.call_id is not None:
            self._receiver.fail_call(post.call_id, UpstreamLost(reason))

    def _end(self, failure: UpstreamLost) -> None:
        if self._lost:
            return
        self._lost = True
        for post in list(self._posts):
            self._drop(post)
        self._receiver.fail_all(failure)

    async def _end_session(self) -> None:
        if self._bearer is not None:
            self._bearer.stop()
        session, self._session = self._session, None
        fields = self._headers((("Mcp-Session-Id", session),)) if session is not None else None
        self._end(UpstreamLost("the host closed the link"))
        if fields is not None:
            fields.removeHeader("Content-Type")
            request = Deferred.fromCoroutine(self._client.request("DELETE", self._url, fields))
            request.addTimeout(DELETE_SECONDS, self._clock)
            try:
                await request
            except Exception as error:
                # The session then ends with its time-out; nothing depends on this request.
                self._log.say(f"the session was not ended: {explain(error)[:200]}")
        await self._client.close()


def _rpc_error(texts: list[bytes]) -> dict[str, Any] | None:
    try:
        body = jsontext.decode(texts[0]) if texts else None
    except ValueError:
        return None
    error = body.get("error") if type(body) is dict else None
    return error if type(error) is dict and "code" in error else None
