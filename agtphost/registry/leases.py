"""
Who of those that registered is there: leases that an agent's own calls renew.

A call is a heartbeat: whatever an agent is answered, with its certificate, renews the leases of all its cards. States
are live, late (silent for one lifetime) and lost (for three). After a start everybody counts as heard of just then, so
that nobody is lost for an outage of the host's own; and where more than a third is lost within a minute, it is taken
for the host's own outage too: states stand still, and the registry says so.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from agtphost.audit.observed import ObservedGroup
from agtphost.identity.peer import Assurance
from agtphost.registry.entry import LATE, LIVE, LOST

SHORTEST = 60.0
LONGEST = 86_400.0
DEFAULT = 900.0
"""Seconds of a lifetime."""

LOST_AFTER = 3
"""Lifetimes."""

WINDOW = 60.0
"""Seconds in which more than a third has to be lost for states to stand still; and until it is looked at again."""

FEWEST = 2
"""Cards that have to be lost for that: one alone is no sign of anything."""

PROVEN = Assurance.CERTIFICATE.label

Told = Callable[[str, float | None], object]
"""Takes a card's id, and when it was lost; None: it is heard of again."""

log = Logger()


class _Lease:
    __slots__ = ("heard", "lifetime", "owner", "since", "state")

    def __init__(self, owner: str, lifetime: float, heard: float, since: float | None) -> None:
        self.owner = owner
        self.lifetime = lifetime
        self.heard = heard
        self.since = since
        """When it was lost; None: it was not, or is heard of again."""

        self.state = LIVE


class Leases:
    """
    Every lease, by the id of its card.

    :param clock: what timers run on.
    :param now: seconds since the Unix epoch, for what is told.
    :param told: called when a card is lost, and when it is heard of again.
    """

    def __init__(self, clock: IReactorTime, now: Callable[[], float], told: Told = lambda card_id, since: None) -> None:
        self._clock = clock
        self._now = now
        self.told = told
        self._leases: dict[str, _Lease] = {}
        self._of: dict[str, dict[str, _Lease]] = {}
        self._due: list[tuple[float, str]] = []
        self._lost: deque[tuple[float, str]] = deque()
        self._held_back: set[str] = set()
        self._timer: Any = None
        self.frozen = False
        """Whether states stand still."""

    def __len__(self) -> int:
        return len(self._leases)

    # What there is

    def put(self, card_id: str, owner: str, lifetime: float | None, lost_since: float | None = None) -> None:
        """
        A card has this lease from now on; one that has it already goes on with it.

        :param owner: Agent-ID of whoever renews it by calling; empty: nobody does.
        :param lifetime: None: it has none.
        """
        known = self._leases.get(card_id)
        if lifetime is None:
            self.drop(card_id)
        elif known is None or known.owner != owner:
            self.drop(card_id)
            lease = self._leases[card_id] = _Lease(owner, lifetime, self._clock.seconds(), lost_since)
            if owner:
                self._of.setdefault(owner, {})[card_id] = lease
            self._expect(card_id, lease)
        elif known.lifetime != lifetime:
            known.lifetime = lifetime
            self._expect(card_id, known)

    def drop(self, card_id: str) -> None:
        """A card has no lease any more."""
        lease = self._leases.pop(card_id, None)
        self._held_back.discard(card_id)
        if lease is not None and lease.owner:
            cards = self._of[lease.owner]
            del cards[card_id]
            if not cards:
                del self._of[lease.owner]

    def state(self, card_id: str) -> str:
        """What it is in; a card without a lease is live."""
        lease = self._leases.get(card_id)
        return LIVE if lease is None else lease.state

    def seen(self, card_id: str) -> float | None:
        """When it was heard of last, in seconds since the Unix epoch; None: it has no lease."""
        lease = self._leases.get(card_id)
        return None if lease is None else self._now() - (self._clock.seconds() - lease.heard)

    # Signs of life

    def saw(self, card_id: str) -> None:
        """There is a sign of life of one card."""
        lease = self._leases.get(card_id)
        if lease is not None:
            self._heard(card_id, lease)

    def saw_agent(self, agent_id: str) -> None:
        """An agent called: all its cards are there."""
        for card_id, lease in self._of.get(agent_id, {}).items():
            self._heard(card_id, lease)

    def watch(self, group: ObservedGroup) -> None:
        """Records were sealed: those of calls tell who is there."""
        if self._of:
            for agent_id in {
                str(record.members.get("caller_id"))
                for record in group.records
                if record.members.get("identity_assurance") == PROVEN
            }:
                self.saw_agent(agent_id)

    def _heard(self, card_id: str, lease: _Lease) -> None:
        lease.heard = self._clock.seconds()
        if lease.state != LIVE or lease.since is not None:
            lost, lease.state, lease.since = lease.since, LIVE, None
            self._held_back.discard(card_id)
            self._expect(card_id, lease)
            if lost is not None:
                self.told(card_id, None)

    # Time

    def stop(self) -> None:
        """Nothing happens by itself any more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _expect(self, card_id: str, lease: _Lease) -> None:
        lifetimes = 1 if lease.state == LIVE else LOST_AFTER
        self._at(lease.heard + lifetimes * lease.lifetime, card_id)

    def _at(self, moment: float, card_id: str) -> None:
        heapq.heappush(self._due, (moment, card_id))
        if len(self._due) > 4 * len(self._leases) + 64:
            self._due = list({(when, each) for when, each in self._due if each in self._leases})
            heapq.heapify(self._due)
        self._set_timer()

    def _set_timer(self) -> None:
        if not self._due:
            return
        moment = self._due[0][0]
        if self._timer is not None and self._timer.active():
            if self._timer.getTime() <= moment:
                return
            self._timer.cancel()
        self._timer = self._clock.callLater(max(moment - self._clock.seconds(), 0.0), self._look)

    def _look(self) -> None:
        """Something may be due: only what is silent for so long changes."""
        now, falling = self._clock.seconds(), []
        while self._due and self._due[0][0] <= now:
            _, card_id = heapq.heappop(self._due)
            lease = self._leases.get(card_id)
            if lease is None or lease.state == LOST:
                continue
            silent = now - lease.heard
            if silent >= LOST_AFTER * lease.lifetime:
                falling.append(card_id)
            elif silent >= lease.lifetime:
                lease.state = LATE
                self._expect(card_id, lease)
            elif lease.state == LIVE:
                self._expect(card_id, lease)
        if falling or self.frozen:
            self._fall(falling, now)
        self._set_timer()

    def _fall(self, falling: list[str], now: float) -> None:
        """These are silent for too long: they are lost, unless too many are."""
        while self._lost and now - self._lost[0][0] > WINDOW:
            self._lost.popleft()
        recent = [card_id for _, card_id in self._lost if self.state(card_id) == LOST]
        overdue = {*falling, *recent, *self._held_back}
        if len(overdue) >= FEWEST and len(overdue) * 3 > len(self._leases):
            if not self.frozen:
                log.warn(
                    "{count} of {all} registered agents were silent for too long at once: that may be this host's own "
                    "network, so their states stand still until fewer are",
                    count=len(overdue),
                    all=len(self._leases),
                )
            self.frozen = True
            for card_id in overdue:
                lease = self._leases[card_id]
                if lease.state == LOST and lease.since is not None:
                    lease.since = None
                    self.told(card_id, None)
                lease.state = LATE
                self._at(now + WINDOW, card_id)
            self._held_back |= overdue
            self._lost.clear()
            return
        if self.frozen:
            self.frozen = False
            log.info("the states of registered agents change again")
        for card_id in overdue:
            lease = self._leases[card_id]
            self._held_back.discard(card_id)
            if lease.state != LOST:
                lease.state = LOST
                self._lost.append((now, card_id))
                if lease.since is None:
                    lease.since = self._now()
                self.told(card_id, lease.since)
