"""
Blocks of facets and times: what counts read in place of records.

A block has, for 4,096 records, the number of each one's facet and its time, 12 octets a record, and the sums by facet.
Records never change, so a block that was written stays right. The host writes blocks now and then, of what it remembers
of the records that it appended; the records after the last block are read in the table of records. ``agtp audit
verify`` compares blocks with what was signed (:mod:`agtphost.audit.block_check`).
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from agtphost.stores.row_shapes import check_row
from agtphost.stores.rows import DamagedRow

BLOCK: Final = 4_096
"""Records of a block."""

MOST_SUMS: Final = BLOCK // 8
"""Facets of a block with sums: with more, its facets are counted as soon as the sums are added."""

_BEGINNINGS: Final = "SELECT number, began FROM record_block ORDER BY number"
_COLUMNS: Final = "SELECT facets, times FROM record_block WHERE number = ?"
_SUMS: Final = (
    "SELECT number, sums, CASE WHEN length(sums) = 0 THEN facets END FROM record_block "
    "WHERE number >= ? AND number < ? ORDER BY number"
)

ReadRows = Callable[..., list[Any]]
"""Runs a statement with its parameters and returns its rows."""


def pack(kind: str, values: Sequence[int]) -> bytes:
    """
    Return numbers as octets, little end first.

    :param kind: ``I`` for four octets each, ``Q`` for eight.
    """
    packed = array(kind, values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(kind: str, octets: bytes) -> array[int]:
    """Return the numbers that :func:`pack` made octets of; an incomplete number at the end is left out."""
    found = array(kind)
    found.frombytes(octets[: len(octets) // found.itemsize * found.itemsize])
    if sys.byteorder == "big":
        found.byteswap()
    return found


class RecordBlocks:
    """
    The blocks of a store, as one look reads them.

    :param rows: that of the reader.
    :raises DamagedRow: a block is missing among others, or is not of the shape of one.
    """

    def __init__(self, rows: ReadRows) -> None:
        self._rows = rows
        self._began: list[int] = []
        for expected, row in enumerate(rows(_BEGINNINGS)):
            if row[0] != expected:
                raise DamagedRow("record_block", str(expected), "is not there, and a later one is")
            check_row("record_block", row)
            self._began.append(row[1])
        self.end = len(self._began) * BLOCK + 1
        """Number of the first record that is in no block."""
        self._columns: dict[int, tuple[array[int], array[int]]] = {}

    def _read(self, number: int) -> tuple[array[int], array[int]]:
        """Return facets and times of a block."""
        found = self._columns.get(number)
        if found is None:
            rows = self._rows(_COLUMNS, (number,))
            octets = rows[0] if rows else (b"", b"")
            if [type(each) is bytes and len(each) for each in octets] != [4 * BLOCK, 8 * BLOCK]:
                raise DamagedRow("record_block", str(number), "facets or times is not there, or not of its length")
            found = self._columns[number] = unpack("I", octets[0]), unpack("Q", octets[1])
        return found

    def first_since(self, since: int, low: int, high: int) -> int:
        """
        Return the first number within a range whose record was issued at a time or later; ``high`` for none.

        :param high: at most :attr:`end`.
        """
        if low >= high:
            return high
        # The first record of that time is in the last block that began before it, or is the first of the next one.
        block = max(bisect_left(self._began, since) - 1, 0)
        found = block * BLOCK + 1 + bisect_left(self._read(block)[1], since)
        return min(max(found, low), high)

    def time_of(self, number: int) -> int:
        """Return the time of a record, in milliseconds since the Unix epoch."""
        block, place = divmod(number - 1, BLOCK)
        return self._read(block)[1][place]

    def facets_of(self, low: int, high: int) -> array[int]:
        """Return the facet of each record of a range; 0 for one that is not there."""
        found = array("I")
        while low < high:
            block, place = divmod(low - 1, BLOCK)
            part = self._read(block)[0][place : place + high - low]
            found += part
            low += len(part)
        return found

    def has_sums_of(self, low: int, high: int) -> bool:
        """Return whether a whole block is within a range, so that its sums are read in place of its records."""
        return -(-(low - 1) // BLOCK) < (high - 1) // BLOCK

    def count(self, low: int, high: int) -> Counter[int]:
        """Count the records of a range by facet."""
        first, last = -(-(low - 1) // BLOCK), (high - 1) // BLOCK
        if not self.has_sums_of(low, high):
            sums = Counter(self.facets_of(low, high))
        else:
            sums = Counter(self.facets_of(low, first * BLOCK + 1))
            sums.update(self.facets_of(last * BLOCK + 1, high))
            self._add_whole(first, last, sums)
        del sums[0]
        return sums

    def _add_whole(self, first: int, last: int, sums: Counter[int]) -> None:
        for number, pairs, facets in self._rows(_SUMS, (first, last)):
            if type(facets or pairs) is not bytes or len(facets or b"") not in (0, 4 * BLOCK):
                raise DamagedRow("record_block", str(number), "sums or facets is not of its length")
            if facets:
                sums.update(unpack("I", facets))
            else:
                given = unpack("I", pairs)
                for facet, count in zip(given[::2], given[1::2], strict=False):
                    sums[facet] += count
