"""
Every contract of the host, and which of them a request means: AGTP-API sections 10.1.1 and 10.1.4.

The table follows the state items: a contract exists from the commit of the
record that tells of it, and is gone with the commit that ends it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Change, StreamEvent
from agtphost.audit.state import StateItem, StateTable
from agtphost.contract.binding import Binding
from agtphost.contract.recipes.recipe import Recipe
from agtphost.contract.table import Match
from agtphost.handlers.interface import IHandler
from agtphost.identity.peer import Peer
from agtphost.negotiation import contract as terms
from agtphost.negotiation.contract import Contract, Origin, Scope, contract_of, digest_of
from agtphost.negotiation.lasting import Links
from agtphost.negotiation.settings import Settings
from agtphost.negotiation.synthesis import Synthesis, Synthesizer
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.paths import Template, decode

log = Logger()

MOST_LAPSED = 8
"""Forgotten previews that are removed together with the next contract of the same agent."""


class TooManyContracts(Exception):
    """The agent has as many contracts as one may have."""


@dataclass(frozen=True, kw_only=True)
class Issued:
    """A contract about to exist: what the response that tells of it commits."""

    contract: Contract
    changes: tuple[Change, ...]
    events: tuple[StreamEvent, ...]


@dataclass(slots=True)
class _Entry:
    contract: Contract
    binding: Binding | None
    fault: str


class ContractTable:
    """
    All contracts.

    :param compose: makes the handler of a recipe.
    :param now: milliseconds since the Unix epoch.
    :param links: the connections that contracts live in; None: none was made before.
    """

    def __init__(
        self,
        held: StateTable,
        synthesizer: Synthesizer,
        settings: Settings,
        compose: Callable[[Recipe], IHandler],
        now: Callable[[], int],
        links: Links | None = None,
    ) -> None:
        self._held = held
        self._synthesizer = synthesizer
        self._most = settings.policies.synthesis.max_contracts_per_agent
        self._compose = compose
        self._now = now
        self._entries: dict[str, _Entry] = {}
        self._owned: dict[str, dict[str, _Entry]] = {}
        self._links = links or Links()
        self._adrift: dict[str, None] = {}
        self._told: Callable[[], None] = lambda: None
        self._persistent: dict[str, Contract] = {}
        held.watch(terms.KIND, self._follow)
        held.leasing.note_entry(self._links.watch(self._parted))

    def _follow(self, key: str, item: StateItem | None) -> None:
        known = self._entries.get(key)
        if item is None:
            if known is not None:
                del self._entries[key]
                self._owned[known.contract.agent_id].pop(key, None)
                self._adrift.pop(key, None)
                self._persistent.pop(key, None)
                self._links.forget(key)
            return
        owner = item.owner if is_agent_id(item.owner) else ""
        contract = contract_of(key, owner, item.value)
        entry = self._bound(contract) if known is None else _Entry(contract, known.binding, known.fault)
        self._entries[key] = self._owned.setdefault(owner, {})[key] = entry
        if contract.persistent:
            self._persistent[key] = contract
        if self.ended(contract):
            self._adrift.pop(key, None)
        elif contract.scope is Scope.CONNECTION and key not in self._links:
            # Its connection went away before it was committed, or the host was stopped meanwhile.
            self._set_adrift(key)

    def _bound(self, contract: Contract) -> _Entry:
        try:
            recipe = self._synthesizer.restored(contract.recipe)
            return _Entry(contract, contract.bind(recipe, self._compose, self._synthesizer.book), "")
        except ValueError as error:
            log.warn("contract {id} can no longer run: {why}", id=contract.synthesis_id, why=str(error))
            return _Entry(contract, None, str(error))

    def prepared(self, contract: Contract) -> Binding:
        """
        What would answer a contract that is not in force yet.

        :raises ValueError: why nothing can.
        """
        return contract.bind(self._synthesizer.restored(contract.recipe), self._compose, self._synthesizer.book)

    # Contracts of closed connections

    def adrift(self) -> list[Contract]:
        """Those whose connection is closed, and whose end is not on record yet, the oldest first."""
        return [self._entries[key].contract for key in self._adrift if key in self._entries]

    def watch_adrift(self, told: Callable[[], None]) -> None:
        """Have it called whenever a contract is adrift."""
        self._told = told

    def _parted(self, synthesis_id: str) -> None:
        """The connection is closed."""
        entry = self._entries.get(synthesis_id)
        if entry is not None and not self.ended(entry.contract):
            self._set_adrift(synthesis_id)

    def _set_adrift(self, synthesis_id: str) -> None:
        self._adrift[synthesis_id] = None
        self._told()

    # Looking up

    def get(self, synthesis_id: str) -> Contract | None:
        """A contract that is known, in whatever state; previews that nobody accepted in time are not."""
        entry = self._entries.get(synthesis_id)
        if entry is None or self._passed(entry.contract):
            return None
        return entry.contract

    def binding(self, contract: Contract) -> Binding | None:
        """What answers it; None where this host no longer can, see :meth:`fault`."""
        return self._entries[contract.synthesis_id].binding

    def fault(self, contract: Contract) -> str:
        """Why :meth:`binding` has nothing."""
        return self._entries[contract.synthesis_id].fault

    def offered(self, contract: Contract) -> bool:
        """Whether it is a preview that waits to be accepted."""
        if contract.preview_until is None:
            return False
        return self._held.get(terms.ACCEPTED, contract.synthesis_id) is None

    def ended(self, contract: Contract) -> bool:
        """Whether it was revoked, or has expired."""
        return contract.revoked or contract.expires_at <= self._now()

    def state(self, contract: Contract) -> str:
        """Its lifecycle state, in a word."""
        if contract.revoked:
            return "revoked"
        if contract.expires_at <= self._now():
            return "expired"
        return "offered" if self.offered(contract) else "active"

    def reaches(self, contract: Contract, session_id: str | None, peer: Peer | None) -> bool:
        """Whether the session or the connection is the one it lives in."""
        if contract.scope is Scope.AGENT:
            return True
        if contract.scope is Scope.SESSION:
            return session_id == contract.session_id
        return self._links.joins(contract.synthesis_id, peer)

    def of(self, agent_id: str) -> Iterator[Contract]:
        """The contracts of one agent that are in force or on offer, oldest first."""
        for entry in list(self._owned.get(agent_id, {}).values()):
            if not self._passed(entry.contract) and not self.ended(entry.contract):
                yield entry.contract

    def all(self) -> Iterator[Contract]:
        """Those of all agents."""
        for agent_id in list(self._owned):
            yield from self.of(agent_id)

    def persistent(self) -> list[Contract]:
        """Those in force that were negotiated to stay."""
        return [contract for contract in self._persistent.values() if not self.ended(contract)]

    def implicit(self, agent_id: str, method: str, path: str, session_id: str | None, peer: Peer) -> Match | None:
        """The newest accepted contract of an agent that takes a request which names none (AGTP-API section 10.1.1)."""
        owned = self._owned.get(agent_id)
        if not owned:
            return None
        for entry in reversed(list(owned.values())):
            contract = entry.contract
            if contract.method != method or entry.binding is None or self.ended(contract) or self.offered(contract):
                continue
            match = matched(entry.binding, contract.template, path)
            if match is not None and self.reaches(contract, session_id, peer):
                return match
        return None

    def _lapsed(self, contract: Contract) -> bool:
        until = contract.preview_until
        return until is not None and until <= self._now() and self.offered(contract)

    def _passed(self, contract: Contract) -> bool:
        """Whether nobody will ever use it again, though nothing ended it yet."""
        return contract.synthesis_id in self._adrift or self._lapsed(contract)

    # Making

    def issue(
        self,
        synthesis: Synthesis,
        *,
        agent_id: str,
        origin: Origin,
        seconds: int,
        scope: Scope = Scope.AGENT,
        session_id: str | None = None,
        peer: Peer | None = None,
        persistent: bool = False,
        preview: int | None = None,
    ) -> Issued:
        """
        A contract of what was synthesized.

        :param seconds: how long it lives at most.
        :param peer: the connection that a contract of the scope CONNECTION lives in.
        :param preview: seconds in which it must be accepted; None where it needs no acceptance.
        :raises TooManyContracts: where the agent has as many as it may have.
        """
        now = self._now()
        contract = Contract(
            synthesis_id=os.urandom(18).hex(),
            agent_id=agent_id,
            definition=synthesis.definition,
            recipe=synthesis.recipe,
            lineage=synthesis.lineage,
            digest=digest_of(synthesis.definition, synthesis.lineage),
            origin=origin,
            issued_at=now,
            expires_at=now + seconds * 1000,
            preview_until=None if preview is None else now + preview * 1000,
            scope=scope,
            session_id=session_id,
            persistent=persistent,
            required_scopes=synthesis.needs.required_scopes,
            min_assurance=synthesis.needs.min_assurance,
            state_changing=synthesis.needs.impact.value != "informational",
            idempotent=synthesis.needs.idempotent,
        )
        changes = (*self._room(agent_id), contract.held())
        if scope is Scope.CONNECTION and peer is not None:
            self._links.tie(contract.synthesis_id, peer)
        event = StreamEvent(chain=agent_id or HOST_CHAIN, event_type="rcns_propose_accepted", fields=contract.event())
        return Issued(contract=contract, changes=changes, events=(event,))

    def _room(self, agent_id: str) -> tuple[Change, ...]:
        """Make room for one more: forgotten previews and contracts of ended connections go first."""
        owned = [entry.contract for entry in self._owned.get(agent_id, {}).values()]
        lapsed = [contract for contract in owned if self._lapsed(contract)][:MOST_LAPSED]
        live = [contract for contract in owned if not self._passed(contract) and not self.ended(contract)]
        # Of ended ones there are never many more than of live ones: the oldest is forgotten.
        ended = [contract for contract in owned if self.ended(contract)][: -self._most or None]
        if len(live) >= self._most:
            passing = [contract for contract in live if contract.scope is not Scope.AGENT]
            if not passing:
                raise TooManyContracts
            lapsed.append(passing[0])
        return tuple(change for contract in (*lapsed, *ended) for change in contract.gone())


def matched(binding: Binding, template: Template, path: str) -> Match | None:
    """A path against a contract's template."""
    segments = path[1:].split("/") if path != "/" else []
    if len(segments) != len(template.segments):
        return None
    values: list[str] = []
    for segment, literal in zip(segments, template.segments, strict=True):
        if literal is None:
            if not segment:
                return None
            values.append(decode(segment))
        elif literal != segment:
            return None
    parameters: dict[str, Any] = dict(zip(template.parameters, values, strict=True))
    return Match(binding=binding, path_parameters=parameters)
