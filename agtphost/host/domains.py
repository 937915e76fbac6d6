"""Apply expired domains: suspend, deprecate and reinstate their agents at the right time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from twisted.logger import Logger

from agtphost.audit.domains import ORG_DOMAIN, barring, due, read_domains
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LedgerUnavailable, LifecycleEvent, StaleLifecycle
from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.audit.state import StateItem, StateTable
from agtphost.iagtp import ILedger
from agtphost.identity.agents import Agent
from agtphost.identity.live_directory import Known
from agtphost.protocols.periodic import PeriodicService

RETRY_SECONDS = 5.0
"""Seconds from a failure of the store to the next attempt."""

LONGEST_SLEEP = 3_600.0
"""The longest time between two checks, in seconds, because the clock may be set."""

FollowUp = Callable[[Agent, LifecycleStatus, Mapping[str, object]], tuple[Change, ...]]

log = Logger()


class DomainWatch(PeriodicService):
    """
    A service that records lifecycle changes caused by the agents' domains.

    :param states: returns the present state of an agent.
    :param following: returns the changes that are committed with a transition, as after a lifecycle method.
    :param own_domain: the host's; agents that name no domain belong to it.
    :param changed: called when other agents are listed than before.
    :param now: returns seconds since the Unix epoch.
    """

    name = "domains"
    failure_message = "the agents of a domain could not be suspended or reinstated"

    def __init__(
        self,
        clock: Any,
        held: StateTable,
        directory: Known,
        states: Callable[[Agent], LifecycleState],
        ledger: ILedger,
        following: FollowUp,
        own_domain: str,
        changed: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(clock, LONGEST_SLEEP)
        self._held = held
        self._directory = directory
        self._states = states
        self._ledger = ledger
        self._following = following
        self._own_domain = own_domain
        self._changed = changed
        self._now = now
        self._again = False
        self._withdrawn: frozenset[str] = frozenset()

    def startService(self) -> None:
        """Start, and check at every change of a domain and at every deadline."""
        self._held.watch(ORG_DOMAIN, self._note_domain)
        super().startService()

    def _note_domain(self, domain: str, item: StateItem | None) -> None:
        self.check()

    def check(self) -> None:
        """Record the pending changes, after a recording in progress. Failures are logged and retried."""
        self._again = self._checking is not None
        super().check()

    def _finish_check(self) -> None:
        self._every = self._until_next()
        super()._finish_check()
        if self._again:
            self.check()

    def _withdraw(self) -> None:
        """Hide agents without standing from all lists (core v08 section 11.8)."""
        domains, now = tuple(read_domains(self._held.items_of(ORG_DOMAIN))), self._now()
        withdrawn = frozenset(
            agent.agent_id
            for agent in (self._directory.list_known() if domains else ())
            if barring(agent, domains, self._own_domain, now) is not None
        )
        if withdrawn != self._withdrawn:
            self._withdrawn = withdrawn
            self._directory.withdraw(withdrawn)
            self._changed()

    async def _check(self) -> None:
        self._withdraw()
        domains = tuple(read_domains(self._held.items_of(ORG_DOMAIN)))
        found = list(due(self._directory.list_known(), domains, self._states, self._own_domain, self._now()))
        submitted = [(agent, event, self._ledger.submit(self._draft(agent, event))) for agent, event in found]
        for agent, event, sealing in submitted:
            try:
                await sealing
            except StaleLifecycle:
                self._again = True
            except LedgerUnavailable as error:
                log.error("{name} is unchanged for now: {why}", name=agent.name, why=str(error))
                if self.running and self._timer is None:
                    self._check_in(RETRY_SECONDS)
            else:
                log.info(
                    "{name} ({agent_id}) is {status} now: {reason}",
                    name=agent.name,
                    agent_id=agent.agent_id,
                    status=event.new_status,
                    reason=event.fields["reason"],
                )

    def _draft(self, agent: Agent, event: LifecycleEvent) -> Draft:
        changes = self._following(agent, LifecycleStatus(event.new_status), event.fields)
        return Draft(chain=HOST_CHAIN, payload={}, event=event, changes=changes, performed=True)

    def _until_next(self) -> float:
        now = self._now()
        moments = [at for one in read_domains(self._held.items_of(ORG_DOMAIN)) for at in one.moments() if at > now]
        return min([at - now for at in moments] + [LONGEST_SLEEP])
