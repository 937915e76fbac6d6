"""
The items of one kind of state: what finds them, how many there are of whom, and which go where room is wanted.

Nothing here goes through all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost.audit.drafts import LedgerUnavailable
from agtphost.audit.state_item import StateItem
from agtphost.vocabulary.bounds import ANY, ItemQuota, fair_share
from agtphost.vocabulary.sorted_blocks import SortedBlocks

ALL = "all"
"""Instead of an owner, who is hexadecimal or the host."""


class StateFull(LedgerUnavailable):
    """
    A quota is used up, and no item of the kind may be evicted for a new one.

    :param in_all: whether the quota of all owners together is used up.
    :param given: whether ``limit`` is the share of the agent that causes such items.
    :param now: whether ``limit`` is the share that an owner has because of what the others have.
    """

    def __init__(
        self, holding: ItemQuota, limit: int, unit: str, *, in_all: bool, now: bool = False, given: bool = False
    ) -> None:
        whose = "all agents together" if in_all else f"one {holding.giver}" if given else "one agent"
        when = " next to what the others have at present" if now else ""
        super().__init__(f"At most {limit} {unit} of the kind {holding.kind} are kept here for {whose}{when}.")
        self.holding = holding
        self.limit = limit
        self.unit = unit
        self.in_all = in_all


@dataclass(slots=True)
class Load:
    """Items and octets: there, or on their way."""

    items: int = 0
    octets: int = 0


_NONE = Load()


@dataclass(slots=True)
class ItemTable:
    """The items of one kind, and what finds them."""

    holding: ItemQuota
    items: dict[str, StateItem] = field(default_factory=dict)
    owned: dict[str, dict[str, StateItem]] = field(default_factory=dict)
    found: dict[tuple[str, Any], dict[str, StateItem]] = field(default_factory=dict)
    found_open: Counter[tuple[str, Any]] = field(default_factory=Counter)
    """How many of :attr:`found` have not finished."""

    finished: SortedBlocks[StateItem] = field(default_factory=SortedBlocks)
    """What may go where room is wanted, the oldest first: what is going already is not among them."""

    finished_of: dict[str, SortedBlocks[StateItem]] = field(default_factory=dict)
    """The same by owner."""

    ranks: dict[str, int] = field(default_factory=dict)
    """The places of what has finished in these: in the order in which it did."""

    last_rank: int = 0
    loads: dict[str, Load] = field(default_factory=dict)
    load: Load = field(default_factory=Load)
    done: dict[str, Load] = field(default_factory=dict)
    """Of :attr:`loads`, the finished items, which go where room is wanted; with :data:`ALL` those of all."""

    given: dict[str, Load] = field(default_factory=dict)
    """Open items, stored or pending, by who caused them, if the kind has an :attr:`~.quotas.ItemQuota.giver`."""

    coming: dict[str, int] = field(default_factory=dict)
    """New keys that are under way, with how many changes make them."""

    evicting: set[str] = field(default_factory=set)
    """Keys that make room in a change under way."""

    evicted_size: dict[str, Load] = field(default_factory=dict)
    """What these are, by owner; with :data:`ALL` of all."""

    def is_finished(self, item: StateItem) -> bool:
        holding = self.holding
        return holding.finished == ANY or (
            bool(holding.finished) and str(item.brief.get(holding.state)) in holding.finished
        )

    def count(self, owner: str, items: int, octets: int) -> None:
        self.load.items += items
        self.load.octets += octets
        own = self.loads.get(owner)
        if own is None:
            own = self.loads[owner] = Load()
        own.items += items
        own.octets += octets
        if not own.items and not own.octets:
            del self.loads[owner]

    def count_given(self, giver: str, items: int, octets: int) -> None:
        """Add to the count of items that an agent caused for others, or subtract from it."""
        if not giver:
            return
        load = self.given.setdefault(giver, Load())
        load.items += items
        load.octets += octets
        if not load.items and not load.octets:
            del self.given[giver]

    def giver_of(self, value: Mapping[str, Any]) -> str:
        """Return the agent that caused an item; empty where its kind does not record that."""
        return str(value.get(self.holding.giver) or "") if self.holding.giver else ""

    def put(self, item: StateItem) -> StateItem | None:
        """
        Insert or replace an item; return the previous version.

        :return: the previous version, or None.
        """
        known = self.items.get(item.key)
        if known is not None:
            self._unlink(known, keep_place=known.owner == item.owner)
        self.items[item.key] = item
        self.owned.setdefault(item.owner, {})[item.key] = item
        for member in self.holding.indexed:
            self.found.setdefault((member, item.brief.get(member)), {})[item.key] = item
        going = item.key in self.evicting
        if going:
            _add(self.evicted_size, item, 1)
        if not self.is_finished(item):
            self.count_given(self.giver_of(item.brief), 1, item.octets)
            for member in self.holding.indexed:
                self.found_open[member, item.brief.get(member)] += 1
        else:
            _add(self.done, item, 1)
            self.last_rank += 1
            self.ranks[item.key] = self.last_rank
            if not going:
                self._offer(item)
        self.count(item.owner, 1, item.octets)
        return known

    def fill(self, items: Sequence[StateItem]) -> None:
        """
        Insert items of different keys into an empty table, as :meth:`put` would.

        A start does this with all items of the store; 1.5 us of 10 for each are saved by that.
        """
        owned, loads, done, state = self.owned, self.loads, self.done, self.holding.state
        finished = self.holding.finished
        octets = 0
        for item in items:
            owner, size = item.owner, item.octets
            own = owned.get(owner)
            if own is None:
                own = owned[owner] = {}
                loads[owner] = Load()
            own[item.key] = item
            load = loads[owner]
            load.items += 1
            load.octets += size
            octets += size
            if finished and (finished == ANY or str(item.brief.get(state)) in finished):
                _add(done, item, 1)
                self.last_rank += 1
                self.ranks[item.key] = self.last_rank
                self._offer(item)
            elif self.holding.giver:
                self.count_given(self.giver_of(item.brief), 1, size)
        self.items.update((item.key, item) for item in items)
        self.load = Load(len(items), octets)
        for member in self.holding.indexed:
            for item in items:
                place = member, item.brief.get(member)
                self.found.setdefault(place, {})[item.key] = item
                if item.key not in self.ranks:
                    self.found_open[place] += 1

    def drop(self, key: str) -> StateItem | None:
        """Remove an item and return it."""
        item = self.items.pop(key, None)
        if item is not None:
            self._unlink(item, keep_place=False)
        return item

    def _unlink(self, item: StateItem, *, keep_place: bool) -> None:
        """Remove an item from every index; ``keep_place`` leaves its key among its owner's, for the next version."""
        if not keep_place:
            _remove_from_index(self.owned, item.owner, item.key)
        for member in self.holding.indexed:
            _remove_from_index(self.found, (member, item.brief.get(member)), item.key)
        if item.key in self.evicting:
            _add(self.evicted_size, item, -1)
        if not self.is_finished(item):
            self.count_given(self.giver_of(item.brief), -1, -item.octets)
            for member in self.holding.indexed:
                place = member, item.brief.get(member)
                self.found_open[place] -= 1
                if not self.found_open[place]:
                    del self.found_open[place]
        else:
            _add(self.done, item, -1)
            self._withdraw(item)
            del self.ranks[item.key]
        self.count(item.owner, -1, -item.octets)

    def _offer(self, item: StateItem) -> None:
        rank = self.ranks[item.key]
        self.finished.put(rank, item)
        self.finished_of.setdefault(item.owner, SortedBlocks()).put(rank, item)

    def _withdraw(self, item: StateItem) -> None:
        rank = self.ranks.get(item.key)
        if rank is None or self.finished.drop(rank) is None:
            return
        of_owner = self.finished_of[item.owner]
        of_owner.drop(rank)
        if not of_owner:
            del self.finished_of[item.owner]

    def mark_for_eviction(self, key: str) -> bool:
        """Mark an item for eviction by a pending change; False if it is marked already, or missing."""
        item = self.items.get(key)
        if item is None or key in self.evicting:
            return False
        self.evicting.add(key)
        _add(self.evicted_size, item, 1)
        self._withdraw(item)
        return True

    def unmark(self, key: str) -> None:
        """Unmark an item, because the change is over: if it still exists, another change may evict it."""
        self.evicting.discard(key)
        item = self.items.get(key)
        if item is None:
            return
        _add(self.evicted_size, item, -1)
        if self.is_finished(item):
            self._offer(item)

    def open_of(self, owner: str) -> Load:
        """Return the load of an owner's unfinished items; with ``ALL`` of all owners."""
        load = self.load if owner == ALL else self.loads.get(owner) or Load()
        done = self.done.get(owner) or Load()
        return Load(load.items - done.items, load.octets - done.octets)


def _add(loads: dict[str, Load], item: StateItem, sign: int) -> None:
    """Count an item for its owner and for all, or no longer."""
    for who in (item.owner, ALL):
        load = loads.setdefault(who, Load())
        load.items += sign
        load.octets += sign * item.octets
        if not load.items:
            del loads[who]


def _remove_from_index(index: Any, place: Any, key: str) -> None:
    there = index[place]
    there.pop(key, None)
    if not there:
        del index[place]


def find_excess(table: ItemTable, owner: str, items: int, octets: int, proven: bool) -> StateFull | None:
    """Return which quota so many further items and octets would exceed; None if none."""
    holding, every = table.holding, table.load
    own = table.loads.get(owner, _NONE)
    gone, gone_of = table.evicted_size.get(ALL, _NONE), table.evicted_size.get(owner, _NONE)
    most = holding.per_owner if proven else min(holding.unproven, holding.per_owner)
    if items and own.items - gone_of.items + items > most:
        return StateFull(holding, most, "items", in_all=False)
    share = holding.octets_per_owner if proven else holding.octets_per_owner * most // holding.per_owner
    if octets and own.octets - gone_of.octets + octets > share:
        return StateFull(holding, share, "octets", in_all=False)
    if items and every.items - gone.items + items > holding.in_all:
        return StateFull(holding, holding.in_all, "items", in_all=True)
    if octets and every.octets - gone.octets + octets > holding.octets_in_all:
        return StateFull(holding, holding.octets_in_all, "octets", in_all=True)
    return None


def beyond_its_share(table: ItemTable, owner: str, octets: int, giver: str = "") -> StateFull | None:
    """
    Return which share a new item would exceed, that of its owner or of the agent that causes it, given what the others
    have. Finished items can be evicted and do not count; the first item of an owner only needs free space.
    """
    holding, every = table.holding, table.open_of(ALL)
    if holding.per_owner >= holding.in_all:
        return None
    for own, given in ((table.open_of(owner), False), (table.given.get(giver, _NONE), True)):
        if own.items <= 0:
            continue
        share = fair_share(holding.in_all, every.items)
        if own.items + 1 > share:
            return StateFull(holding, share, "items", in_all=False, now=True, given=given)
        share = fair_share(holding.octets_in_all, every.octets)
        if own.octets + octets > share:
            return StateFull(holding, share, "octets", in_all=False, now=True, given=given)
    return None
