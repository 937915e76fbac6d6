"""
The mark of a store that was copied to another place: no host may serve it any more, as one may serve the copy.

``agtp store copy`` writes the mark into the old store before it publishes the copy, and completes it afterwards. So
whenever the command is killed, at most one of both stores can be served. A SQLite file has the mark in a table
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
    """The URL of the copy, without a password."""

    at: str
    """RFC 3339, in UTC."""

    complete: bool
    """Whether the copy is known to be there; without that, its command may have been killed before."""

    def finish(self) -> StoreMove:
        """Return the mark of a copy that is there."""
        return replace(self, complete=True)

    def explain(self, name: str) -> str:
        """
        Return why no host may serve the store, and what to do.

        :param name: the store in messages.
        """
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
    return {} if move is None else {"moved_to": move.target, "moved_at": move.at, "copy_complete": move.complete}
