"""Send one HTTP answer message by message (SSE), and notice clients that leave before its end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from agtphost.http.bounded_request import BoundedRequest
from agtphost.protocols.limits import UNREAD

PING = 15.0
"""Seconds of silence after which a comment line is sent, so that proxies do not close the stream."""


JSON_FIELDS = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))


def _do_nothing() -> None:
    """Do nothing at all."""


class EventStreamAnswer:
    """
    A stream of messages that answers one HTTP request; a client that does not read is disconnected.

    :param beats: keep it open while it is silent.
    :param left: called once, when the client left or was disconnected.
    """

    def __init__(self, request: BoundedRequest, beats: Heartbeats, left: Callable[[], None] = _do_nothing) -> None:
        self._request = request
        self._on_leave = left
        self._beats = beats
        self._unread = 0
        self._paused = False
        self.has_begun = False
        self.has_ended = False
        request.on_disconnect = self._leave

    def begin(self, *fields: tuple[str, str]) -> None:
        """Begin the stream, even if it stays without messages."""
        if self.has_begun or self.has_ended:
            return
        self.has_begun = True
        everything = (("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache, no-transform"))
        for name, value in (*everything, ("X-Accel-Buffering", "no"), *fields):
            self._request.responseHeaders.put(name, value)
        self._request.registerProducer(self, True)  # type: ignore[no-untyped-call]
        self._request.write(b"")  # type: ignore[no-untyped-call]
        self._beats.add(self)

    def keep_open(self) -> None:
        """Break the silence, so that no proxy closes the connection: an answer that has not begun becomes a stream."""
        if not self.has_begun:
            self.begin()
        elif not self.has_ended:
            self._write(b": ping\r\n\r\n")
            if not self.has_ended:
                self._beats.add(self)

    def send(self, message: bytes, key: str = "", *, retry: int = 0) -> None:
        """
        Send one message.

        :param key: its id; empty: it has none.
        :param retry: milliseconds after which its client may come back; 0: not sent.
        """
        self.begin()
        self._write(_event(message, key, retry))

    def finish(self, message: bytes = b"", key: str = "") -> None:
        """
        End the stream.

        :param message: the last one; empty: there is none.
        :param key: its id.
        """
        if message:
            self.begin()
        event = _event(message, key) if message else b""
        if self._paused and event:
            self._write(event)  # this may have been too much for a client that reads slowly
            event = b""
        if not self.has_ended:
            self._end()
            if self.has_begun:
                self._request.unregisterProducer()  # type: ignore[no-untyped-call]
                self._request.end_stream(event)

    def answer(self, status: int, octets: bytes, *fields: tuple[str, str]) -> None:
        """Answer with one message of JSON instead of a stream that has not begun."""
        if not self.has_ended:
            self._end()
            self._request.answer(status, (*JSON_FIELDS, *fields), octets)

    def _write(self, octets: bytes) -> None:
        if self.has_ended:
            return
        if self._paused and self._unread > UNREAD:
            self._request.loseConnection()  # type: ignore[no-untyped-call]
            self._leave()
            return
        self._unread = self._unread + len(octets) if self._paused else 0
        self._request.write(octets)  # type: ignore[no-untyped-call]

    def _leave(self) -> None:
        if not self.has_ended:
            left = self._on_leave
            self._end()
            left()

    def _end(self) -> None:
        self.has_ended = True
        self._on_leave = _do_nothing  # it may refer to this stream
        self._beats.remove(self)

    # IPushProducer

    def pauseProducing(self) -> None:
        """Count octets from now on, since the client reads slowly."""
        self._paused = True

    def resumeProducing(self) -> None:
        """Stop counting octets, since the client has caught up."""
        self._paused, self._unread = False, 0

    def stopProducing(self) -> None:
        """End the stream, since the client is gone."""
        self._leave()


def _event(message: bytes, key: str, retry: int = 0) -> bytes:
    """Return a message as an event; see :meth:`EventStreamAnswer.send`."""
    named = f"id: {key}\r\n".encode() if key else b""
    again = f"retry: {retry}\r\n".encode() if retry else b""
    kind = b"event: message\r\n" if message else b""
    return kind + named + again + b"data: " + message + b"\r\n\r\n"


class Heartbeats:
    """
    A table of answers that are not complete, which are kept open every :data:`PING` seconds.

    There is one timer for all of them, since nearly all end long before.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self.clock = clock
        self._due: OrderedDict[EventStreamAnswer, float] = OrderedDict()  # the oldest first
        self._timer: IDelayedCall | None = None

    def add(self, stream: EventStreamAnswer) -> None:
        """Keep an answer open from now on."""
        self._due.pop(stream, None)
        self._due[stream] = self.clock.seconds() + PING
        if self._timer is None:
            self._timer = self.clock.callLater(PING, self._beat)

    def remove(self, stream: EventStreamAnswer) -> None:
        """Remove an answer, which has ended."""
        self._due.pop(stream, None)

    def clear(self) -> None:
        """Remove all answers and stop the timer."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        self._timer, now = None, self.clock.seconds()
        silent = [stream for stream, due in self._due.items() if due <= now]
        for stream in silent:
            del self._due[stream]
        if self._due:
            self._timer = self.clock.callLater(next(iter(self._due.values())) - now, self._beat)
        for stream in silent:
            stream.keep_open()
