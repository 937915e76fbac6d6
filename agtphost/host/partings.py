"""
Ends contracts whose connection is closed: in the store, and with an event of its agent's stream (AGTP-266).

A contract that was proposed without a Session-ID lives as long as its
connection. Nobody can use it afterwards; here that becomes durable, so that
it is in no list and takes no room, also after the host was killed.
"""

from __future__ import annotations

from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Draft, LedgerUnavailable
from agtphost.iagtp import ILedger
from agtphost.negotiation.negotiator import Negotiator

log = Logger()

AT_ONCE = 100
"""Contracts that end in one transaction."""

SECONDS = 60.0
"""Between two tries while nothing can be made durable."""


class Partings(Service):
    """
    Looks whenever a connection with contracts is closed.

    :param negotiator: knows the contracts.
    """

    name = "partings"

    def __init__(self, clock: IReactorTime, negotiator: Negotiator, ledger: ILedger) -> None:
        self._negotiator = negotiator
        self._ledger = ledger
        self._writing: Deferred[None] | None = None
        self._again = LoopingCall(self.look)
        self._again.clock = clock

    def startService(self) -> None:
        """End what the last run of the host left."""
        super().startService()  # type: ignore[no-untyped-call]
        self._negotiator.watch_adrift(self.look)
        self._again.start(SECONDS)

    def stopService(self) -> Deferred[None] | None:
        """The connections are closed by now: what they leave is written too."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._again.stop()
        if self._writing is None:
            self._begin()
        return self._writing

    def look(self) -> None:
        """End what is to be ended, unless that is being done."""
        if self.running and self._writing is None:
            self._begin()

    def _begin(self) -> None:
        self._writing = Deferred.fromCoroutine(self._write())
        self._writing.addErrback(
            lambda failure: log.failure("contracts of closed connections could not be ended", failure=failure)
        )
        self._writing.addCallback(lambda _: self._done())

    def _done(self) -> None:
        self._writing = None

    async def _write(self) -> None:
        while True:
            changes, events = self._negotiator.end_adrift(AT_ONCE)
            if not events:
                return
            draft = Draft(chain=HOST_CHAIN, payload={}, events=events, changes=changes, performed=True)
            waiting: Any = self._ledger.submit(draft)
            try:
                await waiting
            except LedgerUnavailable as error:
                log.warn("contracts of closed connections are not ended on record yet: {why}", why=str(error))
                return
