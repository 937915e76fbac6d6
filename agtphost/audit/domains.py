"""
Domains that expired, were renewed, or went to another owner: core v08 section 11.8.

An agent's status may depend on a domain: its ``org_domain``. The registrar reports to the host when the domain expires;
the agents under it are suspended then, deprecated 90 days later, and never come back for a new owner of the domain. The
report is a state item; its consequences are computed here, from that item, the clock and the agents' states alone, so
that a host which was down goes on where time has got to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agtphost.audit.drafts import LifecycleEvent
from agtphost.audit.lifecycle import EventType, LifecycleState, LifecycleStatus
from agtphost.audit.state import StateItem
from agtphost.identity.agents import Agent
from agtphost.vocabulary import times, uris

ORG_DOMAIN = "org-domain"
"""The kind of state item; its key is the domain."""

EXPIRED = "org-domain-expired"
RENEWED = "org-domain-renewed"
TRANSFERRED = "org-domain-transferred"
"""Types of events, in the host's chain and in that of each agent under the domain."""

GRACE = 86_400
"""Seconds from the expiry until agents have to be suspended, at most."""

DEPRECATED_AFTER = 90 * 86_400
"""Seconds from the suspension."""

_MARK = "; deprecated before"
"""Ends the reason at an agent that was deprecated already, so that a renewal leaves it so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgDomain:
    """The latest report about one domain."""

    domain: str
    event: str
    """:data:`EXPIRED`, :data:`RENEWED` or :data:`TRANSFERRED`."""

    told_at: float
    suspend_at: float
    deprecate_at: float
    """Seconds since the Unix epoch; without meaning for a domain that was renewed."""

    owner: str = ""
    """With :data:`TRANSFERRED` the ``owner_id`` whose agents alone are admitted from then on."""

    @classmethod
    def from_item(cls, value: Mapping[str, Any]) -> OrgDomain:
        """Read a domain from a state item's value."""
        moments = {name: datetime.fromisoformat(value[name]).timestamp() for name in _TIMES}
        return cls(domain=value["domain"], event=value["event"], owner=value["owner"], **moments)

    def value(self) -> dict[str, Any]:
        """Return the JSON value that the state item of the domain has."""
        moments = {name: times.stamp(getattr(self, name)) for name in _TIMES}
        return {"domain": self.domain, "event": self.event, "owner": self.owner, **moments}

    @property
    def reason(self) -> str:
        """Return the reason that is given in the resulting lifecycle events."""
        return f"{EXPIRED}: {self.domain}"

    def concerns(self, agent: Agent, own_domain: str) -> bool:
        """Return whether the agent is under the domain, or under a subdomain of it."""
        return any(map(self.covers, domains_of(agent, own_domain)))

    def covers(self, name: str) -> bool:
        """Return whether a domain, in lower case, is this one or a subdomain of it."""
        return name == self.domain or name.endswith(f".{self.domain}")

    def bars(self, agent: Agent, now: float) -> bool:
        """Return whether the domain's change keeps an agent under it from being active."""
        return self.withholds(agent.owner_id, now)

    def withholds(self, owner_id: str | None, now: float) -> bool:
        """Return whether lists must leave out agents of an owner under the domain."""
        if self.event == RENEWED or now < self.suspend_at:
            return False
        return not (self.event == TRANSFERRED and owner_id == self.owner)

    def due(self, agent: Agent, state: LifecycleState, now: float) -> LifecycleEvent | None:
        """Return the event to record for an agent under the domain at this moment; None where none follows."""
        barred = self.bars(agent, now)
        decided = self._decide_barred(state, now) if barred else self._decide_free(state, now)
        if decided is None:
            return None
        kind, new, reason = decided
        return LifecycleEvent(
            agent_id=agent.agent_id,
            event_type=kind.value,
            expected_status=state.status.value if state.recorded else None,
            new_status=new.value,
            fields={
                "previous_status": state.status.value,
                "reason": reason,
                "actor": "org-domain",
                "org_domain": self.domain,
                "principal": agent.principal,
            },
            org_domain=self.domain if barred else None,
        )

    def _decide_barred(self, state: LifecycleState, now: float) -> tuple[EventType, LifecycleStatus, str] | None:
        if state.status is LifecycleStatus.ACTIVE:
            return EventType.SUSPENDED, LifecycleStatus.SUSPENDED, self.reason
        if state.status is LifecycleStatus.DEPRECATED and not state.is_lapsed:
            return EventType.DEPRECATED, LifecycleStatus.DEPRECATED, self.reason + _MARK
        stopped = state.status is LifecycleStatus.SUSPENDED and state.org_domain == self.domain
        if stopped and now >= self.deprecate_at:
            return EventType.DEPRECATED, LifecycleStatus.DEPRECATED, self.reason
        return None

    def _decide_free(self, state: LifecycleState, now: float) -> tuple[EventType, LifecycleStatus, str] | None:
        """Return how an agent comes back with its domain, if the domain stopped it; None for another reason."""
        if self.event == EXPIRED and now < self.suspend_at:
            return None
        again = f"{self.event}: {self.domain}"
        if state.org_domain != self.domain or not state.is_stopped:
            return None
        if state.reason == self.reason + _MARK:
            return EventType.DEPRECATED, LifecycleStatus.DEPRECATED, again
        return EventType.REINSTATED, LifecycleStatus.ACTIVE, again

    def moments(self) -> tuple[float, ...]:
        """Return the times at which something follows from the report."""
        return () if self.event == RENEWED else (self.suspend_at, self.deprecate_at)


_TIMES = ("told_at", "suspend_at", "deprecate_at")


def domain_name(text: str) -> str | None:
    """Return a DNS domain in lower case; None for any other value."""
    try:
        parsed = uris.parse(f"{uris.SCHEME}://{text}")
    except uris.UriError:
        return None
    return parsed.host if parsed.form is uris.Form.DOMAIN and parsed.host == text.lower() else None


def domains_of(agent: Agent, own_domain: str) -> set[str]:
    """
    Return the domains that an agent depends on: those in its Genesis and its document.

    :param own_domain: of the host: a hosted agent that names no domain is addressed under this one.
    """
    origin = agent.genesis.members.get("org_domain") if agent.genesis is not None else None
    named = {str(name).lower() for name in (origin, agent.document.get("org_domain")) if name}
    return named or ({own_domain.lower()} if agent.hosted and own_domain else set())


def read_domains(items: Iterable[StateItem]) -> Iterator[OrgDomain]:
    """Yield the domains of the state items."""
    for item in items:
        yield OrgDomain.from_item(item.value)


def barring(agent: Agent, domains: Iterable[OrgDomain], own_domain: str, now: float) -> OrgDomain | None:
    """Return the expired or transferred domain that keeps an agent from being active; None if there is none."""
    return next((one for one in domains if one.concerns(agent, own_domain) and one.bars(agent, now)), None)


def due(
    agents: Iterable[Agent],
    domains: Iterable[OrgDomain],
    states: Callable[[Agent], LifecycleState],
    own_domain: str,
    now: float,
) -> Iterator[tuple[Agent, LifecycleEvent]]:
    """
    Yield the lifecycle events to record now, at most one for each agent.

    Of two domains that concern one agent, one that bars it counts before one that lets it go.
    """
    known = tuple(domains)
    for agent in agents if known else ():
        concerned = [one for one in known if one.concerns(agent, own_domain)]
        concerned.sort(key=lambda one: not one.bars(agent, now))
        barred = bool(concerned) and concerned[0].bars(agent, now)
        for one in concerned:
            event = one.due(agent, states(agent), now) if one.bars(agent, now) == barred else None
            if event is not None:
                yield agent, event
                break
