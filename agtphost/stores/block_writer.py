"""The writing side of :mod:`.record_blocks` and :mod:`.record_hashes`: blocks of the records that a host appended."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from agtphost.stores.record_blocks import BLOCK, MOST_SUMS, pack
from agtphost.stores.record_hashes import MOST_CHARACTERS, TEXTS, HashRow, pack_hashes, shorten
from agtphost.stores.row_shapes import COLUMNS, SHAPES
from agtphost.stores.rows import ISSUED_AT, PATH, SESSION, TASK

WRITTEN_AT_ONCE: Final = 4
"""Blocks that are written in one moment, each in 7 ms of a processor where its records have to be read."""

MOST_RECENT: Final = 4 * BLOCK
"""Records that a writer remembers: facet and time, and references to three texts of at most 200 characters."""

_RECORDS: Final = (
    "SELECT number, facet, issued_at, session, task, path FROM {} r WHERE number >= ? AND number < ? ORDER BY number"
)
_NEXT: Final = (
    "SELECT (SELECT coalesce(max(number), -1) + 1 FROM record_block), "
    "(SELECT coalesce(max(number), -1) + 1 FROM record_hash), "
    "coalesce((SELECT number FROM {} r ORDER BY number DESC LIMIT 1), 0)"
)
_ADD: Final = {
    table: f"INSERT INTO {table} ({COLUMNS[table]}) VALUES ({', '.join('?' for _ in SHAPES[table])})"
    for table in ("record_block", "record_hash")
}


class BlockRow(NamedTuple):
    """A row of ``record_block``."""

    number: int
    began: int
    sums: bytes
    facets: bytes
    times: bytes


class Block(NamedTuple):
    """The rows of a block."""

    facets: BlockRow
    hashes: HashRow


def make_block(number: int, rows: Sequence[tuple[Any, ...]]) -> Block:
    """
    Return the block of some records.

    :param number: of the block.
    :param rows: number, facet, time, session, task and path of its records, in the order of their numbers.
    """
    first = number * BLOCK + 1
    facets = array("I", bytes(4 * BLOCK))
    times: list[int] = []
    texts: list[list[str | int | None]] = [[None] * BLOCK for _ in TEXTS]
    for record, facet, issued_at, *given in rows:
        # Values that no writer wrote are left out: `agtp audit verify` names the record.
        issued_at = issued_at if type(issued_at) is int and issued_at >= 0 else times[-1] if times else 0
        times += [times[-1] if times else issued_at] * (record - first - len(times))
        times.append(issued_at)
        facets[record - first] = facet if type(facet) is int and 0 < facet < 2**32 else 0
        for column, text in zip(texts, given, strict=True):
            column[record - first] = shorten(text)
    times += [times[-1] if times else 0] * (BLOCK - len(times))
    return _pack_block(number, facets, times, texts)


def _pack_block(
    number: int, facets: Sequence[int], times: Sequence[int], texts: Sequence[Sequence[str | int | None]]
) -> Block:
    """Return a block, given the values of each of its records."""
    sums = Counter(facets)
    del sums[0]
    pairs = [value for pair in sorted(sums.items()) for value in pair] if len(sums) <= MOST_SUMS else []
    return Block(
        BlockRow(number, times[0], pack("I", pairs), pack("I", facets), pack("Q", times)),
        HashRow(number, *map(pack_hashes, texts)),
    )


class RecentRecords:
    """
    The records that a writer appended last, as far as their blocks need them, so that it need not read them back.

    A store that rolls back, or finds that another process wrote, calls :meth:`begin`.
    """

    def __init__(self) -> None:
        self.begin(1)

    def begin(self, number: int) -> None:
        """Forget all records; the next one has this number."""
        self.next = number
        """Number of the record after the last one that is remembered."""

        self._facets, self._times = array("I"), array("Q")
        self._texts: tuple[list[str | int | None], ...] = ([], [], [])

    def __len__(self) -> int:
        return len(self._facets)

    def add(self, columns: Sequence[Sequence[Any]], facets: Sequence[int]) -> None:
        """
        Remember records that follow each other.

        :param columns: the values of each field of :class:`agtphost.stores.rows.RecordRow`.
        :param facets: the number of each one's facet.
        """
        first = columns[0][0]
        if first != self.next or len(self._facets) >= MOST_RECENT:
            self.begin(first)
        self.next += len(facets)
        self._facets.extend(facets)
        self._times.extend(columns[ISSUED_AT])
        sessions, tasks, paths = self._texts
        sessions.extend(columns[SESSION])
        tasks.extend(columns[TASK])
        # The usual case calls no function of Python for a record.
        given = columns[PATH]
        paths.extend(given if max(map(len, given)) <= MOST_CHARACTERS else map(shorten, given))

    def take_block(self, number: int) -> Block | None:
        """Return a block, and forget its records and those before; None where some of them are not remembered."""
        start = number * BLOCK + 1 - (self.next - len(self))
        end = start + BLOCK
        if start < 0 or end > len(self):
            return None
        facets, times = self._facets[start:end], self._times[start:end]
        texts = [column[start:end] for column in self._texts]
        del self._facets[:end], self._times[:end]
        for column in self._texts:
            del column[:end]
        return _pack_block(number, facets, times, texts)


def write_blocks(execute: Callable[..., Any], recent: RecentRecords, source: str = "record") -> bool:
    """
    Add some of the blocks that a store lacks and has the records of; within a transaction of its writer.

    :param execute: that of the writer's connection.
    :param recent: what the writer remembers; other records are read.
    :param source: where number, facet, time and texts of records are: a table, or a query in parentheses.
    :return: whether there are more.
    """
    blocks, hashes, last = execute(_NEXT.format(source)).fetchone()
    number = min(blocks, hashes)
    end = min(last // BLOCK, number + WRITTEN_AT_ONCE)
    for block in range(number, end):
        made = recent.take_block(block)
        if made is None:
            numbers = block * BLOCK + 1, (block + 1) * BLOCK + 1
            made = make_block(block, execute(_RECORDS.format(source), numbers).fetchall())
        if block >= blocks:
            execute(_ADD["record_block"], tuple(made.facets))
        if block >= hashes:
            execute(_ADD["record_hash"], tuple(made.hashes))
    return bool(end < last // BLOCK)


def lacks_blocks(execute: Callable[..., Any], source: str = "record") -> bool:
    """Return whether there is a block to write; the parameters are those of :func:`write_blocks`."""
    blocks, hashes, last = execute(_NEXT.format(source)).fetchone()
    return bool(min(blocks, hashes) < last // BLOCK)
