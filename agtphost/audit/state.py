"""
State items: the durable state of built-in methods, such as escalations, proposals and contracts.

A handler changes one by naming it in ``EndpointResponse.changes``: it is committed in the transaction that makes the
record of the response durable, so no caller ever learns of a state that a crash could take back. All items are in
memory as well, and are read from there; this table follows each commit in the reactor's thread, before the caller is
answered.

The kinds that there are, and how much of each there may be, is data:
:data:`agtphost.vocabulary.quotas.ITEM_KINDS`. A change is admitted before it is
committed: the table counts what is there and what is under way, of its owner
and in all, and makes room where the kind allows it. Items are found by owner
and by the members that their kind is indexed by; nothing goes through all
items of a kind that agents can add to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from agtphost.audit.drafts import Change
from agtphost.audit.item_tables import ALL, ItemTable, beyond_its_share, find_excess
from agtphost.audit.item_tables import StateFull as StateFull
from agtphost.audit.leases import Leasing
from agtphost.audit.state_item import StateItem as StateItem
from agtphost.audit.state_item import item_of, names_at_hand
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.bounds import ItemQuota, stored_octets
from agtphost.vocabulary.quotas import ITEM_KINDS
from agtphost.vocabulary.sorted_blocks import SortedBlocks
from agtphost.vocabulary.steps import TURN

AT_ONCE = 500
"""Expired items that are let go of in one go."""

FEW = 10
"""The number of items where a caller waits for something else."""

LOOKS = 16
"""Of these, between two looks at the clock."""

SHARE = TURN / 4
"""Seconds that one go takes."""


class UnknownKind(ValueError):
    """A state item of a kind that is not on the list: a mistake of this program."""


Watcher = Callable[[str, StateItem | None], None]
"""Called with an item's key and what it is now: None where it was removed."""


@dataclass(slots=True)
class Admitted:
    """Changes that have room, until they are settled."""

    changes: tuple[Change, ...]
    """Those that were asked for, and the removals that make room for them."""

    loads: list[tuple[str, str, str, int, int]] = field(default_factory=list)
    given: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Kind, who causes it, items and octets of what is new, where its kind asks who does."""

    going: list[tuple[str, str]] = field(default_factory=list)
    stored: int = 0
    """Octets that the store grows by, its pages included."""


class StateTable:
    """
    Every state item, by kind and key.

    :param now: seconds since the Unix epoch.
    :param kinds: what may be held.
    """

    def __init__(self, now: Callable[[], float] = time.time, kinds: Mapping[str, ItemQuota] = ITEM_KINDS) -> None:
        self._now = now
        self._kinds = kinds
        self._tables: dict[str, ItemTable] = {}
        self._watchers: dict[str, list[Watcher]] = {}
        self.leasing = Leasing()
        self._ends: SortedBlocks[None] = SortedBlocks()
        self.overdue: Callable[[], object] = lambda: None
        """Called where more has expired than is let go of by the way; :meth:`prune` it then."""

        self._pruned_for_room = False

    def _table(self, kind: str) -> ItemTable:
        table = self._tables.get(kind)
        if table is None:
            holding = self._kinds.get(kind)
            if holding is None:
                raise UnknownKind(f"items of the kind {kind!r} are not on the list of what is held")
            table = self._tables[kind] = ItemTable(holding)
        return table

    # Reading

    def get(self, kind: str, key: str) -> StateItem | None:
        """Return an item; None where it is absent or has expired."""
        item = self._table(kind).items.get(key)
        return None if item is None or self._is_expired(item) else item

    def items_of(self, kind: str, owner: str = "") -> Iterator[StateItem]:
        """
        Return the items of one owner, in the order they were first put; without an owner, those of the host itself.
        """
        return self._alive(self._table(kind).owned.get(owner))

    def all(self, kind: str) -> Iterator[StateItem]:
        """Yield every item of a kind. It is slow: only for the start and for operators' requests."""
        return self._alive(self._table(kind).items)

    def items_by(self, kind: str, member: str, value: object) -> Iterator[StateItem]:
        """Return the items whose ``member`` is ``value``; their kind is indexed by it."""
        table = self._table(kind)
        if member not in table.holding.indexed:
            raise UnknownKind(f"items of the kind {kind!r} are not found by {member}")
        return self._alive(table.found.get((member, value)))

    def open_by(self, kind: str, member: str, value: object) -> int:
        """Return how many of these have not finished, without going through them."""
        return self._table(kind).found_open[member, value]

    def owners(self, kind: str) -> list[str]:
        """Return the owners of items of a kind."""
        return list(self._table(kind).owned)

    def count(self, kind: str, owner: str | None = None) -> int:
        """Return how many items of a kind exist or are pending: of one owner, or of all."""
        self._prune_some()
        table = self._table(kind)
        load = table.load if owner is None else table.loads.get(owner)
        return 0 if load is None else load.items

    def open(self, kind: str, owner: str | None = None) -> int:
        """Return how many unfinished items of a kind exist or are pending: of one owner, or of all."""
        self._prune_some()
        return self._table(kind).open_of(ALL if owner is None else owner).items

    def octets(self, kind: str, owner: str | None = None) -> int:
        """Return the octets of all items of a kind, or of one owner's."""
        table = self._table(kind)
        load = table.load if owner is None else table.loads.get(owner)
        return 0 if load is None else load.octets

    def watch(self, kind: str, watcher: Watcher) -> None:
        """
        Have ``watcher`` called for each item of a kind: at start, and whenever one changes or has expired.

        As long as the lease lives that :attr:`leasing` is filling; without one, as long as this table.
        """
        self.follow(kind, watcher)
        for item in self.all(kind):
            watcher(item.key, item)

    def follow(self, kind: str, watcher: Watcher) -> Iterable[str]:
        """
        Follow the items of a kind without a call for each existing one, of which there may be many.

        :return: the keys of those, to be read before anything changes.
        """
        watchers = self._watchers.setdefault(kind, [])
        watchers.append(watcher)
        self.leasing.note_entry(lambda: watchers.remove(watcher))
        return self._table(kind).items.keys()

    def _alive(self, items: Mapping[str, StateItem] | None) -> Iterator[StateItem]:
        """Return the live items of this moment; they may be iterated later and in any thread."""
        if not items:
            return iter(())
        now = self._now() * 1000
        return (item for item in list(items.values()) if item.expires_at is None or item.expires_at > now)

    def _is_expired(self, item: StateItem) -> bool:
        return item.expires_at is not None and item.expires_at <= self._now() * 1000

    # Room

    def admit(self, changes: Sequence[Change], *, proven: bool = True) -> Admitted:
        """
        Make room for changes that are about to be committed; :meth:`settle` has to follow.

        :param proven: whether the caller they come from is surely who it says: others have small shares, and
            nothing goes for their sake.
        :raises StateFull: there is none.
        :raises UnknownKind: a kind that is not on the list.
        """
        self._prune_some()
        try:
            return self._admit_changes(changes, proven)
        except StateFull:
            # Expired items must not keep a new one out; but prune once a turn only, because many calls may find the
            # table full.
            if self._pruned_for_room or not self._overdue():
                raise
            self.prune()
            self._pruned_for_room = True
            return self._admit_changes(changes, proven)

    def _admit_changes(self, changes: Sequence[Change], proven: bool) -> Admitted:
        admitted = Admitted(tuple(changes))
        removals: list[Change] = []
        try:
            for change in changes:
                table = self._table(change.kind)
                if change.value is None:
                    self._goes(admitted, table, change.key)
            for change in changes:
                if change.value is not None:
                    removals += self._room_for(admitted, change, proven)
        except BaseException:
            self.settle(admitted)
            raise
        admitted.changes = (*removals, *changes)
        return admitted

    def settle(self, admitted: Admitted) -> None:
        """Release what committed or failed changes had reserved while they were pending."""
        for kind, key, owner, items, octets in admitted.loads:
            table = self._tables[kind]
            table.count(owner, -items, -octets)
            left = table.coming[key] - 1
            if left:
                table.coming[key] = left
            else:
                del table.coming[key]
        for kind, giver, items, octets in admitted.given:
            self._tables[kind].count_given(giver, -items, -octets)
        for kind, key in admitted.going:
            self._tables[kind].unmark(key)
        admitted.loads, admitted.given, admitted.going = [], [], []

    def _goes(self, admitted: Admitted, table: ItemTable, key: str) -> None:
        if table.mark_for_eviction(key):
            admitted.going.append((table.holding.kind, key))

    def _room_for(self, admitted: Admitted, change: Change, proven: bool) -> Iterator[Change]:
        table = self._table(change.kind)
        known = table.items.get(change.key)
        new = known is None and change.key not in table.coming
        if change.prepared is not None:
            length = change.prepared.item.octets
        else:
            length = change.octets or jsontext.kept_length(change.value)
        if not length:
            raise StateFull(table.holding, jsontext.KEPT_DEPTH, "arrays and objects inside each other", in_all=False)
        octets = length - (0 if known is None else known.octets)
        # Another owner's quota is used for the whole item, as for a new one.
        handed_over = known is not None and known.owner != change.owner
        further, grown = int(new or handed_over), length if handed_over else max(octets, 0)
        giver = table.giver_of(change.value or {}) if new else ""
        if new and (full := beyond_its_share(table, change.owner, octets, giver)) is not None:
            raise full
        while (full := find_excess(table, change.owner, further, grown, proven)) is not None:
            oldest = self._oldest(table, change, full.in_all) if proven else None
            if oldest is None:
                if further:
                    raise full
                break  # What is there already may change: it never grows without bound.
            self._goes(admitted, table, oldest.key)
            yield Change(kind=change.kind, key=oldest.key, value=None, owner=oldest.owner)
        admitted.stored += max(stored_octets(length) - (0 if known is None else stored_octets(known.octets)), 0)
        table.coming[change.key] = table.coming.get(change.key, 0) + 1
        table.count(change.owner, further, grown)
        if giver:
            table.count_given(giver, 1, octets)
            admitted.given.append((change.kind, giver, 1, octets))
        admitted.loads.append((change.kind, change.key, change.owner, further, grown))

    @staticmethod
    def _oldest(table: ItemTable, change: Change, in_all: bool) -> StateItem | None:
        """Return the oldest finished item to evict: the owner's, or of all owners if the total is too large."""
        for item in table.finished if in_all else table.finished_of.get(change.owner, ()):
            if item.key not in table.coming and item.key != change.key:
                return item
        return None

    # What the ledger calls

    def snapshot(self) -> dict[str, dict[str, StateItem]]:
        """Return all items by kind and key, each kind as it is at one moment; for any thread."""
        tables = self._tables.copy()
        return {kind: tables[kind].items.copy() if kind in tables else {} for kind in self._kinds}

    def holding(self, kind: str) -> ItemQuota:
        """Return the quota of a kind."""
        return self._kinds[kind]

    def replace(self, rows: Sequence[ItemRow]) -> None:
        """Take over everything that the store says, at start."""
        gone = [(kind, key) for kind, table in self._tables.items() for key in table.items]
        for kind, key in gone:
            self._tables[kind].drop(key)
        self._ends = SortedBlocks()
        self._fill([row for row in rows if row.kind in self._kinds])
        for kind, key in gone:
            if self.get(kind, key) is None:
                self._notify_watchers(kind, key, None)

    def _fill(self, rows: Sequence[ItemRow]) -> None:
        """Put the items of rows into empty tables: as :meth:`apply`, with one sorting of when they expire."""
        items: list[StateItem] = []
        for kind, those in groupby(rows, key=attrgetter("kind")):
            table = self._table(kind)
            names, made = names_at_hand(table.holding), list[StateItem]()
            for row in those:
                assert row.value is not None
                made.append(item_of(row, row.value, table.holding, None, jsontext.decode_own_kept, names))
            if table.items or table.load.items or table.evicting:  # Rows of a kind twice, or changes under way.
                for item in made:
                    table.put(item)
            else:
                table.fill(made)
            items += made
        self._ends.fill(sorted((item.expires_at, item.kind, item.key) for item in items if item.expires_at is not None))
        for item in items if self._watchers else ():
            self._notify_watchers(item.kind, item.key, item)

    def apply(self, rows: Sequence[ItemRow], made: Sequence[StateItem | None] = ()) -> None:
        """
        Apply committed changes.

        :param made: the items that they are; without them, they are made here.
        """
        for number, row in enumerate(rows):
            table = self._table(row.kind)
            if made:
                item = made[number]
            else:
                item = None if row.value is None else item_of(row, row.value, table.holding)
            before = table.drop(row.key) if item is None else table.put(item)
            if before is not None and before.expires_at is not None:
                self._ends.drop((before.expires_at, row.kind, row.key))
            if item is not None and item.expires_at is not None:
                self._ends.put((item.expires_at, row.kind, row.key), None)
            self._notify_watchers(row.kind, row.key, item)

    def prune(self, most: int = AT_ONCE) -> bool:
        """
        Let go of what has expired, and tell the watchers; of so much as is done in one go.

        :return: whether some is left.
        """
        now, began = self._now() * 1000, time.thread_time()
        self._pruned_for_room &= most < AT_ONCE
        for number in range(most):
            first = self._ends.first()
            if first is None or first[0][0] > now:
                return False
            if not (number + 1) % LOOKS and time.thread_time() - began > SHARE:
                break
            place = first[0]
            self._ends.drop(place)
            self._tables[place[1]].drop(place[2])
            self._notify_watchers(place[1], place[2], None)
        return self._overdue()

    def _overdue(self) -> bool:
        first = self._ends.first()
        return first is not None and first[0][0] <= self._now() * 1000

    def _prune_some(self) -> None:
        """Prune a few items, because room is looked at often in one turn; the rest is pruned in later turns."""
        if self.prune(FEW):
            self.overdue()

    def _notify_watchers(self, kind: str, key: str, item: StateItem | None) -> None:
        for watcher in tuple(self._watchers.get(kind, ())):
            watcher(key, item)
