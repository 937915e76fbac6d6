"""The rows of the table ``facet`` for a reader: they never change, so each is read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from agtphost.stores.row_shapes import COLUMNS, check_row
from agtphost.stores.rows import Facet

MOST_IN_MEMORY: Final = 20_000
"""Facets that a reader keeps, of some 700 octets each; those of a store with more are read for each look."""

_NEWER: Final = f"SELECT {COLUMNS['facet']} FROM facet WHERE number > ? ORDER BY number"


class KnownFacets:
    """Facets by number; for any thread."""

    def __init__(self) -> None:
        # One attribute, replaced as a whole: several threads look at the same time.
        self._known: tuple[int, Mapping[int, Facet]] = 0, {}

    def read(self, rows: Callable[..., list[Any]]) -> Mapping[int, Facet]:
        """
        Return all facets of the store.

        :param rows: runs a statement with its parameters and returns its rows.
        :raises agtphost.stores.rows.DamagedRow: one of them is not of the shape of its table.
        """
        last, known = self._known
        if found := rows(_NEWER, (last,)):
            known = dict(known)
            for row in found:
                check_row("facet", row)
                known[row[0]] = Facet(*row[2:])
            if len(known) <= MOST_IN_MEMORY:
                self._known = found[-1][0], known
        return known
