"""Which core is whose: the host has one for itself, attackers and honest callers share another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Cores:
    """None: any."""

    host: int | None
    callers: int | None

    @property
    def says(self) -> str:
        """For the report."""
        if self.host is None:
            return "one core for the host, the attackers and the honest callers"
        return f"the host on core {self.host}, attackers and honest callers on core {self.callers}"


def cores() -> Cores:
    """What this machine allows."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return Cores(host=None, callers=None)
    return Cores(host=allowed[0], callers=allowed[1])


def bring(pid: int, core: int | None) -> None:
    """A process that has just begun, and the threads and processes that it will start, run there from now on."""
    if core is not None:
        os.sched_setaffinity(pid, {core})


@contextmanager
def staying(core: int | None) -> Iterator[None]:
    """This thread, and the threads and processes it starts, run there until the block ends."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
