"""Maintain registered cards while the host runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, StreamEvent
from agtphost.host.card_registry import CardRegistry
from agtphost.host.cards import find_terms
from agtphost.host.core import Core
from agtphost.iagtp import ILedger
from agtphost.protocols.periodic import PeriodicService
from agtphost.registry.maintenance import CardMaintenance

LOOK_EVERY = 5.0
"""Seconds between two rounds: half of the shortest time between two probes."""


class CardWatch(PeriodicService):
    """
    A service that fetches, probes and forgets registered cards under the configuration in force.

    :param seconds: returns seconds since the Unix epoch.
    """

    failure_message = "the maintenance of registered cards failed"

    def __init__(self, reactor: Any, kept: CardRegistry, ledger: ILedger, seconds: Callable[[], float]) -> None:
        super().__init__(reactor, LOOK_EVERY)
        self._leases = kept.leases

        async def submit(changes: Sequence[Change], events: Sequence[StreamEvent]) -> None:
            await ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes), events=tuple(events)))

        self.maintenance = CardMaintenance(
            registered=kept.registered, leases=kept.leases, submit=submit, reactor=reactor, now=seconds
        )

    def turn_to(self, core: Core) -> None:
        """Apply another configuration."""
        self.maintenance.terms = find_terms(core.services)

    async def _check(self) -> None:
        await self.maintenance.look()

    def stopService(self) -> Deferred[None] | None:
        """Stop, and expire no more leases."""
        self._leases.stop()
        return super().stopService()
