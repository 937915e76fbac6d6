"""Maintain registered cards while the host runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, StreamEvent
from agtphost.audit.ledger_watch import LedgerWatch
from agtphost.iagtp import ILedger
from agtphost.protocols.periodic import PeriodicService
from agtphost.registry.leases import Leases
from agtphost.registry.maintenance import CardMaintenance, MaintenanceSettings
from agtphost.registry.registered import RegisteredCards

LOOK_EVERY = 5.0
"""Seconds between two rounds: half of the shortest time between two probes."""


class CardWatch(PeriodicService):
    """
    A service that fetches, probes and forgets registered cards.

    :param terms: the settings at first; :attr:`CardMaintenance.terms` of :attr:`maintenance` is set to others.
    :param seconds: returns seconds since the Unix epoch.
    """

    failure_message = "the maintenance of registered cards failed"

    def __init__(
        self,
        reactor: Any,
        registered: RegisteredCards,
        leases: Leases,
        terms: MaintenanceSettings,
        ledger: ILedger,
        seconds: Callable[[], float],
    ) -> None:
        super().__init__(reactor, LOOK_EVERY)

        async def submit(changes: Sequence[Change], events: Sequence[StreamEvent]) -> None:
            await ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes), events=tuple(events)))

        self.maintenance = CardMaintenance(
            registered=registered, leases=leases, terms=terms, submit=submit, reactor=reactor, now=seconds
        )

    async def _check(self) -> None:
        await self.maintenance.look()


class LeaseWatch(LedgerWatch):
    """A service by which calls renew leases, and leases end, while it runs."""

    def __init__(self, leases: Leases, ledger: ILedger) -> None:
        super().__init__("leases of cards", ledger, leases.watch)
        self._leases = leases

    def startService(self) -> None:
        """Begin to watch, and let leases end."""
        super().startService()
        self._leases.start()

    def stopService(self) -> None:
        """End the watch, and let no more leases end."""
        super().stopService()
        self._leases.stop()
