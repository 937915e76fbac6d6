"""Index the records of a store whose tables are of a version without facets: a part of its upgrade."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agtphost.audit.record_index import index_signed
from agtphost.stores.facet_rows import FacetNumbers

PAGE = 1_000
"""Records of one statement."""

_READ = f"SELECT number, format, signed FROM record WHERE number > ? ORDER BY number LIMIT {PAGE}"


def index_records(execute: Callable[..., Any], update: Callable[[Sequence[tuple[Any, ...]]], object]) -> int:
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
        found = []
        for number, form, signed in rows:
            index = index_signed(form, signed) if isinstance(signed, bytes) else None
            if index is not None:
                found.append((index.session, index.task, facets.find(index.facet), number))
        update(found)
        total += len(rows)
        after = rows[-1][0]
    return total
