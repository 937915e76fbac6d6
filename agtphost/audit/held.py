"""
Held items: the durable state of built-in methods, such as escalations, proposals and contracts.

A handler changes one by naming it in ``EndpointResponse.changes``: it becomes
true in the transaction that makes the record of the response durable, so
nobody is ever told of a state that a crash could take back. All items are in
memory as well, and are read from there; this table follows each commit in the
reactor's thread, before the caller hears of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.stores.rows import HeldRow
from agtphost.vocabulary import jsontext


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One held item as it was last committed."""

    kind: str
    key: str
    owner: str
    """Agent-ID of the agent it belongs to; empty where it is the host's."""

    version: int
    """What :attr:`agtphost.audit.drafts.Change.expected` compares with."""

    expires_at: int | None
    """Milliseconds since the Unix epoch; None for never."""

    value: Mapping[str, Any]


Watcher = Callable[[str, Held | None], None]
"""Called with an item's key and what it is now: None where it was removed."""


class HeldTable:
    """
    Every held item, by kind and key.

    :param now: seconds since the Unix epoch.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._kinds: dict[str, dict[str, Held]] = {}
        self._watchers: dict[str, list[Watcher]] = {}

    # Reading

    def get(self, kind: str, key: str) -> Held | None:
        """One item; None where it is absent or has expired."""
        item = self._kinds.get(kind, {}).get(key)
        return None if item is None or self._expired(item) else item

    def of(self, kind: str, owner: str | None = None) -> Iterator[Held]:
        """The items of a kind, in the order they were first put; those of one owner where it is given."""
        for item in list(self._kinds.get(kind, {}).values()):
            if (owner is None or item.owner == owner) and not self._expired(item):
                yield item

    def watch(self, kind: str, watcher: Watcher) -> None:
        """Have ``watcher`` called for each item of a kind: at start, and whenever one changes or has expired."""
        self._watchers.setdefault(kind, []).append(watcher)
        for item in self.of(kind):
            watcher(item.key, item)

    def _expired(self, item: Held) -> bool:
        return item.expires_at is not None and item.expires_at <= self._now() * 1000

    # What the ledger calls

    def replace(self, rows: Sequence[HeldRow]) -> None:
        """Take over everything that the store says, at start and after a failure."""
        gone = [(kind, key) for kind, items in self._kinds.items() for key in items]
        self._kinds = {}
        self.apply(rows)
        for kind, key in gone:
            if self.get(kind, key) is None:
                self._tell(kind, key, None)

    def apply(self, rows: Sequence[HeldRow]) -> None:
        """Committed changes."""
        for row in rows:
            items = self._kinds.setdefault(row.kind, {})
            item = None if row.value is None else _held(row, row.value)
            if item is None:
                items.pop(row.key, None)
            else:
                items[row.key] = item
            self._tell(row.kind, row.key, item)

    def prune(self) -> None:
        """Let go of what has expired, and tell the watchers."""
        for kind, items in self._kinds.items():
            for key in [key for key, item in items.items() if self._expired(item)]:
                del items[key]
                self._tell(kind, key, None)

    def _tell(self, kind: str, key: str, item: Held | None) -> None:
        for watcher in self._watchers.get(kind, ()):
            watcher(key, item)


def _held(row: HeldRow, value: bytes) -> Held:
    return Held(
        kind=row.kind,
        key=row.key,
        owner=row.owner.hex(),
        version=row.version,
        expires_at=row.expires_at,
        value=jsontext.decode(value),
    )
