"""
Keep the lease of a store, and say whether it was confirmed recently enough for a handler to run.

Every commit confirms the lease. Where none comes for a second, the reactor asks for a beat, and the ledger's writer
thread sends it: so a host loses the lease where either of them hangs. While a host starts, neither works yet, and a
thread sends the beats for a limited time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import describe_clock
from agtphost.stores.rows import StoreError
from agtphost.vocabulary.times import steady

MARGIN: Final = 2.0
"""
Seconds before the end of the lease from which on no handler begins: for the way of a beat, and clocks that run at
slightly different rates.
"""

START_SECONDS: Final = 120.0
"""How long a start may take until its host loses the lease."""

log = Logger()


def beat_seconds(takeover_after: float) -> float:
    """Return after how many seconds without a commit a beat is sent, so that it is confirmed before handlers stop."""
    return min(1.0, (takeover_after - MARGIN) / 3)


def freshness(lease: ILease, now: Callable[[], float] = steady) -> Callable[[], bool]:
    """
    Return a function that tells whether a handler may begin.

    It may while no other host can have taken the lease: the time counts from when the last confirmed beat or commit was
    sent, on a clock that goes on while a machine sleeps.
    """
    trusted: float = lease.me.takeover_after - MARGIN

    def is_fresh() -> bool:
        confirmed: float = lease.confirmed
        return now() - confirmed < trusted

    return is_fresh


class Heartbeat(Service):
    """
    A service that keeps a lease.

    :param call_in_writer: has the ledger's writer thread call a function.
    """

    name = "heartbeat"

    def __init__(self, reactor: Any, lease: ILease, call_in_writer: Callable[[Callable[[], object]], object]) -> None:
        self._reactor = reactor
        self._lease = lease
        self._call_in_writer = call_in_writer
        self._every = beat_seconds(lease.me.takeover_after)
        self._asked = False
        self._failed = False
        self._clock_differs: bool | None = None
        self._started = threading.Event()
        self._timer = LoopingCall(self._ask)
        self._timer.clock = reactor

    def keep_for_start(self) -> None:
        """Send beats until the service starts, for :data:`START_SECONDS` at most; for a separate thread."""
        _keep_until(self._started, self._lease)

    def startService(self) -> None:
        """Begin to ask the writer for beats."""
        super().startService()  # type: ignore[no-untyped-call]
        self._started.set()
        self._timer.start(self._every / 4)

    def stopService(self) -> None:
        """Stop reading the lease; the ledger's last transaction gives it up."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._started.set()
        if self._timer.running:
            self._timer.stop()

    def _ask(self) -> None:
        if not self._asked and steady() - self._lease.confirmed >= self._every:
            self._asked = True
            self._call_in_writer(self._beat)

    def _beat(self) -> None:
        """Send a beat, in the writer's thread."""
        try:
            self._lease.keep()
            self._failed = False
            self._report_clock()
        except StoreError as error:
            if not self._failed:
                self._failed = True
                self._reactor.callFromThread(log.error, "the lease cannot be kept: {why}", why=str(error))
        finally:
            self._asked = False

    def _report_clock(self) -> None:
        """Log that the clock differs from the database's now, or does no longer; the start logs how it is then."""
        line, before = describe_clock(self._lease.clock_ahead), self._clock_differs
        self._clock_differs = bool(line)
        if before is not None and before != self._clock_differs:
            self._reactor.callFromThread(log.warn, "{line}", line=line or "the clock is that of the database again")


def _keep_until(started: threading.Event, lease: ILease) -> None:
    end, every = steady() + START_SECONDS, beat_seconds(lease.me.takeover_after)
    while not started.wait(every) and steady() < end:
        # While the store is read under its lock, no beat can be sent, and none is needed.
        with suppress(StoreError):
            lease.keep()


def begin_to_keep(lease: ILease) -> Callable[[], None]:
    """
    Keep a lease by a thread, for :data:`START_SECONDS` at most: of a host that has taken it and reads its files.

    :return: ends that.
    """
    ended = threading.Event()
    threading.Thread(target=_keep_until, args=(ended, lease), name="agtphost-lease", daemon=True).start()
    return ended.set


def begin_heartbeat(reactor: Any, lease: ILease, call_in_writer: Callable[[Callable[[], object]], object]) -> Heartbeat:
    """Return the service that keeps a lease, and keep the lease by a thread until the service starts."""
    heartbeat = Heartbeat(reactor, lease, call_in_writer)
    threading.Thread(target=heartbeat.keep_for_start, name="agtphost-lease", daemon=True).start()
    return heartbeat
