"""Observers of records: in order, one at a time, never in a call's way, and with a bound."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from agtphost.audit.observed_records import ObservedRecord
from agtphost.audit.observers import MOST_WAITING, Observers
from agtphost.iagtp import IRecordObserver


def record(number: int) -> ObservedRecord:
    return ObservedRecord(audit_id=str(number), issued_at="", jws="")


@implementer(IRecordObserver)
class Observer:
    """Answers as the test says."""

    def __init__(self, answers: Any = lambda: None) -> None:
        self.seen: list[str] = []
        self._answers = answers

    def saw(self, record: ObservedRecord) -> Any:
        self.seen.append(record.audit_id)
        return self._answers()


class Told(SynchronousTestCase):
    """Two observers of one host."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self._log)
        self.addCleanup(globalLogPublisher.removeObserver, self._log)

    def _log(self, event: Any) -> None:
        self.lines.append(formatEvent(event))

    def started(self, *observers: Observer) -> Observers:
        service = Observers(self.clock, [(str(at), each) for at, each in enumerate(observers)])
        service.startService()  # type: ignore[no-untyped-call]
        return service

    def turns(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock.advance(0)

    def test_in_order_and_not_at_once(self) -> None:
        """The call that made the record goes on first; a slow observer delays no other."""
        waiting: list[Deferred[None]] = []

        def slow() -> Deferred[None]:
            waiting.append(Deferred())
            return waiting[-1]

        first, second = Observer(slow), Observer()
        service = self.started(first, second)
        for number in range(3):
            service.saw(record(number))
        self.assertEqual((first.seen, second.seen), ([], []))
        self.turns(5)
        self.assertEqual((first.seen, second.seen), (["0"], ["0", "1", "2"]))
        waiting[0].callback(None)
        self.turns()
        self.assertEqual(first.seen, ["0", "1"])

    def test_one_that_fails_goes_on(self) -> None:
        """What it raises is logged; coroutines are waited for."""

        def failing() -> None:
            raise RuntimeError("the shelf fell over")

        async def coroutine() -> None:
            raise RuntimeError("later")

        at_once, later = Observer(failing), Observer(coroutine)
        service = self.started(at_once, later)
        service.saw(record(1))
        service.saw(record(2))
        self.turns(4)
        self.assertEqual((at_once.seen, later.seen), (["1", "2"], ["1", "2"]))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 4)

    def test_the_oldest_go(self) -> None:
        """As many wait as may; the log says that records are missed, and how many."""
        waiting: list[Deferred[None]] = []

        def slow() -> Deferred[None]:
            waiting.append(Deferred())
            return waiting[-1]

        observer = Observer(slow)
        service = self.started(observer)
        service.saw(record(0))
        self.turns()
        for number in range(1, MOST_WAITING + 11):
            service.saw(record(number))
        self.assertEqual(len([line for line in self.lines if "are dropped" in line]), 1)
        for _ in range(MOST_WAITING):
            waiting[-1].callback(None)
            self.turns()
        self.assertEqual(observer.seen, ["0", *(str(number) for number in range(11, MOST_WAITING + 11))])
        self.assertTrue([line for line in self.lines if "missed 10 records" in line])

    def test_nothing_after_the_end(self) -> None:
        """What waits is dropped, what runs is cancelled, and nothing more is taken."""
        cancelled: list[Any] = []
        observer = Observer(lambda: Deferred(cancelled.append))
        service = self.started(observer)
        service.saw(record(1))
        self.turns()
        service.saw(record(2))
        service.stopService()
        service.saw(record(3))
        self.turns(3)
        self.assertEqual((observer.seen, len(cancelled)), (["1"], 1))
        self.assertEqual(self.clock.getDelayedCalls(), [])
