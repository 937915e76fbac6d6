"""Handle signals: SIGTERM stops with status 0, a second one stops immediately, SIGHUP reloads."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from twisted.application.service import Service
from twisted.logger import Logger

log = Logger()


class SignalHandlers(Service):
    """
    A service that handles signals while the host runs.

    Twisted's own handling of SIGTERM ends a process by that signal after shutdown; a host that stopped on request
    reports status 0 instead.

    :param reload: validates and applies the configuration, and logs the outcome.
    """

    name = "signals"

    def __init__(self, reactor: Any, reload: Callable[[], None]) -> None:
        self._reactor = reactor
        self._reload = reload
        self._stopping = False

    def startService(self) -> None:
        """Install the handlers once the reactor runs, after it has installed its own."""
        super().startService()  # type: ignore[no-untyped-call]
        self._reactor.callWhenRunning(self._install)

    def _install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._hang_up)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._stopping:
            os._exit(1)
        self._stopping = True
        self._reactor.callFromThread(self._begin_stop, signal.Signals(number).name)

    def _begin_stop(self, name: str) -> None:
        log.info("{name}: stopping after the running calls; a second signal stops immediately", name=name)
        self._reactor.stop()

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        self._reactor.callFromThread(self._reload)
