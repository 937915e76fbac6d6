"""A store that dies at a chosen commit, as a process does: before it, or just after."""

from __future__ import annotations

from agtphost.stores import MemoryStore
from agtphost.stores.rows import StoreError


class MortalStore(MemoryStore):
    """
    Takes commits until its time has come.

    :attr:`at` counts commits from 1; with :attr:`after` the last one is done.
    """

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0
        self.at = 0
        self.after = False
        self.dead = False

    def begin(self) -> bool:
        if self.dead:
            raise StoreError("the process is gone")
        return super().begin()

    def commit(self) -> None:
        self.commits += 1
        if self.at and self.commits >= self.at:
            self.dead = True
            if not self.after:
                raise StoreError("the process is gone")
        super().commit()

    def dies(self, at: int, *, after: bool) -> None:
        """Die at the commit of that number from now on."""
        self.commits, self.at, self.after = 0, at, after

    def lives(self) -> None:
        """Another process has it now."""
        self.at, self.dead = 0, False
