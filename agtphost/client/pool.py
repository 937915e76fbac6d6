"""Which connections there are and which of them are free; no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
C = TypeVar("C")

PER_DESTINATION = 8
"""Connections to one destination with one identity: a call beyond that waits for a free one."""

IDLE_SECONDS = 50.0
"""How long a connection may lie unused: servers may close theirs after 60 seconds (core v08 section 5.4)."""


class Pool(Generic[K, C]):
    """
    The book of connections.

    :param bound: connections per key, those in use and those being opened included.
    :param idle: seconds after which a free connection is not handed out any more.
    """

    def __init__(self, *, bound: int = PER_DESTINATION, idle: float = IDLE_SECONDS) -> None:
        self._bound = bound
        self._idle_seconds = idle
        self._counts: dict[K, int] = defaultdict(int)
        self._free: dict[K, list[tuple[float, C]]] = defaultdict(list)

    def count(self, key: K) -> int:
        """Return how many connections of ``key`` exist."""
        return self._counts.get(key, 0)

    def take(self, key: K, now: float) -> C | None:
        """Return the free connection that was used last, now in use; None if none is fresh enough."""
        free = self._free.get(key)
        if not free or now - free[-1][0] >= self._idle_seconds:
            return None
        return free.pop()[1]

    def open(self, key: K) -> bool:
        """Count a connection about to be opened; False if the bound is reached."""
        if self._counts[key] >= self._bound:
            return False
        self._counts[key] += 1
        return True

    def give_back(self, key: K, connection: C, now: float) -> None:
        """Note a connection as free."""
        self._free[key].append((now, connection))

    def remove(self, key: K, connection: C) -> bool:
        """Forget a free connection that ended; False, and no change, if it is not among the free ones."""
        free = self._free.get(key, [])
        kept = [entry for entry in free if entry[1] is not connection]
        if len(kept) == len(free):
            return False
        self._free[key] = kept
        self.forget(key)
        return True

    def forget(self, key: K) -> None:
        """Forget a connection that was in use, or was never made."""
        self._counts[key] -= 1
        if self._counts[key] <= 0:
            del self._counts[key]
            self._free.pop(key, None)

    def stale(self, now: float) -> list[tuple[K, C]]:
        """Remove and return the free connections that have lain too long; the caller closes them."""
        return self._remove(lambda since: now - since >= self._idle_seconds)

    def drain(self) -> list[tuple[K, C]]:
        """Remove and return all free connections."""
        return self._remove(lambda since: True)

    def drop(self, key: K) -> list[C]:
        """Remove and return the free connections of ``key``: one was dead, so the others may be."""
        dropped = [connection for _, connection in self._free.pop(key, [])]
        for _ in dropped:
            self.forget(key)
        return dropped

    def _remove(self, old: Callable[[float], bool]) -> list[tuple[K, C]]:
        removed: list[tuple[K, C]] = []
        for key, free in list(self._free.items()):
            self._free[key] = [entry for entry in free if not old(entry[0])]
            removed.extend((key, connection) for since, connection in free if old(since))
        for key, _ in removed:
            self.forget(key)
        return removed
