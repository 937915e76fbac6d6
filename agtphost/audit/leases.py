"""
What ends together: a configuration that is replaced takes back everything that it watched.

Watchers that are entered while a lease is being filled belong to it, and are gone once it is released; all others
watch as long as the host runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Undo = Callable[[], None]


class Lease:
    """Entries that are undone together."""

    def __init__(self) -> None:
        self._undo: list[Undo] = []

    def __len__(self) -> int:
        return len(self._undo)

    def add(self, undo: Undo) -> None:
        """Have it called by :meth:`release`."""
        self._undo.append(undo)

    def release(self) -> None:
        """Undo everything, the last first; nothing the second time."""
        while self._undo:
            self._undo.pop()()


class Leasing:
    """Knows which lease is being filled at the moment, if any: everything is entered in one turn of the reactor."""

    def __init__(self) -> None:
        self._lease: Lease | None = None

    @contextmanager
    def filling(self, lease: Lease | None) -> Iterator[None]:
        """Assign the entries that are made in this context to ``lease``; None: to none."""
        before, self._lease = self._lease, lease
        try:
            yield
        finally:
            self._lease = before

    def note_entry(self, undo: Undo) -> None:
        """Note an entry that ``undo`` takes back."""
        if self._lease is not None:
            self._lease.add(undo)
