"""Notify the operator's observers of committed records, each at its own pace and never during a call."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.audit.interfaces import IRecordObserver
from agtphost.audit.observed_records import ObservedGroup, ObservedRecord
from agtphost.vocabulary.given_values import copy_given

MOST_WAITING = 1000
"""Records that wait for one observer; if more come, the oldest are dropped."""

log = Logger()


class _ObserverQueue:
    """The queue of one observer."""

    def __init__(self, reactor: Any, name: str, observer: IRecordObserver) -> None:
        self._reactor = reactor
        self._name = name
        self._observer = observer
        self._waiting: deque[ObservedRecord] = deque(maxlen=MOST_WAITING)
        self._missed = 0
        self._timer: Any = None
        self._notifying: Deferred[Any] | None = None

    def add(self, record: ObservedRecord) -> None:
        if len(self._waiting) == MOST_WAITING:
            if not self._missed:
                log.warn(
                    "the observer {name} is slower than {most} records: the oldest are dropped",
                    name=self._name,
                    most=MOST_WAITING,
                )
            self._missed += 1
        self._waiting.append(record)
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self._notifying is None and self._waiting:
            self._timer = self._reactor.callLater(0, self._notify)

    def _notify(self) -> None:
        self._timer = None
        record = self._waiting.popleft()
        if not self._waiting and self._missed:
            log.warn("the observer {name} missed {count} records", name=self._name, count=self._missed)
            self._missed = 0

        def begin() -> Any:
            # The host's own lists and metrics read the members of the same record.
            answer: Any = self._observer.saw(record._replace(members=copy_given(record.members)))
            return ensureDeferred(answer) if hasattr(answer, "send") else answer

        self._notifying = telling = maybeDeferred(begin)
        telling.addErrback(self._log_failure)
        telling.addCallback(self._finish)

    def _log_failure(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:  # type: ignore[no-untyped-call]
            log.failure("the observer {name} failed", failure, name=self._name)

    def _finish(self, _: Any) -> None:
        self._notifying = None
        self._schedule()

    def stop(self) -> None:
        """Drop what waits: observers have no guarantee, since every record is in the store."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._notifying is not None:
            self._notifying.cancel()


class Observers(Service):
    """
    A service that notifies observers of records, in the order of commits.

    :param observers: with their names in the log.
    """

    name = "observers"

    def __init__(self, reactor: Any, observers: Sequence[tuple[str, IRecordObserver]]) -> None:
        self._lines = [_ObserverQueue(reactor, name, observer) for name, observer in observers]

    def saw_group(self, group: ObservedGroup) -> None:
        """Pass on a committed group. Records outside a chain are skipped, because they cannot be looked up later."""
        for record in group.records:
            if record.durable:
                self.saw(record)

    def saw(self, record: ObservedRecord) -> None:
        """Queue a committed record for every observer; never fails or waits."""
        if self.running:
            for line in self._lines:
                line.add(record)

    def stopService(self) -> None:
        """Stop every queue."""
        super().stopService()  # type: ignore[no-untyped-call]
        for line in self._lines:
            line.stop()
