"""
Hashes of sessions, tasks and paths in blocks: a search for one of these reads them in place of records.

A row of ``record_hash`` has four octets for each of the 4,096 records of a block (:mod:`.record_blocks`), and that
three times: 31 bits of a hash, and in the lowest bit whether other texts of the block have the same hash. All records
of a block with one hash have the same text where that bit is not set, so to read one of them is enough. Where it is
set, each is read. Callers choose these texts and may choose some with equal hashes, so a hash alone proves nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, ClassVar, Final, NamedTuple, Protocol
from zlib import crc32

from agtphost.stores.record_blocks import BLOCK, pack, unpack
from agtphost.stores.rows import DamagedRow

MOST_CHARACTERS: Final = 200
"""Characters of a text that is remembered until its block is written; of a longer one the hash is."""

TEXTS: Final = ("session", "task", "path")
"""The columns of a record that have hashes, in the order of the columns of ``record_hash``."""

SHARED: Final = 1
"""The bit of a hash that says that each record has to be read."""

ABSENT: Final = SHARED
"""In place of the hash of a record that is not there."""

_EXTENT: Final = "SELECT count(*), coalesce(max(number), -1) FROM record_hash"
_HASHES: Final = "SELECT number, {}s FROM record_hash WHERE number >= ? AND number < ? ORDER BY number DESC"
_WITH_TEXT: Final = "SELECT r.number FROM {} r WHERE r.number {} AND r.{} = ?"


class HashRow(NamedTuple):
    """A row of ``record_hash``."""

    number: int
    sessions: bytes
    tasks: bytes
    paths: bytes


def hash_text(text: str) -> int:
    """Return the hash of a text, with a lowest bit of 0."""
    return crc32(text.encode("utf-8", "surrogatepass")) & ~SHARED


def shorten(text: Any) -> str | int | None:
    """Return what is remembered of a text: of a long one, its hash; None for any other value."""
    if type(text) is not str:
        return None
    return text if len(text) <= MOST_CHARACTERS else hash_text(text)


def pack_hashes(texts: Sequence[str | int | None]) -> bytes:
    """
    Return a column of hashes.

    :param texts: what :func:`shorten` returns of the text of each record of a block.
    """
    hashes: dict[str | int | None, int] = {}
    for text in {*texts}:
        # Long texts with the same hash cannot be compared here.
        hashes[text] = ABSENT if text is None else text | SHARED if isinstance(text, int) else hash_text(text)
    alike = Counter([found & ~SHARED for found in hashes.values()])
    if len(alike) < len(hashes):
        hashes = {text: found | (alike[found & ~SHARED] > 1) for text, found in hashes.items()}
    return pack("I", [*map(hashes.__getitem__, texts)])


class Source(Protocol):
    """A reader, as far as hashes need it; see :class:`agtphost.stores.sql_reader.SqlRecordReader`."""

    among: ClassVar[str]
    indexed: ClassVar[str]

    @abstractmethod
    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement and return its rows."""

    @abstractmethod
    def to_list(self, numbers: Sequence[int]) -> object:
        """Return the parameter for ``among``."""


class RecordHashes:
    """
    The hashes of a store, as one look reads them.

    :raises DamagedRow: a row is missing among others.
    """

    def __init__(self, reader: Source) -> None:
        self._reader = reader
        count, last = reader._rows(_EXTENT)[0]
        if last != count - 1:
            raise DamagedRow("record_hash", str(last), "is there, and one before it is not")
        self.end: int = count * BLOCK + 1
        """Number of the first record that has no hashes."""

    def find(self, column: str, text: str, low: int, high: int) -> Iterator[tuple[int, list[bool]]]:
        """
        Yield for the records of a range whether each has a text, block by block, the newest block first.

        :param column: one of :data:`TEXTS`.
        :param high: at most :attr:`end`.
        :return: a number, and for its record and those after it whether each has the text. Records that are left out
            lack it.
        :raises DamagedRow: hashes are not of the shape of a block.
        """
        blocks = dict(self._read(column, hash_text(text), low, high))
        alone = [first + hashes.index(wanted) for first, (hashes, wanted) in blocks.items() if not wanted & SHARED]
        with_text = self._confirm(column, text, alone)
        for first, (hashes, wanted) in blocks.items():
            start, end = max(first, low), min(first + BLOCK, high)
            found = [*map(wanted.__eq__, hashes[start - first : end - first])]
            if wanted & SHARED:
                confirmed = self._confirm(column, text, [*compress(range(start, end), found)])
                found = [*map(confirmed.__contains__, range(start, end))]
            elif first + hashes.index(wanted) not in with_text:
                continue
            yield start, found

    def _read(self, column: str, wanted: int, low: int, high: int) -> Iterator[tuple[int, tuple[Sequence[int], int]]]:
        """Yield the blocks with a hash, by the number of their first record, and how the hash is written there."""
        rows = self._reader._rows(_HASHES.format(column), ((low - 1) // BLOCK, (high - 2) // BLOCK + 1))
        for number, packed in rows:
            if type(packed) is not bytes or len(packed) != 4 * BLOCK:
                raise DamagedRow("record_hash", str(number), f"{column}s is not of its length")
            for each in (wanted, wanted | SHARED):
                # Octets are compared much faster than numbers; they may also begin within a number.
                if each.to_bytes(4, "little") in packed and each in (hashes := unpack("I", packed)):
                    yield number * BLOCK + 1, (hashes, each)
                    break

    def _confirm(self, column: str, text: str, numbers: Sequence[int]) -> frozenset[int]:
        """Return which of some records have the text."""
        if not numbers:
            return frozenset()
        statement = _WITH_TEXT.format(self._reader.indexed, self._reader.among, column)
        rows: Iterable[tuple[int]] = self._reader._rows(statement, (self._reader.to_list(numbers), text))
        return frozenset([number for (number,) in rows])
