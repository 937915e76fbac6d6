"""The interface by which the rows of a store are read as they are stored, to compare them with what was signed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from zope.interface import Interface

from agtphost.stores.schema_check import SchemaFinding


class ITableRows(Interface):
    """
    Rows of a SQLite store as they are stored, values of any type, for :mod:`agtphost.audit.table_check`.

    A row has the columns of :data:`agtphost.stores.row_shapes.SHAPES`. Each method raises
    :class:`agtphost.stores.DamagedRecord` where the database cannot be read.
    """

    def begin() -> None:
        """See the store as it is now, until :meth:`end`."""

    def end() -> None:
        """See the store as it becomes again."""

    def schema_changes() -> list[SchemaFinding]:
        """Return the differences of tables, indexes, views and triggers from those that the host makes."""

    def name_fault(fault: str) -> tuple[str, str] | None:
        """
        Return table and row of a line of :meth:`agtphost.stores.interfaces.IRecordReader.faults`.

        None where the line names none.

        A row that an index lacks is named by its key; of an index whose rows are unknown, the index is named.
        """

    def index_faults(table: str) -> list[tuple[str, str, str]]:
        """
        Compare a table with its indexes, by which rows are found and kept from being there twice.

        :return: table, row and what is wrong; the time grows with the table.
        """

    def is_placed(number: int, chain: int, seq: int) -> bool:
        """Return whether the index over chains finds a record at its place."""

    def last_number() -> int:
        """Return the largest number of a record; 0 if there is none."""

    def newest_size() -> int:
        """Return the number of records in the newest checkpoint; 0 if there is none."""

    def chains() -> Iterator[tuple[Any, ...]]:
        """Yield every row of the table ``chain``."""

    def newest_records() -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """Yield each chain that some record names: its number, and the row of ``record`` that has its last place."""

    def record_before(row: Sequence[Any]) -> tuple[Any, Any] | None:
        """Return ``audit_id`` and ``seq`` of the record that a row of ``record`` names as the one before it."""

    def records(after: int | None, upto: int) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of ``record`` after a number, in order; from the first one if ``after`` is None."""

    def record(number: int) -> tuple[Any, ...] | None:
        """Return one row of ``record``."""

    def facets(after: int | None) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of ``facet`` after a number, in order; from the first one if ``after`` is None."""

    def facet(number: int) -> tuple[Any, ...] | None:
        """Return one row of ``facet``."""

    def blocks(table: str) -> Iterator[tuple[Any, ...]]:
        """Yield the number of every row of ``record_block`` or ``record_hash``, in their order."""

    def block(table: str, number: int) -> tuple[Any, ...] | None:
        """Return one row of ``record_block`` or ``record_hash``."""

    def checkpoints(after: int | None) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of ``checkpoint`` after a size, in order; from the first one if ``after`` is None."""

    def tile(level: int, number: int) -> tuple[Any, int]:
        """
        Return the hashes of a tile, None where it is not there, and the size of the newest checkpoint at that moment.
        """

    def tile_places() -> Iterator[tuple[Any, ...]]:
        """Level and number of every tile."""

    def reservations() -> Iterator[tuple[Any, ...]]:
        """Yield every row of the table ``reservation``."""

    def keyed_rows() -> Iterator[tuple[Any, ...]]:
        """Return every row of ``keyed``, ordered by owner."""

    def keyed_sums(live_after: int) -> Iterator[tuple[Any, ...]]:
        """
        Sum up the reservations of each owner, in the order of the owners.

        :return: owner, how many there are, octets of their answers, when the oldest of those was made that were made
            after ``live_after`` (None where there is none), and whether any of them has a seal.
        """


class ITableSource(Interface):
    """A store, or the reading side of one, whose rows can be read as they are stored."""

    def tables() -> AbstractContextManager[ITableRows]:
        """Return a context manager for the rows; they can be read while the context lasts."""
