"""A host reports itself to the store that it shares, and goes on where that fails."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs

from agtphost.cluster.process_reports import ProcessReporter
from agtphost.stores.lease import REPORT_SECONDS, STANDBY, HostProcess
from agtphost.stores.rows import StoreError
from tests.cluster.test_heartbeat import MemoryLease

PROCESS = HostProcess(id="1", name="a", place="m:/d", version="1", state=STANDBY, settings={})


def make_reporter(clock: Clock, lease: MemoryLease, described: list[HostProcess]) -> ProcessReporter:
    """Return a reporter that calls functions where it stands."""

    def describe() -> HostProcess:
        described.append(PROCESS)
        return PROCESS

    def call(function: Callable[[], None]) -> Deferred[None]:
        return maybeDeferred(function)

    return ProcessReporter(clock, lease, describe, call)


def test_a_process_is_described_once_and_reported_again() -> None:
    """Files are read for the first report, and after a reload."""
    clock, described = Clock(), list[HostProcess]()
    lease = MemoryLease(clock.seconds)
    reporter = make_reporter(clock, lease, described)
    reporter.startService()
    clock.pump([REPORT_SECONDS] * 2)
    assert (len(lease.reported), len(described)) == (3, 1)
    reporter.renew()
    clock.advance(REPORT_SECONDS)
    assert (len(lease.reported), len(described)) == (4, 2)
    assert reporter.stopService().called
    clock.pump([REPORT_SECONDS] * 3)
    assert len(lease.reported) == 4


def test_what_changes_while_a_process_is_described_is_described_again() -> None:
    """The files may have been read before the change, as where a key is adopted at that moment."""
    clock, described = Clock(), list[HostProcess]()
    reporter = make_reporter(clock, MemoryLease(clock.seconds), described)
    made, changes = reporter._describe, iter([reporter.renew])
    reporter._describe = lambda: (next(changes, lambda: None)(), made())[1]
    reporter.startService()
    clock.pump([REPORT_SECONDS] * 2)
    assert len(described) == 2


def test_a_failure_is_logged_once_and_tried_again() -> None:
    """A role without rights on the table, or a database that is away, costs one line."""
    clock = Clock()
    lease = MemoryLease(clock.seconds)
    lease.error = StoreError("permission denied for table process")
    reporter = make_reporter(clock, lease, [])
    with capturedLogs() as logged:
        reporter.startService()
        clock.pump([REPORT_SECONDS] * 3)
    assert [(event["log_level"], event["why"]) for event in logged] == [
        (LogLevel.warn, "permission denied for table process")
    ]
    lease.error = None
    clock.advance(REPORT_SECONDS)
    assert lease.reported == [PROCESS]
    reporter.stopService()
