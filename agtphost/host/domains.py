"""What follows from domains that expired: agents are suspended, deprecated and reinstated when it is time for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from agtphost.audit.domains import ORG_DOMAIN, barring, due, told
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LedgerUnavailable, LifecycleEvent, StaleLifecycle
from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.audit.state import StateItem, StateTable
from agtphost.iagtp import ILedger
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory

RETRY_SECONDS = 5.0
"""From a failure of the store to the next attempt."""

LONGEST_SLEEP = 3_600.0
"""Seconds between two looks at the most: the clock may be set."""

Following = Callable[[Agent, LifecycleStatus, Mapping[str, object]], tuple[Change, ...]]

log = Logger()


class DomainWatch(Service):
    """
    Records what is due of the agents under each domain.

    :param states: the present state of an agent.
    :param following: what is committed with a transition, as after a lifecycle method.
    :param own_domain: the host's; its agents that name no domain are under it.
    :param changed: told that other agents are listed now than before.
    :param now: seconds since the Unix epoch.
    """

    name = "domains"

    def __init__(
        self,
        clock: Any,
        held: StateTable,
        directory: AgentDirectory,
        states: Callable[[Agent], LifecycleState],
        ledger: ILedger,
        following: Following,
        own_domain: str,
        changed: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._held = held
        self._directory = directory
        self._states = states
        self._ledger = ledger
        self._following = following
        self._own_domain = own_domain
        self._changed = changed
        self._now = now
        self._timer: IDelayedCall | None = None
        self._working: Deferred[None] | None = None
        self._again = False
        self._withdrawn: frozenset[str] = frozenset()

    def startService(self) -> None:
        """Look now, and whenever something is told or due."""
        super().startService()  # type: ignore[no-untyped-call]
        self._held.watch(ORG_DOMAIN, self._told)
        self.look()

    def stopService(self) -> Deferred[None] | None:
        """Look no more; what was begun is finished."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._cancel()
        return self._working

    def _told(self, domain: str, item: StateItem | None) -> None:
        self.look()

    def look(self) -> None:
        """Record what is due now. What goes wrong is logged, and tried again."""
        if not self.running:
            return
        self._again = self._working is not None
        if self._again:
            return
        self._cancel()
        self._withdraw()
        self._working = Deferred.fromCoroutine(self._record())
        self._working.addErrback(lambda failure: log.failure("a domain's agents were not dealt with", failure=failure))
        self._working.addCallback(lambda _: self._done())

    def _done(self) -> None:
        self._working = None
        if self._again:
            self.look()
        elif self.running and self._timer is None:
            self._sleep(self._until_next())

    def _withdraw(self) -> None:
        """Agents without standing are in no list (core v08 section 11.8)."""
        domains, now = tuple(told(self._held.of(ORG_DOMAIN))), self._now()
        withdrawn = frozenset(
            agent.agent_id
            for agent in (self._directory.known() if domains else ())
            if barring(agent, domains, self._own_domain, now) is not None
        )
        if withdrawn != self._withdrawn:
            self._withdrawn = withdrawn
            self._directory.withdraw(withdrawn)
            self._changed()

    async def _record(self) -> None:
        domains = tuple(told(self._held.of(ORG_DOMAIN)))
        found = list(due(self._directory.known(), domains, self._states, self._own_domain, self._now()))
        submitted = [(agent, event, self._ledger.submit(self._draft(agent, event))) for agent, event in found]
        for agent, event, sealing in submitted:
            try:
                await sealing
            except StaleLifecycle:
                self._again = True
            except LedgerUnavailable as error:
                log.error("{name} stays as it is for now: {why}", name=agent.name, why=str(error))
                if self.running and self._timer is None:
                    self._sleep(RETRY_SECONDS)
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
        moments = [at for one in told(self._held.of(ORG_DOMAIN)) for at in one.moments() if at > now]
        return min([at - now for at in moments] + [LONGEST_SLEEP])

    def _sleep(self, seconds: float) -> None:
        self._timer = self._clock.callLater(seconds, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.look()

    def _cancel(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
