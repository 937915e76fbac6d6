"""Provide the base class of services that check something periodically: fetched keys, changed files, deadlines."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

log = Logger()


class PeriodicService(Service):
    """
    A service that repeats a check from its start to its stop, one at a time.

    :param clock: schedules the checks.
    :param every: seconds from the end of one check to the next.
    """

    failure_message = "a look failed"
    """The log message of a failed check; the next one follows in any case."""

    def __init__(self, clock: Any, every: float) -> None:
        self._clock = clock
        self._every = every
        self._timer: IDelayedCall | None = None
        self._checking: Deferred[None] | None = None

    @abstractmethod
    async def _check(self) -> None:
        """Make one check."""

    def startService(self) -> None:
        """Check now, then periodically."""
        super().startService()  # type: ignore[no-untyped-call]
        self.check()

    def stopService(self) -> Deferred[None] | None:
        """Stop after a check in progress."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._cancel()
        return self._checking

    def check(self) -> None:
        """Check now, unless a check is in progress. Errors are logged, never raised."""
        if self.running and self._checking is None:
            self._begin()

    def _begin(self) -> None:
        self._cancel()
        self._checking = Deferred.fromCoroutine(self._check())
        self._checking.addErrback(lambda failure: log.failure(self.failure_message, failure=failure))
        self._checking.addCallback(lambda _: self._finish_check())

    def _finish_check(self) -> None:
        self._checking = None
        if self.running and (self._timer is None or not self._timer.active()):
            self._check_in(self._every)

    def _check_in(self, seconds: float) -> None:
        self._timer = self._clock.callLater(seconds, self.check)

    def _cancel(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
