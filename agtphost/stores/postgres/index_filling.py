"""
Add rows to the index of records for those that a host of an earlier version wrote.

The index lies in tables that programs of schema version 1 and 2 do not know. They go on writing after an upgrade, and
their records are the newest ones without a row. The host that has the lease next adds the rows before it writes a
record; so the records without a row are always the newest, and their number is known by two searches.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from agtphost.stores.facet_rows import FacetNumbers
from agtphost.stores.postgres.connection import DatabaseError, Session
from agtphost.stores.postgres.statements import ADD_INDEX, BEGIN
from agtphost.stores.record_indexing import PAGE, index_rows

LAST_INDEXED: Final = "SELECT coalesce(max(number), 0) FROM record_index"
_LACKING: Final = f"SELECT EXISTS (SELECT 1 FROM record WHERE number > ({LAST_INDEXED}))"
_READ: Final = f"SELECT number, format, signed FROM record WHERE number > ({LAST_INDEXED}) ORDER BY number LIMIT {PAGE}"


def fill_index(session: Session) -> int:
    """
    Add the rows that are lacking, and return how many.

    Each page is a transaction, so a host that serves waits for one page at most.

    :raises DatabaseError: a statement failed; the pages before it stay.
    """
    total = 0
    while session.execute(_LACKING).fetchone()[0]:
        session.command(BEGIN)
        try:
            total += fill_page(session.execute)
        except BaseException:
            with suppress(DatabaseError):
                session.command(b"ROLLBACK")
            raise
        if session.command(b"COMMIT").command_status != b"COMMIT":
            raise DatabaseError(f"{session.name}: the index of records could not be written; try again")
    return total


def fill_page(execute: Callable[..., Any]) -> int:
    """
    Add the rows of one page of records, and return how many.

    :param execute: that of a connection whose transaction has locked the row of the store.
    """
    rows = execute(_READ).fetchall()
    if rows:
        # Numbers of facets are read anew for each page: a host that serves may have added some.
        indexed = index_rows(FacetNumbers(execute), rows)
        execute(ADD_INDEX, [list(column) for column in zip(*indexed, strict=True)])
    return len(rows)
