"""
Limit log lines that others can cause in large numbers: a few of each kind in full, then a count per minute.

Every event of this program and of Twisted passes one :class:`LogThrottle` on its way to the operator's observer,
including tracebacks, unhandled errors and messages of HTTP listeners. Output of operators' handlers passes unchanged,
and so do access lines, which the operator switches on. Once a minute, one line of each kind reports how many events
were left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import RLock
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import (
    ILogObserver,
    LogEvent,
    Logger,
    LogLevel,
    LogPublisher,
    formatEvent,
    globalLogPublisher,
)
from zope.interface import implementer

from agtphost.logs.access_log import NAMESPACE as ACCESS
from agtphost.logs.call_events import CallEvents

LOGGED_IN_FULL = 20
"""Events of one kind that are logged in full per interval."""

INTERVAL = 60.0

MOST_KINDS = 256
"""Kinds that are distinguished; all further ones count as one."""

SAMPLE_LENGTH = 200
"""Characters of the first omitted event that are shown with the count."""

OURS = ("agtphost.", "twisted.")
LEGACY = "log_legacy"
"""The namespace of Twisted's older modules."""

NAME_MEMBERS = ("server", "upstream", "service", "name")
"""Members of events that hold the operator's own names: each server's events are separate kinds."""

_OTHER_KINDS = ("further kinds",)


def kind_of(event: LogEvent) -> tuple[object, ...]:
    """Return the key by which events are counted: their format without values, and the place of an exception."""
    failure = event.get("log_failure")
    raised: tuple[object, ...] = ()
    if failure is not None:
        frames = getattr(failure, "frames", ())
        raised = (getattr(failure, "type", None), frames[-1][:3] if frames else ())
    whose = tuple(str(event[name]) for name in NAME_MEMBERS if name in event)
    return (event.get("log_namespace"), event.get("log_format"), event.get("log_level"), *whose, *raised)


class _Kind:
    __slots__ = ("left_out", "sample", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self.left_out = 0
        self.sample: LogEvent = {}


@implementer(ILogObserver)
class LogThrottle:
    """
    A log observer that forwards events unless there were too many of their kind.

    :param forward: gets the events that pass.
    :param now: monotonic seconds.
    """

    def __init__(
        self,
        forward: ILogObserver,
        now: Callable[[], float] = time.monotonic,
        *,
        full: int = LOGGED_IN_FULL,
        seconds: float = INTERVAL,
    ) -> None:
        self._forward: Any = forward
        self._now = now
        self._full = full
        self._seconds = seconds
        self._since = now()
        self._kinds: dict[tuple[object, ...], _Kind] = {}
        self._lock = RLock()  # handlers log from threads

    def __call__(self, event: LogEvent) -> None:
        """Forward an event, or count it as omitted."""
        namespace = str(event.get("log_namespace") or "")
        if namespace == ACCESS or (not namespace.startswith(OURS) and namespace != LEGACY):
            self._forward(event)
            return
        with self._lock:
            if self._now() - self._since >= self._seconds:
                self.flush()
            passes = self._count(event)
        if passes:
            self._forward(event)

    def _count(self, event: LogEvent) -> bool:
        name = kind_of(event)
        kind = self._kinds.get(name)
        if kind is None:
            if len(self._kinds) >= MOST_KINDS:
                name = _OTHER_KINDS
            kind = self._kinds.setdefault(name, _Kind())
        kind.seen += 1
        if kind.seen <= self._full:
            return True
        if not kind.left_out:
            kind.sample = event
        kind.left_out += 1
        return False

    def flush(self) -> None:
        """Log how many events were left out, and start the next interval."""
        with self._lock:
            kinds, self._kinds = self._kinds, {}
            seconds, self._since = self._now() - self._since, self._now()
        for kind in kinds.values():
            if kind.left_out:
                namespace = str(kind.sample.get("log_namespace") or "agtphost")
                Logger(namespace=namespace, observer=self._forward).emit(
                    kind.sample.get("log_level") or LogLevel.warn,
                    "{count} more lines like this one in {seconds:.0f} s were left out: {sample}",
                    count=kind.left_out,
                    seconds=seconds,
                    sample=formatEvent(kind.sample)[:SAMPLE_LENGTH],
                )


class LogThrottling(Service):
    """
    A service that puts a :class:`LogThrottle`, and :class:`.CallEvents` before it, in front of all log observers.

    :param publisher: Twisted's own.
    """

    name = "log"

    def __init__(self, clock: IReactorTime, publisher: LogPublisher = globalLogPublisher) -> None:
        self._publisher = publisher
        self._observers: tuple[ILogObserver, ...] = ()
        self._throttle: LogThrottle | None = None
        self._flushing = LoopingCall(self._flush)
        self._flushing.clock = self._clock = clock
        self._first: CallEvents | None = None

    def startService(self) -> None:
        """Insert the throttle."""
        super().startService()  # type: ignore[no-untyped-call]
        # twistd has set the observers, and no public attribute lists them.
        self._observers = tuple(self._publisher._observers)
        self._throttle = LogThrottle(LogPublisher(*self._observers))
        self._first = CallEvents(self._throttle, self._clock)
        self._publisher.addObserver(self._first)
        for observer in self._observers:
            self._publisher.removeObserver(observer)
        self._flushing.start(INTERVAL, now=False)

    def stopService(self) -> Deferred[None] | None:
        """Log what was left out, and restore the observers."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._flushing.running:
            self._flushing.stop()
        if self._throttle is not None:
            self._throttle.flush()
            for observer in self._observers:
                self._publisher.addObserver(observer)
            if self._first is not None:
                self._publisher.removeObserver(self._first)
            self._throttle = self._first = None
        return None

    def _flush(self) -> None:
        if self._throttle is not None:
            self._throttle.flush()
