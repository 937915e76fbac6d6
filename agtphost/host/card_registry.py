"""Keep registered cards and their leases, which outlive a reload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agtphost.audit.state import StateTable
from agtphost.iagtp import ILedger
from agtphost.registry.entry import CardEntry
from agtphost.registry.leases import Leases
from agtphost.registry.registered import RegisteredCards


@dataclass(frozen=True, kw_only=True)
class CardRegistry:
    """The registered cards and their leases."""

    registered: RegisteredCards
    leases: Leases

    @classmethod
    def for_host(cls, held: StateTable, ledger: ILedger, reactor: Any, seconds: Callable[[], float]) -> CardRegistry:
        """Build the cards and leases of one host."""
        registered = RegisteredCards(held)
        leases = Leases(reactor, seconds)

        def note_entry(card_id: str, entry: CardEntry | None) -> None:
            if entry is None:
                leases.drop(card_id)
            else:
                leases.put(card_id, entry.owner, entry.lifetime, entry.lost_since)

        registered.watch(note_entry)
        ledger.watch(leases.watch)
        return cls(registered=registered, leases=leases)
