"""
The mark of a store that was copied to another place: no host may serve it any more, as one may serve the copy.

``agtp store copy`` writes the mark into the old store before it publishes the copy, completes it afterwards, and then
lets hosts serve the copy, which has another mark until that moment. So whenever the command is killed, at most one of
both stores can be served; and as long as the mark is not complete, no host has served the copy, and it was not copied
on. ``tests/models/store_copies.py`` has the steps as a model. A SQLite file has the mark in a table
(:mod:`agtphost.stores.sqlite_move`), and a PostgreSQL database in the row that every transaction of a host locks and
compares (:class:`agtphost.stores.lease.Holder`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agtphost.stores.rows import StoreError


class StoreMoved(StoreError):
    """The error of a host or command that would write to a store that was copied to another place."""


@dataclass(frozen=True, kw_only=True)
class StoreMove:
    """The mark itself: where the store was copied to, and when."""

    target: str
    """The URL of the copy, without a password; empty in the copy itself, until its command has reported its end."""

    at: str
    """RFC 3339, in UTC, to the microsecond: it tells copies to one place apart."""

    complete: bool
    """Whether the copy is known to be there; without that, its command may have been killed before."""

    @property
    def is_arriving(self) -> bool:
        """Whether it is the mark of a copy whose command has not reported its end."""
        return not self.target

    def finish(self) -> StoreMove:
        """Return the mark of a copy that is there."""
        return replace(self, complete=True)

    def explain(self, name: str) -> str:
        """
        Return why no host may serve the store, and what to do.

        :param name: the store in messages.
        """
        if self.is_arriving:
            return (
                f"{name}: the copy into this store began on {self.at} and has not reported its end. Run `agtp store "
                "copy` again, with the same FROM and TO. If no host will serve FROM, `agtp store reopen --force` lets "
                "hosts serve this store"
            )
        if not self.complete:
            return (
                f"{name}: a copy to {self.target} began on {self.at} and has not reported its end. Run `agtp store "
                "copy` again, with the same FROM and TO; or run `agtp store reopen`, and hosts can serve this store "
                "again"
            )
        return (
            f"{name} was copied to {self.target} on {self.at}, and is not served any more: write that URL into [store] "
            "url. If no host served the copy, remove it and run `agtp store reopen --force`: hosts can then serve this "
            "store again"
        )


def describe_move(move: StoreMove | None) -> Mapping[str, Any]:
    """Return the fields that describe a mark; none without one."""
    if move is None:
        return {}
    if move.is_arriving:
        return {"copy_unfinished_since": move.at}
    return {"moved_to": move.target, "moved_at": move.at, "copy_complete": move.complete}
