"""One answer that comes event by event (``text/event-stream``), and clients that leave before it is whole."""

from __future__ import annotations

from collections.abc import Callable

from twisted.web.server import Request

from agtphost.protocols.limits import UNREAD


def _nothing() -> None:
    """Is done where somebody leaves whom nobody waits for."""


class Gone:
    """Notices that a client left."""

    def __init__(self, request: Request, then: Callable[[], None] = _nothing) -> None:
        self.yet = False
        self._then = then
        request.notifyFinish().addErrback(self._left)

    def _left(self, _: object) -> None:
        then = self._then
        self.over()
        then()

    def over(self) -> None:
        """Nobody leaves any more; what would have been told of it may refer to this."""
        self.yet = True
        self._then = _nothing


class EventWriter:
    """
    Writes events; a client that does not read is let go.

    :param left: called when the client leaves.
    """

    MOST_UNREAD = UNREAD
    """Octets."""

    def __init__(self, request: Request, left: Callable[[], None] = _nothing) -> None:
        self._gone = Gone(request, left)
        self._request = request
        self._begun = False
        self._unread = 0
        self._paused = False

    @property
    def gone(self) -> bool:
        """Whether nobody reads on."""
        return self._gone.yet

    @property
    def begun(self) -> bool:
        """Whether something of it is sent already."""
        return self._begun

    def begin(self) -> None:
        """It is a stream, whatever comes of it."""
        if self._begun or self._gone.yet:
            return
        self._begun = True
        self._request.responseHeaders.setRawHeaders("Content-Type", ["text/event-stream"])
        self._request.responseHeaders.setRawHeaders("Cache-Control", ["no-store"])
        self._request.registerProducer(self, True)  # type: ignore[no-untyped-call]
        self._request.write(b"")  # type: ignore[no-untyped-call]

    def write(self, octets: bytes) -> None:
        """One event, as it is sent."""
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
        """That was all."""
        if not self._gone.yet:
            self._gone.over()
            if self._begun:
                self._request.unregisterProducer()  # type: ignore[no-untyped-call]
            self._request.finish()  # type: ignore[no-untyped-call]

    # IPushProducer

    def pauseProducing(self) -> None:
        """The client reads slowly."""
        self._paused = True

    def resumeProducing(self) -> None:
        """It has caught up."""
        self._paused, self._unread = False, 0

    def stopProducing(self) -> None:
        """It is gone."""
        self._gone.yet = True
