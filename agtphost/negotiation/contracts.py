"""
The table of all contracts of the host, and their look-up by requests: AGTP-API sections 10.1.1 and 10.1.4.

The table follows the state items: a contract exists from the commit of its first record until the commit that ends it.
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
from agtphost.contract.endpoint_table import Match
from agtphost.contract.recipes.recipe import Recipe
from agtphost.handlers.interface import IHandler
from agtphost.identity.peer import Peer
from agtphost.negotiation import contract as terms
from agtphost.negotiation.contract import Contract, Origin, Scope, contract_of, digest_of
from agtphost.negotiation.process_state import ContractLinks
from agtphost.negotiation.settings import NegotiationSettings
from agtphost.negotiation.synthesis import Synthesis, Synthesizer
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.paths import Template, decode

log = Logger()

MOST_LAPSED = 8
"""Expired previews that are removed together with the next contract of the same agent."""


class TooManyContracts(Exception):
    """The agent already has the maximum number of contracts."""


@dataclass(frozen=True, kw_only=True)
class IssuedContract:
    """A new contract with the changes and events that its response commits."""

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
    All contracts of the host.

    :param compose: returns the handler of a recipe.
    :param now: returns milliseconds since the Unix epoch.
    :param links: the connections that contracts are bound to; None: new ones.
    """

    def __init__(
        self,
        held: StateTable,
        synthesizer: Synthesizer,
        settings: NegotiationSettings,
        compose: Callable[[Recipe], IHandler],
        now: Callable[[], int],
        links: ContractLinks | None = None,
    ) -> None:
        self._held = held
        self._synthesizer = synthesizer
        self._most = settings.policies.synthesis.max_contracts_per_agent
        self._compose = compose
        self._now = now
        self._entries: dict[str, _Entry] = {}
        self._owned: dict[str, dict[str, _Entry]] = {}
        self._links = links or ContractLinks()
        self._adrift: dict[str, None] = {}
        self._on_adrift: Callable[[], None] = lambda: None
        self._persistent: dict[str, Contract] = {}
        held.watch(terms.KIND, self._follow)
        held.leasing.note_entry(self._links.watch(self._on_disconnect))

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
        entry = self._bind(contract) if known is None else _Entry(contract, known.binding, known.fault)
        self._entries[key] = self._owned.setdefault(owner, {})[key] = entry
        if contract.persistent:
            self._persistent[key] = contract
        if self.is_ended(contract):
            self._adrift.pop(key, None)
        elif contract.scope is Scope.CONNECTION and key not in self._links:
            # The connection closed before the commit, or the host was stopped in between.
            self._set_adrift(key)

    def _bind(self, contract: Contract) -> _Entry:
        try:
            recipe = self._synthesizer.restore_recipe(contract.recipe)
            return _Entry(contract, contract.bind(recipe, self._compose, self._synthesizer.book), "")
        except ValueError as error:
            log.warn("contract {id} can no longer run: {why}", id=contract.synthesis_id, why=str(error))
            return _Entry(contract, None, str(error))

    def prepare(self, contract: Contract) -> Binding:
        """
        Return the binding of a contract that is not in force yet.

        :raises ValueError: the contract cannot run; the message says why.
        """
        return contract.bind(self._synthesizer.restore_recipe(contract.recipe), self._compose, self._synthesizer.book)

    # Contracts of closed connections

    def adrift(self) -> list[Contract]:
        """Return the contracts whose connection is closed but whose end is not recorded yet, oldest first."""
        return [self._entries[key].contract for key in self._adrift if key in self._entries]

    def watch_adrift(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever a contract becomes adrift."""
        self._on_adrift = callback

    def _on_disconnect(self, synthesis_id: str) -> None:
        """Mark a contract as adrift, because its connection is closed."""
        entry = self._entries.get(synthesis_id)
        if entry is not None and not self.is_ended(entry.contract):
            self._set_adrift(synthesis_id)

    def _set_adrift(self, synthesis_id: str) -> None:
        self._adrift[synthesis_id] = None
        self._on_adrift()

    # Looking up

    def get(self, synthesis_id: str) -> Contract | None:
        """Return a contract in any state, except expired previews and contracts that are adrift."""
        entry = self._entries.get(synthesis_id)
        if entry is None or self._is_unusable(entry.contract):
            return None
        return entry.contract

    def binding(self, contract: Contract) -> Binding | None:
        """Return the binding of a contract; None if this host can no longer run it, see :meth:`fault`."""
        return self._entries[contract.synthesis_id].binding

    def fault(self, contract: Contract) -> str:
        """Return why :meth:`binding` is None."""
        return self._entries[contract.synthesis_id].fault

    def is_offered(self, contract: Contract) -> bool:
        """Return whether a contract is a preview that waits for acceptance."""
        if contract.preview_until is None:
            return False
        return self._held.get(terms.ACCEPTED, contract.synthesis_id) is None

    def is_ended(self, contract: Contract) -> bool:
        """Return whether a contract was revoked or has expired."""
        return contract.revoked or contract.expires_at <= self._now()

    def state(self, contract: Contract) -> str:
        """Return the lifecycle state of a contract, in a word."""
        if contract.revoked:
            return "revoked"
        if contract.expires_at <= self._now():
            return "expired"
        return "offered" if self.is_offered(contract) else "active"

    def reaches(self, contract: Contract, session_id: str | None, peer: Peer | None) -> bool:
        """Return whether a request's session or connection is the one that the contract is bound to."""
        if contract.scope is Scope.AGENT:
            return True
        if contract.scope is Scope.SESSION:
            return session_id == contract.session_id
        return self._links.joins(contract.synthesis_id, peer)

    def contracts_of(self, agent_id: str) -> Iterator[Contract]:
        """Yield the contracts of one agent that are in force or offered, oldest first."""
        for entry in list(self._owned.get(agent_id, {}).values()):
            if not self._is_unusable(entry.contract) and not self.is_ended(entry.contract):
                yield entry.contract

    def all(self) -> Iterator[Contract]:
        """Yield the contracts of all agents that are in force or offered."""
        for agent_id in list(self._owned):
            yield from self.contracts_of(agent_id)

    def persistent(self) -> list[Contract]:
        """Return the persistent contracts in force."""
        return [contract for contract in self._persistent.values() if not self.is_ended(contract)]

    def implicit(self, agent_id: str, method: str, path: str, session_id: str | None, peer: Peer) -> Match | None:
        """
        Return the newest accepted contract of an agent that matches a request without a name (AGTP-API section 10.1.1).
        """
        owned = self._owned.get(agent_id)
        if not owned:
            return None
        for entry in reversed(list(owned.values())):
            contract = entry.contract
            if (
                contract.method != method
                or entry.binding is None
                or self.is_ended(contract)
                or self.is_offered(contract)
            ):
                continue
            match = match_path(entry.binding, contract.template, path)
            if match is not None and self.reaches(contract, session_id, peer):
                return match
        return None

    def _is_lapsed(self, contract: Contract) -> bool:
        until = contract.preview_until
        return until is not None and until <= self._now() and self.is_offered(contract)

    def _is_unusable(self, contract: Contract) -> bool:
        """Return whether a contract can no longer be used, although its end is not recorded."""
        return contract.synthesis_id in self._adrift or self._is_lapsed(contract)

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
    ) -> IssuedContract:
        """
        Return a new contract for a synthesis.

        :param seconds: longest lifetime.
        :param peer: the connection that a contract of the scope CONNECTION is bound to.
        :param preview: seconds in which it must be accepted; None if it needs no acceptance.
        :raises TooManyContracts: the agent already has the maximum number.
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
        changes = (*self._room(agent_id), contract.to_change())
        if scope is Scope.CONNECTION and peer is not None:
            self._links.tie(contract.synthesis_id, peer)
        event = StreamEvent(chain=agent_id or HOST_CHAIN, event_type="rcns_propose_accepted", fields=contract.event())
        return IssuedContract(contract=contract, changes=changes, events=(event,))

    def _room(self, agent_id: str) -> tuple[Change, ...]:
        """Return the changes that make room for one more: expired previews and ended contracts are removed first."""
        owned = [entry.contract for entry in self._owned.get(agent_id, {}).values()]
        lapsed = [contract for contract in owned if self._is_lapsed(contract)][:MOST_LAPSED]
        live = [contract for contract in owned if not self._is_unusable(contract) and not self.is_ended(contract)]
        # There are never many more ended contracts than live ones; the oldest is removed.
        ended = [contract for contract in owned if self.is_ended(contract)][: -self._most or None]
        if len(live) >= self._most:
            passing = [contract for contract in live if contract.scope is not Scope.AGENT]
            if not passing:
                raise TooManyContracts
            lapsed.append(passing[0])
        return tuple(change for contract in (*lapsed, *ended) for change in contract.deletion_changes())


def match_path(binding: Binding, template: Template, path: str) -> Match | None:
    """Return the match of a path with a contract's template; None if it does not match."""
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
