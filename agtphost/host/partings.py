"""
Ends contracts whose connection is closed: in the store, and with an event of its agent's stream (AGTP-266).

A contract that was proposed without a Session-ID lives as long as its
connection. Nobody can use it afterwards; here that becomes durable, so that
it is in no list and takes no room, also after the host was killed.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Draft, LedgerUnavailable
from agtphost.host.looking import Looking
from agtphost.iagtp import ILedger
from agtphost.negotiation.negotiator import Negotiator

log = Logger()

AT_ONCE = 100
"""Contracts that end in one transaction."""

SECONDS = 60.0
"""Between two tries while nothing can be made durable."""


class Partings(Looking):
    """
    Looks whenever a connection with contracts is closed.

    :param negotiator: knows the contracts.
    """

    name = "partings"
    trouble = "contracts of closed connections could not be ended"

    def __init__(self, clock: IReactorTime, negotiator: Negotiator, ledger: ILedger) -> None:
        super().__init__(clock, SECONDS)
        self._negotiator = negotiator
        self._ledger = ledger

    def follow(self, negotiator: Negotiator) -> None:
        """Another one knows the contracts from now on: all that the one before knew."""
        self._negotiator = negotiator
        negotiator.watch_adrift(self.look)
        self.look()

    def startService(self) -> None:
        """End what the last run of the host left."""
        self._negotiator.watch_adrift(self.look)
        super().startService()

    def stopService(self) -> Deferred[None] | None:
        """The connections are closed by now: what they leave is written too."""
        if super().stopService() is None:
            self._begin()
        return self._looking

    async def _look(self) -> None:
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
