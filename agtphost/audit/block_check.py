"""Whether the blocks of facets and times, by which records are counted, are what the records have signed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from agtphost.audit.chain import Seconds
from agtphost.audit.facet_check import FacetCheck
from agtphost.audit.record_check import NUMBER, Examined, Finding
from agtphost.stores.record_blocks import BLOCK, MOST_SUMS, unpack
from agtphost.stores.row_shapes import find_flaw
from agtphost.stores.table_interfaces import ITableRows

CURE = (
    "Stop the host and delete it with all later ones (DELETE FROM record_block WHERE number >= {}): the host makes "
    "them anew"
)


class BlockCheck:
    """
    Compares blocks with records, which are given in the order of their numbers.

    :param facets: finds the facet of a number.
    """

    def __init__(self, rows: ITableRows, facets: FacetCheck) -> None:
        self._rows = rows
        self._facets = facets
        self._seconds = Seconds()
        self._numbers: frozenset[int] = frozenset()
        self._number = -1
        self._facets_of: Sequence[int] = ()
        self._times: Sequence[int] = ()
        self._unseen = bytearray()
        self._wrong = ""

    def read_moment(self, last: int) -> Iterator[Finding]:
        """
        Note which blocks there are, as those that are written later are left out; name gaps and blocks without records.

        :param last: number of the last record.
        """
        expected = 0
        numbers = [number for (number,) in self._rows.blocks()]
        for number in numbers:
            if number != expected:
                yield _finding(expected, f"is not there, and block {number} is")
                yield _finding(number, "the block before it is not there")
            elif number * BLOCK >= last:
                yield _finding(number, f"the last record is {last}, and the block has only later ones")
            expected = number + 1
        self._numbers = frozenset(numbers)

    def take(self, row: Sequence[Any], examined: Examined) -> Iterator[Finding]:
        """Compare the entry of a record with what it has signed, and name a block that is not right."""
        number, place = divmod(row[NUMBER] - 1, BLOCK)
        if number != self._number:
            yield from self._next(number)
        if not self._unseen:
            return
        self._unseen[place] = 0
        if self._wrong or examined.facet is None or examined.payload is None:
            return
        facet, time = self._facets_of[place], self._times[place]
        if self._facets.find(facet) != examined.facet:
            self._wrong = f"facets has {facet} for record {row[NUMBER]}, which has signed another one"
        elif self._to_text(time) != examined.payload.get("issued_at"):
            self._wrong = f"times has {time} for record {row[NUMBER]}, which has signed another one"

    def finish(self) -> Iterator[Finding]:
        """Name the block of the last record if it is not right."""
        yield from self._next(-1)

    def _to_text(self, milliseconds: int) -> str | None:
        try:
            return self._seconds.text(milliseconds)
        except (OverflowError, ValueError, OSError):
            return None

    def _next(self, number: int) -> Iterator[Finding]:
        """Report on the block before, and read the next one."""
        if not self._wrong and any(self._unseen):
            places = [place for place, unseen in enumerate(self._unseen) if unseen and self._facets_of[place]]
            if places:
                record = self._number * BLOCK + 1 + places[0]
                self._wrong = f"facets has {self._facets_of[places[0]]} for record {record}, which is not there"
        if self._wrong:
            yield _finding(self._number, self._wrong)
        self._number, self._wrong, self._unseen = number, "", bytearray()
        if number in self._numbers and (row := self._rows.block(number)) is not None:
            self._wrong = find_flaw("record_block", row) or self._read(row)

    def _read(self, row: Sequence[Any]) -> str:
        """Read a block, and return how it contradicts itself."""
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


def _finding(number: int, explanation: str) -> Finding:
    return Finding("record_block", str(number), f"{explanation}. {CURE.format(number)}")
