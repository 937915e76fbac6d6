"""A sorted table of which a snapshot, whole or from a key on, is taken without copying its entries."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

BLOCK = 512
"""Things of one block: twice as many become two."""

Thing = TypeVar("Thing")


@dataclass(slots=True)
class _Block(Generic[Thing]):
    age: int
    """Of the snapshots that may have it: a younger one changes nothing in it, but a copy of it."""

    keys: list[Any]
    things: list[Thing]


class Snapshot(Generic[Thing]):
    """
    The entries of one moment, from a place on. A snapshot never changes, and any thread may read it.
    """

    __slots__ = ("_blocks", "_start")

    def __init__(self, blocks: list[_Block[Thing]], start: int) -> None:
        self._blocks = blocks
        self._start = start

    def __iter__(self) -> Iterator[Thing]:
        start = self._start
        for block in self._blocks:
            yield from block.things[start:] if start else block.things
            start = 0

    def get(self, key: Any) -> Thing | None:
        """Return the entry with that key, anywhere in the table; None where none has it."""
        at = bisect_left(self._blocks, key, key=lambda block: block.keys[-1])
        if at == len(self._blocks):
            return None
        block = self._blocks[at]
        place = bisect_left(block.keys, key)
        return block.things[place] if block.keys[place] == key else None

    def __len__(self) -> int:
        return sum(len(block.things) for block in self._blocks) - self._start


class SortedBlocks(Generic[Thing]):
    """
    Things by their keys, which can be compared: each change costs a search and a block, however many there are.
    """

    def __init__(self) -> None:
        self._blocks: list[_Block[Thing]] = []
        self._last: list[Any] = []
        """The last key of each block."""

        self._age = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Thing]:
        """Yield the entries in order; the table must not change while they are read."""
        for block in self._blocks:
            yield from block.things

    def first(self) -> tuple[Any, Thing] | None:
        """Return the first thing after its key; None where there is none."""
        if not self._blocks:
            return None
        block = self._blocks[0]
        return block.keys[0], block.things[0]

    def snapshot_after(self, key: Any = None) -> Snapshot[Thing]:
        """
        Return a snapshot of all entries.

        :param key: only the entries after it, which need not be a key of the table; None: all of them.
        """
        self._age += 1
        if key is None:
            return Snapshot(self._blocks.copy(), 0)
        at = bisect_right(self._last, key)
        blocks = self._blocks[at:]
        return Snapshot(blocks, bisect_right(blocks[0].keys, key) if blocks else 0)

    def put(self, key: Any, thing: Thing) -> Thing | None:
        """
        Insert an entry in its place, or replace the one with that key.

        :return: the entry that had the key before.
        """
        if not self._blocks:
            self._blocks, self._last, self._count = [_Block(self._age, [key], [thing])], [key], 1
            return None
        at = min(bisect_left(self._last, key), len(self._last) - 1)
        block = self._own(at)
        place = bisect_left(block.keys, key)
        if place < len(block.keys) and block.keys[place] == key:
            before, block.things[place] = block.things[place], thing
            return before
        block.keys.insert(place, key)
        block.things.insert(place, thing)
        self._count += 1
        if len(block.keys) > 2 * BLOCK:
            upper = _Block(self._age, block.keys[BLOCK:], block.things[BLOCK:])
            del block.keys[BLOCK:], block.things[BLOCK:]
            self._blocks.insert(at + 1, upper)
            self._last.insert(at + 1, upper.keys[-1])
        self._last[at] = block.keys[-1]
        return None

    def fill(self, keys: Sequence[Any]) -> None:
        """Fill an empty table with keys in their order, which have None as their thing; no search for each."""
        assert not self._blocks
        parts = [list(keys[begin : begin + BLOCK]) for begin in range(0, len(keys), BLOCK)]
        self._blocks = [_Block(self._age, part, cast(list[Thing], [None] * len(part))) for part in parts]
        self._last = [part[-1] for part in parts]
        self._count = len(keys)

    def drop(self, key: Any) -> Thing | None:
        """
        Remove the thing at a key.

        :return: what was removed; None if the key has nothing.
        """
        at = bisect_left(self._last, key)
        if at == len(self._blocks):
            return None
        place = bisect_left(self._blocks[at].keys, key)
        if self._blocks[at].keys[place] != key:
            return None
        block = self._own(at)
        dropped = block.things[place]
        del block.keys[place], block.things[place]
        self._count -= 1
        if block.keys:
            self._last[at] = block.keys[-1]
        else:
            del self._blocks[at], self._last[at]
        return dropped

    def _own(self, at: int) -> _Block[Thing]:
        """Return a block that no snapshot shares; one that is shared is copied first."""
        block = self._blocks[at]
        if block.age != self._age:
            block = self._blocks[at] = _Block(self._age, block.keys.copy(), block.things.copy())
        return block
