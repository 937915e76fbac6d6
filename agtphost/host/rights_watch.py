"""Watch the rights of agents, and let clients that listen for changes of lists read them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus, LifecycleTable
from agtphost.audit.state import StateItem, StateTable
from agtphost.contract.binding import Binding
from agtphost.contract.grant_check import Grantable
from agtphost.contract.rights import GrantSet
from agtphost.handlers.rights_listeners import RightsListeners
from agtphost.host.core import Core
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.quotas import GRANT, SCOPES
from agtphost.vocabulary.scopes import missing
from agtphost.vocabulary.steps import spread

log = Logger()

LONGEST_WAIT = 60.0
"""Seconds after which the clock is read again while a grant runs: it may have been set."""


@dataclass(frozen=True, slots=True)
class _Rights:
    """The rights of an agent, by which its lists are compared."""

    scopes: frozenset[str]
    grants: GrantSet | None
    """None: the agent has no limits."""

    status: LifecycleStatus

    def allow(self, binding: Binding) -> bool:
        """Return whether scopes and grants allow a binding."""
        return not missing(self.scopes, binding.required_scopes) and (
            self.grants is None or self.grants.allows(binding)
        )


class RightsWatch(Service):
    """
    The watch for changed rights of agents for which requests listen.

    Grants change by requests of operators and end by time, scopes change by statements of issuers, and everything
    changes with another configuration. Only the requests of agents whose lists differ end. The rights of an agent
    are compared once in a turn of the reactor, no matter how often they changed.

    :param held: the state items.
    :param states: the lifecycle states of agents.
    :param listeners: the requests that listen.
    :param find_core: returns what answers requests now.
    :param now: seconds since the Unix epoch.
    """

    name = "rights watch"

    def __init__(
        self,
        reactor: Any,
        held: StateTable,
        states: LifecycleTable,
        listeners: RightsListeners,
        find_core: Callable[[], Core],
        now: Callable[[], float],
    ) -> None:
        self._reactor = reactor
        self._listeners = listeners
        self._find_core = find_core
        self._now = now
        self._changed: dict[str, None] = {}
        self._ends: dict[str, float] = {}
        """When the next grant of an agent ends, in seconds since the Unix epoch."""

        self._timer: IDelayedCall | None = None
        listeners.snapshot = self._take_snapshot
        for kind in (GRANT, SCOPES):
            held.follow(kind, self._note_item)
        states.watch(self._note_state)
        self._states = states

    def stopService(self) -> None:
        """Wait for no further end of a grant."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._ends.clear()
        self._set_timer()

    def _note_state(self, agent_id: str, state: LifecycleState) -> None:
        self._note_changed((agent_id,))

    def _note_item(self, key: str, item: StateItem | None) -> None:
        self._note_changed((key.partition(" ")[0],))

    def _note_changed(self, agents: Iterable[str]) -> None:
        waiting = bool(self._changed)
        self._changed.update((agent_id, None) for agent_id in agents if agent_id in self._listeners)
        if self._changed and not waiting:
            # Later, when everything is settled that was committed together.
            self._reactor.callLater(0, lambda: spread(self._compare(), self._reactor))

    def _compare(self) -> Iterator[None]:
        while self._changed:
            agent_id = next(iter(self._changed))
            del self._changed[agent_id]
            if agent_id in self._listeners:
                try:
                    self._compare_rights(agent_id)
                except Exception:
                    # Otherwise no change would be compared any more. Its clients read all lists again.
                    log.failure("the rights of {agent} could not be compared", agent=agent_id)
                    for assurance in self._listeners.assurances(agent_id):
                        self._listeners.end(agent_id, assurance)
            yield

    def _compare_rights(self, agent_id: str) -> None:
        before, after = self._listeners.rights_before(agent_id), self._take_snapshot(agent_id)
        # First: a request that begins while ended ones still send their answers has seen these rights.
        self._listeners.set_rights(agent_id, after)
        # Requests that listened when the agent was stopped have ended: those that are there wait for another state.
        waited = before.status is LifecycleStatus.SUSPENDED and after.status is not before.status
        if before != after:
            for assurance in self._listeners.assurances(agent_id):
                if waited or self._lists(before, assurance) != self._lists(after, assurance):
                    self._listeners.end(agent_id, assurance)

    def _take_snapshot(self, agent_id: str) -> _Rights:
        services = self._find_core().services
        agent, now = services.lasting.directory.by_id(agent_id), self._now()
        self._ends.pop(agent_id, None)
        ends = [grant.until for grant in services.rights.grants(agent_id) if grant.until and grant.until > now]
        if ends:
            self._ends[agent_id] = min(ends)
            self._set_timer()
        narrowing = services.rights.narrowing_of(agent_id)
        if agent is None:
            return _Rights(frozenset(), narrowing, LifecycleStatus.RETIRED)
        return _Rights(agent.scopes, narrowing, self._states.state_of(agent).status)

    def _lists(self, rights: _Rights, assurance: Assurance) -> tuple[list[str], frozenset[str]]:
        """Return what a caller may use who is known so surely; a header alone tells nothing more."""
        core = self._find_core()
        grantable = Grantable(core.services.registry.admitted_bindings, core.connected.adapters)
        return (
            grantable.callable_with(rights.scopes, rights.grants, assurance),
            core.connected.mcp.find_listed(
                lambda binding: binding.min_assurance <= assurance and rights.allow(binding)
            ),
        )

    # Grants that end by time

    def _set_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self._ends:
            wait = max(0.0, min(self._ends.values()) - self._now())
            self._timer = self._reactor.callLater(min(wait, LONGEST_WAIT), self._check_ends)

    def _check_ends(self) -> None:
        now = self._now()
        ended = [agent_id for agent_id, end in self._ends.items() if end <= now]
        for agent_id in (*ended, *(each for each in self._ends if each not in self._listeners)):
            self._ends.pop(agent_id, None)
        self._note_changed(ended)
        self._set_timer()
