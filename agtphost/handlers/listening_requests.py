"""The time of requests that wait for news: until it is up, or the host stops."""

from __future__ import annotations

from collections.abc import Callable

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from agtphost.handlers.rights_listeners import RightsListeners, WaitEnd


class ListeningRequests(Service):
    """
    A service at whose stop all requests that wait for news end, with an ordinary answer.

    A host that stops waits for the answers that it owes. A request that waits for a change, a record or a person may
    get none for up to an hour, so each hand-over to another host would take all of ``[limits] drain_timeout``.
    """

    name = "listening requests"

    def __init__(self, clock: IReactorTime) -> None:
        self.clock = clock
        self.rights = RightsListeners(clock)
        """The registry of requests that end when the rights of their agent change."""

        self._ends: set[Deferred[WaitEnd]] = set()
        self._others: list[Callable[[], None]] = []
        self._stopped = False

    async def wait(self, seconds: float, news: Deferred[WaitEnd] | None = None) -> WaitEnd:
        """
        Wait until the time of a request is up, or the service stops; return why the wait ended.

        :param news: ends the wait when it fires; None: there is nothing else to wait for.
        """
        if self._stopped:
            return WaitEnd.HOST_STOPPING
        end: Deferred[WaitEnd] = Deferred() if news is None else news
        timer = self.clock.callLater(seconds, end.callback, WaitEnd.TIME_UP)
        self._ends.add(end)
        try:
            return await end
        finally:
            self._ends.discard(end)
            if timer.active():
                timer.cancel()

    def at_stop(self, end: Callable[[], None]) -> None:
        """Call a function at the stop, which ends requests that wait elsewhere."""
        self._others.append(end)

    def stopService(self) -> None:
        """End all requests, and each that still comes."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._stopped = True
        for end_others in self._others:
            end_others()
        for end in tuple(self._ends):
            if not end.called:
                end.callback(WaitEnd.HOST_STOPPING)
