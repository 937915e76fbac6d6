"""
Leases of registered agents, which the agents' own calls renew.

Each call is a heartbeat: every answer to an agent with a certificate renews the leases of all its cards. The states are
live, late (silent for one lifetime) and lost (silent for three). After a start every agent counts as just seen, so an
outage of this host loses no agent. If more than a third of the agents is lost within a minute, this host assumes that
its own network failed: it freezes the states, and the registry reports this.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from agtphost.audit.observed_records import ObservedGroup
from agtphost.identity.peer import Assurance
from agtphost.registry.entry import LATE, LIVE, LOST, CardEntry
from agtphost.vocabulary.sorted_blocks import SortedBlocks
from agtphost.vocabulary.steps import TURN

SHORTEST = 60.0
LONGEST = 86_400.0
DEFAULT = 900.0
"""Seconds of a lifetime."""

LOST_AFTER = 3
"""Lifetimes of silence after which an agent is lost."""

WINDOW = 60.0
"""
Seconds within which more than a third has to be lost for states to freeze.

Frozen states are checked again after the same time.
"""

FEWEST = 2
"""Fewest lost cards that freeze the states: a single one does not indicate an outage."""

AT_ONCE = 1_000
"""Cards that are collected between two checks of the clock."""

PROVEN = Assurance.CERTIFICATE.label

Told = Callable[[str, float | None], object]
"""Takes a card's id and the time when it was lost; None if it was seen again."""

Steps = Generator[None, None, None]

log = Logger()


class _Lease:
    __slots__ = ("due_at", "last_seen", "lifetime", "lost_since", "owner", "state")

    def __init__(self, owner: str, lifetime: float, heard: float, since: float | None) -> None:
        self.owner = owner
        self.lifetime = lifetime
        self.last_seen = heard
        self.lost_since = since
        """When it was lost; None if it is not lost."""

        self.state = LIVE
        self.due_at: float | None = None
        """When its state is checked next, on the clock."""


class Leases:
    """
    The leases of all cards, by card id. Their states change with time from :meth:`start` on.

    :param clock: the clock of timers.
    :param now: returns seconds since the Unix epoch, for times that are reported.
    :param on_change: called when a card is lost, and when its agent is seen again.
    """

    def __init__(
        self, clock: IReactorTime, now: Callable[[], float], on_change: Told = lambda card_id, since: None
    ) -> None:
        self._clock = clock
        self._now = now
        self.on_change = on_change
        self._leases: dict[str, _Lease] = {}
        self._by_owner: dict[str, dict[str, _Lease]] = {}
        self._due: SortedBlocks[str] = SortedBlocks()
        self._lost: deque[tuple[float, str]] = deque()
        self._held_back: set[str] = set()
        self._timer: Any = None
        self._running = False
        self._update_steps: Steps | None = None
        self.frozen = False
        """Whether states are frozen."""

    def __len__(self) -> int:
        return len(self._leases)

    # What there is

    def note_entry(self, card_id: str, entry: CardEntry | None) -> None:
        """Set the lease that the entry of a card states; without an entry, remove it."""
        if entry is None:
            self.drop(card_id)
        else:
            self.put(card_id, entry.owner, entry.lifetime, entry.lost_since)

    def put(self, card_id: str, owner: str, lifetime: float | None, lost_since: float | None = None) -> None:
        """
        Set the lease of a card; a lease that exists goes on.

        :param owner: Agent-ID of the agent whose calls renew it; empty if no calls renew it.
        :param lifetime: seconds; None removes the lease.
        """
        known = self._leases.get(card_id)
        if lifetime is None:
            self.drop(card_id)
        elif known is None or known.owner != owner:
            self.drop(card_id)
            lease = self._leases[card_id] = _Lease(owner, lifetime, self._clock.seconds(), lost_since)
            if owner:
                self._by_owner.setdefault(owner, {})[card_id] = lease
            self._expect(card_id, lease)
        elif known.lifetime != lifetime:
            known.lifetime = lifetime
            self._expect(card_id, known)

    def drop(self, card_id: str) -> None:
        """Remove the lease of a card."""
        lease = self._leases.pop(card_id, None)
        self._held_back.discard(card_id)
        if lease is not None and lease.due_at is not None:
            self._due.drop((lease.due_at, card_id))
        if lease is not None and lease.owner:
            cards = self._by_owner[lease.owner]
            del cards[card_id]
            if not cards:
                del self._by_owner[lease.owner]

    def state(self, card_id: str) -> str:
        """Return the state of a card; a card without a lease is live."""
        lease = self._leases.get(card_id)
        return LIVE if lease is None else lease.state

    def seen_at(self, card_id: str) -> float | None:
        """Return when a card's agent was last seen, in seconds since the Unix epoch; None if it has no lease."""
        lease = self._leases.get(card_id)
        return None if lease is None else self._now() - (self._clock.seconds() - lease.last_seen)

    # Signs of life

    def renew(self, card_id: str) -> None:
        """Renew the lease of one card."""
        lease = self._leases.get(card_id)
        if lease is not None:
            self._renew(card_id, lease)

    def renew_agent(self, agent_id: str) -> None:
        """Renew the leases of all cards of an agent that called."""
        for card_id, lease in self._by_owner.get(agent_id, {}).items():
            self._renew(card_id, lease)

    def watch(self, group: ObservedGroup) -> None:
        """Renew the leases of the agents whose calls are among newly sealed records."""
        if self._by_owner:
            for agent_id in {
                str(record.members.get("caller_id"))
                for record in group.records
                if record.members.get("identity_assurance") == PROVEN
            }:
                self.renew_agent(agent_id)

    def _renew(self, card_id: str, lease: _Lease) -> None:
        lease.last_seen = self._clock.seconds()
        if lease.state != LIVE or lease.lost_since is not None:
            lost, lease.state, lease.lost_since = lease.lost_since, LIVE, None
            self._held_back.discard(card_id)
            self._expect(card_id, lease)
            if lost is not None:
                self.on_change(card_id, None)

    # Time

    def start(self) -> None:
        """Change states when their time comes."""
        self._running = True
        self._set_timer()

    def stop(self) -> None:
        """Stop all timers."""
        self._running = False
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._update_steps = None

    def _expect(self, card_id: str, lease: _Lease) -> None:
        lifetimes = 1 if lease.state == LIVE else LOST_AFTER
        self._at(lease.last_seen + lifetimes * lease.lifetime, card_id, lease)

    def _at(self, moment: float, card_id: str, lease: _Lease) -> None:
        if lease.due_at is not None:
            self._due.drop((lease.due_at, card_id))
        lease.due_at = moment
        self._due.put((moment, card_id), card_id)
        self._set_timer()

    def _set_timer(self) -> None:
        first = self._due.first()
        if first is None or self._update_steps is not None or not self._running:
            return
        moment = first[0][0]
        if self._timer is not None and self._timer.active():
            if self._timer.getTime() <= moment:
                return
            self._timer.cancel()
        self._timer = self._clock.callLater(max(moment - self._clock.seconds(), 0.0), self._update_states)

    def _update_states(self) -> None:
        """Update the states whose time has come, in slices: the leases of all cards may end at the same moment."""
        if self._update_steps is None:
            self._update_steps = self._update_due()
        began = time.thread_time()
        for _ in self._update_steps:
            if time.thread_time() - began > TURN / 2:
                self._timer = self._clock.callLater(0, self._update_states)
                return
        self._update_steps = None
        self._set_timer()

    def _update_due(self) -> Steps:
        """Update the state of each lease whose time has come, one a step."""
        now, falling = self._clock.seconds(), []
        while (first := self._due.first()) is not None and first[0][0] <= now:
            place, card_id = first
            self._due.drop(place)
            lease = self._leases[card_id]
            lease.due_at = None
            if lease.state == LOST:
                continue
            silent = now - lease.last_seen
            if silent >= LOST_AFTER * lease.lifetime:
                falling.append(card_id)
            elif silent >= lease.lifetime:
                lease.state = LATE
                self._expect(card_id, lease)
            elif lease.state == LIVE:
                self._expect(card_id, lease)
            yield
        if falling or self.frozen:
            yield from self._fall(falling, now)

    def _silent(self, card_ids: Iterable[str], now: float) -> Iterator[tuple[str, _Lease]]:
        """Yield the leases that are still silent for too long; an agent may have called between the steps."""
        for card_id in card_ids:
            lease = self._leases.get(card_id)
            if lease is not None and now - lease.last_seen >= LOST_AFTER * lease.lifetime:
                yield card_id, lease

    def _fall(self, falling: list[str], now: float) -> Steps:
        """Mark cards as lost that were silent for too long, unless they are so many that states freeze."""
        while self._lost and now - self._lost[0][0] > WINDOW:
            self._lost.popleft()
        recent = [card_id for _, card_id in self._lost if self.state(card_id) == LOST]
        overdue: dict[str, None] = {}
        for card_ids in (falling, recent, list(self._held_back)):
            for at in range(0, len(card_ids), AT_ONCE):
                overdue.update(dict.fromkeys(card_ids[at : at + AT_ONCE]))
                yield
        if len(overdue) >= FEWEST and len(overdue) * 3 > len(self._leases):
            if not self.frozen:
                log.warn(
                    "{count} of {all} registered agents were silent for too long at the same time. This may be an "
                    "outage of this host's own network, so their states are frozen until fewer are silent",
                    count=len(overdue),
                    all=len(self._leases),
                )
            self.frozen = True
            self._lost.clear()
            for card_id, lease in self._silent(overdue, now):
                self._held_back.add(card_id)
                if lease.state == LOST and lease.lost_since is not None:
                    lease.lost_since = None
                    self.on_change(card_id, None)
                lease.state = LATE
                self._at(now + WINDOW, card_id, lease)
                yield
            return
        if self.frozen:
            self.frozen = False
            log.info("the states of registered agents change again")
        for card_id, lease in self._silent(overdue, now):
            self._held_back.discard(card_id)
            if lease.state != LOST:
                lease.state = LOST
                self._lost.append((now, card_id))
                if lease.lost_since is None:
                    lease.lost_since = self._now()
                self.on_change(card_id, lease.lost_since)
            yield
