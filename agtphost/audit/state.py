"""
State items: the durable state of built-in methods, such as escalations, proposals and contracts.

A handler changes one by naming it in ``EndpointResponse.changes``: it becomes
true in the transaction that makes the record of the response durable, so
nobody is ever told of a state that a crash could take back. All items are in
memory as well, and are read from there; this table follows each commit in the
reactor's thread, before the caller hears of it.

The kinds that there are, and how much of each there may be, is data:
:data:`agtphost.vocabulary.holdings.ITEM_KINDS`. A change is admitted before it is
committed: the table counts what is there and what is under way, of its owner
and in all, and makes room where the kind allows it. Items are found by owner
and by the members that their kind is indexed by; nothing goes through all
items of a kind that agents can add to.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost.audit.drafts import Change, LedgerUnavailable
from agtphost.audit.items import StateItem as StateItem
from agtphost.audit.items import item_of
from agtphost.audit.leases import Leasing
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.bounds import ANY, Holding, fair_share
from agtphost.vocabulary.holdings import ITEM_KINDS

AT_ONCE = 500
"""Expired items that are let go of in one go."""

_ALL = "all"
"""Instead of an owner, who is hexadecimal or the host."""


class UnknownKind(ValueError):
    """A state item of a kind that is not on the list: a mistake of this program."""


class StateFull(LedgerUnavailable):
    """
    There is no room for an item, and nothing of its kind may go for it.

    :param in_all: whether all owners together have as many as there may be.
    :param now: whether ``limit`` is the share that an owner has because of what the others have.
    """

    def __init__(self, holding: Holding, limit: int, unit: str, *, in_all: bool, now: bool = False) -> None:
        whose = "all agents together" if in_all else "one agent"
        when = " beside what the others have at present" if now else ""
        super().__init__(f"There is room for {limit} {unit} of the kind {holding.kind} of {whose} here{when}.")
        self.holding = holding
        self.limit = limit
        self.unit = unit
        self.in_all = in_all


Watcher = Callable[[str, StateItem | None], None]
"""Called with an item's key and what it is now: None where it was removed."""


@dataclass(slots=True)
class _Load:
    """Items and octets: there, or on their way."""

    items: int = 0
    octets: int = 0


@dataclass(slots=True)
class _Table:
    """The items of one kind, and what finds them."""

    holding: Holding
    items: dict[str, StateItem] = field(default_factory=dict)
    owned: dict[str, dict[str, StateItem]] = field(default_factory=dict)
    found: dict[tuple[str, Any], dict[str, StateItem]] = field(default_factory=dict)
    finished: dict[str, StateItem] = field(default_factory=dict)
    finished_of: dict[str, dict[str, StateItem]] = field(default_factory=dict)
    loads: dict[str, _Load] = field(default_factory=dict)
    load: _Load = field(default_factory=_Load)
    done: dict[str, _Load] = field(default_factory=dict)
    """Of :attr:`loads`, the finished items, which go where room is wanted; with :data:`_ALL` those of all."""

    coming: dict[str, int] = field(default_factory=dict)
    """New keys that are under way, with how many changes make them."""

    going: set[str] = field(default_factory=set)
    """Keys that make room in a change under way."""

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
            own = self.loads[owner] = _Load()
        own.items += items
        own.octets += octets
        if not own.items and not own.octets:
            del self.loads[owner]

    def put(self, item: StateItem) -> None:
        known = self.items.get(item.key)
        if known is not None:
            self._unlink(known, keep_place=known.owner == item.owner)
        self.items[item.key] = item
        self.owned.setdefault(item.owner, {})[item.key] = item
        for member in self.holding.indexed:
            self.found.setdefault((member, item.brief.get(member)), {})[item.key] = item
        if self.is_finished(item):
            self.finished[item.key] = item
            self.finished_of.setdefault(item.owner, {})[item.key] = item
            self._count_done(item, 1)
        self.count(item.owner, 1, item.octets)

    def drop(self, key: str) -> StateItem | None:
        item = self.items.pop(key, None)
        if item is not None:
            self._unlink(item, keep_place=False)
        return item

    def _unlink(self, item: StateItem, *, keep_place: bool) -> None:
        """Out of every index; ``keep_place``: another version takes its place among its owner's."""
        if not keep_place:
            _out(self.owned, item.owner, item.key)
        for member in self.holding.indexed:
            _out(self.found, (member, item.brief.get(member)), item.key)
        if self.finished.pop(item.key, None) is not None:
            _out(self.finished_of, item.owner, item.key)
            self._count_done(item, -1)
        self.count(item.owner, -1, -item.octets)

    def _count_done(self, item: StateItem, sign: int) -> None:
        for who in (item.owner, _ALL):
            load = self.done.setdefault(who, _Load())
            load.items += sign
            load.octets += sign * item.octets
            if not load.items:
                del self.done[who]

    def open_of(self, owner: str) -> _Load:
        """What an owner has that has not finished; ``_ALL``: what all have."""
        load = self.load if owner == _ALL else self.loads.get(owner) or _Load()
        done = self.done.get(owner) or _Load()
        return _Load(load.items - done.items, load.octets - done.octets)


def _out(index: dict[Any, dict[str, StateItem]], place: Any, key: str) -> None:
    there = index[place]
    there.pop(key, None)
    if not there:
        del index[place]


@dataclass(slots=True)
class Admitted:
    """Changes that have room, until they are settled."""

    changes: tuple[Change, ...]
    """Those that were asked for, and the removals that make room for them."""

    loads: list[tuple[str, str, str, int, int]] = field(default_factory=list)
    going: list[tuple[str, str]] = field(default_factory=list)


class StateTable:
    """
    Every state item, by kind and key.

    :param now: seconds since the Unix epoch.
    :param kinds: what may be held.
    """

    def __init__(self, now: Callable[[], float] = time.time, kinds: Mapping[str, Holding] = ITEM_KINDS) -> None:
        self._now = now
        self._kinds = kinds
        self._tables: dict[str, _Table] = {}
        self._watchers: dict[str, list[Watcher]] = {}
        self.leasing = Leasing()
        self._ends: list[tuple[int, str, str, int]] = []

    def _table(self, kind: str) -> _Table:
        table = self._tables.get(kind)
        if table is None:
            holding = self._kinds.get(kind)
            if holding is None:
                raise UnknownKind(f"items of the kind {kind!r} are not on the list of what is held")
            table = self._tables[kind] = _Table(holding)
        return table

    # Reading

    def get(self, kind: str, key: str) -> StateItem | None:
        """One item; None where it is absent or has expired."""
        item = self._table(kind).items.get(key)
        return None if item is None or self._expired(item) else item

    def of(self, kind: str, owner: str = "") -> Iterator[StateItem]:
        """The items of one owner, in the order they were first put; without an owner, those of the host itself."""
        return self._alive(self._table(kind).owned.get(owner))

    def all(self, kind: str) -> Iterator[StateItem]:
        """Every item of a kind: for start-up, and for what only operators do. No request goes this way."""
        return self._alive(self._table(kind).items)

    def by(self, kind: str, member: str, value: object) -> Iterator[StateItem]:
        """The items whose ``member`` is ``value``; their kind is indexed by it."""
        table = self._table(kind)
        if member not in table.holding.indexed:
            raise UnknownKind(f"items of the kind {kind!r} are not found by {member}")
        return self._alive(table.found.get((member, value)))

    def owners(self, kind: str) -> list[str]:
        """Whose items of a kind there are."""
        return list(self._table(kind).owned)

    def count(self, kind: str, owner: str | None = None) -> int:
        """How many items of a kind there are, or on their way: of one owner, or of all."""
        self.prune()
        table = self._table(kind)
        load = table.load if owner is None else table.loads.get(owner)
        return 0 if load is None else load.items

    def open(self, kind: str) -> int:
        """How many items of a kind there are that have not finished."""
        self.prune()
        return self._table(kind).open_of(_ALL).items

    def octets(self, kind: str, owner: str | None = None) -> int:
        """The octets of the same."""
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
        The same without being told of what there is already, which may be much.

        :return: the keys of that, to be taken at once.
        """
        watchers = self._watchers.setdefault(kind, [])
        watchers.append(watcher)
        self.leasing.entered(lambda: watchers.remove(watcher))
        return self._table(kind).items.keys()

    def _alive(self, items: Mapping[str, StateItem] | None) -> Iterator[StateItem]:
        for item in list((items or {}).values()):
            if not self._expired(item):
                yield item

    def _expired(self, item: StateItem) -> bool:
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
        self.prune()
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
        """These are committed, or have failed: what they took while under way is given back."""
        for kind, key, owner, items, octets in admitted.loads:
            table = self._tables[kind]
            table.count(owner, -items, -octets)
            left = table.coming[key] - 1
            if left:
                table.coming[key] = left
            else:
                del table.coming[key]
        for kind, key in admitted.going:
            self._tables[kind].going.discard(key)
        admitted.loads, admitted.going = [], []

    def _goes(self, admitted: Admitted, table: _Table, key: str) -> None:
        if key in table.items and key not in table.going:
            table.going.add(key)
            admitted.going.append((table.holding.kind, key))

    def _room_for(self, admitted: Admitted, change: Change, proven: bool) -> Iterator[Change]:
        table = self._table(change.kind)
        known = table.items.get(change.key)
        new = known is None and change.key not in table.coming
        length = change.octets or jsontext.kept_length(change.value)
        if not length:
            raise StateFull(table.holding, jsontext.KEPT_DEPTH, "arrays and objects inside each other", in_all=False)
        octets = length - (0 if known is None else known.octets)
        if new and (full := _beyond_its_share(table, change.owner, octets)) is not None:
            raise full
        gone = _Load()
        gone_of = _Load()
        for key in table.going:
            item = table.items.get(key)
            if item is not None:
                gone.items, gone.octets = gone.items + 1, gone.octets + item.octets
                if item.owner == change.owner:
                    gone_of.items, gone_of.octets = gone_of.items + 1, gone_of.octets + item.octets
        own = table.loads.get(change.owner) or _Load()
        while (full := _over(table, own, gone_of, gone, int(new), max(octets, 0), proven)) is not None:
            oldest = self._oldest(table, change, full.in_all) if proven else None
            if oldest is None:
                if new:
                    raise full
                break  # What is there already may change: it never grows without bound.
            self._goes(admitted, table, oldest.key)
            gone.items, gone.octets = gone.items + 1, gone.octets + oldest.octets
            if oldest.owner == change.owner:
                gone_of.items, gone_of.octets = gone_of.items + 1, gone_of.octets + oldest.octets
            yield Change(kind=change.kind, key=oldest.key, value=None, owner=oldest.owner)
        table.coming[change.key] = table.coming.get(change.key, 0) + 1
        table.count(change.owner, int(new), max(octets, 0))
        admitted.loads.append((change.kind, change.key, change.owner, int(new), max(octets, 0)))

    @staticmethod
    def _oldest(table: _Table, change: Change, in_all: bool) -> StateItem | None:
        """The finished item that goes next: the owner's own, or where all together are too many, anybody's."""
        finished = table.finished if in_all else table.finished_of.get(change.owner, {})
        for key, item in finished.items():
            if key not in table.going and key not in table.coming and key != change.key:
                return item
        return None

    # What the ledger calls

    def snapshot(self) -> dict[str, dict[str, StateItem]]:
        """All items of every kind that there is, each kind as it is at one moment; for any thread."""
        tables = self._tables.copy()
        return {kind: tables[kind].items.copy() if kind in tables else {} for kind in self._kinds}

    def holding(self, kind: str) -> Holding:
        """What may be held of a kind that there is."""
        return self._kinds[kind]

    def replace(self, rows: Sequence[ItemRow]) -> None:
        """Take over everything that the store says, at start."""
        gone = [(kind, key) for kind, table in self._tables.items() for key in table.items]
        for kind, key in gone:
            self._tables[kind].drop(key)
        self._ends = []
        self.apply([row for row in rows if row.kind in self._kinds])
        for kind, key in gone:
            if self.get(kind, key) is None:
                self._tell(kind, key, None)

    def apply(self, rows: Sequence[ItemRow], made: Sequence[StateItem | None] = ()) -> None:
        """
        Committed changes.

        :param made: the items that they are; without them, they are made here.
        """
        for number, row in enumerate(rows):
            table = self._table(row.kind)
            if made:
                item = made[number]
            else:
                item = None if row.value is None else item_of(row, row.value, table.holding)
            if item is None:
                table.drop(row.key)
            else:
                table.put(item)
                if item.expires_at is not None:
                    heapq.heappush(self._ends, (item.expires_at, item.kind, item.key, item.version))
            self._tell(row.kind, row.key, item)
        if len(self._ends) > 2 * sum(len(table.items) for table in self._tables.values()) + AT_ONCE:
            self._ends = [
                (item.expires_at, item.kind, item.key, item.version)
                for table in self._tables.values()
                for item in table.items.values()
                if item.expires_at is not None
            ]
            heapq.heapify(self._ends)

    def prune(self) -> bool:
        """
        Let go of what has expired, and tell the watchers; of so much as is done in one go.

        :return: whether some is left.
        """
        now = self._now() * 1000
        ends = self._ends
        for _ in range(AT_ONCE):
            if not ends or ends[0][0] > now:
                return False
            _, kind, key, version = heapq.heappop(ends)
            item = self._tables[kind].items.get(key)
            if item is not None and item.version == version and self._expired(item):
                self._tables[kind].drop(key)
                self._tell(kind, key, None)
        return bool(ends) and ends[0][0] <= now

    def _tell(self, kind: str, key: str, item: StateItem | None) -> None:
        for watcher in tuple(self._watchers.get(kind, ())):
            watcher(key, item)


def _over(
    table: _Table, own: _Load, gone_of: _Load, gone: _Load, items: int, octets: int, proven: bool
) -> StateFull | None:
    """What there is too much of, once so many items and octets are added."""
    holding = table.holding
    most = holding.per_owner if proven else min(holding.unproven, holding.per_owner)
    if items and own.items - gone_of.items + items > most:
        return StateFull(holding, most, "items", in_all=False)
    share = holding.octets_per_owner if proven else holding.octets_per_owner * most // holding.per_owner
    if octets and own.octets - gone_of.octets + octets > share:
        return StateFull(holding, share, "octets", in_all=False)
    if items and table.load.items - gone.items + items > holding.in_all:
        return StateFull(holding, holding.in_all, "items", in_all=True)
    if octets and table.load.octets - gone.octets + octets > holding.octets_in_all:
        return StateFull(holding, holding.octets_in_all, "octets", in_all=True)
    return None


def _beyond_its_share(table: _Table, owner: str, octets: int) -> StateFull | None:
    """
    Whether a new item is more than an owner may have beside what the others have.

    What has finished goes where room is wanted, and counts for nobody; the first item of an owner needs room alone.
    """
    holding, own, every = table.holding, table.open_of(owner), table.open_of(_ALL)
    if own.items <= 0 or holding.per_owner >= holding.in_all:
        return None
    share = fair_share(holding.in_all, every.items)
    if own.items + 1 > share:
        return StateFull(holding, share, "items", in_all=False, now=True)
    share = fair_share(holding.octets_in_all, every.octets)
    if own.octets + octets > share:
        return StateFull(holding, share, "octets", in_all=False, now=True)
    return None
