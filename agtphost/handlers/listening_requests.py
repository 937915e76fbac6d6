"""The time of requests that listen for changes: until it is up, or the host stops."""

from __future__ import annotations

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime


class ListeningRequests(Service):
    """
    A service at whose stop all listening requests end, with an ordinary answer.

    A host that stops waits for the answers that it owes. A request that listens owes none for up to an hour, so each
    hand-over to another host would take all of ``[limits] drain_timeout``.
    """

    name = "listening requests"

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._ends: set[Deferred[None]] = set()
        self._stopped = False

    async def wait(self, seconds: float) -> None:
        """Wait until the time of a request is up, or the service stops."""
        if self._stopped:
            return
        end: Deferred[None] = Deferred()
        timer = self._clock.callLater(seconds, end.callback, None)
        self._ends.add(end)
        try:
            await end
        finally:
            self._ends.discard(end)
            if timer.active():
                timer.cancel()

    def stopService(self) -> None:
        """End all requests, and each that still comes."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._stopped = True
        for end in tuple(self._ends):
            end.callback(None)
