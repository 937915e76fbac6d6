"""Keep accepting for a while after SIGTERM, until load balancers have noticed that the host is not ready."""

from __future__ import annotations

from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger

log = Logger()


class DrainDelay(Service):
    """
    The first service to stop: while it does, all others go on.

    :param seconds: how long that takes.
    """

    name = "drain delay"

    def __init__(self, reactor: Any, seconds: float) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self.began = False
        """Whether the host got SIGTERM; it is not ready from then on."""

    def stopService(self) -> Deferred[None]:
        """Wait, with everything else in service."""
        super().stopService()  # type: ignore[no-untyped-call]
        self.began = True
        if not self._seconds:
            return succeed(None)
        log.info("not ready any more; accepts for another {seconds:g} s", seconds=self._seconds)
        waited: Deferred[None] = deferLater(self._reactor, self._seconds)
        return waited
