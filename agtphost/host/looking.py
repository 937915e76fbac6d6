"""What the host looks at again and again: keys that are fetched, files that may have changed, moments that come."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

log = Logger()


class Looking(Service):
    """
    Looks from its start to its stop, one look at a time.

    :param clock: schedules the looks.
    :param every: seconds from the end of one look to the next.
    """

    trouble = "a look failed"
    """What the log says of one that failed; the next is made all the same."""

    def __init__(self, clock: Any, every: float) -> None:
        self._clock = clock
        self._every = every
        self._timer: IDelayedCall | None = None
        self._looking: Deferred[None] | None = None

    @abstractmethod
    async def _look(self) -> None:
        """One look."""

    def startService(self) -> None:
        """Look now, and then again and again."""
        super().startService()  # type: ignore[no-untyped-call]
        self.look()

    def stopService(self) -> Deferred[None] | None:
        """Look no more; what was begun is finished."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._cancel()
        return self._looking

    def look(self) -> None:
        """Look now, unless that is being done. What is wrong is logged; nothing is raised."""
        if self.running and self._looking is None:
            self._begin()

    def _begin(self) -> None:
        self._cancel()
        self._looking = Deferred.fromCoroutine(self._look())
        self._looking.addErrback(lambda failure: log.failure(self.trouble, failure=failure))
        self._looking.addCallback(lambda _: self._looked())

    def _looked(self) -> None:
        self._looking = None
        if self.running and (self._timer is None or not self._timer.active()):
            self._look_in(self._every)

    def _look_in(self, seconds: float) -> None:
        self._timer = self._clock.callLater(seconds, self.look)

    def _cancel(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
