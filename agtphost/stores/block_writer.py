"""The writing side of :mod:`.record_blocks`: what a host writes of the records that it appended."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from agtphost.stores.record_blocks import BLOCK, MOST_SUMS, pack
from agtphost.stores.row_shapes import COLUMNS, SHAPES

WRITTEN_AT_ONCE: Final = 4
"""Blocks that are written in one moment, each in 7 ms of a processor where its records have to be read."""

MOST_RECENT: Final = 4 * BLOCK
"""Records that a writer remembers, in 12 octets each."""

_RECORDS: Final = "SELECT number, facet, issued_at FROM {} r WHERE number >= ? AND number < ? ORDER BY number"
_NEXT: Final = (
    "SELECT (SELECT coalesce(max(number), -1) + 1 FROM record_block), "
    "coalesce((SELECT number FROM {} r ORDER BY number DESC LIMIT 1), 0)"
)
ADD_BLOCK: Final = (
    f"INSERT INTO record_block ({COLUMNS['record_block']}) VALUES ({', '.join('?' for _ in SHAPES['record_block'])})"
)


class BlockRow(NamedTuple):
    """A row of ``record_block``."""

    number: int
    began: int
    sums: bytes
    facets: bytes
    times: bytes


def make_block(number: int, rows: Sequence[tuple[Any, ...]]) -> BlockRow:
    """
    Return the block of some records.

    :param number: of the block.
    :param rows: number, facet and time of its records, in the order of their numbers.
    """
    first = number * BLOCK + 1
    facets = array("I", bytes(4 * BLOCK))
    times: list[int] = []
    for record, facet, issued_at in rows:
        # Values that no writer wrote are left out: `agtp audit verify` names the record.
        issued_at = issued_at if type(issued_at) is int and issued_at >= 0 else times[-1] if times else 0
        times += [times[-1] if times else issued_at] * (record - first - len(times))
        times.append(issued_at)
        facets[record - first] = facet if type(facet) is int and 0 < facet < 2**32 else 0
    times += [times[-1] if times else 0] * (BLOCK - len(times))
    return _pack_block(number, facets, times)


def _pack_block(number: int, facets: Sequence[int], times: Sequence[int]) -> BlockRow:
    """Return a block, given facet and time of each of its records."""
    sums = Counter(facets)
    del sums[0]
    pairs = [value for pair in sorted(sums.items()) for value in pair] if len(sums) <= MOST_SUMS else []
    return BlockRow(number, times[0], pack("I", pairs), pack("I", facets), pack("Q", times))


class RecentRecords:
    """
    Facets and times of the records that a writer appended last, so that it need not read them back for their blocks.

    A store that rolls back, or finds that another process wrote, calls :meth:`begin`.
    """

    def __init__(self) -> None:
        self.next = 1
        """Number of the record after the last one that is remembered."""

        self.facets = array("I")
        self.times = array("Q")

    def begin(self, number: int) -> None:
        """Forget all records; the next one has this number."""
        self.next, self.facets, self.times = number, array("I"), array("Q")

    def take_block(self, number: int) -> BlockRow | None:
        """Return a block, and forget its records and those before; None where some of them are not remembered."""
        start = number * BLOCK + 1 - (self.next - len(self.facets))
        end = start + BLOCK
        if start < 0 or end > len(self.facets):
            return None
        block = _pack_block(number, self.facets[start:end], self.times[start:end])
        del self.facets[:end], self.times[:end]
        return block


def write_blocks(execute: Callable[..., Any], recent: RecentRecords, source: str = "record") -> bool:
    """
    Add some of the blocks that a store lacks and has the records of; within a transaction of its writer.

    :param execute: that of the writer's connection.
    :param recent: what the writer remembers; other records are read.
    :param source: where number, facet and time of records are: a table, or a query in parentheses.
    :return: whether there are more.
    """
    number, last = execute(_NEXT.format(source)).fetchone()
    end = min(last // BLOCK, number + WRITTEN_AT_ONCE)
    for block in range(number, end):
        row = recent.take_block(block)
        if row is None:
            numbers = block * BLOCK + 1, (block + 1) * BLOCK + 1
            row = make_block(block, execute(_RECORDS.format(source), numbers).fetchall())
        execute(ADD_BLOCK, tuple(row))
    return bool(end < last // BLOCK)


def lacks_blocks(execute: Callable[..., Any], source: str = "record") -> bool:
    """Return whether there is a block to write; the parameters are those of :func:`write_blocks`."""
    number, last = execute(_NEXT.format(source)).fetchone()
    return bool(number < last // BLOCK)
