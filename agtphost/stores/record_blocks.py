"""
Blocks of facets and times: what searches and counts read in place of records.

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
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from agtphost.stores.row_shapes import check_row
from agtphost.stores.rows import DamagedRow

BLOCK: Final = 4_096
"""Records of a block."""

MOST_SUMS: Final = BLOCK // 8
"""Facets of a block with sums: with more, its facets are counted as soon as the sums are added."""

_BEGINNINGS: Final = "SELECT number, began FROM record_block ORDER BY number"
_COLUMN: Final = "SELECT {} FROM record_block WHERE number = ?"
_KINDS: Final = {"facets": "I", "times": "Q"}
_SUMS: Final = (
    "SELECT number, sums, CASE WHEN length(sums) = 0 THEN facets END FROM record_block "
    "WHERE number >= ? AND number < ? ORDER BY number DESC"
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
        self._columns: dict[tuple[int, str], array[int]] = {}

    def _read(self, number: int, column: str) -> array[int]:
        """Return the facets or the times of a block."""
        found = self._columns.get((number, column))
        if found is None:
            rows = self._rows(_COLUMN.format(column), (number,))
            octets = rows[0][0] if rows else b""
            found = array("I") if type(octets) is not bytes else unpack(_KINDS[column], octets)
            if len(found) != BLOCK or len(octets) % BLOCK:
                raise DamagedRow("record_block", str(number), f"{column} is not there, or not of its length")
            self._columns[number, column] = found
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
        found = block * BLOCK + 1 + bisect_left(self._read(block, "times"), since)
        return min(max(found, low), high)

    def time_of(self, number: int) -> int:
        """Return the time of a record, in milliseconds since the Unix epoch."""
        block, place = divmod(number - 1, BLOCK)
        return self._read(block, "times")[place]

    def facet_of(self, number: int) -> int:
        """Return the facet of a record; 0 for one that is not there."""
        block, place = divmod(number - 1, BLOCK)
        return self._read(block, "facets")[place]

    def facets_of(self, low: int, high: int) -> array[int]:
        """Return the facet of each record of a range; 0 for one that is not there."""
        found = array("I")
        while low < high:
            block, place = divmod(low - 1, BLOCK)
            part = self._read(block, "facets")[place : place + high - low]
            found += part
            low += len(part)
        return found

    def has_sums_of(self, low: int, high: int) -> bool:
        """Return whether a whole block is within a range, so that its sums are read in place of its records."""
        return -(-(low - 1) // BLOCK) < (high - 1) // BLOCK

    def find(self, facets: frozenset[int], low: int, high: int) -> Iterator[tuple[int, list[bool]]]:
        """
        Yield for the records of a range whether each has one of some facets, block by block, the newest block first.

        :param high: at most :attr:`end`.
        :return: a number, and for its record and those after it whether each has one. Records that are left out have
            none.
        """
        first, last = (low - 1) // BLOCK, (high - 2) // BLOCK
        for number, pairs, octets in self._read_columns(first, last + 1):
            if pairs:
                has_none = facets.isdisjoint(_to_sums(pairs))
            else:
                has_none = facets.isdisjoint(self._columns.setdefault((number, "facets"), unpack("I", octets)))
            if has_none:
                continue
            start, end = max(number * BLOCK + 1, low), min((number + 1) * BLOCK + 1, high)
            yield start, [*map(facets.__contains__, self.facets_of(start, end))]

    def count(self, low: int, high: int) -> Counter[int]:
        """Count the records of a range by facet."""
        first, last = -(-(low - 1) // BLOCK), (high - 1) // BLOCK
        if not self.has_sums_of(low, high):
            sums = Counter(self.facets_of(low, high))
        else:
            sums = Counter(self.facets_of(low, first * BLOCK + 1))
            sums.update(self.facets_of(last * BLOCK + 1, high))
            for _, pairs, facets in self._read_columns(first, last):
                # A mapping is added in Python, one facet after the other, so facets are counted into the sums directly.
                sums.update(_to_sums(pairs) if pairs else unpack("I", facets))
        del sums[0]
        return sums

    def _read_columns(self, first: int, last: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield the sums of each block, and its facets where it has no sums, the newest block first."""
        for number, pairs, facets in self._rows(_SUMS, (first, last)):
            if type(pairs) is not bytes or (not pairs and (type(facets) is not bytes or len(facets) != 4 * BLOCK)):
                raise DamagedRow("record_block", str(number), "sums or facets is not of its length")
            yield number, pairs, facets


def _to_sums(pairs: bytes) -> dict[int, int]:
    """Return the records by facet that the column ``sums`` has."""
    given = unpack("I", pairs)
    return dict(zip(given[::2], given[1::2], strict=False))
