"""Send one HTTP answer message by message (SSE), and notice clients that leave before its end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall

from agtphost.http.bounded_request import BoundedRequest
from agtphost.protocols.limits import UNREAD

PING = 15.0
"""Seconds of silence after which a comment line is sent, so that proxies do not close the stream."""


def _do_nothing() -> None:
    """Do nothing at all."""


class EventStreamAnswer:
    """
    A stream of messages that answers one HTTP request; a client that does not read is disconnected.

    :param left: called once, when the client left or was disconnected.
    """

    def __init__(self, request: BoundedRequest, clock: IReactorTime, left: Callable[[], None] = _do_nothing) -> None:
        self._request = request
        self._on_leave = left
        self._clock = clock
        self._pinging: LoopingCall | None = None
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
            self._request.responseHeaders.setRawHeaders(name, [value])
        self._request.registerProducer(self, True)  # type: ignore[no-untyped-call]
        self._request.write(b"")  # type: ignore[no-untyped-call]
        self._pinging = LoopingCall(self._write, b": ping\r\n\r\n")
        self._pinging.clock = self._clock
        self._pinging.start(PING, now=False)

    def send(self, message: bytes, key: str = "", *, retry: int = 0) -> None:
        """
        Send one message.

        :param key: its id; empty: it has none.
        :param retry: milliseconds after which its client may come back; 0: not sent.
        """
        self.begin()
        named = f"id: {key}\r\n".encode() if key else b""
        again = f"retry: {retry}\r\n".encode() if retry else b""
        kind = b"event: message\r\n" if message else b""
        self._write(kind + named + again + b"data: " + message + b"\r\n\r\n")

    def finish(self) -> None:
        """End the stream."""
        if not self.has_ended:
            self.has_ended = True
            self._on_leave = _do_nothing
            self._stop_pings()
            if self.has_begun:
                self._request.unregisterProducer()  # type: ignore[no-untyped-call]
                self._request.finish()  # type: ignore[no-untyped-call]

    def answer(self, octets: bytes) -> None:
        """Answer with these octets instead of a stream that has not begun; the head is set already."""
        if not self.has_ended:
            self.has_ended = True
            self._on_leave = _do_nothing  # it may refer to this stream
            self._request.complete(octets)

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
            self.has_ended = True
            self._stop_pings()
            self._on_leave()

    def _stop_pings(self) -> None:
        if self._pinging is not None and self._pinging.running:
            self._pinging.stop()

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


class SilentAnswers:
    """
    A table of answers that have not begun: one that takes longer than :data:`PING` becomes a stream.

    There is one timer for all of them, since nearly all end long before.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._due: OrderedDict[EventStreamAnswer, float] = OrderedDict()  # the oldest first
        self._timer: IDelayedCall | None = None

    def add(self, stream: EventStreamAnswer) -> None:
        """Add an answer to the table."""
        self._due[stream] = self._clock.seconds() + PING
        if self._timer is None:
            self._timer = self._clock.callLater(PING, self._begin_late)

    def remove(self, stream: EventStreamAnswer) -> None:
        """Remove an answer, which does not need to become a stream any more."""
        self._due.pop(stream, None)

    def clear(self) -> None:
        """Remove all answers and stop the timer."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin_late(self) -> None:
        self._timer, now = None, self._clock.seconds()
        while self._due:
            stream, due = next(iter(self._due.items()))
            if due > now:
                self._timer = self._clock.callLater(due - now, self._begin_late)
                return
            del self._due[stream]
            stream.begin()
