"""Stream an answer as events (``text/event-stream``), and notice clients that disconnect before its end."""

from __future__ import annotations

from collections.abc import Callable

from twisted.web.server import Request

from agtphost.protocols.limits import UNREAD
from agtphost.vocabulary import media_types

KIND = "text/event-stream"

_FORMS = {KIND: KIND, media_types.AGTP_JSON: "", media_types.JSON: ""}
"""Media types between which a client chooses; empty: the usual answer."""


def prefers_events(accept: str | None) -> bool:
    """Return whether a client prefers events: some clients list every media type that the OpenAPI document has."""
    return media_types.choose_form(accept, "", _FORMS) == KIND


def _nothing() -> None:
    """Do nothing when a client disconnects."""


class DisconnectWatch:
    """A flag that is set when the client disconnects."""

    def __init__(self, request: Request, then: Callable[[], None] = _nothing) -> None:
        self.is_gone = False
        self._then = then
        request.notifyFinish().addErrback(self._note_disconnect)

    def _note_disconnect(self, _: object) -> None:
        then = self._then
        self.stop()
        then()

    def stop(self) -> None:
        """Stop watching the client, and drop the callback, which may refer to this object."""
        self.is_gone = True
        self._then = _nothing


class EventWriter:
    """
    A writer of events that disconnects a client which does not read.

    :param left: called when the client disconnects.
    """

    MOST_UNREAD = UNREAD
    """Octets that a client may leave unread."""

    def __init__(self, request: Request, left: Callable[[], None] = _nothing) -> None:
        self._watch = DisconnectWatch(request, left)
        self._request = request
        self._has_begun = False
        self._unread = 0
        self._paused = False

    @property
    def is_gone(self) -> bool:
        """Return whether the client has disconnected."""
        return self._watch.is_gone

    @property
    def has_begun(self) -> bool:
        """Return whether the stream has begun."""
        return self._has_begun

    def begin(self) -> None:
        """Send the head of the stream."""
        if self._has_begun or self._watch.is_gone:
            return
        self._has_begun = True
        self._request.responseHeaders.setRawHeaders("Content-Type", ["text/event-stream"])
        self._request.responseHeaders.setRawHeaders("Cache-Control", ["no-store"])
        self._request.registerProducer(self, True)  # type: ignore[no-untyped-call]
        self._request.write(b"")  # type: ignore[no-untyped-call]

    def write(self, octets: bytes) -> None:
        """Send an encoded event."""
        if self._watch.is_gone:
            return
        self.begin()
        self._unread = self._unread + len(octets) if self._paused else 0
        if self._unread > self.MOST_UNREAD:
            self._watch.is_gone = True
            self._request.loseConnection()  # type: ignore[no-untyped-call]
            return
        self._request.write(octets)  # type: ignore[no-untyped-call]

    def finish(self) -> None:
        """End the stream."""
        if not self._watch.is_gone:
            self._watch.stop()
            if self._has_begun:
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
        self._watch.is_gone = True
