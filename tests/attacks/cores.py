"""Which core is whose: the host has one for itself, attackers and honest callers share another."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_PIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.execv(sys.argv[2], sys.argv[2:])"


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


def on_core(core: int | None) -> tuple[str, ...]:
    """Words before a command that runs there."""
    return () if core is None else (sys.executable, "-c", _PIN, str(core))


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
