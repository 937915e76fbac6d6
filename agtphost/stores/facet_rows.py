"""The rows of the table ``facet`` for a writer: each combination of values gets one number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agtphost.stores.block_writer import RecentRecords
from agtphost.stores.record_index import digest_facet
from agtphost.stores.row_shapes import COLUMNS, SHAPES
from agtphost.stores.rows import FACET, DamagedRow, Facet

MOST_IN_MEMORY = 20_000
"""Facets whose numbers a writer keeps in memory, of some 600 octets each."""

_FIND = "SELECT number FROM facet WHERE digest = ?"
_NEXT = "SELECT coalesce(max(number), 0) + 1 FROM facet"
_ADD = f"INSERT INTO facet ({COLUMNS['facet']}) VALUES ({', '.join('?' for _ in SHAPES['facet'])})"


class FacetNumbers:
    """
    Finds the numbers of facets, and adds those that a store lacks; within the transactions of one writer.

    Rows are never changed or removed, so a number in memory stays valid once its transaction is committed.

    :param execute: that of the writer's connection.
    """

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute
        self._known: dict[Facet, int] = {}
        self.recent = RecentRecords()
        """What is remembered of the records that were appended, for their blocks."""
        self.uncommitted = False
        """Whether the present transaction has added rows or records."""

    def number_records(self, columns: Sequence[Sequence[Any]]) -> list[int]:
        """
        Return the number of each record's facet, for records that are to be appended and follow each other.

        :param columns: the values of each field of :class:`agtphost.stores.rows.RecordRow`.
        """
        facets: Sequence[Facet] = columns[FACET]
        try:
            # Almost always, and without a function of Python for each record.
            numbers = [*map(self._known.__getitem__, facets)]
        except KeyError:
            numbers = [self.find(facet) for facet in facets]
        self.uncommitted = True
        self.recent.add(columns, numbers)
        return numbers

    def find(self, facet: Facet) -> int:
        """Return the number of a facet; add its row if there is none."""
        number = self._known.get(facet)
        return self._look_up(facet) if number is None else number

    def _look_up(self, facet: Facet) -> int:
        digest = digest_facet(facet)
        row = self._execute(_FIND, (digest,)).fetchone()
        if row is None:
            row = self._execute(_NEXT).fetchone()
            self._execute(_ADD, (row[0], digest, *facet))
            self.uncommitted = True
        if type(row[0]) is not int:
            raise DamagedRow("facet", str(row[0]), "number is of the wrong type")
        if len(self._known) >= MOST_IN_MEMORY:
            self._known.clear()
        self._known[facet] = row[0]
        return row[0]

    def note_rollback(self) -> None:
        """Forget what is not there any more."""
        if self.uncommitted:
            self.forget()

    def forget(self) -> None:
        """Forget everything, as another writer may have replaced the store."""
        self._known.clear()
        self.recent.begin(1)
        self.uncommitted = False
