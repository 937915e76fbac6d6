"""Times as the drafts write them: RFC 3339 texts in UTC."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Final

EARLIEST: Final = -62_135_596_800
LATEST: Final = 253_402_300_799
"""Seconds since the epoch: the first second and the last one that have a date, in the years 1 to 9999."""


steady: Final[Callable[[], float]] = (
    partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    if hasattr(time, "clock_gettime")
    else time.monotonic
)
"""
Seconds of a clock that is never set.

Where the system has one that goes on while the machine sleeps, as Linux does, it is that one. It is read several times
in each call, so it is not a Python function.
"""


def stamp(seconds: float | None = None) -> str:
    """Seconds since the epoch, or the present time, with whole seconds: ``2027-01-31T00:00:00Z``."""
    moment = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def instant(microseconds: int) -> str:
    """Microseconds since the epoch; of two, the earlier one is the lesser text."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Instants:
    """Unique, increasing times of successive events, in all threads, even if the clock stops or is set back."""

    def __init__(self) -> None:
        self._latest = 0
        self._lock = Lock()

    def stamp(self, seconds: float) -> str:
        """Seconds since the epoch as text, later than every one before."""
        with self._lock:
            latest = self._latest = max(int(seconds * 1_000_000), self._latest + 1)
        return instant(latest)
