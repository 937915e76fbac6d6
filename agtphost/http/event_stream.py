"""Stream an answer as events (``text/event-stream``), and notice clients that disconnect before its end."""

from __future__ import annotations

from collections.abc import Callable

from twisted.web.server import Request

from agtphost.protocols.limits import UNREAD


def _nothing() -> None:
    """Do nothing when a client disconnects."""


class Gone:
    """A flag that is set when the client disconnects."""

    def __init__(self, request: Request, then: Callable[[], None] = _nothing) -> None:
        self.yet = False
        self._then = then
        request.notifyFinish().addErrback(self._left)

    def _left(self, _: object) -> None:
        then = self._then
        self.over()
        then()

    def over(self) -> None:
        """Stop watching the client, and drop the callback, which may refer to this object."""
        self.yet = True
        self._then = _nothing


class EventWriter:
    """
    A writer of events that disconnects a client which does not read.

    :param left: called when the client disconnects.
    """

    MOST_UNREAD = UNREAD
    """Octets that a client may leave unread."""

    def __init__(self, request: Request, left: Callable[[], None] = _nothing) -> None:
        self._gone = Gone(request, left)
        self._request = request
        self._begun = False
        self._unread = 0
        self._paused = False

    @property
    def gone(self) -> bool:
        """Return whether the client has disconnected."""
        return self._gone.yet

    @property
    def begun(self) -> bool:
        """Return whether the stream has begun."""
        return self._begun

    def begin(self) -> None:
        """Send the head of the stream."""
        if self._begun or self._gone.yet:
            return
        self._begun = True
        self._request.responseHeaders.setRawHeaders("Content-Type", ["text/event-stream"])
        self._request.responseHeaders.setRawHeaders("Cache-Control", ["no-store"])
        self._request.registerProducer(self, True)  # type: ignore[no-untyped-call]
        self._request.write(b"")  # type: ignore[no-untyped-call]

    def write(self, octets: bytes) -> None:
        """Send an encoded event."""
        if self._gone.yet:
            return
        self.begin()
        self._unread = self._unread + len(octets) if self._paused else 0
        if self._unread > self.MOST_UNREAD:
            self._gone.yet = True
            self._request.loseConnection()  # type: ignore[no-untyped-call]
            return
        self._request.write(octets)  # type: ignore[no-untyped-call]

    def finish(self) -> None:
        """End the stream."""
        if not self._gone.yet:
            self._gone.over()
            if self._begun:
                self._request.unregisterProducer()  # type: ignore[no-untyped-call]
            self._request.finish()  # type: ignore[no-untyped-call]

    # IPushProducer

    def pauseProducing(self) -> None:
        """Note that the client reads slowly."""
        self._paused = True

    def resumeProducing(self) -> None:
        """Note that the client has caught up."""
        self._paused, self._unread = False, 0

    def stopProducing(self) -> None:
        """Note that the client is gone."""
        self._gone.yet = True
