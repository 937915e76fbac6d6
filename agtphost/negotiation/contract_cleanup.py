"""
End contracts whose connection is closed: in the store, and with an event of their agent's stream (AGTP-266).

A contract that was proposed without a Session-ID ends with its connection. Recording the end keeps it out of lists and
frees its space, even if the host is killed.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Draft, LedgerUnavailable
from agtphost.iagtp import ILedger
from agtphost.negotiation.negotiator import Negotiator
from agtphost.protocols.periodic import PeriodicService

log = Logger()

PER_TRANSACTION = 100
"""Contracts that end in one transaction."""

RETRY_SECONDS = 60.0
"""Seconds between two attempts while nothing can be made durable."""


class ContractCleanup(PeriodicService):
    """
    A service that ends contracts when their connection is closed.

    :param negotiator: has the contracts.
    """

    name = "partings"
    failure_message = "contracts of closed connections could not be ended"

    def __init__(self, clock: IReactorTime, negotiator: Negotiator, ledger: ILedger) -> None:
        super().__init__(clock, RETRY_SECONDS)
        self._negotiator = negotiator
        self._ledger = ledger

    def switch_to(self, negotiator: Negotiator) -> None:
        """Switch to another negotiator, which has all contracts of the one before."""
        self._negotiator = negotiator
        negotiator.watch_adrift(self.check)
        self.check()

    def startService(self) -> None:
        """Start, and end the contracts that the last run of the host left."""
        self._negotiator.watch_adrift(self.check)
        super().startService()

    def stopService(self) -> Deferred[None] | None:
        """End the contracts of the connections that were closed at shutdown, and stop."""
        if super().stopService() is None:
            self._begin()
        return self._checking

    async def _check(self) -> None:
        while True:
            changes, events = self._negotiator.end_adrift(PER_TRANSACTION)
            if not events:
                return
            draft = Draft(chain=HOST_CHAIN, payload={}, events=events, changes=changes, performed=True)
            waiting: Any = self._ledger.submit(draft)
            try:
                await waiting
            except LedgerUnavailable as error:
                log.warn("the end of contracts of closed connections is not recorded yet: {why}", why=str(error))
                return
