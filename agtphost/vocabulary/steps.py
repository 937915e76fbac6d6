"""Long work that is cut into steps, so that others can have their turn in between; here it is done at once."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, TypeVar

Result = TypeVar("Result")

Aside = Callable[..., Awaitable[Any]]
"""Calls a function off the reactor."""

TURN = 0.01
"""Seconds of work until the others have their turn."""


def finished(steps: Generator[None, None, Result]) -> Result:
    """Do all of it at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def spread(steps: Iterator[object], clock: Any) -> None:
    """
    Do one after the other, some of them now and the others in turns to come, a fifth of :data:`TURN` in each.

    :param clock: the reactor's.
    """
    ends = time.perf_counter() + TURN / 5
    for _ in steps:
        if time.perf_counter() > ends:
            clock.callLater(0, spread, steps, clock)
            return
