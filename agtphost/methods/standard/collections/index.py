"""
Which items are in which collection, and which of a queue are next: in their order, and found without the others.

It lasts as long as the host: another configuration, with other collections, finds it as it is.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from agtphost.audit.state import StateItem, StateTable
from agtphost.vocabulary.bounds import share_of_free, share_together
from agtphost.vocabulary.quotas import COLLECTION_ITEM
from agtphost.vocabulary.sorted_blocks import Snapshot, SortedBlocks

RELATIONS: Final = "relations"
BINDINGS: Final = "bindings"
OWN: Final = (RELATIONS, BINDINGS)
"""Collections that every host with collections has: of LINK and EMBED, in which each agent sees its own."""

NORMAL: Final = 5
"""The priority of what was put into a queue without one."""

Rank = tuple[int, int, str]
"""The most urgent first, and then the first that came."""


class Holder(NamedTuple):
    """The agent and principal whose share of a collection an item uses."""

    owner: str
    """The name under which the state of the agent is kept."""

    principal: str
    """The principal that answers for the agent; all its agents share one quota."""


def holder_of(item: StateItem) -> Holder:
    """
    Return the holder of an item's share: the agent that entered it, even after a transfer.

    So TRANSFER frees no room, and uses no other agent's. An item of an earlier version of this host does
    not say who entered it, and takes its owner's share.
    """
    return Holder(*item.brief.get("share", (item.owner, f"agent {item.owner}")))


@dataclass(slots=True)
class Gifts:
    """The items of one agent that others entered."""

    items: int = 0
    octets: int = 0


class Takings:
    """Counts the items of each agent and each principal."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, holder: Holder, count: int) -> None:
        """Count so many more, or fewer."""
        for place in zip(Holder._fields, holder, strict=True):
            self._counts[place] += count
            if not self._counts[place]:
                del self._counts[place]

    def count_of(self, member: str, holder: Holder) -> int:
        """Return how many items the ``owner`` or the ``principal`` of a holder has."""
        return self._counts[member, getattr(holder, member)]


class QueueOrder:
    """The items of one queue: those that are next, and those that are hidden until a time."""

    def __init__(self, items: Snapshot[StateItem]) -> None:
        self._ranks: dict[str, Rank] = {}
        self._ready: SortedBlocks[StateItem] = SortedBlocks()
        self._hidden: SortedBlocks[StateItem] = SortedBlocks()
        self._until: dict[str, float] = {}
        self._came = 0
        self._claimed: dict[str, tuple[int, float, Holder]] = {}
        self._pulled: dict[str, Holder] = {}
        self.hands = Takings()
        """Who has how many of those that are hidden."""

        for item in items:
            self.put(item)

    def put(self, item: StateItem) -> None:
        """Insert or replace an item."""
        work: Mapping[str, Any] = item.brief.get("work") or {}
        self._came += 1
        self._claimed.pop(item.key, None)
        known = self._ranks.get(item.key)
        if known is None:
            came = int(work.get("came", 0)) or self._came
            rank = self._ranks[item.key] = (-int(work.get("priority", NORMAL)), came, item.key)
        else:
            rank = known
            self._unplace(item.key, rank)
        if work.get("cancelled"):
            return
        until = float(work.get("hidden_until", 0.0))
        if until:
            self._until[item.key] = until
            self._hidden.put((until, item.key), item)
            if "pulled_by" in work:
                by = str(work["pulled_by"])
                holder = self._pulled[item.key] = Holder(by, str(work.get("pulled_for") or f"agent {by}"))
                self.hands.add(holder, 1)
        else:
            self._ready.put(rank, item)

    def drop(self, key: str) -> None:
        """Remove an item."""
        self._claimed.pop(key, None)
        rank = self._ranks.pop(key, None)
        if rank is not None:
            self._unplace(key, rank)

    def _unplace(self, key: str, rank: Rank) -> None:
        until = self._until.pop(key, None)
        if until is None:
            self._ready.drop(rank)
        else:
            self._hidden.drop((until, key))
            self._release(key)

    def _release(self, key: str) -> None:
        holder = self._pulled.pop(key, None)
        if holder is not None:
            self.hands.add(holder, -1)

    def show(self, now: float, most: int) -> bool:
        """
        Return items to the queue whose hold has ended.

        :param most: as many are shown in one go.
        :return: whether some are left.
        """
        for _ in range(most):
            first = self._hidden.first()
            if first is None or first[0][0] > now:
                return False
            place, item = first
            self._hidden.drop(place)
            del self._until[item.key]
            self._release(item.key)
            self._ready.put(self._ranks[item.key], item)
        first = self._hidden.first()
        return first is not None and first[0][0] <= now

    def next(self, now: float) -> Iterator[StateItem]:
        """Yield unclaimed items, the next one first; the queue must not change during iteration."""
        for item in self._ready:
            claim = self._claimed.get(item.key)
            if claim is None or claim[0] != item.version or claim[1] <= now:
                yield item

    def claim(self, item: StateItem, until: float, holder: Holder) -> None:
        """Claim an item, until the record of the claim is durable or the time has passed."""
        self._claimed[item.key] = (item.version, until, holder)

    def further(self, holder: Holder, share: float, now: float) -> int:
        """
        Return how many more items an agent may take into its hands, so that others find some as well.

        :param share: the part of all items not held by other agents.
        """
        for key in [key for key, claim in self._claimed.items() if claim[1] <= now]:
            del self._claimed[key]
        claims = [claim[2] for claim in self._claimed.values()]
        ready, found = len(self._ready) - len(claims), len(self._ready)
        for member, part in (("owner", share), ("principal", share_together(share))):
            mine = self.hands.count_of(member, holder)
            mine += sum(1 for each in claims if getattr(each, member) == getattr(holder, member))
            found = min(found, share_of_free(ready + mine, 0, part) - mine)
        if found < 1 and not self.hands.count_of("owner", holder) and holder not in claims:
            return 1
        return max(found, 0)


class Stock:
    """The items of one collection, in the order of their identifiers."""

    def __init__(self, *, own: bool) -> None:
        self.own = own
        """Whether each agent sees its own items alone."""

        self._all: SortedBlocks[StateItem] = SortedBlocks()
        self._owned: dict[str, SortedBlocks[StateItem]] = {}
        self._queue: QueueOrder | None = None
        self._coming: dict[Holder, deque[float]] = {}
        self._takings = Takings()

    def __len__(self) -> int:
        return len(self._all)

    def coming(self, now: float) -> int:
        """Return how many new items are in flight: of calls whose record is not durable yet."""
        for holder, times in tuple(self._coming.items()):
            while times and times[0] <= now:
                times.popleft()
            if not times:
                del self._coming[holder]
        return sum(map(len, self._coming.values()))

    def expect(self, holder: Holder, count: int, until: float) -> None:
        """New items of an agent are on their way, and come before a time or not at all."""
        self._coming.setdefault(holder, deque()).extend([until] * count)

    def count_taken(self, member: str, holder: Holder) -> int:
        """Return how many items the ``owner`` or the ``principal`` of a holder has, including items in flight."""
        coming = (
            len(times) for each, times in self._coming.items() if getattr(each, member) == getattr(holder, member)
        )
        return self._takings.count_of(member, holder) + sum(coming)

    def items_after(self, owner: str, item_id: str = "") -> Snapshot[StateItem]:
        """Return a snapshot of the items after an identifier that an owner sees."""
        items = self._owned.get(owner) if self.own else self._all
        return Snapshot([], 0) if items is None else items.snapshot_after(item_id or None)

    @property
    def queue(self) -> QueueOrder:
        """Return the items in queue order."""
        if self._queue is None:
            self._queue = QueueOrder(self._all.snapshot_after())
        return self._queue

    def put(self, item_id: str, item: StateItem) -> None:
        """Insert or replace an item."""
        before = self._all.put(item_id, item)
        holder = holder_of(item)
        if before is None and (times := self._coming.get(holder)):
            times.popleft()
        if before is not None:
            self._takings.add(holder_of(before), -1)
        self._takings.add(holder, 1)
        if self.own:
            if before is not None and before.owner != item.owner:
                self._disown(item_id, before)
            self._owned.setdefault(item.owner, SortedBlocks()).put(item_id, item)
        if self._queue is not None:
            self._queue.put(item)

    def drop(self, item_id: str) -> None:
        """Remove an item."""
        before = self._all.drop(item_id)
        if before is None:
            return
        self._takings.add(holder_of(before), -1)
        if self.own:
            self._disown(item_id, before)
        if self._queue is not None:
            self._queue.drop(before.key)

    def _disown(self, item_id: str, item: StateItem) -> None:
        owned = self._owned[item.owner]
        owned.drop(item_id)
        if not owned:
            del self._owned[item.owner]


class Stocks:
    """The items of every collection, configured or not."""

    def __init__(self, held: StateTable) -> None:
        self.held = held
        self._stocks: dict[str, Stock] = {}
        self._given: dict[str, StateItem] = {}
        self._gifts: dict[str, Gifts] = {}
        held.watch(COLLECTION_ITEM, self._update)

    def find(self, name: str) -> Stock:
        """Return the items of one collection."""
        return self._stocks.setdefault(name, Stock(own=name in OWN))

    def gifts_of(self, owner: str) -> Gifts:
        """Return what an agent has of items that others entered and handed over to it, in all collections."""
        return self._gifts.get(owner) or Gifts()

    def _count_gift(self, key: str, item: StateItem | None) -> None:
        before = self._given.pop(key, None)
        if before is not None:
            gifts = self._gifts[before.owner]
            gifts.items, gifts.octets = gifts.items - 1, gifts.octets - before.octets
            if not gifts.items:
                del self._gifts[before.owner]
        if item is not None and holder_of(item).owner != item.owner:
            self._given[key] = item
            gifts = self._gifts.setdefault(item.owner, Gifts())
            gifts.items, gifts.octets = gifts.items + 1, gifts.octets + item.octets

    def _update(self, key: str, item: StateItem | None) -> None:
        self._count_gift(key, item)
        name, _, item_id = key.partition("/")
        if item is None:
            self.find(name).drop(item_id)
        else:
            own = item.brief.get("id")
            # The item has the text already: one more of it for each would be a tenth of a short one.
            self.find(name).put(own if own == item_id else item_id, item)
