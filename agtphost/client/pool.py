"""The connections that a client has, and the calls that use them; no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

PER_DESTINATION = 8
"""Connections to one destination with one identity: a call beyond that waits for a free one."""

IDLE_SECONDS = 50.0
"""How long a connection may lie unused: servers may close theirs after 60 seconds (core v08 section 5.4)."""


class Pooled(Protocol):
    """A connection as the pool sees it."""

    @property
    def is_shared(self) -> bool:
        """Whether it serves several calls at a time."""

    @property
    def reusable(self) -> bool:
        """Whether it can serve further calls."""


K = TypeVar("K", bound=Hashable)
C = TypeVar("C", bound=Pooled)


@dataclass(eq=False, slots=True)
class PoolEntry(Generic[C]):
    """A connection of the pool, and the calls that use it."""

    connection: C
    calls: int = 1
    since: float = 0.0
    """When the last call ended."""

    is_retired: bool = False
    """Whether it gets no further calls, and ends with those that it has."""


class Pool(Generic[K, C]):
    """
    The book of connections.

    :param idle: seconds after which a free connection is not handed out any more.
    """

    def __init__(self, *, idle: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle
        self._opening: dict[K, int] = defaultdict(int)
        self._entries: dict[K, list[PoolEntry[C]]] = defaultdict(list)
        """By destination; the one that was used last is the last."""

    def count(self, key: K) -> int:
        """Return how many connections of ``key`` serve calls, those that are being opened included."""
        entries = self._entries.get(key, ())
        return self._opening.get(key, 0) + sum(not each.is_retired for each in entries)

    def take(self, key: K, now: float) -> C | None:
        """Return a connection for a call: one that is shared, or else the free one that was used last; None: none."""
        for entry in reversed(self._entries.get(key, ())):
            if entry.is_retired:
                continue
            if entry.calls == 0:
                is_usable = now - entry.since < self._idle_seconds
            else:
                is_usable = entry.connection.is_shared and entry.connection.reusable
            if is_usable:
                entry.calls += 1
                return entry.connection
        return None

    def open(self, key: K, bound: int) -> bool:
        """Count a connection about to be opened; False if there are ``bound`` already."""
        if self.count(key) >= bound:
            return False
        self._opening[key] += 1
        return True

    def add(self, key: K, connection: C) -> None:
        """Note that a connection was opened, for the call that opened it."""
        self.abandon(key)
        self._entries[key].append(PoolEntry(connection))

    def abandon(self, key: K) -> None:
        """Note that a connection is not being opened any more."""
        self._opening[key] -= 1
        if not self._opening[key]:
            del self._opening[key]

    def give_back(self, key: K, connection: C, now: float, *, keep: bool) -> bool:
        """
        Note that a call has ended.

        :param keep: whether further calls may use the connection.
        :return: whether the connection has to be ended: this was its last call.
        """
        entry = self._find(key, connection)
        if entry is None:
            return False
        entry.calls -= 1
        entry.since = now
        entry.is_retired |= not keep
        if entry.is_retired and not entry.calls:
            self._discard(key, entry)
            return True
        entries = self._entries[key]
        entries.remove(entry)
        entries.append(entry)
        return False

    def remove(self, key: K, connection: C) -> bool:
        """Note that a connection has ended; False if that was known."""
        entry = self._find(key, connection)
        if entry is None or entry.is_retired:
            return False
        if entry.calls:
            entry.is_retired = True
        else:
            self._discard(key, entry)
        return True

    def stale(self, now: float) -> list[tuple[K, C]]:
        """Remove and return the free connections that have lain too long; the caller closes them."""
        return self._remove_free(self._entries, lambda entry: now - entry.since >= self._idle_seconds)

    def drain(self) -> list[tuple[K, C]]:
        """Remove and return all free connections; the others get no further calls."""
        for entries in self._entries.values():
            for entry in entries:
                entry.is_retired = True
        return self._remove_free(self._entries, lambda entry: True)

    def drop(self, key: K) -> list[C]:
        """Remove and return the free connections of ``key``: one was dead, so the others may be."""
        return [connection for _, connection in self._remove_free([key], lambda entry: True)]

    def _find(self, key: K, connection: C) -> PoolEntry[C] | None:
        return next((each for each in self._entries.get(key, ()) if each.connection is connection), None)

    def _remove_free(
        self, keys: dict[K, list[PoolEntry[C]]] | list[K], choose: Callable[[PoolEntry[C]], bool]
    ) -> list[tuple[K, C]]:
        removed: list[tuple[K, C]] = []
        for key in tuple(keys):
            for entry in tuple(self._entries.get(key, ())):
                if not entry.calls and choose(entry):
                    self._discard(key, entry)
                    removed.append((key, entry.connection))
        return removed

    def _discard(self, key: K, entry: PoolEntry[C]) -> None:
        entries = self._entries[key]
        entries.remove(entry)
        if not entries:
            del self._entries[key]
