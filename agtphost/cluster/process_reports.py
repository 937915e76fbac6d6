"""Report a process to the store that it shares with other hosts, so that commands can compare all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import REPORT_SECONDS, HostProcess
from agtphost.stores.rows import StoreError

log = Logger()


class ProcessReporter(Service):
    """
    A service that reports its process while it runs.

    :param describe: returns what to report; called in a thread, for the first report and after each :meth:`renew`.
    :param offload: calls a function in a thread.
    """

    name = "process reports"

    def __init__(
        self,
        reactor: Any,
        lease: ILease,
        describe: Callable[[], HostProcess],
        offload: Callable[[Callable[[], None]], Deferred[None]],
    ) -> None:
        self._lease = lease
        self._describe = describe
        self._offload = offload
        self._process: HostProcess | None = None
        self._outdated = True
        self._failed = False
        self._running: Deferred[None] = succeed(None)
        self._timer = LoopingCall(self._report)
        self._timer.clock = reactor

    def renew(self) -> None:
        """Have the next report describe the process anew."""
        self._outdated = True

    def startService(self) -> None:
        """Begin to report."""
        super().startService()  # type: ignore[no-untyped-call]
        self._timer.start(REPORT_SECONDS)

    def stopService(self) -> Deferred[None]:
        """End the reports, and wait for one that has begun. Giving the lease up removes the row."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._timer.running:
            self._timer.stop()
        ended: Deferred[None] = Deferred()
        self._running.addBoth(lambda _: ended.callback(None))
        return ended

    def _report(self) -> Deferred[None]:
        self._running = self._offload(self._write)
        self._running.addCallbacks(self._note_success, self._note_failure)
        waited: Deferred[None] = Deferred()
        self._running.addBoth(lambda _: waited.callback(None))
        return waited

    def _write(self) -> None:
        """Write the report, in a thread."""
        process = self._process
        if process is None or self._outdated:
            # Before the files are read: one that changes during that is described by the next report.
            self._outdated = False
            self._process = None
            process = self._process = self._describe()
        self._lease.report(process)

    def _note_success(self, _: None) -> None:
        self._failed = False

    def _note_failure(self, failure: Failure) -> None:
        if not self._failed:
            self._failed = True
            if failure.check(StoreError):  # type: ignore[no-untyped-call]
                log.warn("this host is missing in `agtp cluster status`: {why}", why=str(failure.value))
            else:
                log.failure("this host is missing in `agtp cluster status`", failure=failure)
