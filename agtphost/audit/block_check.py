"""Whether blocks, by which records are found and counted, are what the records have signed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from agtphost.audit.chain import Seconds
from agtphost.audit.facet_check import FacetCheck
from agtphost.audit.record_check import NUMBER, Examined, Finding
from agtphost.stores.record_blocks import BLOCK, MOST_SUMS, unpack
from agtphost.stores.record_hashes import SHARED, TEXTS, pack_hashes, shorten
from agtphost.stores.row_shapes import find_flaw
from agtphost.stores.table_interfaces import ITableRows

CURE = "Stop the host and delete it with all later ones (DELETE FROM {} WHERE number >= {}): the host makes them anew"

Texts = list[str | int | None]
"""Of the records of a block, as :func:`agtphost.stores.record_hashes.shorten` returns them."""


class BlockCheck:
    """
    Compares blocks with records, which are given in the order of their numbers.

    :param facets: finds the facet of a number.
    """

    def __init__(self, rows: ITableRows, facets: FacetCheck) -> None:
        self._checks = _FacetBlocks(rows, facets), _HashBlocks(rows)

    def read_moment(self, last: int) -> Iterator[Finding]:
        """
        Note which blocks there are, as those that are written later are left out; name gaps and blocks without records.

        :param last: number of the last record.
        """
        for check in self._checks:
            yield from check.read_moment(last)

    def take(self, row: Sequence[Any], examined: Examined) -> Iterator[Finding]:
        """Compare the entries of a record with what it has signed, and name a block that is not right."""
        for check in self._checks:
            yield from check.take(row, examined)

    def finish(self) -> Iterator[Finding]:
        """Name the block of the last record if it is not right."""
        for check in self._checks:
            yield from check.finish()


class _Blocks(ABC):
    """
    Compares the blocks of one table.

    :ivar _numbers: those of the blocks that are compared.
    :ivar _number: of the block whose records are given now.
    :ivar _wrong: what is wrong with it.
    """

    table: ClassVar[str]

    def __init__(self, rows: ITableRows) -> None:
        self._rows = rows
        self._numbers: frozenset[int] = frozenset()
        self._number = -1
        self._wrong = ""

    def read_moment(self, last: int) -> Iterator[Finding]:
        """Note which blocks there are, and name gaps and blocks without records."""
        expected = 0
        numbers = [number for (number,) in self._rows.blocks(self.table)]
        for number in numbers:
            if number != expected:
                yield self._finding(expected, f"is not there, and block {number} is")
                yield self._finding(number, "the block before it is not there")
            elif number * BLOCK >= last:
                yield self._finding(number, f"the last record is {last}, and the block has only later ones")
            expected = number + 1
        self._numbers = frozenset(numbers)

    def take(self, row: Sequence[Any], examined: Examined) -> Iterator[Finding]:
        number, place = divmod(row[NUMBER] - 1, BLOCK)
        if number != self._number:
            yield from self._go_on(number)
        self._compare(place, row, examined)

    def finish(self) -> Iterator[Finding]:
        yield from self._go_on(-1)

    def _go_on(self, number: int) -> Iterator[Finding]:
        """Report on the block before, and begin with another one."""
        self._wrong = self._wrong or self._end()
        if self._wrong:
            yield self._finding(self._number, self._wrong)
        self._number, self._wrong = number, ""
        row = self._rows.block(self.table, number) if number in self._numbers else None
        flaw = None if row is None else find_flaw(self.table, row)
        self._wrong = self._begin(None if flaw else row) or flaw or ""

    @abstractmethod
    def _begin(self, row: Sequence[Any] | None) -> str:
        """
        Read a block, and return how it contradicts itself.

        :param row: None where there is none that can be compared.
        """

    @abstractmethod
    def _compare(self, place: int, row: Sequence[Any], examined: Examined) -> None:
        """Compare the entry at a place with its record."""

    @abstractmethod
    def _end(self) -> str:
        """Return what is wrong with a block, given all of its records."""

    def _finding(self, number: int, explanation: str) -> Finding:
        return Finding(self.table, str(number), f"{explanation}. {CURE.format(self.table, number)}")


class _FacetBlocks(_Blocks):
    """Compares blocks of facets and times."""

    table = "record_block"

    def __init__(self, rows: ITableRows, facets: FacetCheck) -> None:
        super().__init__(rows)
        self._facets = facets
        self._seconds = Seconds()
        self._facets_of: Sequence[int] = ()
        self._times: Sequence[int] = ()
        self._unseen = bytearray()

    def _begin(self, row: Sequence[Any] | None) -> str:
        self._unseen = bytearray()
        if row is None:
            return ""
        _, began, sums, facets, times = row
        if len(facets) != 4 * BLOCK or len(times) != 8 * BLOCK:
            return "facets or times has not the length of a block"
        self._facets_of, self._times = unpack("I", facets), unpack("Q", times)
        self._unseen = bytearray(b"\1" * BLOCK)
        if began != self._times[0]:
            return f"began is {began}, and the first of times is {self._times[0]}"
        expected = Counter(self._facets_of)
        del expected[0]
        pairs = [value for pair in sorted(expected.items()) for value in pair]
        if list(unpack("I", sums)) != (pairs if len(expected) <= MOST_SUMS else []) or len(sums) % 8:
            return "sums is not that of facets"
        return ""

    def _compare(self, place: int, row: Sequence[Any], examined: Examined) -> None:
        if not self._unseen:
            return
        self._unseen[place] = 0
        if self._wrong or examined.expected is None or examined.payload is None:
            return
        facet, time = self._facets_of[place], self._times[place]
        if self._facets.find(facet) != examined.expected.facet:
            self._wrong = f"facets has {facet} for record {row[NUMBER]}, which has signed another one"
        elif self._to_text(time) != examined.payload.get("issued_at"):
            self._wrong = f"times has {time} for record {row[NUMBER]}, which has signed another one"

    def _end(self) -> str:
        places = [place for place, unseen in enumerate(self._unseen) if unseen and self._facets_of[place]]
        if not places:
            return ""
        record = self._number * BLOCK + 1 + places[0]
        return f"facets has {self._facets_of[places[0]]} for record {record}, which is not there"

    def _to_text(self, milliseconds: int) -> str | None:
        try:
            return self._seconds.text(milliseconds)
        except (OverflowError, ValueError, OSError):
            return None


class _HashBlocks(_Blocks):
    """Compares blocks of hashes."""

    table = "record_hash"

    def __init__(self, rows: ITableRows) -> None:
        super().__init__(rows)
        self._hashes: Sequence[Sequence[int]] = ()
        self._texts: tuple[Texts, ...] = ()
        self._unread = bytearray()

    def _begin(self, row: Sequence[Any] | None) -> str:
        self._hashes, self._unread = (), bytearray(BLOCK)
        self._texts = tuple([None] * BLOCK for _ in TEXTS)
        if row is None:
            return ""
        _, *columns = row
        if any(len(column) != 4 * BLOCK for column in columns):
            return "a column has not the length of a block"
        self._hashes = [unpack("I", column) for column in columns]
        return ""

    def _compare(self, place: int, row: Sequence[Any], examined: Examined) -> None:
        if not self._hashes:
            return
        if examined.expected is None:
            self._unread[place] = 1
            return
        for texts, name in zip(self._texts, TEXTS, strict=True):
            texts[place] = shorten(getattr(examined.expected, name))

    def _end(self) -> str:
        for hashes, texts, name in zip(self._hashes, self._texts, TEXTS, strict=False):
            expected = unpack("I", pack_hashes(texts))
            for place in range(BLOCK) if hashes != expected else ():
                found, right = hashes[place], expected[place]
                # Whether another text has the same hash is not known where a record cannot be read.
                allowed = (right & ~SHARED, right | SHARED) if any(self._unread) else (right,)
                if found not in allowed and not self._unread[place]:
                    record = self._number * BLOCK + 1 + place
                    return f"{name}s has {found} for record {record}, whose hash is {right}"
        return ""
