"""Index records that a program of a version without facets wrote: a part of a store's upgrade."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agtphost.stores.facet_rows import FacetNumbers
from agtphost.stores.record_index import index_signed

PAGE = 1_000
"""Records of one statement."""

IndexRow = tuple[str, str, int, int]
"""Session, task, number of the facet, and number of the record."""

UNREADABLE = 0
"""The number of no facet: of records whose octets cannot be read."""

_READ = f"SELECT number, format, signed FROM record WHERE number > ? ORDER BY number LIMIT {PAGE}"


def index_rows(facets: FacetNumbers, rows: Sequence[tuple[int, int, bytes]]) -> list[IndexRow]:
    """
    Return the index of records.

    :param rows: number, format and signed octets of each.
    """
    found: list[IndexRow] = []
    for number, form, signed in rows:
        index = index_signed(form, signed) if isinstance(signed, bytes) else None
        if index is None:
            found.append(("", "", UNREADABLE, number))
        else:
            found.append((index.session, index.task, facets.find(index.facet), number))
    return found


def index_records(execute: Callable[..., Any], update: Callable[[Sequence[IndexRow]], object]) -> int:
    """
    Set the columns ``session``, ``task`` and ``facet`` of every record, from what it has signed.

    A record that cannot be read stays without: ``agtp audit verify`` names it, as it did before.

    :param execute: that of a connection with an open transaction.
    :param update: takes tuples of session, task, facet and number, and writes them.
    :return: how many records there are.
    """
    facets = FacetNumbers(execute)
    after, total = 0, 0
    while rows := execute(_READ, (after,)).fetchall():
        update([row for row in index_rows(facets, rows) if row[2] != UNREADABLE])
        total += len(rows)
        after = rows[-1][0]
    return total
